"""The specification: Algorithm ``alg`` of the paper, as plain as its box. Slow, and meant to be read.

It says all of it once: for finite and control worlds, with every option of the step and every server rule.
Control worlds move by their compiled pieces, which the tests hold to Gymnasium.
"""

from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.rounds import fail, gather, synchronise, unsound
from fedsarsa.federation.state import RUNNING, State, Synchronisations, acting_of, left_behind
from fedsarsa.learning import random
from fedsarsa.learning.continuous_features import BoxMap, Integers
from fedsarsa.learning.policies import ALL
from fedsarsa.learning.targets import DIRECTION, EXPECTED, LOG_WEIGHTS, MAX, REPLACING
from fedsarsa.worlds import alias
from fedsarsa.worlds.control.world import ControlWorld, pack
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.kernels import Kernel


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
    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        step_sizes = problem.step_sizes(state.t, steps)
        central, drift = [], []
        for k, t in enumerate(range(state.t, state.t + steps)):
            gather(problem, state, t)
            for run in np.flatnonzero(state.failed_at == RUNNING).tolist():
                for i in range(problem.agents):
                    local_step(problem, state, run, i, t, step_sizes[problem.schedule_of[i], k])
            learned = np.concatenate([state.theta, left_behind(state)], axis=2)
            fail(state, unsound(learned), t)
            if problem.sync_every is not None and (t + 1) % problem.sync_every == 0:
                drift.append(synchronise(problem, state, t))
                central.append(state.central.copy())
        state.t += steps
        shape = (len(central), problem.runs)
        return Synchronisations(
            central=np.reshape(central, (*shape, problem.features.dim)).swapaxes(0, 1),
            drift=np.reshape(drift, shape).swapaxes(0, 1),
        )


