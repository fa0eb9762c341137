"""One agent's world, learner and random stream, compiled once and kept from round to round."""

from dataclasses import replace

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.deploy.config import Federation
from fedsarsa.federation.engines.cpu import CpuEngine
from fedsarsa.federation.engines.layout import Lanes
from fedsarsa.federation.problem import RUNNING, Problem, State, first_state
from fedsarsa.worlds.fleet import Fleet

FOREVER = 1 << 62  # the server, not the agent, knows when it is over


class Learner:
    """Agent ``number`` of a federation: takes the steps that the ``reference`` engine would take for it.

    Attributes
    ----------
    state, action : int
        The pair (s, a) it holds.
    """

    def __init__(self, federation: Federation, number: int) -> None:
        world = federation.world(number)
        fleet = Fleet([world] * federation.agents)  # stored once; places count as in the federation
        problem = federation.algorithm.problem(fleet, FOREVER, runs=1, seed=federation.training.seed)
        self.number, self.dim = number, problem.features.dim
        self._engine = _OneLane(replace(problem, sync_every=None, average_offset=None), number)
        self._training: State = first_state(self._engine.problem, np.zeros(self.dim))

    @property
    def state(self) -> int:
        """s."""
        return int(self._training.states[0, self.number])

    @property
    def action(self) -> int:
        """a."""
        return int(self._training.actions[0, self.number])

    def begin(self, theta: Floats) -> None:
        """Draw the first state, and the first action from Gamma(theta)."""
        self._training.theta[0, self.number] = theta
        self._engine.start(self._training)

    def put(self, state: int, action: int) -> None:
        """Go back, or on, to a pair that was held before."""
        self._training.states[0, self.number] = state
        self._training.actions[0, self.number] = action

    def advance(self, theta: Floats, t: int, steps: int) -> Floats:
        """The local parameter ``steps`` steps after time ``t``, from ``theta`` on."""
        training = self._training
        training.t = t
        training.theta[0, self.number] = theta
        training.failed_at[0] = RUNNING
        self._engine.advance(training, steps)
        if training.failed_at[0] != RUNNING:
            raise ArithmeticError(f"parameters stopped being finite at step {training.failed_at[0]}")
        return np.array(training.theta[0, self.number])


class _OneLane(CpuEngine):
    """The compiled engine on a single agent of a federation, which keeps its random stream."""

    def __init__(self, problem: Problem, number: int) -> None:
        super().__init__(problem, threads=1)
        self.number = number

    def _lanes(self, state: State, low: int, high: int) -> Lanes:  # noqa: ARG002
        return Lanes(run=np.array([0], np.uint64), agent=np.array([U64(self.number)], np.uint64))
