"""Compiled rounds of FedSARSA for the agents of some runs, side by side.

One agent's step waits for memory and for its own last result. So a block of agents (*lanes*) takes each
phase of a step together, and the processor always finds independent work:

    train
      enter                          what lanes hold, and where their tables begin
      for every round of a span
        exchange_directions            first directions of all lanes, where the server rule asks for them
        take_steps                     for every block of 32 lanes
          begin_round                    parameters and softmax caches of the block
          draw                           random numbers of the block for 16 steps at once
          move, refresh, act, update     for every step: next states, caches, next actions, parameters
        end_round, weigh_average       for every run: average, project, record; softmax caches
      leave                          the pairs that lanes hold

Where steps have options, ``learn`` of `fast_path_options` takes the place of ``update``. Steps that look
further ahead are in `steps_ahead`, those of all pairs in `all_pairs`.

What a lane computes does not depend on the lanes beside it. What it computes is said in
``fast_path_phases``; here is how lanes are laid out.
"""

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece, vectorised
from fedsarsa.engines import all_pairs, compiled_server, fast_path_options, fast_path_phases, steps_ahead
from fedsarsa.engines.arrays import (
    AHEAD,
    BLOCK,
    Lanes,
    Options,
    RoundSettings,
    RunView,
    Span,
    Workspace,
    later_weight,
)
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import finite_step, random
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
    # A literal False would be a type of its own, and compiled apart.
    low, high, whole, opening = U64(0), U64(len(lanes.run)), bool(0), bool(1)
    enter(tables, settings, view, lanes, low, high, workspace)
    for k in range(span.rounds):
        if options is not None and options.opens and span.t == span.begun:
            view.shift[:] = 0.0
            take_steps(
                tables,
                settings,
                options,
                view,
                lanes,
                low,
                high,
                step_sizes,
                span,
                k,
                whole,
                opening,
                workspace,
            )
            compiled_server.exchange_directions(settings, view)
        take_steps(
            tables, settings, options, view, lanes, low, high, step_sizes, span, k, k > 0, whole, workspace
        )
        compiled_server.end_round(
            settings, options, view, span, k, step_sums, workspace.failed_at, central, drift
        )
        weigh_average(tables, settings, view, span, workspace.exponentials)
    leave(view, low, high, workspace)


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
    """The local steps of a span's k-th round for lanes ``low`` to ``high``."""
    first, last = U64(low), U64(high)
    enter(tables, settings, view, lanes, first, last, workspace)
    anew = bool(0)
    take_steps(
        tables, settings, options, view, lanes, first, last, step_sizes, span, k, anew, opening, workspace
    )
    if not opening:
        leave(view, first, last, workspace)


