"""Rounds of finite worlds on the GPU, where agents hold a pair: a thread per agent.

What an agent computes is said in the pieces of ``finite_step`` that the cpu engine uses; here is how agents
are laid out. A block of threads has whole federations, agent by agent, or a part of one that is larger:

    thread   0 1 2 | 3 4 5 | 6 7 8 ...
    agent    0 0 0 | 1 1 1 | 2 2 2 ...
    its      0 1 2 | 0 1 2 | 0 1 2 ...   federation in the block

Parameter j of all threads is a row of shared memory, and so are the softmax masses. Threads then never wait
for each other's memory, whatever parameters they choose. When a round ends, a federation's first thread has
the mean in its column, from where the others take it.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, types

from fedsarsa._checks import Floats
from fedsarsa._numba import U32, U64, DeviceBuild, piece
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled_server import project
from fedsarsa.engines.cuda_arrays import (
    ONE,
    RUNS,
    Agents,
    Ahead,
    Blocks,
    Cells,
    Federations,
    Held,
    Lanes,
    Records,
    Shape,
)
from fedsarsa.engines.cuda_device import DeviceKernel
from fedsarsa.engines.cuda_pieces import (
    afresh,
    copy_column,
    held_by,
    highest,
    mass_of,
    mean_of,
    place_of,
    real_of,
    record_alone,
    reward_place,
    spread_of,
    sum_of,
    weigh_column,
)
from fedsarsa.learning import choice, finite_step, random
from fedsarsa.learning.choice import Choice
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.worlds import alias

FAR = 64.0  # temperatures that the largest parameter may move before masses are weighed anew
LOW, FLOAT32 = U64(0xFFFFFFFF), U64(40)  # what is left of a word for a float32 is 24 bits


class Kernels(NamedTuple):
    """``start`` draws first pairs, ``rounds`` takes the steps of a span."""

    start: DeviceKernel
    rounds: DeviceKernel


@cache
def kernels(shape: Shape) -> Kernels:
    """The kernels for federations of one ``shape``."""
    width, policy, shifted, dense, cached, averaged, known, rotated, steady, even, whole, single, _ = shape
    threads = U32(shape.threads)
    columns, real = U64(width), types.float32 if single else types.float64

    number: Any = np.float32 if single else np.float64
    fixed = policy == choice.code_of(FixedPolicy)
    small: Any = np.float32(1e-30)  # between these, totals of masses can be trusted
    large: Any = np.float32(1e30)

    @piece
    def unit(word: int) -> float:
        """A random word as a number in [0, 1)."""
        if single:
            return number(np.int32(word >> FLOAT32)) * 2.0**-24
        return random.uniform(word)

    @piece
    def tables_of(tables: Tables, cells: Cells, c: int, counts: Floats) -> Tables:
        """The tables for a cell, with what is compiled in, and what is known to be empty.

        ``counts`` is room for the sizes of classes.
        """
        known = tables.choice
        last_of_dense = len(tables.dense) if dense else 0
        last_of_fixed = len(tables.cumulative) if fixed else 0
        for column in range(columns):
            counts[column] = known.counts[column]
        return Tables(
            worlds=tables.worlds,
            actions=tables.actions,
            dim=tables.dim,
            discount=cells.discount[c],
            rows=tables.rows,
            columns=tables.columns,
            width=columns,
            order=tables.order,
            members=tables.members,
            most=tables.most,
            dense=tables.dense[:last_of_dense],
            choice=Choice(
                policy=policy,
                parameter=cells.parameter[c],
                ties_first=known.ties_first,
                actions=known.actions,
                counts=counts,
                alike=known.alike,
                masses=known.masses,
            ),
            policies=tables.policies,
            stride=tables.stride,
            cumulative=tables.cumulative[:last_of_fixed],
            guide=tables.guide,
        )

    def start(
        tables: Tables, cells: Cells, agents: Agents, federations: Federations, lanes: Lanes, owner: Any
    ) -> None:
        lane = U64(cuda.grid(1))
        if lane >= lanes.states.size:
            return
        values, weights = cuda.local.array(width, real), cuda.local.array(width, real)
        federation = owner[lane]
        c = federations.cell[federation]
        own = tables_of(tables, cells, c, cuda.local.array(width, real))
        who = lane - federations.first_lane[federation]
        run, stream = federations.run[federation] & LOW, (cells.stream[c] + who) & LOW
        first, second = random.words(cells.seed[c], run, stream, U64(random.START))
        s = finite_step.first_state(own.worlds, agents.world[cells.first_agent[c] + who], first)
        lanes.states[lane] = s
        uniform = unit(second)
        lanes.actions[lane] = finite_step.direct(
            own, lanes.theta[lane], U64(0), U64(0), s, uniform, values, weights
        )

    @piece
    def first_ahead(own: Tables, held: Held, s: int, a: int, t: int) -> Ahead:
        """What step ``t`` draws from, at the pair (s, a)."""
        one, two = random.words(held.seed, held.run, held.stream, t)
        column, fraction = alias.split(one, held.states)
        return Ahead(
            second=two,
            column=column,
            fraction=fraction,
            entry=held.alias[place_of(held, s, a, column)],
            reward=held.reward[reward_place(held, s, a, U32(0))],
            here=U32(0) if dense else U32((own.rows[s] * columns + own.columns[a]) * threads),
        )

    @piece
    def local_steps(
        own: Tables,
        held: Held,
        s: int,
        a: int,
        given: Ahead,
        shared: Floats,
        lane: int,
        masses: int,
        progress: int,
        base: float,
        inverse: float,
        offset: float,
        at: int,
        t: int,
        steps: int,
        left: int,
    ) -> tuple[int, int, Ahead, int]:
        """``steps`` local steps; the pair then, what is ahead of it, and how many left parameters finite.

        Parameters are at ``shared[lane::threads]``, their masses at ``shared[masses::threads]``, and what
        theta-tilde gathers at ``shared[progress::threads]``. The first step's size is ``held.sizes[at]``.
        """
        values, weights = cuda.local.array(width, real), cuda.local.array(width, real)
        sums = cuda.local.array(width, real)
        worlds = own.worlds
        two, column, fraction, entry, reward, here = given
        size = held.sizes[at]
        value = shared[lane + here]
        sound, finite = True, U32(0)
        step = U32(0)
        while step < steps:
            turn = held.turns * (finite_step.rotation(worlds, a) if rotated else a)
            s_next = U32(finite_step.turned(held, alias.resolve(entry, column, fraction), turn))
            if not known:
                reward = held.reward[reward_place(held, s, a, s_next)]
            if not steady:
                size = held.sizes[U32(at + step)]
            uniform = unit(two)
            one, two = random.words(held.seed, held.run, held.stream, t + U64(step) + ONE)
            column, fraction = alias.split(one, held.states)
            if shifted:
                entry = held.alias[place_of(held, s_next, U32(0), column)]
            certain = False
            a_next, ahead = U32(0), U32(0)
            if cached:
                begin = U32(own.rows[s_next] * columns * threads)
                total, group, beyond, mass = finite_step.draw_class(
                    own, shared, masses + begin, uniform, sums, threads
                )
                certain = small < total < large if single else finite_step.trusted(total)
                if certain:
                    a_next = U32(finite_step.member(own, group, finite_step.ratio(beyond, mass)))
                    ahead = U32(begin + group * threads)
            if not certain:
                a_next = U32(
                    finite_step.direct(own, shared, lane, U64(0), s_next, uniform, values, weights, threads)
                )
                if not dense:
                    ahead = U32((own.rows[s_next] * columns + own.columns[a_next]) * threads)
            if not shifted:
                entry = held.alias[place_of(held, s_next, a_next, column)]
            # What theta-tilde gives to the steps of this round after this one: a + t each.
            rest = value * 0.0
            if averaged:
                remaining = U64(steps - ONE - step) + left
                rest = real_of(remaining) * (offset + real_of(t + step) + 0.5 * real_of(remaining + ONE))
            if dense:
                change = finite_step.increment(
                    own,
                    reward,
                    finite_step.value(own, shared, lane, s, a, threads),
                    finite_step.value(own, shared, lane, s_next, a_next, threads),
                    size,
                )
                place = s * own.dim * own.actions + a
                for j in range(own.dim):
                    moved = change * own.dense[place]
                    shared[lane + j * threads] += moved
                    sound = sound and math.isfinite(shared[lane + j * threads])
                    if averaged:
                        shared[progress + j * threads] += rest * moved
                    place += own.actions
            else:
                next_value = shared[lane + ahead]
                change = finite_step.increment(own, reward, value, next_value, size)
                updated = value + change
                shared[lane + here] = updated
                if averaged:
                    shared[progress + here] += rest * change
                sound = sound and math.isfinite(updated)
                if cached:
                    shared[masses + here] = mass_of(updated, base, inverse)
                value = updated if here == ahead else next_value
                here = ahead
            finite = U32(finite + U32(sound))
            s, a = s_next, a_next
            if known:
                reward = held.reward[reward_place(held, s, a, U32(0))]
            step = U32(step + U32(1))
        return s, a, Ahead(two, column, fraction, entry, reward, here), finite

    def rounds(
        tables: Tables,
        cells: Cells,
        agents: Agents,
        federations: Federations,
        blocks: Blocks,
        lanes: Lanes,
        step_sizes: Floats,
        columns_of_sizes: int,
        first_step: int,
        span: Span,
        fresh: bool,
        projects: bool,
        record_every: int,
        since: int,
        records: Records,
    ) -> None:
        shared = cuda.shared.array(0, real)
        block, thread = cuda.blockIdx.x, U32(cuda.threadIdx.x)
        count, members = U32(blocks.federations[block]), U32(blocks.agents[block])
        f, i = U32(thread % count), U32(thread // count)
        shares = U32(threads // count)  # threads that see to a federation's parameters
        busy = i < members
        federation = blocks.first[block] + f
        c = federations.cell[federation]
        own = tables_of(tables, cells, c, cuda.local.array(width, real))
        dim, offset, inverse = U32(own.dim), cells.offset[c], cells.inverse[c]
        who = blocks.first_agent[block] + (U64(i) if busy else U64(0))
        lane, agent = federations.first_lane[federation] + who, cells.first_agent[c] + who
        held = held_by(
            own,
            agents.world[agent],
            cells.seed[c],
            federations.run[federation] & LOW,
            (cells.stream[c] + who) & LOW,
            step_sizes,
            agents.schedule[agent] * columns_of_sizes + (U64(0) if steady else first_step),
        )
        room = U32(dim * threads)
        masses = room if cached else U32(0)
        progress = U32(masses + room) if averaged else U32(0)
        s, a = U32(lanes.states[lane]), U32(lanes.actions[lane])
        ahead = first_ahead(own, held, s, a, span.t)
        running = federations.failed_at[federation] >= span.t  # who fails later may not be the first to
        # Masses are relative to that of the first parameter when the round before the last one ended.
        base = later = (
            federations.central[federation, 0] if not single else number(federations.central[federation, 0])
        )
        if fresh:
            j = i
            while j < dim and i < shares:
                shared[j * threads + f] = federations.central[federation, j]
                j = U32(j + shares)
            begin_round(shared, f, i, thread, masses, progress, dim, shares, base, inverse, busy)
        elif busy:
            at = thread
            for j in range(dim):
                shared[at] = lanes.theta[lane, j]
                if averaged:
                    shared[progress + at] = lanes.progress[lane, j]
                if cached:
                    shared[masses + at] = mass_of(shared[at], base, inverse)
                at += threads
        place, steps = U64(0), U32(span.steps)
        for k in range(span.rounds):
            if since == record_every:
                since, place = U64(0), place + ONE
            since += ONE
            due, ends = since == record_every, k + ONE == span.rounds
            federation = afresh(federation)
            now = span.t + k * span.steps
            finite = steps
            if busy and running:
                s, a, ahead, finite = local_steps(
                    own,
                    held,
                    s,
                    a,
                    ahead,
                    shared,
                    thread,
                    U32(masses + thread),
                    U32(progress + thread),
                    base,
                    inverse,
                    offset,
                    U32(0) if steady else U32(k * span.steps),
                    now,
                    steps,
                    span.left,
                )
                if finite < steps:
                    cuda.atomic.min(federations.failed_at, federation, now + U64(finite))
            if not span.synchronises:
                continue
            if whole and members == ONE and not (averaged or projects):
                running = running and finite == steps
                if busy:
                    record_alone(
                        shared,
                        thread,
                        threads,
                        dim,
                        federations,
                        federation,
                        running,
                        ends,
                        due,
                        place,
                        records,
                    )
                    if cached and abs(highest(shared, thread, dim, threads) - base) * inverse > FAR:
                        base = weigh_column(shared, thread, masses, dim, threads, inverse)
                continue
            cuda.syncthreads()
            if not whole:
                sum_up(shared, progress, federations, cells, agents, blocks, block, thread, dim, records)
                continue
            base = later
            running = end_round(
                shared,
                masses,
                progress,
                cells,
                agents,
                federations,
                federation,
                c,
                f,
                i,
                thread,
                count,
                shares,
                members,
                dim,
                base,
                inverse,
                running,
                finite < steps,
                span.begun + k * span.steps,
                now + span.steps,
                projects,
                ends,
                due,
                place,
                records,
            )
            take_up(shared, f, thread, masses, progress, dim, busy)
            later = shared[f]
            cuda.syncthreads()
        if busy:
            lanes.states[lane], lanes.actions[lane] = s, a
            if not span.synchronises:
                at = thread
                for j in range(dim):
                    lanes.theta[lane, j] = shared[at]
                    if averaged:
                        lanes.progress[lane, j] = shared[progress + at]
                    at += threads

    @piece
    def begin_round(
        shared: Floats,
        f: int,
        i: int,
        thread: int,
        masses: int,
        progress: int,
        dim: int,
        shares: int,
        base: float,
        inverse: float,
        busy: bool,
    ) -> None:
        """Give agents the parameters that the first columns of their federations have, and their masses."""
        j = i
        while cached and j < dim and i < shares:
            row = U32(j * threads + f)
            shared[masses + row] = mass_of(shared[row], base, inverse)
            j = U32(j + shares)
        cuda.syncthreads()
        take_up(shared, f, thread, masses, progress, dim, busy)
        cuda.syncthreads()

    @piece
    def take_up(
        shared: Floats,
        f: int,
        thread: int,
        masses: int,
        progress: int,
        dim: int,
        busy: bool,
    ) -> None:
        """Take the parameters in the federation's first column, and their masses."""
        if busy and thread != f:
            copy_column(shared, f, thread, threads, dim)
            if cached:
                copy_column(shared, U32(masses + f), U32(masses + thread), threads, dim)
        at, j = U32(progress + thread), U32(0)
        while averaged and j < dim:
            shared[at] = 0.0
            at, j = U32(at + threads), U32(j + U32(1))

    @piece
    def end_round(
        shared: Floats,
        masses: int,
        progress: int,
        cells: Cells,
        agents: Agents,
        federations: Federations,
        federation: int,
        c: int,
        f: int,
        i: int,
        thread: int,
        count: int,
        shares: int,
        members: int,
        dim: int,
        base: float,
        inverse: float,
        running: bool,
        failed: bool,
        begun: int,
        end: int,
        projects: bool,
        ends: bool,
        due: bool,
        place: int,
        records: Records,
    ) -> bool:
        """Average, project and record, for the federations of a block; whether this thread's goes on.

        A federation's threads share out its parameters. The mean is left in its first thread's column, and
        its masses there as well.
        """
        at = cells.first_agent[c]
        spread = count if members > ONE else U32(0)  # how far away squared distances are kept for a moment
        j = i
        while j < dim and i < shares:
            row = U32(j * threads + f)
            mean = mean_of(shared, row, count, agents.weight, at, members, even)
            if averaged:
                weight = real_of(end - begun) * (
                    cells.offset[c] + real_of(begun) + 0.5 * real_of(end - begun - ONE)
                )
                gain = mean_of(shared, progress + row, count, agents.weight, at, members, even)
                if running:
                    federations.weighted_sum[federation, j] += (
                        weight * federations.central[federation, j] + gain
                    )
            if due and members > ONE:
                shared[row + spread] = spread_of(shared, row, count, agents.weight, at, members, even, mean)
            shared[row] = mean
            if cached and not projects:
                shared[masses + row] = mass_of(mean, base, inverse)
            if not math.isfinite(mean):
                failed = True
                cuda.atomic.min(federations.failed_at, federation, end - ONE)
            j = U32(j + shares)
        if cuda.syncthreads_or(np.int32(failed)):
            running = federations.failed_at[federation] == RUNS
        if thread < count:
            if due:
                total = sum_of(shared, U32(thread + count), threads, dim if members > ONE else U32(0))
                records.drift[federation, place] = total if running else math.nan
            if projects:
                project(shared[thread : dim * threads : threads], cells.radius[c])
        if projects or due:
            cuda.syncthreads()
        j = i
        while j < dim and i < shares:
            row = U32(j * threads + f)
            kept = shared[row] if running else math.nan
            if ends or averaged:
                federations.central[federation, j] = kept
            if due:
                records.central[federation, place, j] = kept
            if cached and projects:
                shared[masses + row] = mass_of(shared[row], base, inverse)
            j = U32(j + shares)
        if cached and projects:
            cuda.syncthreads()
        return running

    @piece
    def sum_up(
        shared: Floats,
        progress: int,
        federations: Federations,
        cells: Cells,
        agents: Agents,
        blocks: Blocks,
        block: int,
        thread: int,
        dim: int,
        records: Records,
    ) -> None:
        """Sums over the agents of a block, which are a part of one federation's; squares from its start.

        A thread sums up a parameter of every ``shares``-th agent; the first one of a parameter adds them up.
        """
        federation, members = blocks.first[block], blocks.agents[block]
        at = cells.first_agent[federations.cell[federation]] + blocks.first_agent[block]
        width = min(dim, threads)
        shares, share, lead = threads // width, thread // width, thread % width
        start = U64(0)
        while start < dim:
            j = start + lead
            total = squares = gain = shared[0] * 0.0
            if j < dim and share < shares:
                before, row, i = federations.central[federation, j], j * threads, share
                while i < members:
                    weight, value = agents.weight[at + i], shared[row + i]
                    total += weight * value
                    squares += weight * (value - before) ** 2
                    if averaged:
                        gain += weight * shared[progress + row + i]
                    i += shares
            for which in range(U64(3)):
                cuda.syncthreads()  # the last number has been read
                scratch = U64(shared.size) - threads
                shared[scratch + thread] = total if which == 0 else (squares if which == 1 else gain)
                cuda.syncthreads()
                if j < dim and share == 0:
                    q, all_of = U64(0), shared[0] * 0.0
                    while q < shares:
                        all_of += shared[scratch + q * width + lead]
                        q += ONE
                    records.parts[block, which, j] = all_of
            start += width

    build = DeviceBuild(((choice.weigh_by, policy),), single)
    return Kernels(
        DeviceKernel(start, build, shape), DeviceKernel(rounds, build, shape, max_registers=shape.registers)
    )
