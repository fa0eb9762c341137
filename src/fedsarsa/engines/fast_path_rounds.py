"""Compiled rounds of FedSARSA for the agents of some runs, side by side.

One agent's step waits for memory and for its own last result. So a block of agents (*lanes*) takes each
phase of a step together, and the processor always finds independent work:

    train                          for every round of a span
      open_round                     first directions of all lanes, where the server rule asks for them
      local_steps                    for every block of 16 lanes
        enter                          pairs, parameters, softmax caches of the block
        draw                           random numbers of the block for 16 steps at once
        move, refresh, act, update     for every step: next states, caches, next actions, parameters
      settle, weigh_central          for every run: average, project, record; softmax caches

Where steps have options, ``learn`` of `fast_path_options` takes the place of ``update``. Steps that look
further ahead are in `steps_ahead`, those of all pairs in `all_pairs`.

What a lane computes does not depend on the lanes beside it.
"""

import math

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, kernel, piece
from fedsarsa.engines import all_pairs, compiled_server, fast_path_options, steps_ahead
from fedsarsa.engines.arrays import AHEAD, BLOCK, Lanes, Options, RoundSettings, RunView, Span, Workspace
from fedsarsa.engines.exponential import exponentials
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import choice, finite_step, random
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.worlds import alias


@kernel
def start(tables: Tables, settings: RoundSettings, view: RunView, lanes: Lanes, workspace: Workspace) -> None:
    """Draw the first state and action of every lane."""
    agents = U64(len(settings.world))
    for lane in range(len(lanes.run)):
        run, agent = lanes.run[lane], lanes.agent[lane]
        first, second = random.words(
            settings.seed, view.first_run + run, lanes.stream[lane], U64(random.START)
        )
        place = run * agents + agent
        s = finite_step.first_state(tables.worlds, U64(settings.world[agent]), first)
        view.states[place] = s
        view.actions[place] = finite_step.direct(
            tables,
            view.theta,
            place * tables.dim,
            finite_step.acting(tables, agent),
            s,
            random.uniform(second),
            workspace.values,
            workspace.weights,
        )


@kernel
def train(
    tables: Tables,
    settings: RoundSettings,
    options: Options | None,
    view: RunView,
    lanes: Lanes,
    step_sizes: Floats,
    step_sums: Floats,
    span: Span,
    workspace: Workspace,
    central: Floats,
    drift: Floats,
) -> None:
    """All steps of a span; ``central`` (R, m, d) and ``drift`` (R, m) record its synchronisations."""
    # A literal 0, or False, would be a type of its own, and compiled apart.
    first, last, whole, opening = I64(0), len(lanes.run), bool(0), bool(1)
    for k in range(span.rounds):
        if options is not None and options.opens and span.t == span.begun:
            view.shift[:] = 0.0
            local_steps(
                tables, settings, options, view, lanes, first, last, step_sizes, span, k, opening, workspace
            )
            compiled_server.exchange_directions(settings, view)
        local_steps(
            tables, settings, options, view, lanes, first, last, step_sizes, span, k, whole, workspace
        )
        compiled_server.settle(
            settings, options, view, span, k, step_sums, workspace.failed_at, central, drift
        )
        weigh_central(tables, settings, view, span, workspace)


@kernel
def local_steps(
    tables: Tables,
    settings: RoundSettings,
    options: Options | None,
    view: RunView,
    lanes: Lanes,
    low: int,
    high: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    opening: bool,
    workspace: Workspace,
) -> None:
    """The local steps of a span's k-th round for lanes ``low`` to ``high``.

    ``step_sizes[u, j]`` is schedule u's at the j-th step of the span. In an ``opening`` lanes look at their
    first step alone: its direction is put into ``view.shift``, and nothing moves.
    """
    steps, column = 1 if opening else span.steps, k * span.steps
    t = span.t + column
    transitions = steps
    if options is not None:
        transitions += max(options.ahead - 1, 0)  # what is ahead of the last step is seen, too
    # Lanes begin a span with parameters of their own, later rounds with the central ones.
    fresh = k > 0 and settings.common
    for begin in range(low, high, BLOCK):
        first, count = U64(begin), U64(min(BLOCK, high - begin))
        enter(tables, settings, view, lanes, first, count, fresh, workspace)
        if options is not None and options.all_pairs:
            all_pairs.local_steps(tables, settings, view, lanes, first, count, step_sizes, span, k, workspace)
            continue
        for ahead in range(0, transitions, AHEAD):
            some = min(AHEAD, transitions - ahead)
            draw(
                tables,
                settings,
                lanes,
                view.first_run,
                first,
                count,
                t + ahead,
                some,
                workspace,
            )
            for i in range(some):
                at, step = U64(i) * count, ahead + i
                if options is not None and options.ahead > 0:
                    steps_ahead.go_on(
                        tables,
                        settings,
                        options,
                        view,
                        lanes,
                        first,
                        count,
                        at,
                        step,
                        step_sizes,
                        span,
                        k,
                        workspace,
                    )
                    continue
                if settings.redraws:
                    redraw(tables, settings, view, lanes, first, count, t + step, workspace)
                move(tables, count, at, workspace)
                if settings.cached and step > 0:  # here, not after the update: the last one needs none
                    if options is None or view.shift.size == 0:
                        refresh(tables, count, workspace)
                    else:
                        fast_path_options.weigh_rows(tables, view, count, workspace)
                act(tables, settings, view, count, at, workspace)
                # What theta-tilde gives to the steps of this round after this one: a + t each.
                remaining = steps - 1 - step + span.left
                rest = remaining * (settings.offset + t + step + 0.5 * (remaining + 1))
                now = column + step
                if options is None or options.plain:
                    update(tables, view, lanes, first, count, step_sizes, now, t + step, rest, workspace)
                else:
                    fast_path_options.learn(
                        tables,
                        settings,
                        options,
                        view,
                        lanes,
                        first,
                        count,
                        step_sizes,
                        now,
                        t + step,
                        rest,
                        opening,
                        workspace,
                    )
        if options is not None:
            if opening:
                continue
            if options.ahead > 0:
                steps_ahead.hold(options, count, steps, workspace)
        for h in range(count):
            view.states[workspace.place[h]] = workspace.states[h]
            view.actions[workspace.place[h]] = workspace.actions[h]


