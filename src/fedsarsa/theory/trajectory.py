"""The way of the central parameter's mean and covariance, from the start to where they settle.

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
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.rounds import Affine, DivergenceError, Field, Members, Node, between, limit

GROWTH = 1 / 16  # a stride's share of the rounds since the last jump of the step size
JUMP = 0.1  # relative change of a step size from one round to the next that starts small strides again

# Linearisation error between two nodes (State.distance); beyond twice this a stretch is taken again in
# smaller parts. On the way to where a federation settles, which is not drawn, so many times as much will do.
TOLERANCE = 0.01
ROUGHLY = 10
# Nodes after which steps become rougher, with the square of their number, and the most beside the strides.
FINE, MOST_NODES = 60, 150
SHORTEN, LENGTHEN = 0.2, 4.0  # how much a stretch may shrink and grow from one to the next

# Distance to the limit of the last node at which a federation has settled, and that it must have in the end.
SETTLED, NEARLY_SETTLED = 1e-4, 0.02
SETTLE_STEPS = 40
ROUNDING = 1e-12  # share of the target's square below which an error is as good as none
GROWN = 1e6  # how many times its size a parameter's mean square may become before it counts as divergent
MIXED = 1e-6  # total variation to the stationary distribution at which a start is forgotten


@dataclass(frozen=True, eq=False)
class Stride:
    """``count`` rounds from round ``start`` on, with each member's mean step size and mean of its square."""

    start: int
    count: int
    alpha: Floats
    square: Floats


def strides(schedules: Sequence[Schedule], who: Members, rounds: int, period: int) -> list[Stride]:
    """All ``rounds`` in strides of powers of two."""
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
        alpha, square = (sums[:, :, start + count] - sums[:, :, start])[:, who.schedule] / count
        result.append(Stride(start, count, alpha, square))
        start += count
    return result


class State(NamedTuple):
    """Mean (d,) and covariance (d, d) of the central parameter."""

    mean: Floats
    spread: Floats

    def error(self, target: Floats) -> float:
        """Mean of ||theta-bar - target||^2."""
        return float(((self.mean - target) ** 2).sum()) + width(self.spread) ** 2

    def variable(self, target: Floats) -> float:
        """The variance's share of the error."""
        error = self.error(target)
        return width(self.spread) ** 2 / error if error > 0 else 0.0

    def distance(self, other: "State", target: Floats) -> float:
        """Distance as a share of the error: of means in units of its root, of variances in its own."""
        size = self.error(target) + ROUNDING * float(target @ target) + np.finfo(float).tiny
        apart = float(np.linalg.norm(self.mean - other.mean)) / size**0.5
        return max(apart, abs(float(np.trace(self.spread - other.spread))) / size)


class Shift(NamedTuple):
    """What a start adds to the mean (d,) and to the covariance (d, d) of a stride."""

    mean: Floats
    spread: Floats


