"""Rounds of any compiled world on the GPU, with every option of the step: a thread per agent.

A thread takes the step of ``general_rounds`` that the cpu engine takes; here is how a round is shared out:

    broadcast    the central parameter, to all agents
    round        the steps of a round; or the beginning of the first episodes
    sums         the agents' parameters, summed in parts, which ``cuda_server`` settles
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import cuda, types
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, DeviceBuild, piece
from fedsarsa.engines import general_rounds
from fedsarsa.engines.arrays import Span, later_weight
from fedsarsa.engines.cuda_arrays import Federations, Records
from fedsarsa.engines.cuda_device import DeviceKernel
from fedsarsa.engines.general_rounds import Learners, Worlds
from fedsarsa.learning import bases, choice, local_step, random
from fedsarsa.learning.continuous_features import Coefficients
from fedsarsa.learning.step_arrays import AgentState, Model, Moment, StepWorkspace
from fedsarsa.worlds.control import dynamics

HELD = 64  # active features that a thread holds: where there are more, they stay in the agent's row
FEW, REGISTERS = 16, 128  # of few actions, a thread's registers: with more, too few would run at a time
COLUMNS, ROWS = 32, 64  # parameters that a block sums up, and agents whose are read at a time


class Shape(NamedTuple):
    """What kernels are compiled for: sizes of what a thread works in, and what is known of steps.

    ``world``, ``basis`` and ``policy`` are numbers, -1 for none. A thread holds ``seen`` numbers of its
    observation, and ``physical`` ones of its state. The rest are fields of `Model`, or whether one has
    anything.
    """

    inputs: int
    seen: int
    physical: int
    actions: int
    active: int
    rows: int
    world: int
    basis: int
    policy: int
    finite: bool
    hashed: bool
    joint: bool
    dense: bool
    behaves: bool
    fixed: bool
    traced: bool
    redraws: bool
    target: int
    leaves: int


def shape_of(model: Model, world: int, seen: int, physical: int) -> Shape:
    """The shape of steps by a ``model``."""
    actions = len(model.numbers)
    return Shape(
        inputs=max(model.inputs, 1),
        seen=seen,
        physical=max(physical, 1),
        actions=actions,
        active=model.basis.active,
        rows=actions if model.joint else 1,
        world=world,
        basis=model.kind,
        policy=model.choice.policy,
        finite=model.finite,
        hashed=model.basis.slots > 0,
        joint=model.joint,
        dense=model.dense.size > 0,
        behaves=model.behaviour.size > 0,
        fixed=model.cumulative.size > 0,
        traced=model.trace_decay != 0.0,
        redraws=model.redraws,
        target=model.target,
        leaves=model.leaves,
    )


class Training(NamedTuple):
    """What does not change: the agents' weights and schedules (N,), the seed, the first one's random stream.

    ``present`` (R N,) says who takes part in a round.
    """

    weights: Floats
    schedule: NDArray[np.uint64]
    seed: int
    stream: int
    offset: float
    present: NDArray[np.bool]


class Kernels(NamedTuple):
    """What is told above; where it ``begins``, the round begins the first episodes instead."""

    broadcast: DeviceKernel
    round: DeviceKernel
    sums: DeviceKernel


@piece
def bin_of(worlds: Worlds, t: int) -> tuple[int, int]:
    """The bin of time of step ``t``, and the first step of the next one."""
    if worlds.bins == 0:
        return I64(0), worlds.steps
    time_bin = t * worlds.bins // worlds.steps
    return time_bin, ((time_bin + 1) * worlds.steps + worlds.bins - 1) // worlds.bins


@piece
def empty_bin(own: AgentState) -> None:
    """Forget what was summed up in a bin of time."""
    own.episodes[0, 0] = own.lengths[0, 0] = own.steps[0, 0] = 0
    own.returns[0, 0] = own.rewards[0, 0] = 0.0


@piece
def add_bin(own: AgentState, given: AgentState, lane: int, time_bin: int, bins: int) -> None:
    """Add what was summed up in a bin of time to the lane's, and forget it."""
    if bins > 0:
        given.episodes[lane, time_bin] += own.episodes[0, 0]
        given.returns[lane, time_bin] += own.returns[0, 0]
        given.lengths[lane, time_bin] += own.lengths[0, 0]
        given.steps[lane, time_bin] += own.steps[0, 0]
        given.rewards[lane, time_bin] += own.rewards[0, 0]
    empty_bin(own)