@kernel
def take_steps(
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
    goes_on: bool,
    opening: bool,
    workspace: Workspace,
) -> None:
    """The local steps of a span's k-th round for lanes that have entered.

    ``step_sizes[u, j]`` is schedule u's at the j-th step of the span. In an ``opening`` lanes look at their
    first step alone: its direction is put into ``view.shift``, and nothing moves. A round that ``goes_on``
    finds the windows of the one before in the workspace.
    """
    steps, column = 1 if opening else span.steps, k * span.steps
    t = span.t + column
    seen, transitions = 0, steps
    if options is not None and options.ahead > 0:
        transitions += options.ahead - 1  # what is ahead of the last step is seen, too
        seen = options.ahead - 1 if goes_on else 0
    # Lanes begin a span with parameters of their own, later rounds with the central ones.
    fresh = k > 0 and settings.common
    shifted = options is not None and view.shift.size > 0 and not opening
    for first in range(low, high, U64(BLOCK)):
        count = min(U64(BLOCK), high - first)
        begin_round(tables, settings, view, lanes, first, count, fresh, shifted, workspace)
        if shifted:
            fast_path_options.begin(tables, view, first, count, workspace)
        if options is not None and options.all_pairs:
            all_pairs.local_steps(tables, settings, view, lanes, first, count, step_sizes, span, k, workspace)
            continue
        if options is not None and options.ahead > 0 and not goes_on:
            steps_ahead.begin(tables, options, first, count, column, workspace)
        for ahead in range(seen, transitions, AHEAD):
            some = min(AHEAD, transitions - ahead)
            draw(
                settings.seed,
                view.first_run,
                lanes.run,
                lanes.stream,
                first,
                count,
                U64(t + ahead),
                U64(some),
                tables.worlds.states,
                workspace.columns,
                workspace.fractions,
                workspace.uniforms,
            )
            if settings.independent:
                draw(
                    settings.seed,
                    view.first_run,
                    lanes.run,
                    lanes.stream,
                    first,
                    count,
                    random.purpose(U64(t + ahead), U64(random.PAIR)),
                    U64(some),
                    tables.worlds.states,
                    workspace.pair_columns,
                    workspace.pair_fractions,
                    workspace.pair_uniforms,
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
                if settings.independent:
                    fast_path_phases.begin_anew(tables, view, first, count, at, workspace)
                if settings.redraws:
                    fast_path_phases.redraw(tables, settings, view, lanes, first, count, t + step, workspace)
                fast_path_phases.move(tables, first, count, at, workspace)
                if settings.cached and shifted:
                    fast_path_options.weigh_rows(tables, view, first, count, workspace)
                elif settings.cached and step > 0:  # here, not after the update: the last one needs none
                    fast_path_phases.refresh(tables, first, count, workspace)
                fast_path_phases.act(tables, settings, view, first, count, at, workspace)
                rest = later_weight(settings.offset, t + step, steps - 1 - step + span.left)
                now = column + step
                if options is None or options.plain:
                    fast_path_phases.update(
                        tables, view, lanes, first, count, step_sizes, now, t + step, rest, workspace
                    )
                else:
                    fast_path_options.learn(
                        tables,
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
        if shifted:
            fast_path_options.end(tables, view, first, count, workspace)
        if options is not None and options.ahead > 0:
            steps_ahead.hold(options, first, count, column + steps, workspace)


@piece
def enter(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    lanes: Lanes,
    first: int,
    last: int,
    workspace: Workspace,
) -> None:
    """Note for every lane what does not change in a span, and the pair that it holds."""
    agents, worlds = U64(len(settings.world)), tables.worlds
    for lane in range(first, last):
        agent = lanes.agent[lane]
        world, place = U64(settings.world[agent]), lanes.run[lane] * agents + agent
        workspace.place[lane] = place
        workspace.origin[lane] = place * tables.dim
        workspace.acting[lane] = finite_step.acting(tables, agent)
        workspace.kernel[lane] = worlds.kernel_start[world]
        workspace.action_size[lane] = worlds.action_size[world]
        workspace.turns[lane] = worlds.turns[world]
        workspace.rewards[lane] = world * worlds.reward_world
        workspace.schedule[lane] = U64(settings.schedule[agent])
        i = (lane - first) % U64(BLOCK)
        s, a = U64(view.states[place]), U64(view.actions[place])
        fast_path_phases.hold(tables, view, lane, i, s, a, workspace)


@piece
def leave(view: RunView, first: int, last: int, workspace: Workspace) -> None:
    """Write down the pair that every lane holds."""
    for lane in range(first, last):
        view.states[workspace.place[lane]] = workspace.states[lane]
        view.actions[workspace.place[lane]] = workspace.actions[lane]


@piece
def begin_round(
    tables: Tables,
    settings: RoundSettings,
    view: RunView,
    lanes: Lanes,
    first: int,
    count: int,
    fresh: bool,
    shifted: bool,
    workspace: Workspace,
) -> None:
    """Begin a round, or continue one, for a block of lanes: parameters and caches.

    They are the central ones, with the masses that the server has weighed, where the round is ``fresh``.
    What is ``shifted`` weighs its rows at every step.
    """
    cells = U64(view.masses.shape[1])
    for i in range(count):
        lane = first + i
        run, origin = lanes.run[lane], workspace.origin[lane]
        if fresh:
            copy(view.central[run], view.theta, origin, tables.dim)
        workspace.value[lane] = view.theta[workspace.here[lane]]  # the server may have moved it
        if settings.cached:
            if fresh:
                workspace.base[lane] = view.base[run]
            else:
                workspace.base[lane] = highest(view.theta, origin, tables.dim)
            if fresh and not shifted:
                copy(view.masses[run], workspace.masses, i * cells, cells)
            elif not shifted:
                fast_path_phases.weigh_all(
                    tables,
                    view.theta,
                    origin,
                    workspace.base[lane],
                    workspace.masses,
                    i * cells,
                    workspace.exponentials,
                )


@vectorised
def copy(source: Floats, target: Floats, to: int, count: int) -> None:
    """Write ``count`` numbers to ``target`` from ``to`` on."""
    for j in range(count):
        target[to + j] = source[j]


@kernel
def draw(
    seed: int,
    first_run: int,
    runs: NDArray[np.uint64],
    streams: NDArray[np.uint64],
    first: int,
    count: int,
    t: int,
    steps: int,
    states: int,
    columns: NDArray[np.uint64],
    fractions: NDArray[np.uint64],
    uniforms: Floats,
) -> None:
    """The random numbers of a block of lanes for ``steps`` steps from ``t`` on, step by step."""
    if count < steps:  # the longer loop is the inner one
        for i in range(count):
            run, stream = first_run + runs[first + i], streams[first + i]
            for k in range(steps):
                at = k * count + i
                columns[at], fractions[at], uniforms[at] = split(seed, run, stream, t + k, states)
        return
    for k in range(steps):
        for i in range(count):
            run, stream = first_run + runs[first + i], streams[first + i]
            at = k * count + i
            columns[at], fractions[at], uniforms[at] = split(seed, run, stream, t + k, states)


@piece
def split(seed: int, run: int, stream: int, t: int, states: int) -> tuple[int, int, float]:
    """The random numbers of a step: for the alias table, and for the policy."""
    one, two = random.words(seed, run, stream, t)
    column, fraction = alias.split(one, states)
    return column, fraction, random.uniform(two)


def _weigh_average(
    tables: Tables, settings: RoundSettings, view: RunView, span: Span, exponentials: Floats
) -> None:
    """Weigh the parameters that the server broadcasts once for all lanes."""
    if not (settings.cached and span.synchronises):
        return
    for run in range(len(view.failed_at)):
        if view.failed_at[run] == RUNNING:
            average = view.central[run]
            view.base[run] = highest(average, U64(0), tables.dim)
            fast_path_phases.weigh_all(
                tables, average, U64(0), view.base[run], view.masses[run], U64(0), exponentials
            )


# For kernels, and for Python.
weigh_average, weigh_central = piece(_weigh_average), kernel(_weigh_average)


@piece
def highest(theta: Floats, origin: int, dim: int) -> float:
    """The largest of ``dim`` parameters from ``origin`` on."""
    best = theta[origin]
    for j in range(dim):
        best = max(best, theta[origin + j])
    return best
