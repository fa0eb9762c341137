"""The compiled step of n-step TD: it adds up the errors of n transitions ahead, at the present parameter.

The chain runs n transitions ahead of what is learned. As a fixed policy acts, it does not depend on
parameters, and every round sees anew what is ahead of the pairs that lanes hold.
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import BLOCK, Lanes, Options, RoundSettings, RunView, Span, Workspace
from fedsarsa.learning import finite_step
from fedsarsa.learning.finite_tables import Tables


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

    Pair u of lane h is at u mod (n + 1) in its window, and so is the reward after it. Random numbers of the
    transition are those from ``at`` on.
    """
    n, column = options.ahead, k * span.steps
    if u == 0:
        for h in range(count):
            workspace.window_states[h] = workspace.states[first + h]
            workspace.window_actions[h] = workspace.actions[first + h]
    look(
        tables,
        settings,
        lanes,
        first,
        count,
        at,
        U64(u % (n + 1) * BLOCK),
        U64((u + 1) % (n + 1) * BLOCK),
        workspace,
    )
    step = u - n + 1
    if step >= 0:
        t, remaining = span.t + column + step, span.steps - 1 - step + span.left
        rest = remaining * (settings.offset + t + 0.5 * (remaining + 1))
        learn(tables, options, view, lanes, first, count, step, step_sizes, column, t, rest, workspace)


@piece
def hold(options: Options, first: int, count: int, steps: int, workspace: Workspace) -> None:
    """Let lanes hold the pair to which the round has come."""
    at = U64(steps % (options.ahead + 1) * BLOCK)
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
    for h in range(count):
        workspace.window_actions[there + h] = finite_step.fixed(
            tables,
            workspace.acting[first + h],
            workspace.window_states[there + h],
            workspace.uniforms[at + h],
        )


@piece
def learn(
    tables: Tables,
    options: Options,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    step: int,
    step_sizes: Floats,
    column: int,
    t: int,
    rest: float,
    workspace: Workspace,
) -> None:
    """Step ``step`` of every lane: the errors along the n + 1 pairs from ``step`` on."""
    n, actions = options.ahead, tables.actions
    begin = step % (n + 1)
    for h in range(count):
        place, origin = U64(begin * BLOCK) + h, workspace.origin[first + h]
        s, a = workspace.window_states[place], workspace.window_actions[place]
        size = step_sizes[workspace.schedule[first + h], U64(column + step)]
        total, weight = 0.0, 1.0
        value = finite_step.value(tables, view.theta, origin, s, a)
        at = begin
        for _ in range(n):
            place = U64(at * BLOCK) + h
            if options.ratios.size > 0:
                pair = workspace.window_states[place] * actions + workspace.window_actions[place]
                weight *= options.ratios[workspace.acting[first + h] + pair]
            reward = workspace.window_rewards[place]
            at = 0 if at == n else at + 1
            place = U64(at * BLOCK) + h
            after = finite_step.value(
                tables, view.theta, origin, workspace.window_states[place], workspace.window_actions[place]
            )
            total += weight * (reward + tables.discount * after - value)
            weight *= tables.discount
            value = after
        if not move(tables, view, origin, s, a, size * total, rest):
            compiled_server.fail(lanes.run[first + h], t, workspace.failed_at)


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
