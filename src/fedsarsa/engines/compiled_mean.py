"""The server's part of a compiled round: average, project, record; note runs that have failed."""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece, vectorised
from fedsarsa.engines.arrays import RoundSettings, RunView, Span
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning.continuous_features import Integers


@kernel
def settle(
    settings: RoundSettings,
    view: RunView,
    span: Span,
    k: int,
    failed_at: Integers,
    spread: Floats,
    central: Floats,
    drift: Floats,
) -> None:
    """End a span's k-th round (see `end_round`)."""
    end_round(settings, view, span, k, failed_at, spread, central, drift)


@piece
def end_round(
    settings: RoundSettings,
    view: RunView,
    span: Span,
    k: int,
    failed_at: Integers,
    spread: Floats,
    central: Floats,
    drift: Floats,
) -> None:
    """End a span's k-th round: average, and if it synchronises, project and record.

    Agents take the broadcast up when they enter the next round. A part of a round only notes failures, which
    threads saw in ``failed_at`` (R,); ``spread`` (d,) is working space.
    """
    begun = span.begun + k * span.steps
    end = span.t + (k + 1) * span.steps
    for run in range(len(view.failed_at)):
        average = view.central[run]
        if span.ends and view.failed_at[run] == RUNNING and failed_at[run] == RUNNING:
            if view.progress.size > 0:
                gather(settings, view, begun, end - begun, run)
            if span.synchronises:
                origin = U64(run * len(settings.weights) * len(average))
                drift[run, k] = mean(settings.weights, view.theta, origin, average, spread)
                project(average, settings.radius)
                if not all_finite(average):
                    failed_at[run] = end - 1
        if view.failed_at[run] == RUNNING and failed_at[run] != RUNNING:
            view.failed_at[run] = failed_at[run]
            for j in range(len(average)):
                average[j] = math.nan
        if span.synchronises:
            if view.failed_at[run] != RUNNING:
                drift[run, k] = math.nan
            for j in range(len(average)):
                central[run, k, j] = average[j]


@vectorised
def mean(weights: Floats, theta: Floats, origin: int, average: Floats, spread: Floats) -> float:
    """Average the local parameters from ``origin`` on; return the mean squared distance from it."""
    dim = len(average)
    for j in range(dim):
        average[j] = 0.0
        spread[j] = 0.0
    # Four agents at a time, one after the other as always: their sums then stay in registers.
    agents, step = len(weights), U64(dim)
    at = origin
    for agent in range(0, agents - 3, 4):
        u, v, w, x = weights[agent], weights[agent + 1], weights[agent + 2], weights[agent + 3]
        for j in range(step):
            one, two = theta[at + j], theta[at + step + j]
            three, four = theta[at + U64(2) * step + j], theta[at + U64(3) * step + j]
            average[j] = (((average[j] + u * one) + v * two) + w * three) + x * four
        at += U64(4) * step
    for agent in range(agents // 4 * 4, agents):
        for j in range(step):
            average[j] += weights[agent] * theta[at + j]
        at += step
    at = origin
    for agent in range(0, agents - 3, 4):
        u, v, w, x = weights[agent], weights[agent + 1], weights[agent + 2], weights[agent + 3]
        for j in range(step):
            mean = average[j]
            one, two = theta[at + j] - mean, theta[at + step + j] - mean
            three, four = theta[at + U64(2) * step + j] - mean, theta[at + U64(3) * step + j] - mean
            spread[j] = (((spread[j] + u * one**2) + v * two**2) + w * three**2) + x * four**2
        at += U64(4) * step
    for agent in range(agents // 4 * 4, agents):
        for j in range(step):
            spread[j] += weights[agent] * (theta[at + j] - average[j]) ** 2
        at += step
    total = 0.0
    for j in range(dim):
        total += spread[j]
    return total


@piece
def gather(settings: RoundSettings, view: RunView, t: int, steps: int, run: int) -> None:
    """Add the weighted parameters of a round to theta-tilde's sum, before the average changes.

    With the step's change d_u at time u, the round's parameters are start + d_0 + ... + d_{u-1}: each change
    counts in all later ones, which is the weight ``update`` gave it in ``progress``.
    """
    start, total = view.central[run], view.weighted_sum[run]
    agents, dim = len(settings.world), len(start)
    weight = steps * (settings.offset + t + 0.5 * (steps - 1))
    for j in range(dim):
        total[j] += weight * start[j]
    for agent in range(agents):
        at = (run * agents + agent) * dim
        for j in range(dim):
            total[j] += settings.weights[agent] * view.progress[at + j]
            view.progress[at + j] = 0.0


@piece
def project(theta: Floats, radius: float) -> None:
    """Move ``theta`` to the nearest point of the ball of ``radius`` around 0."""
    if radius == math.inf:
        return
    largest = 0.0
    for j in range(len(theta)):
        largest = max(largest, abs(theta[j]))
    if largest == 0.0:
        return
    total = 0.0
    for j in range(len(theta)):
        total += (theta[j] / largest) ** 2  # squares of theta itself could overflow
    norm = largest * math.sqrt(total)
    if norm > radius:
        for j in range(len(theta)):
            theta[j] *= radius / norm


@piece
def fail(run: int, t: int, failed_at: Integers) -> None:
    """Note that a run's parameters stopped being finite at step ``t``, if not before."""
    if failed_at[run] == RUNNING or t < failed_at[run]:
        failed_at[run] = t


@piece
def all_finite(theta: Floats) -> bool:
    """Whether no parameter has overflowed."""
    finite = True
    for j in range(len(theta)):
        finite &= math.isfinite(theta[j])
    return finite