@dataclass(frozen=True, eq=False)
class Track:
    """Mean and variance after some of the rounds.

    Attributes
    ----------
    round : (n,) int
        Rounds done; the first is 0.
    mean : (n, d)
        Mean of the central parameter.
    variance : (n,)
        Trace of its covariance.
    end : State
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
    end: State
    node: Node | None
    sharpness: float
    projected: float
    skew: float
    nodes: tuple[tuple[int, State, Node], ...]

    def errors(self, target: Floats) -> Floats:
        """Mean of ||theta-bar - target||^2 after each of the rounds, (n,)."""
        return np.asarray(((self.mean - target) ** 2).sum(axis=1) + self.variance)


@np.errstate(over="ignore", invalid="ignore")  # the next node finds what is not finite
def follow(field: Field, theta: Floats, way: Sequence[Stride], target: Floats) -> Track:
    """The way from ``theta`` to the end of the last stride; errors are measured to ``target``."""
    state = State(theta, np.zeros((len(theta), len(theta))))
    todo = list(zip(way, startup(field, theta, way), strict=True))[::-1]
    states, rounds, skew, tries = [state], [0], 0.0, 0
    nodes: list[tuple[int, State, Node]] = []
    node = field.node(*state, way[0].alpha) if way else None
    reach, fine = 1.0, max(FINE, len(way) / 3)
    while todo:
        assert node is not None
        stretch = _stretch(todo, reach)
        walk = _Walk(field, node, state, stretch, target)
        # The longer the way, the rougher its steps: it must end, also where noise makes it sway for ever.
        walk.error /= max(1.0, tries / fine) ** 2
        tries += 1
        if tries > MOST_NODES + len(way):
            raise DivergenceError
        if not walk.error <= 2 and (len(stretch) > 1 or stretch[0][0].count > 1):
            reach = walk.reach
            if len(stretch) == 1:
                todo[-1:] = _halves(*stretch[0])[::-1]
            continue
        if walk.ahead is None:
            raise DivergenceError
        del todo[-len(stretch) :]
        states += walk.states
        rounds += [stride.start + stride.count for stride, _ in stretch]
        state, node, reach = walk.states[-1], walk.ahead, walk.reach
        nodes.append((rounds[-1], state, node))
        skew = max(skew, node.sharpness * state.variable(target))
    return Track(
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


class _Walk:
    """One stretch of strides from a node: predicted with that node, corrected with the one at its end."""

    def __init__(
        self,
        field: Field,
        node: Node,
        state: State,
        stretch: Sequence[tuple[Stride, Shift]],
        target: Floats,
    ) -> None:
        self.ahead: Node | None = None
        self.error = np.inf
        self.rounds = sum(stride.count for stride, _ in stretch)
        *_, predicted = advance(lambda *steps: field.round(node, *steps), state, stretch)
        try:
            ahead = self.ahead = field.node(*predicted, stretch[-1][0].alpha, node)
        except DivergenceError:
            return

        def corrected(*steps: Floats) -> Affine:
            maps = field.round(node, *steps), field.round(ahead, *steps)
            return between(maps, (state.mean, predicted.mean))

        self.states = list(advance(corrected, state, stretch))
        self.error = self.states[-1].distance(predicted, target) / TOLERANCE
        if self.rounds == 1:  # a round begins at the node: its own map is the right one
            self.states = [predicted]

    @property
    def reach(self) -> float:
        """Rounds that the next stretch should have."""
        error = self.error if np.isfinite(self.error) else np.inf
        return self.rounds * float(np.clip(0.9 / max(error, 1e-9) ** 0.5, SHORTEN, LENGTHEN))


def _stretch(todo: Sequence[tuple[Stride, Shift]], reach: float) -> list[tuple[Stride, Shift]]:
    """The next strides of ``todo``, which is reversed: about ``reach`` rounds with nearly one step size."""
    result = [todo[-1]]
    first, rounds = todo[-1][0], todo[-1][0].count
    for stride, shift in todo[-2::-1]:
        rounds += stride.count
        if rounds > reach or (np.abs(stride.alpha - first.alpha) > JUMP * first.alpha).any():
            break
        result.append((stride, shift))
    return result


def _halves(stride: Stride, shift: Shift) -> list[tuple[Stride, Shift]]:
    """A stride in two parts."""
    count = stride.count // 2
    still = Shift(np.zeros_like(shift.mean), np.zeros_like(shift.spread))
    return [
        (replace(stride, count=count), shift),
        (replace(stride, start=stride.start + count, count=stride.count - count), still),
    ]


@dataclass(frozen=True, eq=False)
class Goal:
    """Where mean and covariance settle, and the skew there (``Track.skew``).

    ``settled`` is False where no end was found: then the nearest.
    """

    state: State
    settled: bool
    skew: float = 0.0


@np.errstate(over="ignore", invalid="ignore")
def settle(field: Field, state: State, node: Node | None, alpha: Floats, target: Floats) -> Goal:
    """Where a federation with constant step sizes ``alpha`` (m,) settles that has come to ``state``."""
    node = field.node(*state, alpha, node)
    still = Shift(np.zeros_like(state.mean), np.zeros_like(state.spread))
    best, nearest, count = state, np.inf, 1.0
    size = state.error(target) + float(target @ target)
    for _ in range(SETTLE_STEPS):
        try:
            end = State(*limit(field.round(node, alpha, alpha**2), state.mean))
        except DivergenceError:
            end = None
        apart = np.inf if end is None else end.distance(state, target)
        if apart < nearest:
            assert end is not None
            best, nearest = end, apart
        if apart <= SETTLED:
            break
        walk = _Walk(field, node, state, [(Stride(0, int(count), alpha, alpha**2), still)], target)
        if walk.ahead is not None and (walk.error <= ROUGHLY or count < 2):
            ahead = walk.states[-1]
            if apart > nearest:  # the way to the limit overshoots
                ahead = State((state.mean + ahead.mean) / 2, (state.spread + ahead.spread) / 2)
                node = field.node(*ahead, alpha, walk.ahead)
            else:
                node = walk.ahead
            state = ahead
        elif count < 2:
            break
        count = min(max(1.0, walk.reach * ROUGHLY**0.5), 1e15)
        if not state.error(target) <= GROWN * size:
            raise DivergenceError
    return Goal(best, nearest <= NEARLY_SETTLED, node.sharpness * best.variable(target))


def width(spread: Floats) -> float:
    """Standard deviation of a parameter: the root of its covariance's trace, never negative by rounding."""
    return float(max(float(np.trace(spread)), 0.0) ** 0.5)


