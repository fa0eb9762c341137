"""The specification: Algorithm ``alg`` of the paper, as plain as its box. Slow, and meant to be read.

It says all of it once: for finite and control worlds, with every option of the step and every server rule.
Control worlds move by their compiled pieces, which the tests hold to Gymnasium.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.participation import taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.rounds import fail, gather, recorded, round_of, synchronise, unsound
from fedsarsa.federation.state import (
    RUNNING,
    Episodes,
    State,
    Synchronisations,
    acting_of,
)
from fedsarsa.learning import random
from fedsarsa.learning.continuous_features import summed
from fedsarsa.learning.policies import ALL
from fedsarsa.learning.targets import (
    ALL_PAIRS,
    DIRECTION,
    EXPECTED,
    LOG_WEIGHTS,
    MAX,
    REPLACING,
    SHARED_CHAIN,
    VISITS,
)
from fedsarsa.worlds.contract import World


class ReferenceEngine(Engine):
    """Trains a problem step by step, run by run, agent by agent."""

    name: ClassVar[str] = "reference"

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        if first_agent != 0:
            raise ValueError(f"first_agent must be 0 in the reference engine, got {first_agent}")
        super().__init__(problem, threads, first_agent)

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action."""
        for run in range(self.problem.runs):
            for i in range(self.problem.agents):
                begin(self.problem, state, run, i, random.START)

    @np.errstate(over="ignore", invalid="ignore")  # parameters that overflow are found and reported
    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        step_sizes = problem.step_sizes(state.t, steps)
        step = local_step
        if problem.step.sampling == ALL_PAIRS:
            step = step_of_all_pairs
        elif problem.step.windowed:
            step = step_ahead
        central, drift = [], []
        for k, t in enumerate(range(state.t, state.t + steps)):
            gather(problem, state, t)
            takes_part = taking_part(problem, round_of(problem, t))
            for run in np.flatnonzero(state.failed_at == RUNNING).tolist():
                for i in range(problem.agents):
                    if takes_part is None or takes_part[run, i]:
                        step(problem, state, run, i, t, step_sizes[problem.schedule_of[i], k])
            learned = np.concatenate([state.theta, state.left], axis=2)
            fail(state, unsound(learned), t)
            if problem.sync_every is not None and (t + 1) % problem.sync_every == 0:
                drift.append(synchronise(problem, state, t))
                central.append(state.central.copy())
        state.t += steps
        return recorded(problem, central, drift)


