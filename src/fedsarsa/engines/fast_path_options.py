"""Options of a step on the fast path of finite worlds: target, shift, and what it leaves for the server.

A shift moves all parameters at every step. Where features have one active parameter, it is added when the
round ends: until then a parameter is what is written of it, and what it is ``behind`` by.
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece, vectorised
from fedsarsa.engines import compiled_server, fast_path_phases
from fedsarsa.engines.arrays import Lanes, Options, RunView, Workspace
from fedsarsa.learning import finite_step
from fedsarsa.learning.exponential import exponential
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.learning.local_step import DIRECTION, EXPECTED, LOG_WEIGHTS, MAX, VISITS

# Up to here a shift, and a step size, are too small for their product to make a parameter overflow, or to
# keep it from that: a float near the largest is the same without it.
LARGE = 1e100


@piece
def begin(tables: Tables, view: RunView, first: int, count: int, workspace: Workspace) -> None:
    """Note that the shift of a block of lanes has not been added yet, and where it is too large to wait."""
    for lane in range(first, first + count):
        workspace.behind[lane] = workspace.owed[lane] = 0.0
        workspace.large[lane] = large(view.shift, workspace.origin[lane], tables.dim)


@vectorised
def large(shift: Floats, origin: int, dim: int) -> int:
    """How many of a lane's numbers in the shift are large."""
    found = 0
    for j in range(origin, origin + dim):
        found += not abs(shift[j]) <= LARGE  # nor what is not a number
    return found


@piece
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
    stays, dense = opening or options.leaves == DIRECTION, tables.dense.size > 0
    moving = view.theta
    if stays:
        moving, rest = view.shift if opening else view.left, 0.0
    for lane in range(first, first + count):
        workspace.size[lane] = step_sizes[workspace.schedule[lane], U64(column)]
    shifted = view.shift.size > 0 and not opening
    look(tables, options, view, first, count, shifted, workspace)
    compare(tables, first, count, stays, workspace)
    if dense:
        for lane in range(first, first + count):
            add_densely(tables, options, view, moving, lane, rest, workspace)
    else:
        add(options, view, moving, first, count, rest, workspace)
    if shifted and (fall_behind(first, count, stays, rest, workspace) > 0 or dense or stays):
        for lane in range(first, first + count):
            catch_up(tables, view, moving, lane, workspace)
    if infinite(first, count, workspace) > 0:
        for lane in range(first, first + count):
            if not math.isfinite(workspace.updated[lane]):
                compiled_server.fail(lanes.run[lane], t, workspace.failed_at)
    if stays:  # what is written down is the parameter
        for lane in range(first, first + count):
            workspace.updated[lane] = workspace.value[lane]
    if not opening:
        fast_path_phases.go_on(tables, first, count, workspace)


@piece
def look(
    tables: Tables,
    options: Options,
    view: RunView,
    first: int,
    count: int,
    shifted: bool,
    workspace: Workspace,
) -> None:
    """Q(s, a) of every lane, and what the target takes of Q(s', .)."""
    if tables.dense.size > 0:
        for lane in range(first, first + count):
            origin, s, s_next = workspace.origin[lane], workspace.states[lane], workspace.next_states[lane]
            a, a_next = workspace.actions[lane], workspace.next_actions[lane]
            workspace.value[lane] = finite_step.value(tables, view.theta, origin, s, a)
            workspace.next_value[lane] = finite_step.value(tables, view.theta, origin, s_next, a_next)
    elif shifted:
        shifted_values(view.theta, view.shift, first, count, workspace)
    else:
        values(view.theta, first, count, workspace)
    if options.target == MAX:
        for lane in range(first, first + count):
            s_next = workspace.next_states[lane]
            theta, origin = fast_path_phases.parameters(tables, view, lane, s_next, workspace)
            workspace.next_value[lane] = finite_step.largest(tables, theta, origin, s_next, workspace.values)
    elif options.target == EXPECTED:
        for lane in range(first, first + count):
            workspace.next_value[lane] = expected(tables, view, lane, workspace)


@vectorised
def values(theta: Floats, first: int, count: int, workspace: Workspace) -> None:
    """The parameters of every lane's pair, and of the next one."""
    for lane in range(first, first + count):
        workspace.value[lane] = theta[workspace.here[lane]]
        workspace.next_value[lane] = theta[workspace.ahead[lane]]


@vectorised
def shifted_values(theta: Floats, shift: Floats, first: int, count: int, workspace: Workspace) -> None:
    """The same with the shift that they are behind by."""
    for lane in range(first, first + count):
        here, ahead, behind = workspace.here[lane], workspace.ahead[lane], workspace.behind[lane]
        workspace.value[lane] = theta[here] + behind * shift[here]
        workspace.next_value[lane] = theta[ahead] + behind * shift[ahead]


@piece
def expected(tables: Tables, view: RunView, lane: int, workspace: Workspace) -> float:
    """The policy's mean of Q(s', .) of a lane, from the cached masses where they can be trusted."""
    s_next = workspace.next_states[lane]
    theta, origin = fast_path_phases.parameters(tables, view, lane, s_next, workspace)
    if view.masses.size == 0 or not finite_step.trusted(workspace.totals[lane]):
        return finite_step.expected(tables, theta, origin, s_next, workspace.values, workspace.weights)
    cell, mean = workspace.next_cell[lane] - workspace.groups[lane], 0.0
    at = origin + tables.rows[s_next] * tables.width
    for c in range(tables.width):
        mean += tables.choice.counts[c] * workspace.masses[cell + c] * theta[at + c]
    return mean / workspace.totals[lane]


