"""The compiled engine of n-step TD: every step adds up the errors of n transitions ahead."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, kernel, piece
from fedsarsa.engines import compiled_mean
from fedsarsa.engines.arrays import RoundSettings, RunView, Span
from fedsarsa.engines.general import GeneralEngine
from fedsarsa.engines.general_rounds import Learners, RoundWorkspace, Worlds
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import finite_step, local_step, random
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.learning.step_arrays import Model
from fedsarsa.worlds import alias


class Ahead(NamedTuple):
    """Who acts, ``acting`` (P, S, A) masses, and whose values are learned, ``learned`` (S, A), in order.

    ``n`` transitions are looked ahead, their errors weighted by the ratios of the two if ``ratios``.
    """

    acting: Floats
    learned: Floats
    n: int
    ratios: bool


class Window(NamedTuple):
    """The pairs (n + 1,) ahead of one lane, actions by their places in order, and rewards and ratios (n,)."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Floats
    ratios: Floats


class StepsAheadEngine(GeneralEngine):
    """Trains a problem."""

    round_by_round: ClassVar[bool] = True

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        step, policy = problem.step, problem.policy
        assert isinstance(policy, FixedPolicy)
        sizes = problem.fleet.states, len(problem.order)
        own, *acting = (one.table(*sizes)[:, problem.order] for one in (policy, *step.behaviour))
        self.ahead = Ahead(np.array(acting or [own]), own, step.ahead, step.ratios)

    def _steps(
        self,
        view: RunView,
        learners: Learners,
        low: int,
        high: int,
        step_sizes: Floats,
        span: Span,
        k: int,
        workspace: RoundWorkspace,
    ) -> None:
        """The local steps of a span's k-th round for lanes ``low`` to ``high``."""
        n = self.ahead.n
        window = Window(np.empty(n + 1, np.int64), np.empty(n + 1, np.int64), np.empty(n), np.empty(n))
        fixed = (self.worlds, self.model, self.ahead, self.settings)
        local_steps(*fixed, view, learners, low, high, step_sizes, span, k, window, workspace.failed_at)


@piece
def look(
    worlds: Worlds,
    model: Model,
    ahead: Ahead,
    world: int,
    agent: int,
    one: int,
    two: int,
    window: Window,
    place: int,
) -> None:
    """Fill the window at ``place`` + 1, by the words ``one`` and ``two`` of the step from ``place``."""
    s, c = window.states[place], window.actions[place]
    a = U64(model.order[c])
    column, fraction = alias.split(one, worlds.tables.states)
    s_next = finite_step.next_state(worlds.tables, world, U64(s), a, column, fraction)
    window.rewards[place] = finite_step.reward_of(worlds.tables, world, U64(s), a, s_next)
    masses = ahead.acting[agent % len(ahead.acting)]
    window.ratios[place] = ahead.learned[s, c] / masses[s, c] if ahead.ratios else 1.0
    drawn = local_step.draw_fixed(model, agent, I64(s_next), two)
    window.states[place + 1], window.actions[place + 1] = I64(s_next), drawn


@kernel
def local_steps(
    worlds: Worlds,
    model: Model,
    ahead: Ahead,
    settings: RoundSettings,
    view: RunView,
    learners: Learners,
    low: int,
    high: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    window: Window,
    failed_at: Integers,
) -> None:
    """The local steps of a span's k-th round for lanes ``low`` to ``high``.

    The window is filled anew for every round: what is ahead depends on the pair held and on t alone.
    """
    agents, column, n = len(settings.weights), k * span.steps, ahead.n
    for lane in range(low, high):
        run, agent = lane // agents, lane % agents
        theta, progress = learners.theta[lane], learners.progress[lane]
        if k > 0 and settings.common:  # later rounds begin with the central parameters
            for j in range(len(theta)):
                theta[j] = view.central[run, j]
        if view.failed_at[run] != RUNNING:
            continue
        world, stream = worlds.world[agent], view.first_agent + U64(agent)
        first_run, begun = view.first_run + U64(run), span.t + column
        window.states[0] = I64(learners.states[lane])
        for c in range(len(model.order)):
            if model.order[c] == learners.agent_state.actions[lane]:
                window.actions[0] = c
        for place in range(n):
            one, two = random.words(settings.seed, first_run, stream, U64(begun + place))
            look(worlds, model, ahead, world, agent, one, two, window, place)
        for step in range(span.steps):
            t, remaining = begun + step, span.steps - 1 - step + span.left
            rest = remaining * (settings.offset + t + 0.5 * (remaining + 1))
            size = step_sizes[settings.schedule[agent], column + step]
            total, weight = 0.0, 1.0
            here = local_step.value_of(model, theta, window.states[0], window.actions[0])
            for place in range(n):
                weight *= window.ratios[place]
                after = local_step.value_of(model, theta, window.states[place + 1], window.actions[place + 1])
                total += weight * (window.rewards[place] + model.discount * after - here)
                weight *= model.discount
                here = after
            if not move(model, theta, progress, rest, window, size * total):
                compiled_mean.fail(run, t, failed_at)
                break
            for place in range(n):
                window.states[place] = window.states[place + 1]
                window.actions[place] = window.actions[place + 1]
            for place in range(n - 1):
                window.rewards[place] = window.rewards[place + 1]
                window.ratios[place] = window.ratios[place + 1]
            one, two = random.words(settings.seed, first_run, stream, U64(t + n))
            look(worlds, model, ahead, world, agent, one, two, window, n - 1)
        learners.states[lane] = window.states[0]
        learners.agent_state.actions[lane] = model.order[window.actions[0]]


@piece
def move(model: Model, theta: Floats, progress: Floats, rest: float, window: Window, change: float) -> bool:
    """Move ``theta`` along the features of the window's first pair; whether it stays finite."""
    s, a = window.states[0], I64(model.order[window.actions[0]])
    if model.dense.size == 0:
        j = I64(model.rows[s]) * model.width + I64(model.columns[a])
        return local_step.add(theta, progress, rest, j, change)
    finite = True
    for j in range(len(theta)):
        finite &= local_step.add(theta, progress, rest, j, change * model.dense[s, j, a])
    return finite
