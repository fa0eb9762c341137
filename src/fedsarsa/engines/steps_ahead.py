"""The compiled step of n-step TD: it adds up the errors of n transitions ahead, at the present parameter.

The chain runs n transitions ahead of what is learned. As a fixed policy acts, it does not depend on
parameters: a window of n + 1 pairs goes on from round to round of a span. Pair g of a span, of a block of
lanes, is at ``slot``; the reward after it is there, too, its ratio, and which parameter it has.
"""

import math

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece, vectorised
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import Lanes, Options, RoundSettings, RunView, Span, Workspace, later_weight
from fedsarsa.learning import finite_step
from fedsarsa.learning.finite_tables import Tables


@piece
def slot(options: Options, first: int, count: int, pair: int) -> int:
    """Where the window of a block of lanes has pair ``pair`` of a span."""
    size = options.ahead + 1
    return first * U64(size) + U64(pair % size) * count


@piece
def begin(tables: Tables, options: Options, first: int, count: int, pair: int, workspace: Workspace) -> None:
    """Begin a window with the pair that every lane holds."""
    at = slot(options, first, count, pair)
    for h in range(count):
        workspace.window_states[at + h] = workspace.states[first + h]
        workspace.window_actions[at + h] = workspace.actions[first + h]
    note(tables, options, first, count, at, workspace)


