"""Compiled learning for environments that Python steps: all lanes of a time step in one call."""

import math

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece
from fedsarsa.learning import local_step
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.step_arrays import AgentState, Model, Moment, StepWorkspace

# What became of a lane's step: no step, then what its environment reported, then what ``learn`` found:
# an answer that is not finite, parameters that are not, a first observation that is not.
STOPPED, RUNNING_ON, TRUNCATED, TERMINATED, BROKEN, OVERFLOWN, LOST = range(7)


@kernel
def act(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    lanes: Integers,
    agents: int,
    first_agent: int,
    seed: int,
    t: int,
    anew: bool,
    workspace: StepWorkspace,
) -> None:
    """First actions of the episodes that ``lanes`` begin after step ``t``, or those of step ``t`` anew."""
    for lane in lanes:
        who = lane % agents
        moment = Moment(lane, who, seed, U64(lane // agents), first_agent + U64(who), U64(t))
        if anew:
            local_step.redraw(model, agent_state, theta[lane], moment, workspace)
        else:
            local_step.begin(model, agent_state, theta[lane], moment, workspace)


@piece
def are_finite(numbers: Floats, count: int) -> bool:
    """Whether the first ``count`` numbers are finite."""
    finite = True
    for i in range(count):
        finite &= math.isfinite(numbers[i])
    return finite


@kernel
def learn(
    model: Model,
    agent_state: AgentState,
    theta: Floats,
    progress: Floats,
    seen: Floats,
    rewards: Floats,
    ends: NDArray[np.uint8],
    first: Floats,
    first_inputs: Floats,
    begins: NDArray[np.bool],
    first_agent: int,
    seed: int,
    workspace: StepWorkspace,
    step_sizes: Floats,
    time_bin: int,
    t: int,
) -> int:
    """Steps 2 to 4 of every lane; where its episode is over, the end of it and the first action of the next.

    ``seen`` (L, observed) holds the observations. With those in ``first``, the lanes that ``begins`` marks
    begin their next episode. ``agent_state.seen`` and ``first_inputs`` hold what features are made of: the
    same, or the values of a function of it. ``step_sizes`` (N,) are the agents'. Return how many lanes are
    not finite; ``ends`` says which.
    """
    agents, inputs = len(step_sizes), first_inputs.shape[1]
    unsound = 0
    for lane in range(len(rewards)):
        end = ends[lane]
        if end == STOPPED:
            continue
        finite = are_finite(seen[lane], first.shape[1]) & are_finite(agent_state.seen[lane], inputs)
        if not finite & math.isfinite(rewards[lane]):
            ends[lane] = BROKEN
            unsound += 1
            continue
        who = lane % agents
        moment = Moment(lane, who, seed, U64(lane // agents), first_agent + U64(who), U64(t))
        _, word = local_step.words(moment, moment.t)
        local_step.note_reward(agent_state, lane, time_bin, rewards[lane])
        finite = local_step.go_on(
            model,
            agent_state,
            theta[lane],
            rewards[lane],
            end == TERMINATED,
            step_sizes[who],
            0.0,
            progress[lane],
            moment,
            word,
            workspace,
        )
        if not finite:
            ends[lane] = OVERFLOWN
            unsound += 1
        elif end != RUNNING_ON:
            local_step.end_episode(agent_state, lane, time_bin)
            if begins[lane]:
                for i in range(inputs):
                    agent_state.seen[lane, i] = first_inputs[lane, i]
                if are_finite(first[lane], first.shape[1]) & are_finite(first_inputs[lane], inputs):
                    local_step.begin(model, agent_state, theta[lane], moment, workspace)
                else:
                    ends[lane] = LOST
                    unsound += 1
    return unsound
