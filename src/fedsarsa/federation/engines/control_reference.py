"""The specification for control worlds: episodes, options and continuous actions, in plain Python.

Slow, and meant to be read. Worlds move by their compiled pieces, which the tests hold to Gymnasium;
everything else is said here once more.
"""

from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.engines.reference import ReferenceEngine
from fedsarsa.federation.episodic import REPLACING, Episodes, EpisodicProblem
from fedsarsa.federation.problem import State
from fedsarsa.learning import random
from fedsarsa.learning.boxes import Integers
from fedsarsa.worlds.control import dynamics
from fedsarsa.worlds.control.world import ControlWorld, pack


@dataclass(frozen=True, eq=False)
class ControlReference(ReferenceEngine):
    """Trains a problem step by step; rounds and server are those of finite worlds."""

    problem: EpisodicProblem

    def start(self, state: State) -> None:
        """Begin every agent's first episode."""
        for run in range(self.problem.runs):
            for i in range(self.problem.agents):
                begin_episode(self.problem, state, run, i, random.START)

    def step(self, state: State, run: int, i: int, t: int, step_size: float) -> None:
        """One step of agent i."""
        local_step(self.problem, state, run, i, t, step_size * self.problem.step_factor)


def local_step(problem: EpisodicProblem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One SARSA step of agent i: equation ``eq:g``, with episodes as in section 3 of the design."""
    world, episodes = world_of(problem, i), held(state)
    theta, x = state.theta[run, i], episodes.physical[run, i]
    noise_word, action_word = random.plain_words(problem.seed, run, i, t)
    phi = np.zeros(problem.features.dim)
    phi[episodes.places[run, i]] = episodes.value[run, i]

    r, terminated = dynamics.step(
        world.kind, pack([world])[0], x, float(episodes.numbers[run, i]), random.plain_uniform(noise_word)
    )
    dynamics.observe(world.kind, pack([world])[0], x, episodes.seen[run, i])
    episodes.elapsed[run, i] += 1
    episodes.gain[run, i] += r
    truncated = episodes.elapsed[run, i] >= world.time_limit and not terminated

    target = r
    if not terminated:  # an episode cut short by its time limit goes on in the target
        numbers = candidates(problem, run, i, t, random.CANDIDATES)
        values, actives = look(problem, state, run, i, numbers)
        probabilities = problem.policy.probabilities(values)
        a_next = draw(probabilities, action_word)
        ahead = float(probabilities @ values) if problem.expected else values[a_next]
        target = r + problem.fleet.discount * ahead

    here = 0.0
    for j, value in zip(episodes.places[run, i], episodes.value[run, i], strict=True):
        here += value * theta[j]
    eligible = phi
    if problem.trace_decay > 0:
        trace = episodes.trace[run, i]
        trace *= problem.fleet.discount * problem.trace_decay
        if problem.traces == REPLACING:
            trace[episodes.places[run, i]] = episodes.value[run, i]
        else:
            trace += phi
        eligible = trace
    theta += step_size * (target - here) * eligible

    if terminated or truncated:
        end_episode(problem, episodes, run, i, t)
        begin_episode(problem, state, run, i, t)
    else:
        take(state, run, i, a_next, numbers, actives)


def begin_episode(problem: EpisodicProblem, state: State, run: int, i: int, t: int) -> None:
    """A first state, and a first action from Gamma(theta): the episode that begins after step ``t``."""
    world, episodes = world_of(problem, i), held(state)
    words = [
        word
        for what in (random.FIRST_STATE, random.FIRST_STATE_MORE)
        for word in random.plain_words(problem.seed, run, i, random.plain_purpose(t, what))
    ]
    uniforms = [random.plain_uniform(word) for word in words]
    x, physics = episodes.physical[run, i], pack([world])[0]
    dynamics.reset(world.kind, physics, x, *uniforms)
    dynamics.observe(world.kind, physics, x, episodes.seen[run, i])
    numbers = candidates(problem, run, i, t, random.FIRST_CANDIDATES)
    values, actives = look(problem, state, run, i, numbers)
    word, _ = random.plain_words(problem.seed, run, i, random.plain_purpose(t, random.FIRST_ACTION))
    take(state, run, i, draw(problem.policy.probabilities(values), word), numbers, actives)


def end_episode(problem: EpisodicProblem, episodes: Episodes, run: int, i: int, t: int) -> None:
    """Note an episode that is over, and forget its traces."""
    span = t * problem.bins // problem.steps
    episodes.episodes[run, i, span] += 1
    episodes.returns[run, i, span] += episodes.gain[run, i]
    episodes.lengths[run, i, span] += episodes.elapsed[run, i]
    episodes.elapsed[run, i] = episodes.gain[run, i] = 0
    episodes.trace[run, i] = 0.0


def candidates(problem: EpisodicProblem, run: int, i: int, t: int, what: int) -> Floats:
    """The actions to choose from, as numbers: fixed ones, or fresh draws where features are joint."""
    if not problem.features.joint:
        return problem.candidates
    low, high = problem.action_bounds
    uniforms = []
    for pair in range(-(-len(problem.candidates) // 2)):
        counter = random.plain_purpose(t, what + pair)
        uniforms += [random.plain_uniform(word) for word in random.plain_words(problem.seed, run, i, counter)]
    return low + (high - low) * np.array(uniforms[: len(problem.candidates)])


def look(
    problem: EpisodicProblem, state: State, run: int, i: int, numbers: Floats
) -> tuple[Floats, list[tuple[Integers, Floats]]]:
    """Values Q(x, .) of the candidates at the present observation, and the features behind them."""
    features, episodes, theta = problem.features, held(state), state.theta[run, i]
    size = len(features.low)
    actives, values, outside = [], [], False
    for c, number in enumerate(numbers):
        inputs = np.array(episodes.seen[run, i, :size])
        if features.joint:
            inputs[-1] = number
        outside |= features.scaled(inputs)[1]
        index, value = features.active(inputs, c)
        actives.append((index, value))
        total = 0.0
        for j, v in zip(index, value, strict=True):  # in this order, as compiled: the same ties
            total += v * theta[j]
        values.append(total)
    episodes.clipped[run, i] += outside
    return np.array(values), actives


def draw(probabilities: Floats, word: int) -> int:
    """A candidate: invert the cumulative distribution; the last one where values have overflowed."""
    cumulative = np.cumsum(probabilities)
    target = random.plain_uniform(word) * cumulative[-1]
    return min(int(np.searchsorted(cumulative, target, side="right")), len(cumulative) - 1)


def take(
    state: State, run: int, i: int, a: int, numbers: Floats, actives: list[tuple[Integers, Floats]]
) -> None:
    """Hold candidate ``a`` and its features."""
    episodes = held(state)
    state.actions[run, i], episodes.numbers[run, i] = a, numbers[a]
    episodes.places[run, i], episodes.value[run, i] = actives[a]


def world_of(problem: EpisodicProblem, i: int) -> ControlWorld:
    """Agent i's world."""
    world = problem.fleet[i]
    assert isinstance(world, ControlWorld)
    return world


def held(state: State) -> Episodes:
    """What agents hold."""
    assert state.episodes is not None
    return state.episodes