@vectorised
def compare(tables: Tables, first: int, count: int, stays: bool, workspace: Workspace) -> None:
    """What every lane adds along phi(s, a): its error, times its step size unless the parameter stays."""
    for lane in range(first, first + count):
        ahead = tables.discount * workspace.next_value[lane]
        error = fast_path_phases.reward_of(tables, lane, workspace) + ahead - workspace.value[lane]
        workspace.change[lane] = error if stays else workspace.size[lane] * error


@piece
def add(
    options: Options,
    view: RunView,
    moving: Floats,
    first: int,
    count: int,
    rest: float,
    workspace: Workspace,
) -> None:
    """Add to every lane's one parameter, to what theta-tilde gathers, and to what is left for the server."""
    for lane in range(first, first + count):
        here = workspace.here[lane]
        moving[here] += workspace.change[lane]
        workspace.updated[lane] = moving[here]
    if view.progress.size > 0:
        for lane in range(first, first + count):
            view.progress[workspace.here[lane]] += rest * workspace.change[lane]
    if options.leaves == LOG_WEIGHTS:
        known, logarithm = 0.0, 0.0  # a step size, and log(1 - size): it takes long, and is mostly the same
        for lane in range(first, first + count):
            if workspace.size[lane] != known:
                known = workspace.size[lane]
                logarithm = math.log1p(-known)
            view.left[workspace.here[lane]] -= logarithm
    elif options.leaves == VISITS:
        for lane in range(first, first + count):
            view.left[workspace.here[lane]] += workspace.size[lane]


@piece
def add_densely(
    tables: Tables,
    options: Options,
    view: RunView,
    moving: Floats,
    lane: int,
    rest: float,
    workspace: Workspace,
) -> None:
    """The same along phi(s, a), for one lane."""
    change, size, finite = workspace.change[lane], workspace.size[lane], True
    at = workspace.states[lane] * tables.dim * tables.actions + workspace.actions[lane]
    for j in range(workspace.origin[lane], workspace.origin[lane] + tables.dim):
        value = tables.dense[at]
        moving[j] += change * value
        finite &= math.isfinite(moving[j])
        if view.progress.size > 0:
            view.progress[j] += rest * (change * value)
        if options.leaves == LOG_WEIGHTS:
            view.left[j] -= math.log1p(-size * value)
        elif options.leaves == VISITS:
            view.left[j] += size * (value * value)
        at += tables.actions
    workspace.updated[lane] = 0.0 if finite else math.inf


@vectorised
def infinite(first: int, count: int, workspace: Workspace) -> int:
    """How many lanes have a parameter that is not finite."""
    found = 0
    for lane in range(first, first + count):
        found += not math.isfinite(workspace.updated[lane])
    return found


@vectorised
def fall_behind(first: int, count: int, stays: bool, rest: float, workspace: Workspace) -> int:
    """Owe every lane's parameters, and what theta-tilde gathers of them, the shift of one more step.

    Returns how many lanes must not wait.
    """
    found = 0
    for lane in range(first, first + count):
        size = 1.0 if stays else workspace.size[lane]
        workspace.behind[lane] += size
        workspace.owed[lane] += rest * size
        found += workspace.large[lane] > 0 or not workspace.behind[lane] <= LARGE
    return found


@piece
def catch_up(tables: Tables, view: RunView, moving: Floats, lane: int, workspace: Workspace) -> None:
    """Add the shift that a lane is behind by to all its parameters, and note where one is not finite then."""
    origin = workspace.origin[lane]
    if not add_shift(view.shift, moving, origin, tables.dim, workspace.behind[lane]):
        workspace.updated[lane] = math.inf
    if view.progress.size > 0:
        add_shift(view.shift, view.progress, origin, tables.dim, workspace.owed[lane])
    workspace.behind[lane] = workspace.owed[lane] = 0.0


@vectorised
def add_shift(shift: Floats, moving: Floats, origin: int, dim: int, size: float) -> bool:
    """Add ``size`` times the shift to all parameters of a lane; whether they stay finite."""
    found = 0
    for j in range(origin, origin + dim):
        moving[j] += size * shift[j]
        found += not math.isfinite(moving[j])
    return found == 0


@piece
def end(tables: Tables, view: RunView, first: int, count: int, workspace: Workspace) -> None:
    """Let the parameters of a block of lanes catch up with the shift."""
    for lane in range(first, first + count):
        catch_up(tables, view, view.theta, lane, workspace)


@piece
def weigh_rows(tables: Tables, view: RunView, first: int, count: int, workspace: Workspace) -> None:
    """Bring the masses of every lane's next state up to date, where all parameters have moved."""
    width, cells = tables.width, U64(view.masses.shape[1])
    masses_ahead(tables, view.theta, view.shift, first, count, workspace)
    for i in range(count):
        row = U64(tables.rows[workspace.next_states[first + i]])
        at = i * cells + row * fast_path_phases.row_size(tables)
        for c in range(width):
            workspace.masses[at + c] = workspace.exponentials[i * width + c]


@vectorised
def masses_ahead(
    tables: Tables, theta: Floats, shift: Floats, first: int, count: int, workspace: Workspace
) -> None:
    """The masses of the rows of the next states, one after another in ``exponentials``."""
    width, scale = tables.width, 1.0 / tables.choice.parameter  # a division takes as long as half of exp
    for i in range(count):
        row = U64(tables.rows[workspace.next_states[first + i]])
        at, behind = workspace.origin[first + i] + row * width, workspace.behind[first + i]
        for c in range(width):
            value = theta[at + c] + behind * shift[at + c]
            workspace.exponentials[i * width + c] = value - workspace.base[first + i]
    for j in range(count * width):
        workspace.exponentials[j] = exponential(workspace.exponentials[j] * scale)
