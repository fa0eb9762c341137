"""Follow the central parameter's mean and covariance from the start to the end of training.

Rounds are taken in strides that grow with time, as the error changes ever more slowly. The agents' semi-
gradients are linearised again at *nodes* along the way. Between two nodes both linearisations count; how far
they lie apart is decided by the error of the first alone, as in any predictor-corrector method.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.step_sizes import Schedule
from fedsarsa.theory.affine import Affine, DivergenceError, between
from fedsarsa.theory.federation_model import AgentGroups, FederationModel, Node, next_length
from fedsarsa.theory.lags import lags

GROWTH = 1 / 16  # a stride's share of the rounds since the last jump of the step size
JUMP = 0.1  # relative change of a step size from one round to the next that starts small strides again

# Linearisation error between two nodes (Moments.distance); beyond twice this a batch is taken again in
# smaller parts.
TOLERANCE = 0.01
# Nodes after which steps become rougher, with the square of their number, and the most beside the strides.
FINE, MOST_NODES = 60, 150

ROUNDING = 1e-12  # share of the target's square below which an error is as good as none
MIXED = 1e-6  # total variation to the stationary distribution at which a start is forgotten


@dataclass(frozen=True, eq=False)
class Stride:
    """``count`` rounds from round ``start`` on, with each group's mean step size and mean of its square."""

    start: int
    count: int
    alpha: Floats
    square: Floats


def split_rounds(
    schedules: Sequence[Schedule], groups: AgentGroups, rounds: int, period: int
) -> list[Stride]:
    """Split all ``rounds`` into strides of powers of two."""
    times = np.arange(rounds * period)
    steps = np.stack([schedule.at(times) for schedule in schedules]).reshape(len(schedules), rounds, period)
    means = steps.mean(axis=2)
    jumps = (np.abs(np.diff(means, axis=1)) > JUMP * means[:, :-1]).any(axis=0)
    edges = [0, *(np.flatnonzero(jumps) + 1).tolist(), rounds]
    sums = np.cumsum(np.stack([means, (steps**2).mean(axis=2)]), axis=2)
    sums = np.concatenate([np.zeros((2, len(schedules), 1)), sums], axis=2)
    result, start, edge = [], 0, 1
    while start < rounds:
        while edges[edge] <= start:
            edge += 1
        reach = max(1, int(GROWTH * (start - edges[edge - 1])))
        count = min(1 << (reach.bit_length() - 1), edges[edge] - start)
        alpha, square = (sums[:, :, start + count] - sums[:, :, start])[:, groups.schedule] / count
        result.append(Stride(start, count, alpha, square))
        start += count
    return result


