"""The specification: Algorithm ``alg`` of the paper, as plain as its box. Slow, and meant to be read."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import RUNNING, Problem, State, Synchronisations, average
from fedsarsa.learning import random
from fedsarsa.learning.step_sizes import step_sizes_at
from fedsarsa.worlds import alias
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.kernels import Kernel


@dataclass(frozen=True, eq=False)
class ReferenceEngine:
    """Trains a problem step by step, run by run, agent by agent."""

    name: ClassVar[str] = "reference"
    problem: Problem

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        problem = self.problem
        for run in range(problem.runs):
            for i, world in enumerate(problem.fleet):
                state_word, action_word = random.plain_words(problem.seed, run, i, random.START)
                s = draw_from(alias.build(world.initial[None])[0], state_word)
                state.states[run, i] = s
                state.actions[run, i] = draw_action(problem, state.theta[run, i], s, action_word)

    def step(self, state: State, run: int, i: int, t: int, step_size: float) -> None:
        """One step of agent i."""
        local_step(self.problem, state, run, i, t, step_size)

    @np.errstate(over="ignore", invalid="ignore")  # parameters that overflow are found and reported
    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        times = np.arange(state.t, state.t + steps)
        step_sizes = step_sizes_at(problem.schedules, times)
        central, drift = [], []
        for k, t in enumerate(times.tolist()):
            synchronises = problem.sync_every is not None and (t + 1) % problem.sync_every == 0
            moved = np.full(problem.runs, np.nan)
            for run in np.flatnonzero(state.failed_at == RUNNING).tolist():
                theta = state.theta[run]
                if problem.average_offset is not None:
                    state.weighted_sum[run] += (problem.average_offset + t) * state.central[run]
                for i in range(problem.agents):
                    self.step(state, run, i, t, step_sizes[problem.schedule_of[i], k])
                state.central[run] = average(problem.weights, theta)
                if synchronises:
                    moved[run] = problem.weights @ np.sum((theta - state.central[run]) ** 2, axis=1)
                    theta[:] = state.central[run] = project(state.central[run], problem.radius)
                if not np.isfinite(theta).all():
                    state.failed_at[run] = t
                    theta[:] = state.central[run] = moved[run] = np.nan
            if synchronises:
                central.append(state.central.copy())
                drift.append(moved)
        state.t += steps
        shape = (len(central), problem.runs)
        return Synchronisations(
            central=np.reshape(central, (*shape, problem.features.dim)).swapaxes(0, 1),
            drift=np.reshape(drift, shape).swapaxes(0, 1),
        )


def local_step(problem: Problem, state: State, run: int, i: int, t: int, step_size: float) -> None:
    """One SARSA step of agent i, equation ``eq:g``."""
    world, features = problem.fleet[i], problem.features
    theta = state.theta[run, i]
    s, a = int(state.states[run, i]), int(state.actions[run, i])
    state_word, action_word = random.plain_words(problem.seed, run, i, t)
    if problem.redraw_actions:
        word, _ = random.plain_words(problem.seed, run, i, t + random.REDRAW)
        a = draw_action(problem, theta, s, word)

    s_next = draw_next_state(world, s, a, state_word)
    r = world.reward[(s, a, s_next)[: world.reward.ndim]]
    a_next = draw_action(problem, theta, s_next, action_word)

    value = features.values_at(theta, s)[a]
    next_value = features.values_at(theta, s_next)[a_next]
    error = r + world.discount * next_value - value
    theta += step_size * error * features.vector(s, a)
    state.states[run, i], state.actions[run, i] = s_next, a_next


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


def draw_action(problem: Problem, theta: Floats, s: int, word: int) -> int:
    """a ~ Gamma(theta)(. | s): invert the cumulative distribution, actions in the features' order.

    Where values have overflowed, there is none, and the action is the last one.
    """
    order, classes = problem.features.order, problem.features.classes
    values = problem.features.values_at(theta, s)
    cumulative = np.cumsum(problem.policy.probabilities(values, s, classes)[order])
    target = random.plain_uniform(word) * cumulative[-1]
    return int(order[min(np.searchsorted(cumulative, target, side="right"), len(order) - 1)])


def project(theta: Floats, radius: float | None) -> Floats:
    """The nearest point of the ball of ``radius`` around 0."""
    largest = np.abs(theta).max()
    if radius is None or largest == 0:
        return theta
    norm = largest * np.sqrt(np.sum((theta / largest) ** 2))  # squares of theta could overflow
    return theta if norm <= radius else theta * (radius / norm)
