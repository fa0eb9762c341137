"""The compiled engine of synchronous Q-learning: every step draws a transition of every pair."""

import math
from typing import ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U64, kernel
from fedsarsa.engines import compiled_mean
from fedsarsa.engines.arrays import RoundSettings, RunView, Span
from fedsarsa.engines.general import GeneralEngine
from fedsarsa.engines.general_rounds import Learners, RoundWorkspace, Worlds
from fedsarsa.federation.state import RUNNING
from fedsarsa.learning import finite_step, random
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.step_arrays import Model
from fedsarsa.worlds import alias


class AllPairsEngine(GeneralEngine):
    """Trains a problem."""

    round_by_round: ClassVar[bool] = True

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
        best, fixed = np.empty(self.model.states), (self.worlds, self.model, self.settings)
        local_steps(*fixed, view, learners, low, high, step_sizes, span, k, best, workspace.failed_at)


@kernel
def local_steps(
    worlds: Worlds,
    model: Model,
    settings: RoundSettings,
    view: RunView,
    learners: Learners,
    low: int,
    high: int,
    step_sizes: Floats,
    span: Span,
    k: int,
    best: Floats,
    failed_at: Integers,
) -> None:
    """The local steps of a span's k-th round for lanes ``low`` to ``high``; ``best`` (S,) is room to work."""
    agents, column, tables = len(settings.weights), k * span.steps, worlds.tables
    states, actions = model.states, len(model.columns)
    for lane in range(low, high):
        run, agent = lane // agents, lane % agents
        theta, progress = learners.theta[lane], learners.progress[lane]
        if k > 0 and settings.common:  # later rounds begin with the central parameters
            for j in range(len(theta)):
                theta[j] = view.central[run, j]
        if view.failed_at[run] != RUNNING:
            continue
        world = worlds.world[agent]
        for step in range(span.steps):
            remaining = span.steps - 1 - step + span.left
            t = span.t + column + step
            rest = remaining * (settings.offset + t + 0.5 * (remaining + 1))
            size = step_sizes[settings.schedule[agent], column + step]
            for s in range(states):
                best[s] = theta[s * actions]
                for a in range(1, actions):
                    best[s] = max(best[s], theta[s * actions + a])
            finite = True
            for s in range(states):
                for a in range(actions):
                    counter = (U64(t) * U64(states) + U64(s)) * U64(actions) + U64(a)
                    word, _ = random.words(
                        settings.seed, view.first_run + U64(run), view.first_agent + U64(agent), counter
                    )
                    at, fraction = alias.split(word, tables.states)
                    ahead = finite_step.next_state(tables, world, U64(s), U64(a), at, fraction)
                    reward = finite_step.reward_of(tables, world, U64(s), U64(a), ahead)
                    j = s * actions + a
                    moved = (1.0 - size) * theta[j] + size * (reward + model.discount * best[I64(ahead)])
                    if len(progress) > 0:
                        progress[j] += rest * (moved - theta[j])
                    theta[j] = moved
                    finite &= math.isfinite(moved)
            if not finite:
                compiled_mean.fail(run, t, failed_at)
                break