def local_step(problem: Problem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One step of agent i: equation ``eq:g``, and the options of the step."""
    theta, step = state.theta[run, i], problem.step
    world_word, action_word = random.plain_words(problem.seed, run, i, t)
    if step.redraw_actions:
        word, _ = random.plain_words(problem.seed, run, i, t + random.REDRAW)
        act(problem, state, run, i, candidates(problem, run, i, t, random.REDRAW_CANDIDATES), word)
    index, value = pair(problem, state, run, i)
    here = value_of(theta, index, value)

    reward, terminated, over = move(problem, state, run, i, world_word)
    target = reward
    if not terminated:  # an episode cut short by its time limit goes on in the target
        numbers = candidates(problem, run, i, t, random.CANDIDATES)
        values, probabilities = look(problem, state, run, i, numbers)
        a_next = draw(problem, acting(problem, state, run, i, probabilities), action_word)
        ahead = values[a_next]
        if step.target == EXPECTED:
            ahead = probabilities @ values
        elif step.target == MAX:
            ahead = values.max()
        target = reward + problem.fleet.discount * ahead

    eligible = np.zeros(problem.features.dim)
    eligible[index] = value
    if step.trace_decay > 0:
        assert state.episodes is not None
        trace = state.episodes.trace[run, i]
        trace *= problem.fleet.discount * step.trace_decay
        trace += eligible
        if step.traces == REPLACING:
            trace[index] = value
        note_live(state, run, i)
        eligible = trace
    moving, size = theta, step_size
    if step.leaves == DIRECTION:
        moving, size = left_behind(state)[run, i], 1.0
    elif step.leaves == LOG_WEIGHTS:
        left_behind(state)[run, i, index] -= np.log1p(-step_size * value)
    moving += size * (target - here) * eligible
    if step.shifted:
        assert state.episodes is not None
        moving += size * state.episodes.shift[run, i]

    if over:
        end(problem, state, run, i, t)
        begin(problem, state, run, i, t)
    else:
        hold(problem, state, run, i, a_next, numbers)


# ---- the world: what agent i holds, and how it moves ----


def begin(problem: Problem, state: State, run: int, i: int, t: int) -> None:
    """A first state, and a first action: the episode that begins after step ``t``."""
    world, seed = problem.fleet[i], problem.seed
    if isinstance(world, FiniteMDP):
        word, action_word = random.plain_words(seed, run, i, t)
        state.states[run, i] = draw_from(alias.build(world.initial[None])[0], word)
    else:
        assert isinstance(world, ControlWorld)
        assert state.episodes is not None
        words = [
            word
            for what in (random.FIRST_STATE, random.FIRST_STATE_MORE)
            for word in random.plain_words(seed, run, i, random.plain_purpose(t, what))
        ]
        x, physics = state.episodes.physical[run, i], pack([world])[0]
        world.reset(physics, x, *map(random.plain_uniform, words))
        action_word, _ = random.plain_words(seed, run, i, random.plain_purpose(t, random.FIRST_ACTION))
    see(problem, state, run, i)
    act(problem, state, run, i, candidates(problem, run, i, t, random.FIRST_CANDIDATES), action_word)


def move(problem: Problem, state: State, run: int, i: int, word: int) -> tuple[float, bool, bool]:
    """Take the action that is held; the reward, and whether the episode was terminated, and is over."""
    world, held = problem.fleet[i], state.episodes
    if isinstance(world, FiniteMDP):
        s, a = int(state.states[run, i]), int(state.actions[run, i])
        s_next = draw_next_state(world, s, a, word)
        state.states[run, i] = s_next
        see(problem, state, run, i)
        return world.reward[(s, a, s_next)[: world.reward.ndim]], False, False
    assert isinstance(world, ControlWorld)
    assert held is not None
    x, number = held.physical[run, i], float(held.numbers[run, i])
    reward, terminated = world.step(pack([world])[0], x, number, random.plain_uniform(word))
    see(problem, state, run, i)
    held.elapsed[run, i] += 1
    held.gain[run, i] += reward
    return reward, terminated, terminated or bool(held.elapsed[run, i] >= world.time_limit)


def see(problem: Problem, state: State, run: int, i: int) -> None:
    """Note what agent i observes of its state."""
    world, held = problem.fleet[i], state.episodes
    if held is None:
        return
    if isinstance(world, ControlWorld):
        world.observe(pack([world])[0], held.physical[run, i], held.seen[run, i])
    else:
        held.seen[run, i, 0] = state.states[run, i]


def end(problem: Problem, state: State, run: int, i: int, t: int) -> None:
    """Note an episode that is over, and forget its traces."""
    held = state.episodes
    assert held is not None
    time_bin = t * problem.bins // problem.steps
    held.episodes[run, i, time_bin] += 1
    held.returns[run, i, time_bin] += held.gain[run, i]
    held.lengths[run, i, time_bin] += held.elapsed[run, i]
    held.elapsed[run, i] = held.gain[run, i] = 0
    if problem.step.trace_decay > 0:
        held.trace[run, i] = 0.0
        note_live(state, run, i)


def note_live(state: State, run: int, i: int) -> None:
    """List the places where agent i's trace is not zero, which other engines go on from."""
    assert state.episodes is not None
    live = np.flatnonzero(state.episodes.trace[run, i])
    state.episodes.live_count[run, i] = len(live)
    state.episodes.live[run, i, : len(live)] = live


# ---- the policy: values, probabilities, and the action that is held next ----


def act(problem: Problem, state: State, run: int, i: int, numbers: Floats, word: int) -> None:
    """Draw an action at what agent i observes, and hold it."""
    _, probabilities = look(problem, state, run, i, numbers)
    a = draw(problem, acting(problem, state, run, i, probabilities), word)
    hold(problem, state, run, i, a, numbers)


def candidates(problem: Problem, run: int, i: int, t: int, what: int) -> Floats:
    """The actions to choose from, as numbers: fixed ones, or fresh draws where features are joint."""
    if not problem.features.joint:
        return problem.candidates
    low, high = problem.action_bounds
    uniforms = []
    for couple in range(-(-len(problem.candidates) // 2)):
        counter = random.plain_purpose(t, what + couple)
        uniforms += [random.plain_uniform(word) for word in random.plain_words(problem.seed, run, i, counter)]
    return low + (high - low) * np.array(uniforms[: len(problem.candidates)])


def look(problem: Problem, state: State, run: int, i: int, numbers: Floats) -> tuple[Floats, Floats]:
    """Values Q(x, .) of the candidates at the present observation, and Gamma(theta)(. | x).

    Where agents act by a mixture, it is that of the policy: Gamma(own theta + others)(. | x).
    """
    features = problem.features
    values = acting = values_at(problem, state, run, i, state.theta[run, i], numbers)
    if problem.step.mixes:
        own, others = acting_of(state)
        acting = values_at(problem, state, run, i, others[run, i], numbers) + own[run, i] * values
    if not isinstance(features, BoxMap):
        return values, problem.policy.probabilities(acting, int(state.states[run, i]), features.classes)
    assert state.episodes is not None
    inputs = state.episodes.seen[run, i, : len(features.low)]
    outside = [features.scaled(_with(inputs, number, features))[1] for number in numbers]
    state.episodes.clipped[run, i] += any(outside)
    return values, problem.policy.probabilities(acting)


def values_at(problem: Problem, state: State, run: int, i: int, theta: Floats, numbers: Floats) -> Floats:
    """phi(x, .)'theta of the candidates at the present observation."""
    if not isinstance(problem.features, BoxMap):
        values: Floats = problem.features.values_at(theta, int(state.states[run, i]))
        return values
    return np.array(
        [value_of(theta, *active(problem, state, run, i, c, number)) for c, number in enumerate(numbers)]
    )


def active(
    problem: Problem, state: State, run: int, i: int, a: int, number: float
) -> tuple[Integers, Floats]:
    """The features of action ``a`` at the present observation that are not zero: places and values."""
    features = problem.features
    if not isinstance(features, BoxMap):
        return features.active(state.states[run, i, None], a)
    assert state.episodes is not None
    return features.active(_with(state.episodes.seen[run, i, : len(features.low)], number, features), a)


def _with(inputs: Floats, number: float, features: BoxMap) -> Floats:
    """Inputs of features, with the action as the last one if they are joint."""
    return np.append(inputs[:-1], number) if features.joint else inputs


def value_of(theta: Floats, index: Integers, value: Floats) -> float:
    """phi'theta, added up in this order, as in every engine: the same ties."""
    total = 0.0
    for j, v in zip(index, value, strict=True):
        total += v * theta[j]
    return total


def acting(problem: Problem, state: State, run: int, i: int, probabilities: Floats) -> Floats:
    """The probabilities by which agent i acts: the policy's, or those of a behaviour policy of its own."""
    behaviour = problem.step.behaviour
    if not behaviour:
        return probabilities
    s = int(state.states[run, i]) if problem.finite else ALL
    return behaviour[i % len(behaviour)].probabilities(probabilities, s)


def draw(problem: Problem, probabilities: Floats, word: int) -> int:
    """An action: invert the cumulative distribution, actions in the problem's order.

    Where values have overflowed, there is none, and the action is the last one.
    """
    order = problem.order
    cumulative = np.cumsum(probabilities[order])
    target = random.plain_uniform(word) * cumulative[-1]
    return int(order[min(np.searchsorted(cumulative, target, side="right"), len(order) - 1)])


def hold(problem: Problem, state: State, run: int, i: int, a: int, numbers: Floats) -> None:
    """Hold action ``a`` at the present observation, and its features."""
    state.actions[run, i] = a
    if state.episodes is not None:
        state.episodes.numbers[run, i] = numbers[a]
        index, value = active(problem, state, run, i, a, numbers[a])
        state.episodes.places[run, i], state.episodes.value[run, i] = index, value


def pair(problem: Problem, state: State, run: int, i: int) -> tuple[Integers, Floats]:
    """The features of the pair that agent i holds: places and values."""
    if state.episodes is not None:
        return state.episodes.places[run, i].copy(), state.episodes.value[run, i].copy()
    return active(problem, state, run, i, int(state.actions[run, i]), 0.0)


# ---- drawing states of finite worlds ----


def draw_next_state(world: FiniteMDP, s: int, a: int, word: int) -> int:
    """s' ~ P_a(s, .): a row of the kernel, then the action's rotation for shift kernels."""
    kernel = world.kernel
    row = s if kernel.shift else a * kernel.states + s
    column = draw_from(alias_rows(kernel)[row], word)
    return (column + kernel.shift * a) % kernel.states


@lru_cache(maxsize=128)
def alias_rows(kernel: Kernel) -> NDArray[np.uint64]:
    """The kernel's rows as alias tables, built once."""
    return alias.build(kernel.rows)


def draw_from(entries: NDArray[np.uint64], word: int) -> int:
    """A column of one alias row: the word's fraction decides between the column and its alias."""
    column, fraction = divmod((word >> alias.COLUMN_BITS) * len(entries), 1 << alias.FRACTION_BITS)
    threshold, other = divmod(int(entries[column]), 1 << alias.COLUMN_BITS)
    return column if fraction < threshold else other
