"""The way of the central parameter's mean and covariance, from the start to where they settle.

Rounds are taken in strides that grow with time, as the error changes ever more slowly. The agents' semi-
gradients are linearised again at *nodes* along the way, wherever mean or covariance have moved enough for
their curvature to show; between two nodes both linearisations are averaged.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.step_sizes import Schedule
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.rounds import Affine, DivergenceError, Field, Members, Node, limit

GROWTH = 1 / 16  # a stride's share of the rounds since the last jump of the step size
JUMP = 0.1  # relative change of a step size from one round to the next that starts small strides again

# Nodes: a new one when the mean has moved by this share of its way to go, or the variance has changed by
# this share of itself; each beside a share of the problem's scale, so that nodes end where they gain nothing.
MEAN_MOVE, MEAN_LEAST = 0.4, 0.01
SPREAD_MOVE, SPREAD_LEAST = 0.5, 0.02
# The last node is where everything settles; it serves from this near on.
MEAN_NEAR, SPREAD_NEAR = 0.05, 0.25
# Relative difference of J and of the noise up to which no node is needed before the last one.
ALIKE = 0.02

SETTLED = 1e-4  # relative move of the fixed point at which corrections by the covariance count as done
SETTLE_STEPS = 60
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


@dataclass(frozen=True, eq=False)
class Goal:
    """Where mean (d,) and covariance (d, d) settle; ``node`` is there, for the step sizes ``alpha`` (m,)."""

    theta: Floats
    spread: Floats
    node: Node | None
    alpha: Floats


def settle(field: Field, theta: Floats, alpha: Floats) -> Goal:
    """Where a federation with constant step sizes settles, searched from ``theta``.

    Raises
    ------
    DivergenceError
        The step sizes are too large: parameters grow without bound.
    """
    spread = np.zeros((len(theta), len(theta)))
    for _ in range(SETTLE_STEPS):
        before, size = theta, width(spread)
        node = field.node(theta, spread, alpha)
        theta, spread = limit(field.round([node], alpha, alpha**2), theta)
        scale = float(np.linalg.norm(theta)) + width(spread)
        moved = float(np.linalg.norm(theta - before)) + abs(width(spread) - size)
        if moved <= SETTLED * scale:
            return Goal(theta, spread, node, alpha)
    raise DivergenceError


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
    spread : (d, d)
        Covariance at the end.
    sharpness : float
        Largest of the nodes' sharpness.
    """

    round: NDArray[np.int64]
    mean: Floats
    variance: Floats
    spread: Floats
    sharpness: float


@np.errstate(over="ignore", invalid="ignore")  # the next node finds what is not finite
def follow(field: Field, theta: Floats, way: Sequence[Stride], goal: Goal) -> Track:
    """The way from ``theta`` to the end of the last stride."""
    state = theta, np.zeros((len(theta), len(theta)))
    means, variances = [theta], [0.0]
    scale = float(np.linalg.norm(theta - goal.theta)) + width(goal.spread)
    shifts = startup(field, theta, way)
    node = field.node(*state, way[0].alpha) if way else None
    sharpness = 0.0 if goal.node is None else goal.node.sharpness
    done = 0
    while node is not None and done < len(way):
        last = goal.node if all(same(stride.alpha, goal.alpha) for stride in way[done:]) else None
        end = len(way)
        if last is not None and _near(goal, *state, scale):
            nodes = [last]
        elif last is not None and _alike(field, node, last):
            nodes = [node, last]
        else:
            ahead, end = _next_node(field, node, state, goal, way, shifts, done, scale)
            nodes = [node, ahead]
        for mean, spread in advance(field, nodes, *state, way[done:end], shifts[done:end]):
            means.append(mean)
            variances.append(width(spread) ** 2)
            state, done = (mean, spread), done + 1
            if nodes[-1] is last and len(nodes) > 1 and _near(goal, *state, scale):
                break
        node = nodes[-1]
        sharpness = max(sharpness, node.sharpness)
    rounds = np.array([0, *(stride.start + stride.count for stride in way)])
    return Track(rounds, np.array(means), np.array(variances), state[1], sharpness)


def _near(goal: Goal, mean: Floats, spread: Floats, scale: float) -> bool:
    """Whether the node at the goal serves from here to the end."""
    if np.linalg.norm(mean - goal.theta) > MEAN_NEAR * scale:
        return False
    gap = abs(np.trace(spread) - np.trace(goal.spread))
    return bool(gap <= SPREAD_NEAR * np.trace(goal.spread) + SPREAD_LEAST * scale**2)


def _alike(field: Field, node: Node, last: Node) -> bool:
    """Whether two nodes differ so little that none is needed between them."""
    share = field.members.total
    pairs = [(getattr(one, name) for one in (node, last)) for name in ("J", "noise")]
    means = [[np.tensordot(share, one, 1) for one in pair] for pair in pairs]
    return all(np.linalg.norm(one - two) <= ALIKE * np.linalg.norm(two) for one, two in means)


def _next_node(
    field: Field,
    node: Node,
    state: tuple[Floats, Floats],
    goal: Goal,
    way: Sequence[Stride],
    shifts: Sequence[Shift],
    done: int,
    scale: float,
) -> tuple[Node, int]:
    """The next node, and the number of strides done there; found with the last node alone."""
    mean, spread = state
    reach = MEAN_MOVE * np.linalg.norm(mean - goal.theta) + MEAN_LEAST * scale
    ahead, wider, end = mean, spread, done
    for ahead, wider in advance(field, [node], mean, spread, way[done:], shifts[done:]):
        end += 1
        before, after = np.trace(spread), np.trace(wider)
        far = abs(after - before) > SPREAD_MOVE * max(before, after) + SPREAD_LEAST * scale**2
        if far or np.linalg.norm(ahead - mean) > reach:
            break
    return field.node(ahead, wider, way[end - 1].alpha), end


def width(spread: Floats) -> float:
    """Standard deviation of a parameter: the root of its covariance's trace, never negative by rounding."""
    return float(max(float(np.trace(spread)), 0.0) ** 0.5)


def same(left: Floats, right: Floats) -> bool:
    """Whether step sizes are equal but for rounding in their means."""
    return bool((np.abs(left - right) <= 1e-9 * np.abs(right)).all())


def advance(
    field: Field,
    nodes: Sequence[Node],
    mean: Floats,
    spread: Floats,
    way: Sequence[Stride],
    start: Sequence[Shift],
) -> Iterator[tuple[Floats, Floats]]:
    """Mean and covariance after each stride, with the linearisations of ``nodes``."""
    powers: dict[int, Affine] = {}
    alpha = np.full_like(field.members.total, np.nan)
    for stride, shift in zip(way, start, strict=True):
        if not same(stride.alpha, alpha):
            alpha = stride.alpha
            powers = {1: field.round(nodes, alpha, stride.square)}
        if stride.count not in powers:
            powers[stride.count] = powers[1].power(stride.count)
        mean, spread = powers[stride.count].moved(mean, spread)
        mean = mean + shift.mean
        if shift.spread.any():
            spread = _positive(spread + shift.spread)
        yield mean, spread


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