@cache
def kernels(shape: Shape) -> Kernels:
    """The kernels for steps of one ``shape``."""
    inputs, seen, physical, actions, active, rows = shape[:6]
    finite, hashed, joint, dense, behaves, fixed, traced, redraws, target, leaves = shape[9:]
    held = active if active <= HELD else 0
    limit = {"max_registers": REGISTERS} if actions <= FEW else {}
    room = max(held, 1)
    world, basis = max(shape.world, 0), max(shape.basis, 0)  # of finite worlds, none is called
    chosen = (
        (dynamics.reset, world),
        (dynamics.step, world),
        (dynamics.observe, world),
        (bases.encode, basis),
        (choice.weigh_by, shape.policy),
    )

    @piece
    def known(model: Model) -> Model:
        """The model with what is compiled in, so that steps have no code for what they do not do."""
        of_dense = len(model.dense) if dense else 0
        of_behaviour = len(model.behaviour) if behaves else 0
        of_fixed = len(model.cumulative) if fixed else 0
        given, decay, slots = model.basis, 0.0, I64(0)
        if traced:
            decay = model.trace_decay
        if hashed:
            slots = given.slots
        return Model(
            kind=model.kind,
            basis=Coefficients(
                active=active,
                weight=given.weight,
                bins=given.bins,
                offsets=given.offsets,
                strides=given.strides,
                each=given.each,
                slots=slots,
                points=given.points,
                precision=given.precision,
                function=given.function,
            ),
            inputs=inputs,
            raw=model.raw,
            low=model.low,
            high=model.high,
            scale=model.scale,
            stack=model.stack,
            joint=joint,
            numbers=model.numbers,
            action_low=model.action_low,
            action_high=model.action_high,
            finite=finite,
            states=model.states,
            rows=model.rows,
            columns=model.columns,
            width=model.width,
            dense=model.dense[:of_dense],
            order=model.order,
            choice=model.choice,
            behaviour=model.behaviour[:of_behaviour],
            cumulative=model.cumulative[:of_fixed],
            discount=model.discount,
            trace_decay=decay,
            replacing=model.replacing,
            target=target,
            redraws=redraws,
            leaves=leaves,
            shared=model.shared,
        )

    def broadcast(central: Floats, agents: int, theta: Floats) -> None:
        place, dim = cuda.grid(1), theta.shape[1]
        if place < theta.size:
            lane = place // dim
            theta[lane, place % dim] = central[lane // agents, place % dim]

    def take_round(
        worlds: Worlds,
        model: Model,
        training: Training,
        learners: Learners,
        step_sizes: Floats,
        span: Span,
        k: int,
        begins: bool,
        failed_at: NDArray[np.uint64],
    ) -> None:
        lane = cuda.grid(1)
        if lane >= len(learners.theta):
            return
        whole, all_worlds = (
            known(model),
            Worlds(
                kind=shape.world,
                physics=worlds.physics,
                limits=worlds.limits,
                steps=worlds.steps,
                bins=worlds.bins,
                tables=worlds.tables,
                world=worlds.world,
            ),
        )
        workspace = StepWorkspace(
            unit=cuda.local.array(inputs, types.float64),
            places=cuda.local.array((rows, active), types.int64),
            value=cuda.local.array((rows, active), types.float64),
            numbers=cuda.local.array(actions, types.float64),
            q=cuda.local.array(actions, types.float64),
            mass=cuda.local.array(actions, types.float64),
            mixed=cuda.local.array(actions, types.float64),
            acting=cuda.local.array(actions, types.float64),
        )
        for c in range(actions):
            workspace.numbers[c] = model.numbers[c]
        # Rows of neighbours are far from each other: what every step reads and writes is held here meanwhile.
        given = learners.agent_state
        places = cuda.local.array((1, room), types.int64)
        value = cuda.local.array((1, room), types.float64)
        if held == 0:
            places, value = given.places[lane : lane + 1], given.value[lane : lane + 1]
        own = AgentState(
            seen=cuda.local.array((1, seen), types.float64),
            actions=cuda.local.array(1, types.uint32),
            numbers=cuda.local.array(1, types.float64),
            places=places,
            value=value,
            trace=given.trace[lane : lane + 1],
            live=given.live[lane : lane + 1],
            live_count=given.live_count[lane : lane + 1],
            shift=given.shift[lane : lane + 1],
            left=given.left[lane : lane + 1],
            own=given.own[lane : lane + 1],
            others=given.others[lane : lane + 1],
            elapsed=cuda.local.array(1, types.int64),
            gain=cuda.local.array(1, types.float64),
            clipped=cuda.local.array(1, types.int64),
            episodes=cuda.local.array((1, 1), types.int64),
            returns=cuda.local.array((1, 1), types.float64),
            lengths=cuda.local.array((1, 1), types.int64),
            steps=cuda.local.array((1, 1), types.int64),
            rewards=cuda.local.array((1, 1), types.float64),
        )
        learner = Learners(
            agent_state=own,
            states=cuda.local.array(1, types.uint32),
            physical=cuda.local.array((1, physical), types.float64),
            theta=learners.theta[lane : lane + 1],
            progress=learners.progress[lane : lane + 1],
        )
        for j in range(seen):
            own.seen[0, j] = given.seen[lane, j]
        for j in range(held):
            own.places[0, j], own.value[0, j] = given.places[lane, j], given.value[lane, j]
        own.actions[0], own.numbers[0] = given.actions[lane], given.numbers[lane]
        own.elapsed[0], own.gain[0], own.clipped[0] = (
            given.elapsed[lane],
            given.gain[lane],
            given.clipped[lane],
        )
        learner.states[0] = learners.states[lane]
        for j in range(learners.physical.shape[1]):
            learner.physical[0, j] = learners.physical[lane, j]
        empty_bin(own)
        agents = len(training.weights)
        run, who, here = lane // agents, lane % agents, I64(0)
        stream = training.stream + U64(who)
        if begins:
            moment = Moment(here, who, training.seed, U64(run), stream, U64(random.START))
            general_rounds.first_state(all_worlds, learner, moment)
            local_step.begin(whole, own, learner.theta[0], moment, workspace)
        elif failed_at[run] >= U64(span.t + k * span.steps) and training.present[lane]:
            column = k * span.steps
            first = span.t + column
            time_bin, later = bin_of(all_worlds, first)
            sizes = step_sizes[training.schedule[who]]
            for step in range(span.steps):
                t = first + step
                if t >= later:
                    add_bin(own, given, lane, time_bin, worlds.bins)
                    time_bin, later = bin_of(all_worlds, t)
                rest = later_weight(training.offset, t, span.steps - 1 - step + span.left)
                moment = Moment(here, who, training.seed, U64(run), stream, U64(t))
                one, two = local_step.words(moment, moment.t)
                sound = general_rounds.one_step(
                    all_worlds, whole, learner, moment, one, two, here, sizes[column + step], rest, workspace
                )
                if not sound:
                    cuda.atomic.min(failed_at, run, U64(t))
                    break
            add_bin(own, given, lane, time_bin, worlds.bins)
        for j in range(seen):
            given.seen[lane, j] = own.seen[0, j]
        for j in range(held):
            given.places[lane, j], given.value[lane, j] = own.places[0, j], own.value[0, j]
        given.actions[lane], given.numbers[lane] = own.actions[0], own.numbers[0]
        given.elapsed[lane], given.gain[lane], given.clipped[lane] = (
            own.elapsed[0],
            own.gain[0],
            own.clipped[0],
        )
        learners.states[lane] = learner.states[0]
        for j in range(learners.physical.shape[1]):
            learners.physical[lane, j] = learner.physical[0, j]

    def sums(
        weights: Floats,
        federations: Federations,
        theta: Floats,
        progress: Floats,
        parts: int,
        records: Records,
    ) -> None:
        """The sums of a part of a federation's agents in their order; a block for each, and some parameters.

        Its threads read the parameters of some agents side by side, and the first of them add these up.
        """
        read = cuda.shared.array((ROWS, COLUMNS), types.float64)
        agents, dim = len(weights), theta.shape[1]
        groups = (dim + COLUMNS - 1) // COLUMNS
        block, group = cuda.blockIdx.x // groups, cuda.blockIdx.x % groups
        row, column = cuda.threadIdx.x // COLUMNS, cuda.threadIdx.x % COLUMNS
        run, part = block // parts, block % parts
        low, high = agents * part // parts, agents * (part + 1) // parts
        j = group * COLUMNS + column
        before = federations.central[run, j] if j < dim else 0.0
        total, squares, gain = 0.0, 0.0, 0.0
        while low < high:
            end = min(low + ROWS, high)
            i = low + row
            while i < end and j < dim:
                read[i - low, column] = theta[run * agents + i, j]
                i += cuda.blockDim.x // COLUMNS
            cuda.syncthreads()
            if row == 0 and j < dim:
                for i in range(low, end):
                    weight, value = weights[i], read[i - low, column]
                    total += weight * value
                    squares += weight * (value - before) ** 2
                    if progress.shape[1] > 0:
                        gain += weight * progress[run * agents + i, j]
                        progress[run * agents + i, j] = 0.0
            cuda.syncthreads()
            low = end
        if row == 0 and j < dim:
            records.parts[block, 0, j] = total
            records.parts[block, 1, j] = squares
            records.parts[block, 2, j] = gain

    return Kernels(
        DeviceKernel(broadcast),
        DeviceKernel(take_round, DeviceBuild(chosen, inlined=False), shape, **limit),
        DeviceKernel(sums),
    )
