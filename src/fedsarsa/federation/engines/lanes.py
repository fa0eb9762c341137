"""Compiled rounds of FedSARSA for the agents of some runs, side by side.

One agent's step waits for memory and for its own last result. So a block of agents (*lanes*) takes each
phase of a step together, and the processor always finds independent work:

    train                          for every round of a stretch
      local_steps                    for every block of 16 lanes
        enter                          pairs, parameters, softmax caches of the block
        draw                           random numbers of the block for 16 steps at once
        move, refresh, act, update     for every step: next states, caches, next actions, parameters
      settle, weigh_central          for every run: average, project, record; softmax caches

What a lane computes does not depend on the lanes beside it.
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece
from fedsarsa.federation.engines import server
from fedsarsa.federation.engines.exponential import exponentials
from fedsarsa.federation.engines.layout import AHEAD, BLOCK, Lanes, Plan, Room, Stretch, Team
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import choice, random, sarsa
from fedsarsa.learning.tables import Tables
from fedsarsa.worlds import alias


@kernel
def start(tables: Tables, plan: Plan, team: Team, lanes: Lanes, room: Room) -> None:
    """Draw the first state and action of every lane."""
    agents = U64(len(plan.world))
    for lane in range(len(lanes.run)):
        run, agent = lanes.run[lane], lanes.agent[lane]
        first, second = random.words(
            plan.seed, team.first_run + run, team.first_agent + agent, U64(random.START)
        )
        place = run * agents + agent
        s = sarsa.first_state(tables, U64(plan.world[agent]), first)
        team.states[place] = s
        team.actions[place] = sarsa.direct(
            tables,
            team.theta,
            place * tables.dim,
            s,
            random.uniform(second),
            room.values,
            room.weights,
        )


@kernel
def train(
    tables: Tables,
    plan: Plan,
    team: Team,
    lanes: Lanes,
    step_sizes: Floats,
    stretch: Stretch,
    room: Room,
    central: Floats,
    drift: Floats,
) -> None:
    """All steps of a stretch; ``central`` (R, m, d) and ``drift`` (R, m) record its synchronisations."""
    for k in range(stretch.rounds):
        local_steps(tables, plan, team, lanes, 0, len(lanes.run), step_sizes, stretch, k, room)
        server.settle(plan, team, stretch, k, room.failed_at, room.spread, central, drift)
        weigh_central(tables, plan, team, stretch, room)


@kernel
def local_steps(
    tables: Tables,
    plan: Plan,
    team: Team,
    lanes: Lanes,
    low: int,
    high: int,
    step_sizes: Floats,
    stretch: Stretch,
    k: int,
    room: Room,
) -> None:
    """The local steps of a stretch's k-th round for lanes ``low`` to ``high``.

    ``step_sizes[u, j]`` is schedule u's at the j-th step of the stretch.
    """
    steps, column = stretch.steps, k * stretch.steps
    t = stretch.t + column
    # Lanes begin a stretch with parameters of their own, later rounds with the central ones.
    fresh = k > 0
    for begin in range(low, high, BLOCK):
        first, count = U64(begin), U64(min(BLOCK, high - begin))
        enter(tables, plan, team, lanes, first, count, fresh, room)
        for ahead in range(0, steps, AHEAD):
            some = min(AHEAD, steps - ahead)
            draw(tables, plan, lanes, team.first_run, team.first_agent, first, count, t + ahead, some, room)
            for i in range(some):
                at, step = U64(i) * count, ahead + i
                if plan.redraws:
                    redraw(tables, plan, team, lanes, first, count, t + step, room)
                move(tables, count, at, room)
                if plan.cached and step > 0:  # here, not after the update: the last one needs none
                    refresh(tables, count, room)
                act(tables, plan, team, count, at, room)
                # What theta-tilde gives to the steps of this round after this one: a + t each.
                remaining = steps - 1 - step + stretch.left
                rest = remaining * (plan.offset + t + step + 0.5 * (remaining + 1))
                update(tables, team, lanes, first, count, step_sizes, column + step, t + step, rest, room)
        for h in range(count):
            team.states[room.place[h]] = room.states[h]
            team.actions[room.place[h]] = room.actions[h]


@piece
def enter(
    tables: Tables, plan: Plan, team: Team, lanes: Lanes, first: int, count: int, fresh: bool, room: Room
) -> None:
    """Begin a round, or go on with one, for a block of lanes: pairs, parameters and caches."""
    agents, dim = U64(len(plan.world)), tables.dim
    for h in range(count):
        run = lanes.run[first + h]
        place = run * agents + lanes.agent[first + h]
        room.place[h] = place
        room.states[h] = U64(team.states[place])
        room.actions[h] = U64(team.actions[place])
        room.world[h] = U64(plan.world[lanes.agent[first + h]])
        room.schedule[h] = U64(plan.schedule[lanes.agent[first + h]])
        origin = room.origin[h] = place * dim
        if fresh:
            for j in range(dim):
                team.theta[origin + j] = team.central[run, j]
        if plan.cached:
            if fresh:
                room.base[h] = team.base[run]
                for j in range(dim):
                    room.masses[h * dim + j] = team.masses[run, j]
            else:
                base = room.base[h] = highest(team.theta, origin, dim)
                weigh_all(tables, team.theta, origin, base, room.masses, h * dim, room)


@kernel
def draw(
    tables: Tables,
    plan: Plan,
    lanes: Lanes,
    first_run: int,
    first_agent: int,
    first: int,
    count: int,
    t: int,
    steps: int,
    room: Room,
) -> None:
    """The random numbers of a block of lanes for ``steps`` steps from ``t`` on, step by step.

    A function of its own, not inlined: as a loop over plain arrays it compiles to vector instructions.
    """
    run, agent = lanes.run, lanes.agent
    columns, fractions, uniforms = room.columns, room.fractions, room.uniforms
    for k in range(steps):
        now, at = U64(t + k), U64(k) * count
        for h in range(count):
            stream = first_agent + agent[first + h]
            one, two = random.words(plan.seed, first_run + run[first + h], stream, now)
            column, fraction = alias.split(one, tables.states)
            columns[at + h] = column
            fractions[at + h] = fraction
            uniforms[at + h] = random.uniform(two)


@piece
def redraw(
    tables: Tables, plan: Plan, team: Team, lanes: Lanes, first: int, count: int, t: int, room: Room
) -> None:
    """Draw the action to execute anew for every lane of a block."""
    now = U64(t) + U64(random.REDRAW)
    for h in range(count):
        run = team.first_run + lanes.run[first + h]
        agent = team.first_agent + lanes.agent[first + h]
        word, _ = random.words(plan.seed, run, agent, now)
        uniform = random.uniform(word)
        room.actions[h] = sarsa.direct(
            tables, team.theta, room.origin[h], room.states[h], uniform, room.values, room.weights
        )


@piece
def move(tables: Tables, count: int, at: int, room: Room) -> None:
    """Draw the next state of every lane of a block."""
    for h in range(count):
        room.next_states[h] = sarsa.next_state(
            tables,
            room.world[h],
            room.states[h],
            room.actions[h],
            room.columns[at + h],
            room.fractions[at + h],
        )


@piece
def act(tables: Tables, plan: Plan, team: Team, count: int, at: int, room: Room) -> None:
    """Draw the next action of every lane of a block."""
    if not plan.cached:
        for h in range(count):
            room.next_actions[h] = directly(tables, team, h, room.uniforms[at + h], room)
        return
    for h in range(count):
        uniform = room.uniforms[at + h]
        row = h * tables.dim + tables.rows[room.next_states[h]] * tables.width
        total = sarsa.total(tables, room.masses, row)
        if sarsa.TRUST_LOW < total < sarsa.TRUST_HIGH:
            target = uniform * total
            group, below = choice.select(room.masses, row, tables.width, target)
            share = (target - below) / room.masses[row + group]
            room.next_actions[h] = sarsa.member(tables, group, share)
        else:
            room.next_actions[h] = directly(tables, team, h, uniform, room)


@piece
def directly(tables: Tables, team: Team, h: int, uniform: float, room: Room) -> int:
    """The next action of lane ``h`` from its parameters."""
    return sarsa.direct(
        tables, team.theta, room.origin[h], room.next_states[h], uniform, room.values, room.weights
    )


@piece
def update(
    tables: Tables,
    team: Team,
    lanes: Lanes,
    first: int,
    count: int,
    step_sizes: Floats,
    column: int,
    t: int,
    rest: float,
    room: Room,
) -> None:
    """Step 3 and 4 for every lane of a block: the parameters, then the pair."""
    if tables.dense.size > 0:
        for h in range(count):
            change = increment(tables, team, h, step_sizes, column, room)
            if not move_densely(tables, team, h, change, rest, room):
                server.fail(lanes.run[first + h], t, room.failed_at)
    else:
        for h in range(count):
            change = increment(tables, team, h, step_sizes, column, room)
            row, group = U64(tables.rows[room.states[h]]), U64(tables.columns[room.actions[h]])
            at = room.origin[h] + row * tables.width + group
            updated = team.theta[at] + change
            team.theta[at] = updated
            room.rows[h], room.groups[h], room.updated[h] = row, group, updated
            if not math.isfinite(updated):
                server.fail(lanes.run[first + h], t, room.failed_at)
            if team.progress.size > 0:
                team.progress[at] += rest * change
    for h in range(count):
        room.states[h], room.actions[h] = room.next_states[h], room.next_actions[h]


@piece
def increment(tables: Tables, team: Team, h: int, step_sizes: Floats, column: int, room: Room) -> float:
    """What the step of lane ``h`` adds along phi(s, a)."""
    return sarsa.increment(
        tables,
        team.theta,
        room.origin[h],
        room.world[h],
        room.states[h],
        room.actions[h],
        room.next_states[h],
        room.next_actions[h],
        step_sizes[room.schedule[h], U64(column)],
    )


@piece
def move_densely(tables: Tables, team: Team, h: int, change: float, rest: float, room: Room) -> bool:
    """Add ``change`` times phi(s, a) to the parameters of lane ``h``; whether they stay finite."""
    finite, origin = True, room.origin[h]
    at = room.states[h] * tables.dim * tables.actions + room.actions[h]
    for j in range(tables.dim):
        moved = change * tables.dense[at]
        team.theta[origin + j] += moved
        finite &= math.isfinite(team.theta[origin + j])
        if team.progress.size > 0:
            team.progress[origin + j] += rest * moved
        at += tables.actions
    return finite


@piece
def refresh(tables: Tables, count: int, room: Room) -> None:
    """Bring the masses up to date with the parameters that the last ``update`` changed."""
    for h in range(U64(BLOCK)):
        room.exponents[h] = (room.updated[h] - room.base[h]) / tables.choice.parameter
    exponentials(room.exponents, U64(BLOCK), room.bits, room.power, room.exponentials)
    for h in range(count):
        group = room.groups[h]
        mass = tables.choice.counts[group] * room.exponentials[h]
        room.masses[h * tables.dim + room.rows[h] * tables.width + group] = mass


@piece
def weigh_all(
    tables: Tables, theta: Floats, start: int, base: float, masses: Floats, at: int, room: Room
) -> None:
    """The masses count * exp((theta - base) / temperature) of all parameters."""
    for j in range(tables.dim):
        room.exponents[j] = (theta[start + j] - base) / tables.choice.parameter
    exponentials(room.exponents, tables.dim, room.bits, room.power, room.exponentials)
    for j in range(tables.dim):
        masses[at + j] = tables.choice.counts[j % tables.width] * room.exponentials[j]


@kernel
def weigh_central(tables: Tables, plan: Plan, team: Team, stretch: Stretch, room: Room) -> None:
    """Weigh the parameters that the server broadcasts once for all lanes."""
    if not (plan.cached and stretch.synchronises):
        return
    for run in range(len(team.failed_at)):
        if team.failed_at[run] == RUNNING:
            average = team.central[run]
            team.base[run] = highest(average, U64(0), tables.dim)
            weigh_all(tables, average, U64(0), team.base[run], team.masses[run], U64(0), room)


@piece
def highest(theta: Floats, origin: int, dim: int) -> float:
    """The largest of ``dim`` parameters from ``origin`` on."""
    best = theta[origin]
    for j in range(dim):
        best = max(best, theta[origin + j])
    return best
