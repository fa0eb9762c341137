"""Options of a step on the fast path of finite worlds: target, shift, and what it leaves for the server."""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece, vectorised
from fedsarsa.engines import compiled_server, fast_path_phases
from fedsarsa.engines.arrays import Lanes, Options, RunView, Workspace
from fedsarsa.learning import finite_step
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.learning.local_step import DIRECTION, EXPECTED, LOG_WEIGHTS, MAX, VISITS


@kernel
def learn(
    tables: Tables,
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

    In an ``opening`` directions go to ``view.shift``, and lanes keep their pairs. No parameter moves then,
    as where directions are left behind.
    """
    left = view.shift if opening else view.left
    stays = opening or options.leaves == DIRECTION
    moving = left if stays else view.theta
    shifted = view.shift.size > 0 and not opening
    known, logarithm = 0.0, 0.0  # a step size, and log(1 - size): it takes long, and is mostly the same
    for lane in range(first, first + count):
        origin = workspace.origin[lane]
        size = step_sizes[workspace.schedule[lane], U64(column)]
        error = error_of(tables, options, view, lane, workspace)
        change = error if stays else size * error
        if tables.dense.size == 0:
            at = workspace.here[lane]
            add(view, moving, at, change, 0.0 if stays else rest)
            if options.leaves == LOG_WEIGHTS:
                if size != known:
                    known, logarithm = size, math.log1p(-size)
                view.left[at] -= logarithm
            elif options.leaves == VISITS:
                view.left[at] += size
            finite = math.isfinite(moving[at])
            workspace.updated[lane] = view.theta[at]
        else:
            finite = True
            at = workspace.states[lane] * tables.dim * tables.actions + workspace.actions[lane]
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
            finite &= add_shift(view.shift, moving, origin, tables.dim, 1.0 if stays else size)
            if view.progress.size > 0 and not stays:
                for j in range(tables.dim):
                    view.progress[origin + j] += rest * (size * view.shift[origin + j])
        if not finite:
            compiled_server.fail(lanes.run[lane], t, workspace.failed_at)
    if not opening:
        fast_path_phases.go_on(tables, first, count, workspace)


@piece
def error_of(tables: Tables, options: Options, view: RunView, lane: int, workspace: Workspace) -> float:
    """r + discount (what follows) - Q(s, a) of a lane."""
    theta, origin, dense = view.theta, workspace.origin[lane], tables.dense.size > 0
    s_next = workspace.next_states[lane]
    if options.target == MAX:
        ahead = finite_step.largest(tables, theta, origin, s_next, workspace.values)
    elif options.target == EXPECTED:
        ahead = expected(tables, view, lane, workspace)
    elif dense:
        ahead = finite_step.value(tables, theta, origin, s_next, workspace.next_actions[lane])
    else:
        ahead = theta[workspace.ahead[lane]]
    value = theta[workspace.here[lane]]
    if dense:
        value = finite_step.value(tables, theta, origin, workspace.states[lane], workspace.actions[lane])
    return fast_path_phases.reward_of(tables, lane, workspace) + tables.discount * ahead - value


@piece
def expected(tables: Tables, view: RunView, lane: int, workspace: Workspace) -> float:
    """The policy's mean of Q(s', .) of a lane, from the cached masses where they can be trusted."""
    if view.masses.size == 0 or not finite_step.trusted(workspace.totals[lane]):
        return finite_step.expected(
            tables,
            view.theta,
            workspace.origin[lane],
            workspace.next_states[lane],
            workspace.values,
            workspace.weights,
        )
    drawn, mean = workspace.groups[lane], 0.0
    at, cell = workspace.ahead[lane] - drawn, workspace.next_cell[lane] - drawn
    for c in range(tables.width):
        mean += tables.choice.counts[c] * workspace.masses[cell + c] * view.theta[at + c]
    return mean / workspace.totals[lane]


@piece
def add(view: RunView, moving: Floats, at: int, moved: float, rest: float) -> None:
    """Add to a parameter, and to what theta-tilde gathers of the round."""
    moving[at] += moved
    if view.progress.size > 0:
        view.progress[at] += rest * moved


@vectorised
def add_shift(shift: Floats, moving: Floats, origin: int, dim: int, size: float) -> bool:
    """Add ``size`` times the shift to all parameters of a lane; whether they stay finite."""
    infinite = 0
    for j in range(origin, origin + dim):
        moving[j] += size * shift[j]
        infinite += not math.isfinite(moving[j])
    return infinite == 0


@piece
def weigh_rows(tables: Tables, view: RunView, first: int, count: int, workspace: Workspace) -> None:
    """Bring the masses of every lane's next state up to date, where all parameters have moved."""
    width, cells = tables.width, U64(view.masses.shape[1])
    masses_ahead(tables, view.theta, first, count, workspace)
    for i in range(count):
        row = U64(tables.rows[workspace.next_states[first + i]])
        at = i * cells + row * fast_path_phases.row_size(tables)
        for c in range(width):
            workspace.masses[at + c] = workspace.exponentials[i * width + c]


@vectorised
def masses_ahead(tables: Tables, theta: Floats, first: int, count: int, workspace: Workspace) -> None:
    """The masses of the rows of the next states, one after another in ``exponentials``."""
    width = tables.width
    for i in range(count):
        row = U64(tables.rows[workspace.next_states[first + i]])
        at = workspace.origin[first + i] + row * width
        for c in range(width):
            workspace.exponentials[i * width + c] = theta[at + c] - workspace.base[first + i]
    for j in range(count * width):
        workspace.exponentials[j] = fast_path_phases.mass_of(tables, workspace.exponentials[j], 0.0)
