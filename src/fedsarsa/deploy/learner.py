"""One agent's world, learner and random stream, compiled once and kept from round to round."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.deploy.config import Federation
from fedsarsa.federation.engines.cpu import CpuEngine
from fedsarsa.federation.problem import RUNNING, first_state
from fedsarsa.learning.step_sizes import schedules
from fedsarsa.worlds.fleet import Fleet

Held = dict[str, NDArray[Any]]

FOREVER = 1 << 62  # the server, not the agent, knows when it is over


class Learner:
    """Agent ``number`` of a federation: takes the steps that the ``reference`` engine would take for it."""

    def __init__(self, federation: Federation, number: int) -> None:
        world = federation.world(number)
        own = schedules(federation.algorithm.step_size)
        step_size = own[number] if len(own) > 1 else own[0]
        alone = replace(federation.algorithm, step_size=step_size, sync_every=None, weights=None)
        problem = alone.problem(Fleet([world]), FOREVER, runs=1, seed=federation.training.seed)
        self.dim = problem.features.dim
        self._engine = CpuEngine(replace(problem, average_offset=None), threads=1, first_agent=number)
        self._training = first_state(self._engine.problem, np.zeros(self.dim))

    @property
    def held(self) -> Held:
        """A copy of what goes on from round to round: the pair (s, a)."""
        return {"states": self._training.states.copy(), "actions": self._training.actions.copy()}

    @held.setter
    def held(self, held: Held) -> None:
        self._training.states[:], self._training.actions[:] = held["states"], held["actions"]

    def begin(self, theta: Floats) -> None:
        """Draw the first state, and the first action from Gamma(theta)."""
        self._training.theta[0, 0] = theta
        self._engine.start(self._training)

    def advance(self, theta: Floats, t: int, steps: int) -> Floats:
        """The local parameter ``steps`` steps after time ``t``, from ``theta`` on."""
        training = self._training
        training.t = t
        training.theta[0, 0] = theta
        training.failed_at[0] = RUNNING
        self._engine.advance(training, steps)
        if training.failed_at[0] != RUNNING:
            raise ArithmeticError(f"parameters stopped being finite at step {training.failed_at[0]}")
        return np.array(training.theta[0, 0])