class Moments(NamedTuple):
    """Mean (d,) and covariance (d, d) of the central parameter, or what a start adds to them."""

    mean: Floats
    spread: Floats

    def error(self, target: Floats) -> float:
        """Mean of ||theta-bar - target||^2."""
        return float(((self.mean - target) ** 2).sum()) + width(self.spread) ** 2

    def variable(self, target: Floats) -> float:
        """The variance's share of the error."""
        error = self.error(target)
        return width(self.spread) ** 2 / error if error > 0 else 0.0

    def distance(self, other: "Moments", target: Floats) -> float:
        """Distance as a share of the error: of means in units of its root, of variances in its own."""
        size = self.error(target) + ROUNDING * float(target @ target) + np.finfo(float).tiny
        apart = float(np.linalg.norm(self.mean - other.mean)) / size**0.5
        return max(apart, abs(float(np.trace(self.spread - other.spread))) / size)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Mean and variance after some of the rounds.

    Attributes
    ----------
    round : (n,) int
        Rounds done; the first is 0.
    mean : (n, d)
        Mean of the central parameter.
    variance : (n,)
        Trace of its covariance.
    end : Moments
        Mean and covariance at the end.
    node : Node or None
        The last node; None without rounds.
    sharpness, projected : float
        Largest of the nodes' sharpness, and of their probabilities of a projection.
    skew : float
        Largest of the nodes' sharpness times the variance's share of the error there.
    nodes : tuple
        Rounds done, mean and covariance, and node, along the way.
    """

    round: NDArray[np.int64]
    mean: Floats
    variance: Floats
    end: Moments
    node: Node | None
    sharpness: float
    projected: float
    skew: float
    nodes: tuple[tuple[int, Moments, Node], ...]

    def errors(self, target: Floats) -> Floats:
        """Mean of ||theta-bar - target||^2 after each of the rounds, (n,)."""
        return ((self.mean - target) ** 2).sum(axis=1) + self.variance


@np.errstate(over="ignore", invalid="ignore")  # the next node finds what is not finite
def follow(model: FederationModel, theta: Floats, strides: Sequence[Stride], target: Floats) -> Trajectory:
    """Follow the moments from ``theta`` to the end of the last stride; errors are measured to ``target``."""
    state = Moments(theta, np.zeros((len(theta), len(theta))))
    todo = list(zip(strides, startup(model, theta, strides), strict=True))[::-1]
    states, rounds, skew, tries = [state], [0], 0.0, 0
    nodes: list[tuple[int, Moments, Node]] = []
    node = model.node(*state, strides[0].alpha) if strides else None
    reach, fine = 1.0, max(FINE, len(strides) / 3)
    while todo:
        assert node is not None
        batch = _next_batch(todo, reach)
        segment = Segment(model, node, state, batch, target)
        # The more nodes, the rougher the steps: this must end, also where noise makes the mean sway for ever.
        segment.error /= max(1.0, tries / fine) ** 2
        tries += 1
        if tries > MOST_NODES + len(strides):
            raise DivergenceError
        if not segment.error <= 2 and (len(batch) > 1 or batch[0][0].count > 1):
            reach = segment.reach
            if len(batch) == 1:
                todo[-1:] = _halves(*batch[0])[::-1]
            continue
        if segment.ahead is None:
            raise DivergenceError
        del todo[-len(batch) :]
        states += segment.states
        rounds += [stride.start + stride.count for stride, _ in batch]
        state, node, reach = segment.states[-1], segment.ahead, segment.reach
        nodes.append((rounds[-1], state, node))
        skew = max(skew, node.sharpness * state.variable(target))
    return Trajectory(
        np.array(rounds),
        np.array([one.mean for one in states]),
        np.array([width(one.spread) ** 2 for one in states]),
        state,
        node,
        max((one.sharpness for *_, one in nodes), default=0.0),
        max((one.projected for *_, one in nodes), default=0.0),
        skew,
        tuple(nodes),
    )


class Segment:
    """One batch of strides from a node: predicted with that node, corrected with the one at its end."""

    def __init__(
        self,
        model: FederationModel,
        node: Node,
        state: Moments,
        batch: Sequence[tuple[Stride, Moments]],
        target: Floats,
    ) -> None:
        self.ahead: Node | None = None
        self.error = np.inf
        self.rounds = sum(stride.count for stride, _ in batch)
        *_, predicted = advance(lambda *steps: model.round(node, *steps), state, batch)
        try:
            ahead = self.ahead = model.node(*predicted, batch[-1][0].alpha, node)
        except DivergenceError:
            return

        def corrected(*steps: Floats) -> Affine:
            maps = model.round(node, *steps), model.round(ahead, *steps)
            return between(maps, (state.mean, predicted.mean))

        self.states = list(advance(corrected, state, batch))
        self.error = self.states[-1].distance(predicted, target) / TOLERANCE
        if self.rounds == 1:  # a round begins at the node: its own map is the right one
            self.states = [predicted]

    @property
    def reach(self) -> float:
        """Rounds that the next batch should have."""
        return self.rounds * next_length(self.error if np.isfinite(self.error) else np.inf)


def _next_batch(todo: Sequence[tuple[Stride, Moments]], reach: float) -> list[tuple[Stride, Moments]]:
    """The next strides of ``todo``, which is reversed: about ``reach`` rounds with nearly one step size."""
    result = [todo[-1]]
    first, rounds = todo[-1][0], todo[-1][0].count
    for stride, shift in todo[-2::-1]:
        rounds += stride.count
        if rounds > reach or (np.abs(stride.alpha - first.alpha) > JUMP * first.alpha).any():
            break
        result.append((stride, shift))
    return result


def _halves(stride: Stride, shift: Moments) -> list[tuple[Stride, Moments]]:
    """A stride in two parts."""
    count = stride.count // 2
    still = Moments(np.zeros_like(shift.mean), np.zeros_like(shift.spread))
    return [
        (replace(stride, count=count), shift),
        (replace(stride, start=stride.start + count, count=stride.count - count), still),
    ]


def width(spread: Floats) -> float:
    """Standard deviation of a parameter: the root of its covariance's trace, never negative by rounding."""
    return float(max(float(np.trace(spread)), 0.0) ** 0.5)


def advance(
    one_round: Callable[[Floats, Floats], Affine], state: Moments, batch: Sequence[tuple[Stride, Moments]]
) -> Iterator[Moments]:
    """Mean and covariance after each stride; ``one_round`` gives the map of a round for its step sizes."""
    powers: dict[int, Affine] = {}
    alpha = np.full_like(batch[0][0].alpha, np.nan)
    for stride, shift in batch:
        if not (np.abs(stride.alpha - alpha) <= 1e-9 * alpha).all():  # more than rounding of means apart
            alpha = stride.alpha
            powers = {1: one_round(alpha, stride.square)}
        if stride.count not in powers:
            powers[stride.count] = powers[1].power(stride.count)
        mean, spread = powers[stride.count].moved(*state)
        if shift.spread.any():
            spread = _positive(spread + shift.spread)
        state = Moments(mean + shift.mean, spread)
        yield state


def _positive(spread: Floats) -> Floats:
    """A covariance less what its start lacks; noise is averaged between nodes, and may be less than that."""
    if not np.isfinite(spread).all():
        return spread
    values, vectors = np.linalg.eigh(spread)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def startup(model: FederationModel, theta: Floats, strides: Sequence[Stride]) -> list[Moments]:
    """What the start adds to each stride: first states not yet stationary, and no noise before them."""
    groups = model.groups
    shifts = np.zeros((len(strides), len(theta)))
    spreads = np.zeros((len(strides), len(theta), len(theta)))
    for w, here in model.linearised(theta).items():
        states, law = here.states, here.world.initial
        for place, stride in enumerate(strides):
            if np.abs(law - states.eta).sum() <= MIXED:
                break
            after = states.moved(law, stride.count * model.period)
            mine = groups.world == w
            shifts[place] += (groups.total[mine] @ stride.alpha[mine]) * ((law - after) @ here.U)
            law = after
        for j in np.flatnonzero(groups.world == w) if strides else ():
            lost = lags(here, strides[0].alpha[j]).missing(
                [stride.count * model.period for stride in strides]
            )
            for place, missing in enumerate(lost):
                spreads[place] -= groups.square[j] * strides[place].square[j] * missing
    return [Moments(*both) for both in zip(shifts, spreads, strict=True)]
