"""Methods that are settings of FedSARSA: what agents do, what the server does, and no loop of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, Prepared, starting_point, train_prepared
from fedsarsa.federation.events import Callback
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.progress import Progress
from fedsarsa.learning.features import FeatureMap, FiniteFeatures
from fedsarsa.learning.policies import Policy, improvement
from fedsarsa.learning.targets import Step
from fedsarsa.methods.method import Communication, Knowledge, finite_fleet
from fedsarsa.theory.federation_model import effective_weights
from fedsarsa.theory.fixed_points import federated_point
from fedsarsa.worlds.fleet import Fleet, as_fleet


class Setting:
    """A method that is a setting of FedSARSA: ``algorithm`` says which, and training is FedSARSA's.

    A step that no argument of FedSARSA describes is given by ``step``.
    """

    name: ClassVar[str]
    knows: ClassVar[Knowledge] = "samples"

    def algorithm(self) -> FedSARSA:
        """The setting of FedSARSA that this method is."""
        raise NotImplementedError(f"{type(self).__name__} must define algorithm")

    def step(self, step: Step) -> Step:
        """The local step, from the one that ``algorithm`` has."""
        return step

    def check(self, fleet: Fleet) -> None:
        """Reject worlds that the method cannot take."""

    def problem(self, fleet: Fleet, steps: int, runs: int, seed: int) -> Problem:
        """The training problem of this method on a fleet, checked."""
        fleet = finite_fleet(fleet, self.name)
        self.check(fleet)
        problem = self.algorithm().problem(fleet, steps, runs, seed)
        return replace(problem, step=self.step(problem.step))

    def train(
        self,
        fleet: Fleet,
        steps: int = 20_000,
        runs: int = 10,
        seed: int = 0,
        engine: str = "auto",
        theta0: ArrayLike | None = None,
        threads: int | None = None,
        progress: Progress = False,
        record_every: int = 1,
        checkpoint: str | Path | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        precision: str = "float64",
    ) -> History:
        """Train ``runs`` federations of a fleet; arguments and result are those of ``FedSARSA.train``.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.
        steps : int
            T, steps per agent.
        runs : int
            Federations to train.
        seed : int
            With run and agent number it decides every random number.
        engine, theta0, threads, progress, record_every, checkpoint, callback, precision
            As for ``FedSARSA.train``.

        Returns
        -------
        History
            As ``FedSARSA.train`` makes it.

        Raises
        ------
        ValueError, TypeError
            The method cannot take these worlds, or an argument is out of its range.
        """
        prepared = self.prepare(fleet, steps, runs, seed, theta0)
        return train_prepared(
            prepared, engine, threads, progress, record_every, checkpoint, callback, precision
        )

    def prepare(
        self,
        fleet: Fleet,
        steps: int = 20_000,
        runs: int = 10,
        seed: int = 0,
        theta0: ArrayLike | None = None,
    ) -> Prepared:
        """Check the arguments of ``train`` that decide a training, and put them together."""
        problem, algo = self.problem(fleet, steps, runs, seed), self.algorithm()
        start = starting_point(problem, theta0, algo.initial_value)
        settings = algo.settings(problem.fleet) | self.settings() | {"warm_start": theta0 is not None}
        return Prepared(problem, start, settings)

    def settings(self) -> dict[str, Any]:
        """The method and its settings in words and numbers, for records."""
        own = {field.name: repr(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]
        return {"method": self.name, "method_settings": own}

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Numbers that one of ``N`` agents sends and receives: ``d`` and ``d`` every round.

        Parameters
        ----------
        d : int
            Parameters.
        N : int
            Agents.

        Returns
        -------
        Communication
            Numbers sent, numbers received, and steps between two exchanges.
        """
        return Communication(d, d, self.algorithm().sync_every)


def mean_root(method: Setting, fleet: Fleet) -> Floats:
    """`federated_point` of a method's features and policy, agents weighted by their late step sizes."""
    algo, problem = method.algorithm(), method.problem(fleet, 1, 1, 0)
    return federated_point(as_fleet(fleet), algo.features, algo.policy, effective_weights(problem))


def learned_policies(history: History, features: FiniteFeatures, policy: Policy) -> Floats:
    """The policy (R, S, A) of every run's last central parameter."""
    sizes = (history.settings[name] for name in ("states", "actions"))
    on_world: FeatureMap = features.on(*sizes)
    return np.stack([improvement(policy, on_world, theta) for theta in history.final.values])
