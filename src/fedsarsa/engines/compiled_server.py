"""The server's part of a compiled round: average, apply the rule, project, record; note runs that failed."""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, dispatch, kernel, piece, vectorised
from fedsarsa.engines.arrays import Options, RoundSettings, RunView, Span
from fedsarsa.federation.servers import COMPILED, FirstDirections
from fedsarsa.federation.servers.rule import RoundOfRun
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning.continuous_features import Integers

# Between these, no square that counts in a sum has overflowed or vanished.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-280, 1e280

opening_run = vectorised(FirstDirections.opening_run)
combine_run = dispatch([vectorised(rule.combine_run) for rule in COMPILED if rule.combine_run is not None])


def _end_round(
    settings: RoundSettings,
    options: Options | None,
    view: RunView,
    span: Span,
    k: int,
    step_sums: Floats,
    failed_at: Integers,
    central: Floats,
    drift: Floats,
) -> None:
    """End a span's k-th round: average, and if it synchronises, apply the rule and record.

    Agents take the broadcast up when they enter the next round; a start of their own they have at once. A
    part of a round only notes failures, which threads saw in ``failed_at`` (R,). ``step_sums``
    (rounds, schedules) are the sums of the rounds' step sizes. A rule that is not compiled is applied
    afterwards: until then, the mean is in its place.
    """
    begun = span.begun + k * span.steps
    end = span.t + (k + 1) * span.steps
    if options is not None:
        for agent in range(len(view.server.step_sums)):
            view.server.step_sums[agent] = step_sums[k, settings.schedule[agent]]
    for run in range(len(view.failed_at)):
        own = view.central[run]
        if span.ends and view.failed_at[run] == RUNNING and failed_at[run] == RUNNING:
            if view.progress.size > 0:
                gather(settings, view, begun, end - begun, run)
            if span.synchronises:
                origin = U64(run * len(settings.weights) * len(own))
                drift[run, k] = mean(
                    settings.weights, view.theta, origin, view.server.mean, view.server.spread
                )
                if not start_anew(settings, options, view, end - begun, run):
                    failed_at[run] = end - 1
        if view.failed_at[run] == RUNNING and failed_at[run] != RUNNING:
            view.failed_at[run] = failed_at[run]
            for j in range(len(own)):
                own[j] = math.nan
        if span.synchronises:
            if view.failed_at[run] != RUNNING:
                drift[run, k] = math.nan
            for j in range(len(own)):
                central[run, k, j] = own[j]


end_round, settle = piece(_end_round), kernel(_end_round)  # for kernels, and for Python


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
def start_anew(settings: RoundSettings, options: Options | None, view: RunView, steps: int, run: int) -> bool:
    """The start of a run's next round, by the rule; whether it is finite."""
    finite = True
    if options is None or options.rule < 0:
        finite = take_mean(settings, view, run)
    else:
        finite = apply(settings, options, view, steps, run)
        clear(view.server.left[run])
    return finite


@piece
def take_mean(settings: RoundSettings, view: RunView, run: int) -> bool:
    """Make the agents' mean, projected, the central parameter; whether it is finite."""
    own = view.central[run]
    for j in range(len(own)):
        own[j] = view.server.mean[j]
    project(own, settings.radius)
    return all_finite(own)


@piece
def apply(settings: RoundSettings, options: Options, view: RunView, steps: int, run: int) -> bool:
    """Apply a compiled rule to one run; whether parameters, and what is added to directions, are finite."""
    server, own, finite = view.server, view.central[run], True
    starts = server.starts[run]
    over = RoundOfRun(
        settings.weights,
        server.step_sums,
        steps,
        options.coefficients,
        starts,
        server.start,
        server.theta[run],
        server.left[run],
        server.shift[run],
        server.mean,
        own,
        server.room,
    )
    combine_run(options.rule, over)
    for i in range(len(server.start)):
        project(server.start[i], settings.radius)
    if settings.common:
        for j in range(len(own)):
            own[j] = server.start[0, j]
    else:
        take_own(settings.weights, server.start, starts, server.theta[run], own)
    size = len(settings.weights) * len(own)  # of all agents: one long loop
    if view.shift.size > 0:
        finite &= all_finite(view.shift[run * size : (run + 1) * size])
    if settings.common:
        return finite & all_finite(own)
    return finite & all_finite(view.theta[run * size : (run + 1) * size])


@vectorised
def take_own(weights: Floats, start: Floats, starts: Floats, theta: Floats, mean: Floats) -> None:
    """Make ``start`` (N, d) the agents' starts and parameters, and their mean the central parameter."""
    for j in range(len(mean)):
        mean[j] = 0.0
    for i in range(len(start)):
        for j in range(len(mean)):
            starts[i, j] = theta[i, j] = start[i, j]
            mean[j] += weights[i] * start[i, j]


@kernel
def exchange_directions(settings: RoundSettings, view: RunView) -> None:
    """Make a round's shift of the agents' first directions, which are in its place."""
    for run in range(len(view.failed_at)):
        opening_run(settings.weights, view.server.shift[run], view.server.mean)


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
    if math.isinf(radius):
        return
    norm = length(theta)
    if norm > radius:
        factor = radius / norm
        for j in range(len(theta)):
            theta[j] *= factor


@piece
def length(theta: Floats) -> float:
    """The Euclidean norm."""
    dim = len(theta)
    # Four sums side by side: none waits for the last addition of another.
    u = v = w = x = 0.0
    for j in range(0, dim - 3, 4):
        u += theta[j] ** 2
        v += theta[j + 1] ** 2
        w += theta[j + 2] ** 2
        x += theta[j + 3] ** 2
    for j in range(dim // 4 * 4, dim):
        u += theta[j] ** 2
    total = (u + v) + (w + x)
    if SMALLEST_SQUARE < total < LARGEST_SQUARE:
        return math.sqrt(total)
    largest = 0.0
    for j in range(dim):
        largest = max(largest, abs(theta[j]))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for j in range(dim):
        total += (theta[j] / largest) ** 2
    return largest * math.sqrt(total)


@piece
def clear(rows: Floats) -> None:
    """Set all of a matrix to zero."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            rows[i, j] = 0.0


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
