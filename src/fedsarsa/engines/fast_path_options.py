"""Options of a step on the fast path of finite worlds: target, shift, and what it leaves for the server."""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import BLOCK, Lanes, Options, RoundSettings, RunView, Workspace
from fedsarsa.engines.exponential import exponentials
from fedsarsa.learning import finite_step
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.learning.local_step import DIRECTION, EXPECTED, LOG_WEIGHTS, MAX, VISITS


@kernel
def learn(
    tables: Tables,
    settings: RoundSettings,
    options: Options,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    step_sizes: Floats,
    column: int,
    t: int,
    rest: float,
    opening: bool,
    workspace: Workspace,
) -> None:
    """Steps 3 and 4 for every lane of a block, as ``update``, with every option.

    In an ``opening`` directions go to ``view.shift``; no parameter moves, as where they are left behind.
    """
    left = view.shift if opening else view.left
    stays = opening or options.leaves == DIRECTION
    moving = left if stays else view.theta
    shifted = view.shift.size > 0 and not opening
    known, logarithm = 0.0, 0.0  # a step size, and log(1 - size): it takes long, and is mostly the same
    for h in range(count):
        origin, s, a = workspace.origin[h], workspace.states[h], workspace.actions[h]
        size = step_sizes[workspace.schedule[h], U64(column)]
        world = U64(settings.world[lanes.agent[first + h]])
        error = error_of(tables, options, view, world, h, workspace)
        change = error if stays else size * error
        if tables.dense.size == 0:
            row, group = U64(tables.rows[s]), U64(tables.columns[a])
            at = origin + row * tables.width + group
            add(view, moving, at, change, 0.0 if stays else rest)
            if options.leaves == LOG_WEIGHTS:
                if size != known:
                    known, logarithm = size, math.log1p(-size)
                view.left[at] -= logarithm
            elif options.leaves == VISITS:
                view.left[at] += size
            finite = math.isfinite(moving[at])
            workspace.rows[h], workspace.groups[h], workspace.updated[h] = row, group, view.theta[at]
        else:
            finite, at = True, s * tables.dim * tables.actions + a
            for j in range(tables.dim):
                value = tables.dense[at]
                add(view, moving, origin + j, change * value, 0.0 if stays else rest)
                if options.leaves == LOG_WEIGHTS:
                    view.left[origin + j] -= math.log1p(-size * value)
                elif options.leaves == VISITS:
                    view.left[origin + j] += size * (value * value)
                finite &= math.isfinite(moving[origin + j])
                at += tables.actions
        if shifted:
            finite &= add_shift(view, moving, origin, tables.dim, 1.0 if stays else size)
            if view.progress.size > 0 and not stays:
                for j in range(tables.dim):
                    view.progress[origin + j] += rest * (size * view.shift[origin + j])
        if not finite:
            compiled_server.fail(lanes.run[first + h], t, workspace.failed_at)
    for h in range(count):
        workspace.states[h], workspace.actions[h] = workspace.next_states[h], workspace.next_actions[h]


@piece
def error_of(
    tables: Tables, options: Options, view: RunView, world: int, h: int, workspace: Workspace
) -> float:
    """r + discount (what follows) - Q(s, a) of lane ``h``."""
    origin, s, a = workspace.origin[h], workspace.states[h], workspace.actions[h]
    s_next = workspace.next_states[h]
    if options.target == MAX:
        ahead = finite_step.largest(tables, view.theta, origin, s_next, workspace.values)
    elif options.target == EXPECTED:
        ahead = finite_step.expected(tables, view.theta, origin, s_next, workspace.values, workspace.weights)
    else:
        ahead = finite_step.value(tables, view.theta, origin, s_next, workspace.next_actions[h])
    reward = finite_step.reward_of(tables.worlds, world, s, a, s_next)
    return reward + tables.discount * ahead - finite_step.value(tables, view.theta, origin, s, a)


@piece
def add(view: RunView, moving: Floats, at: int, moved: float, rest: float) -> None:
    """Add to a parameter, and to what theta-tilde gathers of the round."""
    moving[at] += moved
    if view.progress.size > 0:
        view.progress[at] += rest * moved


@kernel
def add_shift(view: RunView, moving: Floats, origin: int, dim: int, size: float) -> bool:
    """Add ``size`` times the shift to all parameters of a lane; whether they stay finite.

    A function of its own, not inlined: it compiles to vector instructions.
    """
    shift, finite = view.shift, True
    for j in range(dim):
        moving[origin + j] += size * shift[origin + j]
    for j in range(dim):
        finite &= math.isfinite(moving[origin + j])
    return finite


@piece
def weigh_rows(tables: Tables, view: RunView, count: int, workspace: Workspace) -> None:
    """Weigh the parameters of every lane's next state, where all of them have moved."""
    width = tables.width
    for h in range(count):
        row = workspace.origin[h] + tables.rows[workspace.next_states[h]] * width
        for c in range(width):
            workspace.exponents[h * width + c] = (
                view.theta[row + c] - workspace.base[h]
            ) / tables.choice.parameter
    exponentials(
        workspace.exponents, U64(BLOCK) * width, workspace.bits, workspace.power, workspace.exponentials
    )
    for h in range(count):
        row = h * tables.dim + tables.rows[workspace.next_states[h]] * width
        for c in range(width):
            mass = tables.choice.counts[c] * workspace.exponentials[h * width + c]
            workspace.masses[row + c] = mass
