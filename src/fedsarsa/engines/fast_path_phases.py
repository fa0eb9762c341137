"""The phases of a step, each for a block of lanes: move, refresh, act, update.

Lane ``first + i`` is the i-th of its block. Arithmetic is in loops over plain arrays that do not overlap
(``vectorised``), so that it compiles to vector instructions. What is written at places that lanes choose is
written in plain pieces, lane after lane.

A step reads few tables, as a gather costs about four cycles per lane on a Zen 4. So what a pair decides is
kept with the lane that holds it: where its row of the alias table, its rewards and its parameter begin, and
its value. The class of the next action is its column of the parameters, and needs no table.
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece, vectorised
from fedsarsa.engines import compiled_server, eight_masses
from fedsarsa.engines.arrays import Lanes, RoundSettings, RunView, Workspace
from fedsarsa.learning import finite_step, random
from fedsarsa.learning.exponential import exponential
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.worlds import alias

EIGHT = U64(eight_masses.WIDTH)


@piece
def row_size(tables: Tables) -> int:
    """Places that the masses of a row's classes take: up to eight classes fill a vector."""
    return max(tables.width, EIGHT)


@piece
def hold(tables: Tables, view: RunView, lane: int, i: int, s: int, a: int, workspace: Workspace) -> None:
    """Make (s, a) the pair of a lane."""
    workspace.states[lane], workspace.actions[lane] = s, a
    note(tables, lane, s, a, workspace)
    if tables.dense.size == 0:
        row, group = U64(tables.rows[s]), U64(tables.columns[a])
        workspace.here[lane] = workspace.origin[lane] + row * tables.width + group
        workspace.value[lane] = view.theta[workspace.here[lane]]
        workspace.cell[lane] = i * U64(view.masses.shape[1]) + row * row_size(tables) + group


@piece
def note(tables: Tables, lane: int, s: int, a: int, workspace: Workspace) -> None:
    """Note where the tables of (s, a) begin in a lane's world."""
    worlds = tables.worlds
    workspace.row[lane] = workspace.kernel[lane] + a * workspace.action_size[lane] + s * worlds.states
    workspace.turn[lane] = workspace.turns[lane] * finite_step.rotation(worlds, a)
    workspace.reward[lane] = workspace.rewards[lane] + s * worlds.reward_state + a * worlds.reward_action


@piece
def redraw(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    t: int,
    workspace: Workspace,
) -> None:
    """Draw the action to execute anew for every lane of a block."""
    now = U64(t) + U64(random.REDRAW)
    for i in range(count):
        lane = first + i
        word, _ = random.words(settings.seed, view.first_run + lanes.run[lane], lanes.stream[lane], now)
        s = workspace.states[lane]
        a = directly(tables, view, lane, s, random.uniform(word), workspace)
        hold(tables, view, lane, i, s, a, workspace)


