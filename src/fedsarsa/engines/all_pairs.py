"""The compiled step of synchronous Q-learning: it draws a transition of every pair."""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, kernel
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import Lanes, RoundSettings, RunView, Span, Workspace, later_weight
from fedsarsa.learning import finite_step, random
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.worlds import alias


@kernel
def local_steps(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    workspace: Workspace,
) -> None:
    """The local steps of a span's k-th round for a block of lanes, one lane after another.

    Features have a parameter per pair. All of a step is at the parameter before it: the largest values of all
    states are in ``workspace.best``.
    """
    column, theta, best = k * span.steps, view.theta, workspace.best
    states, actions = tables.worlds.states, tables.actions
    for lane in range(first, first + count):
        origin = workspace.origin[lane]
        world = U64(settings.world[lanes.agent[lane]])
        run = view.first_run + lanes.run[lane]
        for step in range(span.steps):
            t = span.t + column + step
            rest = later_weight(settings.offset, t, span.steps - 1 - step + span.left)
            size = step_sizes[workspace.schedule[lane], U64(column + step)]
            for s in range(states):
                best[s] = theta[origin + s * actions]
                for a in range(actions):
                    best[s] = max(best[s], theta[origin + s * actions + a])
            finite = True
            for s in range(states):
                for a in range(actions):
                    counter = (U64(t) * states + s) * actions + a
                    word, _ = random.words(settings.seed, run, lanes.stream[lane], counter)
                    at, fraction = alias.split(word, states)
                    ahead = finite_step.next_state(tables.worlds, world, s, a, at, fraction)
                    reward = finite_step.reward_of(tables.worlds, world, s, a, ahead)
                    j = origin + s * actions + a
                    moved = (1.0 - size) * theta[j] + size * (reward + tables.discount * best[I64(ahead)])
                    if view.progress.size > 0:
                        view.progress[j] += rest * (moved - theta[j])
                    theta[j] = moved
                    finite &= math.isfinite(moved)
            if not finite:
                compiled_server.fail(lanes.run[lane], t, workspace.failed_at)
                break