def local_step(problem: Problem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One step of agent i: equation ``eq:g``, and the options of the step."""
    theta, step, features = state.theta[run, i], problem.step, problem.features
    if step.independent:
        begin(problem, state, run, i, random.plain_purpose(t, random.PAIR))
    next_state, next_action = uniforms(problem, run, i, t)
    if step.redraw_actions:
        anew, _ = uniforms(problem, run, i, t + random.REDRAW)
        act(problem, state, run, i, candidates(problem, run, i, t, random.REDRAW_CANDIDATES), anew)
    index, value = features.active(observed(problem, state, run, i), *held(state, run, i))
    here = summed(theta, index, value)

    reward, terminated, over = move(problem, state, run, i, t, next_state)
    target = reward
    if not terminated:  # an episode cut short by its time limit still bootstraps in the target
        numbers = candidates(problem, run, i, t, random.CANDIDATES)
        values, probabilities = look(problem, state, run, i, numbers)
        a_next = draw(problem, acting(problem, state, run, i, probabilities), next_action)
        ahead = values[a_next]
        if step.target == EXPECTED:
            ahead = probabilities @ values
        elif step.target == MAX:
            ahead = values.max()
        target = reward + problem.fleet.discount * ahead

    eligible = np.zeros(features.dim)
    eligible[index] = value
    if step.trace_decay > 0:
        assert state.episodes is not None
        trace = state.episodes.trace[run, i]
        trace *= problem.fleet.discount * step.trace_decay
        trace += eligible
        if step.traces == REPLACING:
            trace[index] = value
        note_live(state.episodes, run, i)
        eligible = trace
    moving, size = theta, step_size
    if step.leaves == DIRECTION:
        moving, size = state.left[run, i], 1.0
    elif step.leaves == LOG_WEIGHTS:
        state.left[run, i, index] -= np.log1p(-step_size * value)
    elif step.leaves == VISITS:
        state.left[run, i, index] += step_size * value**2
    moving += size * (target - here) * eligible
    if step.shifted:
        moving += size * state.shift[run, i]

    if over:
        end(problem, state, run, i, t)
        begin(problem, state, run, i, t)
    else:
        hold(problem, state, run, i, a_next, numbers)


def step_ahead(problem: Problem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One step of n-step TD: the errors of n transitions ahead, all at the present parameter.

    The chain itself moves by one. As random numbers are functions of the step, those ahead are seen again.
    """
    theta, step, features, world = state.theta[run, i], problem.step, problem.features, problem.fleet[i]
    held_state, a = row(problem, state, run, i), int(state.actions[run, i])
    ahead = held_state.copy()
    index, value = features.active(held_state, a)
    total, weight, later, none = 0.0, 1.0, [], np.empty(world.actions)
    for k in range(step.ahead):
        next_state, next_action = uniforms(problem, run, i, t + k)
        pi = problem.policy.probabilities(none, int(ahead[0]))
        acted_by = acting_in(problem, i, int(ahead[0]), pi)
        if step.ratios:
            weight *= pi[a] / acted_by[a]
        here = summed(theta, *features.active(ahead, a))
        reward, _ = world.move(ahead, a, next_state)
        pi = problem.policy.probabilities(none, int(ahead[0]))
        a = draw(problem, acting_in(problem, i, int(ahead[0]), pi), next_action)
        total += weight * (reward + problem.fleet.discount * summed(theta, *features.active(ahead, a)) - here)
        weight *= problem.fleet.discount
        later.append((int(ahead[0]), a))
    theta[index] += step_size * total * value
    held_state[0], state.actions[run, i] = later[0]


def step_of_all_pairs(problem: Problem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One step of synchronous Q-learning: all pairs, at the parameter before the step."""
    theta, features, world = state.theta[run, i], problem.features, problem.fleet[i]
    before = theta.copy()
    pair: NDArray[Any] = np.empty(1, np.uint32)
    for s in range(world.states):
        for a in range(world.actions):
            counter = (t * world.states + s) * world.actions + a
            pair[0] = s
            (index,), _ = features.active(pair, a)
            reward, _ = world.move(pair, a, uniforms(problem, run, i, counter)[0])
            ahead = features.values_at(before, pair, problem.candidates).max()
            theta[index] = (1 - step_size) * before[index]
            theta[index] += step_size * (reward + problem.fleet.discount * ahead)


# ---- the world ----


def begin(problem: Problem, state: State, run: int, i: int, t: int) -> None:
    """A first state, and a first action: the episode that begins after step ``t``."""
    if problem.finite:
        *first_state, first_action = uniforms(problem, run, i, t)
    else:
        purposes = (random.FIRST_STATE, random.FIRST_STATE_MORE, random.FIRST_ACTION)
        drawn = [uniforms(problem, run, i, random.plain_purpose(t, what)) for what in purposes]
        first_state, first_action = [*drawn[0], *drawn[1]], drawn[2][0]
    problem.fleet[i].begin(row(problem, state, run, i), first_state)
    see(problem, state, run, i)
    act(problem, state, run, i, candidates(problem, run, i, t, random.FIRST_CANDIDATES), first_action)


def move(
    problem: Problem, state: State, run: int, i: int, t: int, uniform: float
) -> tuple[float, bool, bool]:
    """Take the action that is held; the reward, and whether the episode was terminated, and is over."""
    world: World = problem.fleet[i]
    own = state.episodes
    reward, terminated = world.move(row(problem, state, run, i), held(state, run, i)[1], uniform)
    see(problem, state, run, i)
    if own is None:
        return reward, terminated, terminated
    own.elapsed[run, i] += 1
    own.gain[run, i] += reward
    if problem.bins > 0:
        own.steps[run, i, problem.bin_of(t)] += 1
        own.rewards[run, i, problem.bin_of(t)] += reward
    return reward, terminated, terminated or bool(own.elapsed[run, i] >= world.time_limit)


def row(problem: Problem, state: State, run: int, i: int) -> NDArray[Any]:
    """The row that holds the state of agent i's world: its number, or its physical state."""
    if problem.finite:
        return state.states[run, i : i + 1]
    assert state.episodes is not None
    return state.episodes.physical[run, i]


def see(problem: Problem, state: State, run: int, i: int) -> None:
    """Note what agent i observes of its state."""
    if state.episodes is not None:
        problem.fleet[i].see(row(problem, state, run, i), state.episodes.seen[run, i])


def observed(problem: Problem, state: State, run: int, i: int) -> NDArray[Any]:
    """What agent i observes: the inputs of its features."""
    if problem.finite:
        return row(problem, state, run, i)
    assert state.episodes is not None
    return state.episodes.seen[run, i, : problem.features.inputs]


def end(problem: Problem, state: State, run: int, i: int, t: int) -> None:
    """Note an episode that is over, and forget its traces."""
    own = state.episodes
    assert own is not None
    time_bin = problem.bin_of(t)
    own.episodes[run, i, time_bin] += 1
    own.returns[run, i, time_bin] += own.gain[run, i]
    own.lengths[run, i, time_bin] += own.elapsed[run, i]
    own.elapsed[run, i] = own.gain[run, i] = 0
    if problem.step.trace_decay > 0:
        own.trace[run, i] = 0.0
        note_live(own, run, i)


def note_live(own: Episodes, run: int, i: int) -> None:
    """List the places where agent i's trace is not zero, which other engines continue from."""
    live = np.flatnonzero(own.trace[run, i])
    own.live_count[run, i] = len(live)
    own.live[run, i, : len(live)] = live


# ---- the policy: values, probabilities, and the action that is held next ----


def act(problem: Problem, state: State, run: int, i: int, numbers: Floats, uniform: float) -> None:
    """Draw an action at what agent i observes, and hold it."""
    _, probabilities = look(problem, state, run, i, numbers)
    a = draw(problem, acting(problem, state, run, i, probabilities), uniform)
    hold(problem, state, run, i, a, numbers)


def candidates(problem: Problem, run: int, i: int, t: int, what: int) -> Floats:
    """The actions to choose from, as numbers: fixed ones, or fresh draws where features are joint."""
    count = len(problem.candidates)
    if not problem.features.joint:
        return problem.candidates
    couples = range(what, what - (-count // 2))
    drawn = [uniforms(problem, run, i, random.plain_purpose(t, couple)) for couple in couples]
    low, high = problem.action_bounds
    return low + (high - low) * np.ravel(drawn)[:count]


def look(problem: Problem, state: State, run: int, i: int, numbers: Floats) -> tuple[Floats, Floats]:
    """Values Q(x, .) of the candidates at the present observation, and Gamma(theta)(. | x).

    Where agents act by a mixture, it is that of the policy: Gamma(own theta + others)(. | x).
    """
    features, inputs = problem.features, observed(problem, state, run, i)
    if state.episodes is not None:
        state.episodes.clipped[run, i] += features.outside(inputs, numbers)
    values = acting = features.values_at(state.theta[run, i], inputs, numbers)
    if problem.step.mixes:
        own, others = acting_of(state)
        acting = features.values_at(others[run, i], inputs, numbers) + own[run, i] * values
    return values, problem.policy.probabilities(acting, numbered(problem, state, run, i), features.classes)


def acting(problem: Problem, state: State, run: int, i: int, probabilities: Floats) -> Floats:
    """The probabilities by which agent i acts: the policy's, or those of a behaviour policy of its own."""
    return acting_in(problem, i, numbered(problem, state, run, i), probabilities)


def acting_in(problem: Problem, i: int, s: int | slice, probabilities: Floats) -> Floats:
    """As `acting`, in state ``s``."""
    behaviour = problem.step.behaviour
    if not behaviour:
        return probabilities
    return behaviour[i % len(behaviour)].probabilities(probabilities, s)


def numbered(problem: Problem, state: State, run: int, i: int) -> int | slice:
    """The number of agent i's state; all states where they have none."""
    return int(state.states[run, i]) if problem.finite else ALL


def draw(problem: Problem, probabilities: Floats, uniform: float) -> int:
    """An action: invert the cumulative distribution, actions in the problem's order.

    Where values have overflowed, there is none, and the action is the last one.
    """
    order = problem.order
    cumulative = np.cumsum(probabilities[order])
    place = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return int(order[min(place, len(order) - 1)])


def hold(problem: Problem, state: State, run: int, i: int, a: int, numbers: Floats) -> None:
    """Hold action ``a`` at the present observation, and its features, which other engines continue from."""
    state.actions[run, i] = a
    if state.episodes is not None:
        state.episodes.numbers[run, i] = numbers[a]
        index, value = problem.features.active(observed(problem, state, run, i), a, numbers[a])
        state.episodes.places[run, i], state.episodes.value[run, i] = index, value


def held(state: State, run: int, i: int) -> tuple[int, float]:
    """The action that agent i holds, and the number that it is."""
    a = int(state.actions[run, i])
    return a, float(a if state.episodes is None else state.episodes.numbers[run, i])


def uniforms(problem: Problem, run: int, i: int, counter: int) -> tuple[float, float]:
    """Two uniform numbers in [0, 1): a function of (seed, run, agent, counter).

    Agents that watch one chain share the numbers of agent 0.
    """
    stream = 0 if problem.step.sampling == SHARED_CHAIN else i
    one, two = random.plain_words(problem.seed, run, stream, counter)
    return random.plain_uniform(one), random.plain_uniform(two)