@piece
def enter(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    fresh: bool,
    workspace: Workspace,
) -> None:
    """Begin a round, or go on with one, for a block of lanes: pairs, parameters and caches."""
    agents, dim = U64(len(settings.world)), tables.dim
    for h in range(count):
        run = lanes.run[first + h]
        place = run * agents + lanes.agent[first + h]
        workspace.place[h] = place
        workspace.states[h] = U64(view.states[place])
        workspace.actions[h] = U64(view.actions[place])
        workspace.world[h] = U64(settings.world[lanes.agent[first + h]])
        workspace.schedule[h] = U64(settings.schedule[lanes.agent[first + h]])
        origin = workspace.origin[h] = place * dim
        workspace.acting[h] = finite_step.acting(tables, lanes.agent[first + h])
        if fresh:
            for j in range(dim):
                view.theta[origin + j] = view.central[run, j]
        if settings.cached:
            if fresh:
                workspace.base[h] = view.base[run]
                for j in range(dim):
                    workspace.masses[h * dim + j] = view.masses[run, j]
            else:
                base = workspace.base[h] = highest(view.theta, origin, dim)
                weigh_all(tables, view.theta, origin, base, workspace.masses, h * dim, workspace)


@kernel
def draw(
    tables: Tables,
    settings: RoundSettings,
    lanes: Lanes,
    first_run: int,
    first: int,
    count: int,
    t: int,
    steps: int,
    workspace: Workspace,
) -> None:
    """The random numbers of a block of lanes for ``steps`` steps from ``t`` on, step by step.

    A function of its own, not inlined: as a loop over plain arrays it compiles to vector instructions.
    """
    run, stream = lanes.run, lanes.stream
    columns, fractions, uniforms = workspace.columns, workspace.fractions, workspace.uniforms
    for k in range(steps):
        now, at = U64(t + k), U64(k) * count
        for h in range(count):
            one, two = random.words(settings.seed, first_run + run[first + h], stream[first + h], now)
            column, fraction = alias.split(one, tables.worlds.states)
            columns[at + h] = column
            fractions[at + h] = fraction
            uniforms[at + h] = random.uniform(two)


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
    for h in range(count):
        run = view.first_run + lanes.run[first + h]
        word, _ = random.words(settings.seed, run, lanes.stream[first + h], now)
        uniform = random.uniform(word)
        workspace.actions[h] = finite_step.direct(
            tables,
            view.theta,
            workspace.origin[h],
            workspace.acting[h],
            workspace.states[h],
            uniform,
            workspace.values,
            workspace.weights,
        )


@piece
def move(tables: Tables, count: int, at: int, workspace: Workspace) -> None:
    """Draw the next state of every lane of a block."""
    for h in range(count):
        workspace.next_states[h] = finite_step.next_state(
            tables.worlds,
            workspace.world[h],
            workspace.states[h],
            workspace.actions[h],
            workspace.columns[at + h],
            workspace.fractions[at + h],
        )


@piece
def act(
    tables: Tables, settings: RoundSettings, view: RunView, count: int, at: int, workspace: Workspace
) -> None:
    """Draw the next action of every lane of a block."""
    if not settings.cached:
        for h in range(count):
            workspace.next_actions[h] = directly(tables, view, h, workspace.uniforms[at + h], workspace)
        return
    for h in range(count):
        uniform = workspace.uniforms[at + h]
        row = h * tables.dim + tables.rows[workspace.next_states[h]] * tables.width
        total = finite_step.total(tables, workspace.masses, row)
        if finite_step.TRUST_LOW < total < finite_step.TRUST_HIGH:
            target = uniform * total
            group, below = choice.select(workspace.masses, row, tables.width, target)
            share = (target - below) / workspace.masses[row + group]
            workspace.next_actions[h] = finite_step.member(tables, group, share)
        else:
            workspace.next_actions[h] = directly(tables, view, h, uniform, workspace)


