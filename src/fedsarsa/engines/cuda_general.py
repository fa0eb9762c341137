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
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.cuda_arrays import RUNS, Federations, Records
from fedsarsa.engines.cuda_device import DeviceKernel
from fedsarsa.engines.general_rounds import Learners, Worlds
from fedsarsa.learning import bases, choice, local_step, random
from fedsarsa.learning.step_arrays import Model, Moment, StepWorkspace
from fedsarsa.worlds.control import dynamics


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
            # What theta-tilde gives to the steps of this round after this one: a + t each.
            remaining = span.steps - 1 - step + span.left
            rest = remaining * (training.offset + t + step + 0.5 * (remaining + 1))
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
        """The sums of a part of a federation's agents; a block for each, its threads for their parameters."""
        block = cuda.blockIdx.x
        agents, dim = len(weights), theta.shape[1]
        run, part = block // parts, block % parts
        low, high = agents * part // parts, agents * (part + 1) // parts
        j = cuda.threadIdx.x
        while j < dim:
            before = federations.central[run, j]
            total, squares, gain = 0.0, 0.0, 0.0
            for i in range(low, high):
                lane, weight = run * agents + i, weights[i]
                total += weight * theta[lane, j]
                squares += weight * (theta[lane, j] - before) ** 2
                if progress.shape[1] > 0:
                    gain += weight * progress[lane, j]
                    progress[lane, j] = 0.0
            records.parts[block, 0, j] = total
            records.parts[block, 1, j] = squares
            records.parts[block, 2, j] = gain
            j += cuda.blockDim.x

    return Kernels(
        DeviceKernel(broadcast),
        DeviceKernel(take_round, DeviceBuild(chosen, inlined=False)),
        DeviceKernel(sums),
    )