@piece
def note(tables: Tables, options: Options, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Note the parameters and the ratios of the pairs in the window at ``at``."""
    for h in range(count):
        s, a = workspace.window_states[at + h], workspace.window_actions[at + h]
        if tables.dense.size == 0:
            j = tables.rows[s] * tables.width + tables.columns[a]
            workspace.window_places[at + h] = workspace.origin[first + h] + j
        if options.ratios.size > 0:
            pair = workspace.acting[first + h] + s * tables.stride + a
            workspace.window_ratios[at + h] = options.ratios[pair]


@piece
def go_on(
    tables: Tables,
    settings: RoundSettings,
    options: Options,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    at: int,
    u: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    workspace: Workspace,
) -> None:
    """The u-th transition of a span's k-th round for a block of lanes, and the step that is n - 1 behind it.

    Random numbers of the transition are those from ``at`` on.
    """
    column = k * span.steps
    here = slot(options, first, count, column + u)
    there = slot(options, first, count, column + u + 1)
    look(tables, settings, lanes, first, count, at, here, there, workspace)
    note(tables, options, first, count, there, workspace)
    step = u - options.ahead + 1
    if step >= 0:
        t = span.t + column + step
        rest = later_weight(settings.offset, t, span.steps - 1 - step + span.left)
        learn(tables, options, view, lanes, first, count, column + step, step_sizes, t, rest, workspace)


@piece
def hold(options: Options, first: int, count: int, pair: int, workspace: Workspace) -> None:
    """Let lanes hold the pair to which the round has come."""
    at = slot(options, first, count, pair)
    for h in range(count):
        workspace.states[first + h] = workspace.window_states[at + h]
        workspace.actions[first + h] = workspace.window_actions[at + h]


@piece
def look(
    tables: Tables,
    settings: RoundSettings,
    lanes: Lanes,
    first: int,
    count: int,
    at: int,
    here: int,
    there: int,
    workspace: Workspace,
) -> None:
    """Move every lane from the pair in its window at ``here`` to the next one, at ``there``."""
    for h in range(count):
        s, a = workspace.window_states[here + h], workspace.window_actions[here + h]
        world = U64(settings.world[lanes.agent[first + h]])
        s_next = finite_step.next_state(
            tables.worlds, world, s, a, workspace.columns[at + h], workspace.fractions[at + h]
        )
        workspace.window_rewards[here + h] = finite_step.reward_of(tables.worlds, world, s, a, s_next)
        workspace.window_states[there + h] = s_next
    begin_search(tables, first, count, at, there, workspace)
    for h in range(count):
        workspace.window_actions[there + h] = finite_step.searched(
            tables,
            workspace.acting[first + h] + workspace.window_states[there + h] * tables.stride,
            workspace.window_actions[there + h],
            workspace.uniforms[at + h],
        )


@vectorised
def begin_search(tables: Tables, first: int, count: int, at: int, there: int, workspace: Workspace) -> None:
    """Where `searched` begins for every lane: two comparisons beyond the guide, which mostly are enough.

    The tables of many policies are in no cache. Here lanes wait for them together.
    """
    for h in range(count):
        start = workspace.acting[first + h] + workspace.window_states[there + h] * tables.stride
        uniform = workspace.uniforms[at + h]
        place = U64(tables.guide[start + U64(np.int64(uniform * np.float64(tables.actions)))])
        place += U64(tables.cumulative[start + place] <= uniform)  # the last sum is 1: never beyond it
        place += U64(tables.cumulative[start + place] <= uniform)
        workspace.window_actions[there + h] = place


@piece
def learn(
    tables: Tables,
    options: Options,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    pair: int,
    step_sizes: Floats,
    t: int,
    rest: float,
    workspace: Workspace,
) -> None:
    """The step from pair ``pair`` of every lane: the errors along the n + 1 pairs from there on."""
    begun, last = slot(options, first, count, pair), slot(options, first, count, pair + options.ahead)
    values(tables, view, first, count, begun, workspace.value, workspace)
    if options.ratios.size > 0:
        for lane in range(first, first + count):
            workspace.change[lane], workspace.totals[lane] = 0.0, 1.0
        for ahead in range(options.ahead):
            here = slot(options, first, count, pair + ahead)
            there = slot(options, first, count, pair + ahead + 1)
            values(tables, view, first, count, there, workspace.next_value, workspace)
            weigh(tables.discount, first, count, here, workspace)
    else:  # values in between cancel
        power = 1.0
        for lane in range(first, first + count):
            workspace.change[lane] = -workspace.value[lane]
        for ahead in range(options.ahead):
            here = slot(options, first, count, pair + ahead)
            add_scaled(workspace.window_rewards, here, power, first, count, workspace.change)
            power *= tables.discount
        values(tables, view, first, count, last, workspace.next_value, workspace)
        add_scaled(workspace.next_value, first, power, first, count, workspace.change)
    for h in range(count):
        lane = first + h
        size = step_sizes[workspace.schedule[lane], U64(pair)]
        s, a = workspace.window_states[begun + h], workspace.window_actions[begun + h]
        if not move(tables, view, workspace.origin[lane], s, a, size * workspace.change[lane], rest):
            compiled_server.fail(lanes.run[lane], t, workspace.failed_at)


@piece
def values(
    tables: Tables, view: RunView, first: int, count: int, at: int, found: Floats, workspace: Workspace
) -> None:
    """Q of the pairs in the window at ``at``, lane by lane."""
    for h in range(count):
        if tables.dense.size == 0:
            found[first + h] = view.theta[workspace.window_places[at + h]]
        else:
            s, a = workspace.window_states[at + h], workspace.window_actions[at + h]
            found[first + h] = finite_step.value(tables, view.theta, workspace.origin[first + h], s, a)


@vectorised
def weigh(discount: float, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Add every lane's error of the pair at ``at``, times discounts and ratios up to it."""
    for h in range(count):
        lane, place = first + h, at + h
        weight = workspace.totals[lane] * workspace.window_ratios[place]
        error = (
            workspace.window_rewards[place] + discount * workspace.next_value[lane] - workspace.value[lane]
        )
        workspace.change[lane] += weight * error
        workspace.totals[lane] = weight * discount
        workspace.value[lane] = workspace.next_value[lane]


@vectorised
def add_scaled(source: Floats, begin: int, factor: float, first: int, count: int, target: Floats) -> None:
    """Add ``factor`` times the numbers from ``begin`` on to those from ``first`` on."""
    for h in range(count):
        target[first + h] += factor * source[begin + h]


@piece
def move(tables: Tables, view: RunView, origin: int, s: int, a: int, change: float, rest: float) -> bool:
    """Add ``change`` times phi(s, a) to the parameters from ``origin`` on; whether they stay finite."""
    if tables.dense.size == 0:
        j = origin + tables.rows[s] * tables.width + tables.columns[a]
        view.theta[j] += change
        if view.progress.size > 0:
            view.progress[j] += rest * change
        return math.isfinite(view.theta[j])
    finite, at = True, s * tables.dim * tables.actions + a
    for j in range(tables.dim):
        moved = change * tables.dense[at]
        view.theta[origin + j] += moved
        if view.progress.size > 0:
            view.progress[origin + j] += rest * moved
        finite &= math.isfinite(view.theta[origin + j])
        at += tables.actions
    return finite