@piece
def directly(tables: Tables, view: RunView, h: int, uniform: float, workspace: Workspace) -> int:
    """The next action of lane ``h`` from its parameters."""
    return finite_step.direct(
        tables,
        view.theta,
        workspace.origin[h],
        workspace.acting[h],
        workspace.next_states[h],
        uniform,
        workspace.values,
        workspace.weights,
    )


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
    if tables.dense.size > 0:
        for h in range(count):
            change = increment(tables, view, h, step_sizes, column, workspace)
            if not move_densely(tables, view, h, change, rest, workspace):
                compiled_server.fail(lanes.run[first + h], t, workspace.failed_at)
    else:
        for h in range(count):
            change = increment(tables, view, h, step_sizes, column, workspace)
            row, group = U64(tables.rows[workspace.states[h]]), U64(tables.columns[workspace.actions[h]])
            at = workspace.origin[h] + row * tables.width + group
            updated = view.theta[at] + change
            view.theta[at] = updated
            workspace.rows[h], workspace.groups[h], workspace.updated[h] = row, group, updated
            if not math.isfinite(updated):
                compiled_server.fail(lanes.run[first + h], t, workspace.failed_at)
            if view.progress.size > 0:
                view.progress[at] += rest * change
    for h in range(count):
        workspace.states[h], workspace.actions[h] = workspace.next_states[h], workspace.next_actions[h]


@piece
def increment(
    tables: Tables, view: RunView, h: int, step_sizes: Floats, column: int, workspace: Workspace
) -> float:
    """What the step of lane ``h`` adds along phi(s, a)."""
    return finite_step.increment(
        tables,
        view.theta,
        workspace.origin[h],
        workspace.world[h],
        workspace.states[h],
        workspace.actions[h],
        workspace.next_states[h],
        workspace.next_actions[h],
        step_sizes[workspace.schedule[h], U64(column)],
    )


@piece
def move_densely(
    tables: Tables, view: RunView, h: int, change: float, rest: float, workspace: Workspace
) -> bool:
    """Add ``change`` times phi(s, a) to the parameters of lane ``h``; whether they stay finite."""
    finite, origin = True, workspace.origin[h]
    at = workspace.states[h] * tables.dim * tables.actions + workspace.actions[h]
    for j in range(tables.dim):
        moved = change * tables.dense[at]
        view.theta[origin + j] += moved
        finite &= math.isfinite(view.theta[origin + j])
        if view.progress.size > 0:
            view.progress[origin + j] += rest * moved
        at += tables.actions
    return finite


@piece
def refresh(tables: Tables, count: int, workspace: Workspace) -> None:
    """Bring the masses up to date with the parameters that the last ``update`` changed."""
    for h in range(U64(BLOCK)):
        workspace.exponents[h] = (workspace.updated[h] - workspace.base[h]) / tables.choice.parameter
    exponentials(workspace.exponents, U64(BLOCK), workspace.bits, workspace.power, workspace.exponentials)
    for h in range(count):
        group = workspace.groups[h]
        mass = tables.choice.counts[group] * workspace.exponentials[h]
        workspace.masses[h * tables.dim + workspace.rows[h] * tables.width + group] = mass


@piece
def weigh_all(
    tables: Tables, theta: Floats, start: int, base: float, masses: Floats, at: int, workspace: Workspace
) -> None:
    """The masses count * exp((theta - base) / temperature) of all parameters."""
    for j in range(tables.dim):
        workspace.exponents[j] = (theta[start + j] - base) / tables.choice.parameter
    exponentials(workspace.exponents, tables.dim, workspace.bits, workspace.power, workspace.exponentials)
    for j in range(tables.dim):
        masses[at + j] = tables.choice.counts[j % tables.width] * workspace.exponentials[j]


@kernel
def weigh_central(
    tables: Tables, settings: RoundSettings, view: RunView, span: Span, workspace: Workspace
) -> None:
    """Weigh the parameters that the server broadcasts once for all lanes."""
    if not (settings.cached and span.synchronises):
        return
    for run in range(len(view.failed_at)):
        if view.failed_at[run] == RUNNING:
            average = view.central[run]
            view.base[run] = highest(average, U64(0), tables.dim)
            weigh_all(tables, average, U64(0), view.base[run], view.masses[run], U64(0), workspace)


@piece
def highest(theta: Floats, origin: int, dim: int) -> float:
    """The largest of ``dim`` parameters from ``origin`` on."""
    best = theta[origin]
    for j in range(dim):
        best = max(best, theta[origin + j])
    return best