@piece
def begin_anew(tables: Tables, view: RunView, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Draw a pair anew for every lane of a block: a first state of its world, and an action there."""
    first_states(tables, first, count, at, workspace)
    for i in range(count):
        lane = first + i
        s = workspace.states[lane]
        a = directly(tables, view, lane, s, workspace.pair_uniforms[at + i], workspace)
        hold(tables, view, lane, i, s, a, workspace)


@vectorised
def first_states(tables: Tables, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Draw a first state of its world for every lane of a block."""
    for i in range(count):
        start = workspace.kernel[first + i] - tables.worlds.states  # see WorldTables
        workspace.states[first + i] = alias.draw(
            tables.worlds.alias, start, workspace.pair_columns[at + i], workspace.pair_fractions[at + i]
        )


@piece
def directly(tables: Tables, view: RunView, lane: int, s: int, uniform: float, workspace: Workspace) -> int:
    """An action of a lane in state ``s`` from its parameters."""
    theta, origin = parameters(tables, view, lane, s, workspace)
    return finite_step.direct(
        tables,
        theta,
        origin,
        workspace.acting[lane],
        s,
        uniform,
        workspace.values,
        workspace.weights,
    )


@piece
def parameters(tables: Tables, view: RunView, lane: int, s: int, workspace: Workspace) -> tuple[Floats, int]:
    """Where a lane's parameters of state ``s`` are found: an array, and the place where they all begin in it.

    Where they are behind by some of the shift, it is a copy of the row of ``s`` alone, which is not.
    """
    theta, origin = view.theta, workspace.origin[lane]
    if view.shift.size > 0 and tables.dense.size == 0:
        begin = U64(tables.rows[s]) * tables.width
        for c in range(tables.width):
            j = origin + begin + c
            workspace.now[c] = theta[j] + workspace.behind[lane] * view.shift[j]
        theta, origin = workspace.now, U64(0) - begin
    return theta, origin


@vectorised
def move(tables: Tables, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Draw the next state of every lane of a block."""
    for i in range(count):
        workspace.next_states[first + i] = finite_step.drawn(
            tables.worlds,
            workspace.row[first + i],
            workspace.turn[first + i],
            workspace.columns[at + i],
            workspace.fractions[at + i],
        )


@piece
def act(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    first: int,
    count: int,
    at: int,
    workspace: Workspace,
) -> None:
    """Draw the next action of every lane of a block."""
    if not settings.cached:
        for i in range(count):
            act_directly(tables, view, first + i, i, workspace.uniforms[at + i], workspace)
        return
    look_up(tables, U64(view.masses.shape[1]), first, count, workspace)
    if row_size(tables) == EIGHT:
        select_of_eight(tables, first, count, at, workspace)
    else:
        select(tables, first, count, at, workspace)
    if take(tables, first, count, workspace) > 0:
        for i in range(count):
            if not finite_step.trusted(workspace.totals[first + i]):
                act_directly(tables, view, first + i, i, workspace.uniforms[at + i], workspace)


@piece
def act_directly(
    tables: Tables, view: RunView, lane: int, i: int, uniform: float, workspace: Workspace
) -> None:
    """Draw the next action of a lane from its parameters."""
    s = workspace.next_states[lane]
    a = directly(tables, view, lane, s, uniform, workspace)
    workspace.next_actions[lane] = a
    if tables.dense.size == 0:
        row, group = U64(tables.rows[s]), U64(tables.columns[a])
        workspace.ahead[lane] = workspace.origin[lane] + row * tables.width + group
        workspace.next_cell[lane] = i * U64(view.masses.shape[1]) + row * row_size(tables) + group


@vectorised
def look_up(tables: Tables, cells: int, first: int, count: int, workspace: Workspace) -> None:
    """Where the parameters and masses of the next states begin."""
    for i in range(count):
        row = U64(tables.rows[workspace.next_states[first + i]])
        workspace.ahead[first + i] = workspace.origin[first + i] + row * tables.width
        workspace.next_cell[first + i] = i * cells + row * row_size(tables)


@piece
def select_of_eight(tables: Tables, first: int, count: int, at: int, workspace: Workspace) -> None:
    """Draw a class of actions for every lane, where a row's masses fill a vector.

    ``beyond`` is what the target leaves of the class, ``mass`` that of one of its actions.
    """
    for i in range(count):
        lane, sums = first + i, i * EIGHT
        begin = workspace.next_cell[lane]
        total, target, group = eight_masses.select(
            workspace.masses,
            begin,
            workspace.counts,
            tables.width,
            workspace.uniforms[at + i],
            workspace.sums,
            sums,
        )
        workspace.totals[lane] = total
        workspace.groups[lane] = group
        workspace.beyond[lane] = workspace.sums[sums + group] - target
        workspace.mass[lane] = workspace.masses[begin + group]


@piece
def select(tables: Tables, first: int, count: int, at: int, workspace: Workspace) -> None:
    """The same for rows of any width."""
    for i in range(count):
        lane = first + i
        total, group, beyond, mass = finite_step.draw_class(
            tables,
            workspace.masses,
            workspace.next_cell[lane],
            workspace.uniforms[at + i],
            workspace.weights,
        )
        workspace.totals[lane] = total
        workspace.groups[lane] = group
        workspace.beyond[lane] = beyond
        workspace.mass[lane] = mass


@vectorised
def take(tables: Tables, first: int, count: int, workspace: Workspace) -> int:
    """The action of the class that every lane has drawn; how many lanes must draw it directly."""
    untrusted = 0
    for lane in range(first, first + count):
        group = workspace.groups[lane]
        distance = workspace.beyond[lane] / workspace.mass[lane]
        workspace.next_actions[lane] = finite_step.member(tables, group, distance)
        workspace.ahead[lane] += group
        workspace.next_cell[lane] += group
        untrusted += not finite_step.trusted(workspace.totals[lane])
    return untrusted


@piece
def update(
    tables: Tables,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    step_sizes: Floats,
    column: int,
    t: int,
    rest: float,
    workspace: Workspace,
) -> None:
    """Step 3 and 4 for every lane of a block: the parameters, then the pair."""
    last, size = first + count, step_sizes[0, U64(column)]
    for lane in range(first, last):
        workspace.size[lane] = size
    if len(step_sizes) > 1:
        for lane in range(first, last):
            workspace.size[lane] = step_sizes[workspace.schedule[lane], U64(column)]
    if tables.dense.size > 0:
        for lane in range(first, last):
            if not learn_densely(tables, view, lane, rest, workspace):
                compiled_server.fail(lanes.run[lane], t, workspace.failed_at)
    else:
        if learn(tables, view.theta, first, count, workspace) > 0:
            for lane in range(first, last):
                if not math.isfinite(workspace.updated[lane]):
                    compiled_server.fail(lanes.run[lane], t, workspace.failed_at)
        for lane in range(first, last):
            view.theta[workspace.here[lane]] = workspace.updated[lane]
        if view.progress.size > 0:
            for lane in range(first, last):
                view.progress[workspace.here[lane]] += rest * workspace.change[lane]
    go_on(tables, first, count, workspace)


@vectorised
def learn(tables: Tables, theta: Floats, first: int, count: int, workspace: Workspace) -> int:
    """What every lane's parameter becomes; how many are not finite.

    The next value is read before the update, and is the next pair's unless the update changes it.
    """
    infinite = 0
    for lane in range(first, first + count):
        reward = reward_of(tables, lane, workspace)
        value, next_value = workspace.value[lane], theta[workspace.ahead[lane]]
        change = finite_step.increment(tables, reward, value, next_value, workspace.size[lane])
        updated = value + change
        workspace.change[lane] = change
        workspace.updated[lane] = updated
        workspace.value[lane] = updated if workspace.here[lane] == workspace.ahead[lane] else next_value
        infinite += not math.isfinite(updated)
    return infinite


@piece
def reward_of(tables: Tables, lane: int, workspace: Workspace) -> float:
    """The reward of a lane's transition."""
    next_state = workspace.next_states[lane]
    return tables.worlds.reward[workspace.reward[lane] + next_state * tables.worlds.reward_next]


@piece
def learn_densely(tables: Tables, view: RunView, lane: int, rest: float, workspace: Workspace) -> bool:
    """Move the parameters of a lane along phi(s, a); whether they stay finite."""
    origin = workspace.origin[lane]
    s, a, s_next = workspace.states[lane], workspace.actions[lane], workspace.next_states[lane]
    change = finite_step.increment(
        tables,
        reward_of(tables, lane, workspace),
        finite_step.value(tables, view.theta, origin, s, a),
        finite_step.value(tables, view.theta, origin, s_next, workspace.next_actions[lane]),
        workspace.size[lane],
    )
    finite, at = True, s * tables.dim * tables.actions + a
    for j in range(origin, origin + tables.dim):
        moved = change * tables.dense[at]
        view.theta[j] += moved
        finite &= math.isfinite(view.theta[j])
        if view.progress.size > 0:
            view.progress[j] += rest * moved
        at += tables.actions
    return finite


@vectorised
def go_on(tables: Tables, first: int, count: int, workspace: Workspace) -> None:
    """Make the next pair the one that every lane holds, and note which mass it has changed."""
    for lane in range(first, first + count):
        s, a = workspace.next_states[lane], workspace.next_actions[lane]
        workspace.states[lane], workspace.actions[lane] = s, a
        workspace.here[lane] = workspace.ahead[lane]
        workspace.changed[lane] = workspace.cell[lane]
        workspace.cell[lane] = workspace.next_cell[lane]
        note(tables, lane, s, a, workspace)


@piece
def refresh(tables: Tables, first: int, count: int, workspace: Workspace) -> None:
    """Bring the masses up to date with the parameters that the last ``update`` changed."""
    weigh(tables, first, (count + EIGHT - U64(1)) // EIGHT * EIGHT, workspace)
    for lane in range(first, first + count):
        workspace.masses[workspace.changed[lane]] = workspace.exponentials[lane]


@vectorised
def weigh(tables: Tables, first: int, count: int, workspace: Workspace) -> None:
    """The masses of the parameters that every lane has changed."""
    for lane in range(first, first + count):
        workspace.exponentials[lane] = mass_of(tables, workspace.updated[lane], workspace.base[lane])


@piece
def mass_of(tables: Tables, value: float, base: float) -> float:
    """The softmax mass of an action of some value, relative to that of the value ``base``."""
    return exponential((value - base) / tables.choice.parameter)


@vectorised
def weigh_all(
    tables: Tables, theta: Floats, origin: int, base: float, masses: Floats, at: int, exponentials: Floats
) -> None:
    """Write the masses of all parameters from ``origin`` on to ``masses`` from ``at`` on, row by row."""
    for j in range(tables.dim):
        exponentials[j] = mass_of(tables, theta[origin + j], base)
    j = U64(0)
    for _ in range(tables.dim // tables.width):
        for c in range(row_size(tables)):
            masses[at + c] = exponentials[j + c] if c < tables.width else 0.0
        j += tables.width
        at += row_size(tables)
