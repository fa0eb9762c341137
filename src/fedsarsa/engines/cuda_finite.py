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
from fedsarsa._numba import U64, DeviceBuild, piece
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled_server import project
from fedsarsa.engines.cuda_arrays import (
    ONE,
    RUNS,
    Agents,
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
    highest,
    mass_of,
    mean_of,
    next_item,
    real_of,
    record_alone,
    row_of,
    spread_of,
    weigh_column,
)
from fedsarsa.learning import choice, finite_step, random
from fedsarsa.learning.choice import Choice
from fedsarsa.learning.finite_tables import Tables
from fedsarsa.worlds import alias

FAR = 64.0  # temperatures that the largest parameter may move before masses are weighed anew
LOW = U64(0xFFFFFFFF)


class Kernels(NamedTuple):
    """``start`` draws first pairs, ``rounds`` takes the steps of a span."""

    start: DeviceKernel
    rounds: DeviceKernel


@cache
def kernels(shape: Shape) -> Kernels:
    """The kernels for federations of one ``shape``."""
    width, policy, shifted, dense, cached, averaged, whole, single = shape
    columns, real = U64(width), types.float32 if single else types.float64

    number: Any = np.float32 if single else np.float64
    small: Any = np.float32(1e-30)  # between these, totals of masses can be trusted
    large: Any = np.float32(1e30)

    @piece
    def tables_of(tables: Tables, cells: Cells, c: int, counts: Floats) -> Tables:
        """The tables for a cell, with what is compiled in; ``counts`` is room for the sizes of classes."""
        known = tables.choice
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
            dense=tables.dense,
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
            cumulative=tables.cumulative,
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
        uniform = number(random.uniform(second))
        lanes.actions[lane] = finite_step.direct(
            own, lanes.theta[lane], U64(0), U64(0), s, uniform, values, weights
        )

    @piece
    def local_steps(
        tables: Tables,
        held: Held,
        s: int,
        a: int,
        shared: Floats,
        lane: int,
        masses: int,
        progress: int,
        apart: int,
        base: float,
        inverse: float,
        offset: float,
        step_sizes: Floats,
        at: int,
        stride: int,
        t: int,
        steps: int,
        left: int,
    ) -> tuple[int, int, int]:
        """``steps`` local steps; the pair held after them, and how many left parameters finite.

        Parameters are at ``shared[lane::apart]``, their masses at ``shared[masses::apart]``, and what
        theta-tilde gathers at ``shared[progress::apart]``.
        """
        values, weights = cuda.local.array(width, real), cuda.local.array(width, real)
        sums = cuda.local.array(width, real)
        worlds, finite = tables.worlds, steps
        here = U64(0)
        value = step_sizes[at] * 0.0
        if not dense:
            here = (tables.rows[s] * columns + tables.columns[a]) * apart
            value = shared[lane + here]
        # What a step draws from is read a step ahead, so that nobody waits for memory.
        one, two = random.words(held.seed, held.run, held.stream, t)
        column, fraction = alias.split(one, worlds.states)
        entry = worlds.alias[row_of(worlds, held, s, a) + column]
        step = U64(0)
        while step < steps:
            turn = held.turns * finite_step.rotation(worlds, a)
            s_next = finite_step.turned(worlds, alias.resolve(entry, column, fraction), turn)
            reward = worlds.reward[
                held.reward + s * worlds.reward_state + a * worlds.reward_action + s_next * worlds.reward_next
            ]
            size, uniform = step_sizes[at + step * stride], number(random.uniform(two))
            one, two = random.words(held.seed, held.run, held.stream, t + step + ONE)
            column, fraction = alias.split(one, worlds.states)
            if shifted:
                entry = worlds.alias[row_of(worlds, held, s_next, U64(0)) + column]
            certain = False
            a_next = U64(0)
            ahead = U64(0)
            if cached:
                begin = tables.rows[s_next] * columns * apart
                total, group, beyond, mass = finite_step.draw_class(
                    tables, shared, masses + begin, uniform, sums, apart
                )
                certain = small < total < large if single else finite_step.trusted(total)
                if certain:
                    a_next = finite_step.member(tables, group, beyond / mass)
                    ahead = begin + group * apart
            if not certain:
                a_next = finite_step.direct(
                    tables, shared, lane, U64(0), s_next, uniform, values, weights, apart
                )
                if not dense:
                    ahead = (tables.rows[s_next] * columns + tables.columns[a_next]) * apart
            if not shifted:
                entry = worlds.alias[row_of(worlds, held, s_next, a_next) + column]
            # What theta-tilde gives to the steps of this round after this one: a + t each.
            rest = value * 0.0
            if averaged:
                remaining = steps - ONE - step + left
                rest = real_of(remaining) * (offset + real_of(t + step) + 0.5 * real_of(remaining + ONE))
            if dense:
                change = finite_step.increment(
                    tables,
                    reward,
                    finite_step.value(tables, shared, lane, s, a, apart),
                    finite_step.value(tables, shared, lane, s_next, a_next, apart),
                    size,
                )
                place = s * tables.dim * tables.actions + a
                for j in range(tables.dim):
                    moved = change * tables.dense[place]
                    shared[lane + j * apart] += moved
                    if not math.isfinite(shared[lane + j * apart]) and step < finite:
                        finite = step
                    if averaged:
                        shared[progress + j * apart] += rest * moved
                    place += tables.actions
            else:
                next_value = shared[lane + ahead]
                change = finite_step.increment(tables, reward, value, next_value, size)
                updated = value + change
                shared[lane + here] = updated
                if averaged:
                    shared[progress + here] += rest * change
                if not math.isfinite(updated) and step < finite:
                    finite = step
                if cached:
                    shared[masses + here] = mass_of(updated, base, inverse)
                value = updated if here == ahead else next_value
                here = ahead
            s, a = s_next, a_next
            step += ONE
        return s, a, finite

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
        block, thread, threads = cuda.blockIdx.x, U64(cuda.threadIdx.x), U64(cuda.blockDim.x)
        first, count, members = blocks.first[block], blocks.federations[block], blocks.agents[block]
        f, i = thread % count, thread // count
        busy = i < members
        if not busy:
            i = U64(0)
        federation = first + f
        c = federations.cell[federation]
        own = tables_of(tables, cells, c, cuda.local.array(width, real))
        dim, offset = own.dim, cells.offset[c]
        who = blocks.first_agent[block] + i
        lane, agent = federations.first_lane[federation] + who, cells.first_agent[c] + who
        world, schedule = agents.world[agent], agents.schedule[agent] * columns_of_sizes
        held = Held(
            kernel=own.worlds.kernel_start[world],
            action_size=own.worlds.action_size[world],
            turns=own.worlds.turns[world],
            reward=world * own.worlds.reward_world,
            seed=cells.seed[c],
            run=federations.run[federation] & LOW,
            stream=(cells.stream[c] + who) & LOW,
        )
        stride = U64(columns_of_sizes > ONE)  # one column is for all steps
        room = dim * threads
        masses = room if cached else U64(0)
        progress = masses + room if averaged else U64(0)
        bases = U64(shared.size) - threads
        s, a = U64(lanes.states[lane]), U64(lanes.actions[lane])
        base, inverse = offset * 0.0, cells.inverse[c]
        if fresh:
            f_of, j = thread % count, thread // count
            while j < dim:
                shared[j * threads + f_of] = federations.central[first + f_of, j]
                f_of, j = next_item(f_of, j, count, threads)
            cuda.syncthreads()
            weigh_all(shared, masses, bases, cells, federations, first, count, dim, thread, threads)
            cuda.syncthreads()
            base = take_up(shared, f, thread, masses, progress, bases, dim, threads, busy)
            cuda.syncthreads()
        elif busy:
            at = thread
            for j in range(dim):
                shared[at] = lanes.theta[lane, j]
                if averaged:
                    shared[progress + at] = lanes.progress[lane, j]
                at += threads
            if cached:
                base = weigh_column(shared, thread, masses, dim, threads, inverse)
        place = U64(0)
        for k in range(span.rounds):
            if since == record_every:
                since, place = U64(0), place + ONE
            since += ONE
            due = since == record_every
            column = k * span.steps
            if busy and federations.failed_at[federation] == RUNS:
                s, a, finite = local_steps(
                    own,
                    held,
                    s,
                    a,
                    shared,
                    thread,
                    masses + thread,
                    progress + thread,
                    threads,
                    base,
                    inverse,
                    offset,
                    step_sizes,
                    schedule + (first_step + column) * stride,
                    stride,
                    span.t + column,
                    span.steps,
                    span.left,
                )
                if finite < span.steps:
                    cuda.atomic.min(federations.failed_at, federation, span.t + column + finite)
            if not span.synchronises:
                continue
            if whole and members == ONE and not (averaged or projects):
                if busy:
                    ends = k + ONE == span.rounds
                    record_alone(
                        shared, thread, threads, dim, federations, federation, ends, due, place, records
                    )
                    if cached and abs(highest(shared, thread, dim, threads) - base) * inverse > FAR:
                        base = weigh_column(shared, thread, masses, dim, threads, inverse)
                continue
            cuda.syncthreads()
            if not whole:
                sum_up(
                    shared, progress, federations, cells, agents, blocks, block, thread, threads, dim, records
                )
                continue
            end_round(
                tables,
                shared,
                masses,
                progress,
                bases,
                cells,
                agents,
                federations,
                first,
                count,
                members,
                thread,
                threads,
                span,
                k,
                projects,
                due,
                place,
                records,
            )
            base = take_up(shared, f, thread, masses, progress, bases, dim, threads, busy)
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
    def take_up(
        shared: Floats,
        f: int,
        thread: int,
        masses: int,
        progress: int,
        bases: int,
        dim: int,
        threads: int,
        busy: bool,
    ) -> float:
        """Take the parameters in the federation's first column, and their masses; the largest of them."""
        to, at, j = thread, f, U64(0)
        while busy and j < dim:
            shared[to] = shared[at]
            if cached:
                shared[masses + to] = shared[masses + at]
            if averaged:
                shared[progress + to] = shared[to] * 0.0
            to, at, j = to + threads, at + threads, j + ONE
        return shared[bases + f] if cached else shared[f] * 0.0

    @piece
    def weigh_all(
        shared: Floats,
        masses: int,
        bases: int,
        cells: Cells,
        federations: Federations,
        first: int,
        count: int,
        dim: int,
        thread: int,
        threads: int,
    ) -> None:
        """Weigh the parameters in the first columns of a block's federations; threads share them out."""
        f, j = thread % count, thread // count
        known, base, inverse = count, shared[thread] * 0.0, shared[thread] * 0.0
        while cached and j < dim:
            row = j * threads + f
            if f != known:
                known, base = f, highest(shared, f, dim, threads)
                inverse = cells.inverse[federations.cell[first + f]]
                shared[bases + f] = base
            shared[masses + row] = mass_of(shared[row], base, inverse)
            f, j = next_item(f, j, count, threads)

    @piece
    def end_round(
        tables: Tables,
        shared: Floats,
        masses: int,
        progress: int,
        bases: int,
        cells: Cells,
        agents: Agents,
        federations: Federations,
        first: int,
        count: int,
        members: int,
        thread: int,
        threads: int,
        span: Span,
        k: int,
        projects: bool,
        due: bool,
        place: int,
        records: Records,
    ) -> None:
        """Average, project and record, for the federations of a block; threads share out their parameters.

        The mean of federation f is left in its first thread's column, its masses there as well.
        """
        dim = tables.dim
        spread = count if members > ONE else U64(0)  # how far away squared distances are kept for a moment
        begun, end = span.begun + k * span.steps, span.t + (k + ONE) * span.steps
        f, j = thread % count, thread // count
        known, federation, c, at = count, first, U64(0), U64(0)
        while j < dim:
            row = j * threads + f
            if f != known:
                known, federation = f, first + f
                c = federations.cell[federation]
                at = cells.first_agent[c]
            mean = mean_of(shared, row, count, agents.weight, at, members)
            distance = spread_of(shared, row, count, agents.weight, at, members, mean)
            if averaged:
                weight = real_of(end - begun) * (
                    cells.offset[c] + real_of(begun) + 0.5 * real_of(end - begun - ONE)
                )
                gain = mean_of(shared, progress + row, count, agents.weight, at, members)
                if federations.failed_at[federation] == RUNS:
                    federations.weighted_sum[federation, j] += (
                        weight * federations.central[federation, j] + gain
                    )
            shared[row + spread] = distance
            shared[row] = mean
            if not math.isfinite(mean):
                cuda.atomic.min(federations.failed_at, federation, end - ONE)
            f, j = next_item(f, j, count, threads)
        cuda.syncthreads()
        if thread < count:
            total, at, j = shared[thread] * 0.0, thread + count, U64(0)
            while j < dim and members > ONE:
                total += shared[at]
                at, j = at + threads, j + ONE
            running = federations.failed_at[first + thread] == RUNS
            if due:
                records.drift[first + thread, place] = total if running else math.nan
            if projects:
                radius = cells.radius[federations.cell[first + thread]]
                project(shared[thread : dim * threads : threads], radius)
        if projects:
            cuda.syncthreads()
        weigh_all(shared, masses, bases, cells, federations, first, count, dim, thread, threads)
        f, j = thread % count, thread // count
        while j < dim:
            federation = first + f
            kept = shared[j * threads + f] if federations.failed_at[federation] == RUNS else math.nan
            federations.central[federation, j] = kept
            if due:
                records.central[federation, place, j] = kept
            f, j = next_item(f, j, count, threads)
        cuda.syncthreads()

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
        threads: int,
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
    return Kernels(DeviceKernel(start, build), DeviceKernel(rounds, build, max_registers=shape.registers))
