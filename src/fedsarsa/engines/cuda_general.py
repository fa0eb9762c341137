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
from fedsarsa._numba import U64, DeviceBuild
from fedsarsa.engines import general_rounds
from fedsarsa.engines.arrays import Span, later_weight
from fedsarsa.engines.cuda_arrays import RUNS, Federations, Records
from fedsarsa.engines.cuda_device import DeviceKernel
from fedsarsa.engines.general_rounds import Learners, Worlds
from fedsarsa.learning import bases, choice, local_step, random
from fedsarsa.learning.step_arrays import Model, Moment, StepWorkspace
from fedsarsa.worlds.control import dynamics

COLUMNS, ROWS = 32, 64  # parameters that a block sums up, and agents whose are read at a time


class Shape(NamedTuple):
    """What kernels are compiled for: sizes of what a thread works in; numbers of world, basis and policy."""

    inputs: int
    actions: int
    active: int
    rows: int
    world: int
    basis: int
    policy: int


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


@cache
def kernels(shape: Shape) -> Kernels:
    """The kernels for steps of one ``shape``."""
    inputs, actions, active, rows, *_ = shape
    world, basis = max(shape.world, 0), max(shape.basis, 0)  # of finite worlds, none is called
    chosen = (
        (dynamics.reset, world),
        (dynamics.step, world),
        (dynamics.observe, world),
        (bases.encode, basis),
        (choice.weigh_by, shape.policy),
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
        agents = len(training.weights)
        run, who = lane // agents, lane % agents
        stream = training.stream + U64(who)
        if begins:
            moment = Moment(lane, who, training.seed, U64(run), stream, U64(random.START))
            general_rounds.first_state(worlds, learners, moment)
            local_step.begin(model, learners.agent_state, learners.theta[lane], moment, workspace)
            return
        if failed_at[run] != RUNS or not training.present[lane]:
            return
        column = k * span.steps
        t = span.t + column
        for step in range(span.steps):
            rest = later_weight(training.offset, t + step, span.steps - 1 - step + span.left)
            moment = Moment(lane, who, training.seed, U64(run), stream, U64(t + step))
            one, two = local_step.words(moment, moment.t)
            finite = general_rounds.one_step(
                worlds,
                model,
                learners,
                moment,
                one,
                two,
                (t + step) * worlds.bins // worlds.steps,
                step_sizes[training.schedule[who], column + step],
                rest,
                workspace,
            )
            if not finite:
                cuda.atomic.min(failed_at, run, U64(t + step))
                return

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
        DeviceKernel(take_round, DeviceBuild(chosen, inlined=False)),
        DeviceKernel(sums),
    )
