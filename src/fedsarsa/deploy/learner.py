"""One agent's world, learner and random stream, compiled once and kept from round to round."""

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa import engines
from fedsarsa._checks import Floats
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.federation.problem import MOST_STEPS, Problem
from fedsarsa.federation.servers import Mean
from fedsarsa.federation.state import RUNNING, acting_of, first_state
from fedsarsa.federation.training import adapted, span_length
from fedsarsa.learning.schedules import stage_of
from fedsarsa.learning.step_sizes import schedules
from fedsarsa.learning.targets import behaviours

log = logging.getLogger("fedsarsa.deploy.agent")
Held = dict[str, NDArray[Any]]
Mixture = tuple[float, Floats]  # the weight of the own parameter, and the sum of the others'


class WorldError(RuntimeError):
    """The agent's environment failed."""


class Learner:
    """Agent ``number`` of a federation: takes the steps that an engine would take for it.

    Gymnasium environments cannot be saved or restored: ``held`` has nothing of them, they continue in any
    case, and begin a new episode in a new process or after they failed.
    """

    def __init__(self, federation: Federation, number: int) -> None:
        problem = _alone(federation, number)
        self.dim, self._theta0 = problem.features.dim, federation.theta0
        name = engines.resolve("auto", problem.fleet)
        self._engine = engines.build(name, problem, threads=1, first_agent=number)
        self._training = first_state(problem, self._theta0)
        self._stretch = 1

    @property
    def can_be_saved(self) -> bool:
        """Whether ``held`` is all that lasts from round to round."""
        return self._engine.can_be_saved

    @property
    def held(self) -> Held:
        """A copy of what lasts from round to round: the pair (s, a), traces and the episode."""
        return {name: array.copy() for name, array in self._arrays().items()}

    @held.setter
    def held(self, held: Held) -> None:
        for name, array in self._arrays().items():
            array[...] = held[name]

    def _arrays(self) -> Held:
        training = self._training
        if not self.can_be_saved:
            return {}
        own = {"states": training.states, "actions": training.actions}
        if training.episodes is None:
            return own
        return own | {
            field.name: getattr(training.episodes, field.name) for field in fields(training.episodes)
        }

    @property
    def episodes(self) -> tuple[int, float]:
        """How many episodes ended in the last round, and their mean return."""
        if self._training.episodes is None:
            return 0, 0.0
        count = int(self._training.episodes.episodes.sum())
        return count, float(self._training.episodes.returns.sum()) / max(count, 1)

    def warm(self) -> None:
        """Compile before the first round, not in it. No world moves."""
        before = self.held
        self._engine.warm(self._training)
        self.held = before

    def begin(self) -> None:
        """Draw the first state, and the first action from Gamma(theta) with the federation's first theta."""
        self.close()
        self._training.theta[0, 0] = self._theta0
        with self._making():
            self._engine.start(self._training)
        self._check_world()

    def advance(
        self, theta: Floats, t: int, steps: int, until: float = math.inf, mixture: Mixture | None = None
    ) -> Floats:
        """The local parameter ``steps`` steps after time ``t``, from ``theta`` on, and what the steps leave.

        One vector holds both; steps leave d numbers if the server rule asks for them. The agent acts by a
        ``mixture`` if given.

        A TimeoutError if that takes longer than ``until``, in seconds of the monotonic clock. Steps are taken
        in stretches of a fraction of a second: no signal is heard inside a compiled call.
        """
        training = self._training
        training.t = t
        training.theta[0, 0] = theta
        training.failed_at[0] = RUNNING
        if training.episodes is not None:
            training.episodes.episodes[:], training.episodes.returns[:] = 0, 0.0
        training.left[:] = 0.0
        own, others = acting_of(training)
        if others.size and mixture is not None:
            own[0, 0], others[0, 0] = mixture
        while training.t < t + steps:
            length = span_length(self._engine.problem, training.t, self._stretch)
            length = min(length, t + steps - training.t)
            begun = time.monotonic()
            with self._making():
                self._engine.advance(training, length)
            self._check_world()
            if training.failed_at[0] != RUNNING:
                raise ArithmeticError(f"parameters stopped being finite at step {training.failed_at[0]}")
            ended = time.monotonic()
            if ended > until:
                raise TimeoutError("the round's deadline has passed")
            self._stretch = adapted(length, ended - begun)
        return np.concatenate([training.theta[0, 0], training.left[0, 0]])

    @contextmanager
    def _making(self) -> Iterator[None]:
        """Survive an environment that cannot be made, now or any more."""
        try:
            yield
        except Exception:  # constructors are the user's own
            if self._engine.opened:
                raise
            log.exception("the environment cannot be made")
            raise WorldError("its environment cannot be made; the agent's own output says why") from None

    def _check_world(self) -> None:
        episodes = self._training.episodes
        if episodes is None or episodes.stopped_at[0, 0] == RUNNING:
            return
        step = int(episodes.stopped_at[0, 0])
        episodes.stopped_at[0, 0] = RUNNING
        self.close()  # the next round makes a new environment
        raise WorldError(f"its environment failed at step {step}; the agent's own output says how")

    def close(self) -> None:
        """Close the environment, if there is one."""
        self._engine.close()


def _alone(federation: Federation, number: int) -> Problem:
    """What an agent does between synchronisations: in its own world, with the features of the federation."""
    world = federation.world(number)
    own = schedules(federation.algorithm.step_size)
    step_size = own[number] if len(own) > 1 else own[0]
    acting = behaviours(federation.algorithm.behaviour)
    behaviour = acting[number] if len(acting) > 1 else federation.algorithm.behaviour
    algorithm = replace(
        federation.algorithm,
        step_size=step_size,
        sync_every=None,
        weights=None,
        behaviour=behaviour,
        participation=1.0,
        faults=None,
    )
    assert federation.worlds is not None
    problem = algorithm.problem(federation.worlds, MOST_STEPS, runs=1, seed=federation.training.seed)
    step = replace(problem.step, mixes=federation.rule.mixes, leaves=federation.rule.leaves)
    one = {
        "schedule_of": problem.schedule_of[:1],
        "server": Mean(),
        "step": step,
        "average_offset": None,
        "asked": None,
        "stage": stage_of(federation.algorithm.sync_every),
    }
    return replace(problem, fleet=world, **one)  # type: ignore[arg-type]