def same(left: Floats, right: Floats) -> bool:
    """Whether step sizes are equal but for rounding in their means."""
    return bool((np.abs(left - right) <= 1e-9 * np.abs(right)).all())


def advance(
    one_round: Callable[[Floats, Floats], Affine], state: State, stretch: Sequence[tuple[Stride, Shift]]
) -> Iterator[State]:
    """Mean and covariance after each stride; ``one_round`` gives the map of a round for its step sizes."""
    powers: dict[int, Affine] = {}
    alpha = np.full_like(stretch[0][0].alpha, np.nan)
    for stride, shift in stretch:
        if not same(stride.alpha, alpha):
            alpha = stride.alpha
            powers = {1: one_round(alpha, stride.square)}
        if stride.count not in powers:
            powers[stride.count] = powers[1].power(stride.count)
        mean, spread = powers[stride.count].moved(*state)
        if shift.spread.any():
            spread = _positive(spread + shift.spread)
        state = State(mean + shift.mean, spread)
        yield state


def _positive(spread: Floats) -> Floats:
    """A covariance less what its start lacks; noise is averaged between nodes, and may be less than that."""
    if not np.isfinite(spread).all():
        return spread
    values, vectors = np.linalg.eigh(spread)
    positive: Floats = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return positive


def startup(field: Field, theta: Floats, way: Sequence[Stride]) -> list[Shift]:
    """What each stride has of the start: first states not yet stationary, and no noise before them."""
    point, who = field.classes.at(theta), field.members
    shifts = np.zeros((len(way), len(theta)))
    spreads = np.zeros((len(way), len(theta), len(theta)))
    for w in np.unique(who.world).tolist():
        here = linearise(field.worlds[w], point)
        states, law = here.states, field.worlds[w].initial
        for place, stride in enumerate(way):
            if np.abs(law - states.eta).sum() <= MIXED:
                break
            steps = stride.count * field.period
            after = law
            if steps < len(law):
                for _ in range(steps):
                    after = after @ states.chain
            else:
                after = law @ np.linalg.matrix_power(states.chain, steps)
            mine = who.world == w
            shifts[place] += (who.total[mine] @ stride.alpha[mine]) * ((law - after) @ here.U)
            law = after
        for j in np.flatnonzero(who.world == w) if way else ():
            lost = lags(here, way[0].alpha[j]).missing([stride.count * field.period for stride in way])
            for place, missing in enumerate(lost):
                spreads[place] -= who.square[j] * way[place].square[j] * missing
    return [Shift(*both) for both in zip(shifts, spreads, strict=True)]
