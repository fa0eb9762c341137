"""Rows to compare with: agents that learn alone, and agents that all learn in the mean world."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.policies import improvement
from fedsarsa.methods import SARSA, Communication, FedQ, FedTD
from fedsarsa.methods.policy_evaluation import each_operators
from fedsarsa.methods.setting import Setting
from fedsarsa.worlds.fleet import Fleet


class Alone(Setting):
    """Every agent learns by itself, and ends with a parameter of its own."""

    def algorithm(self) -> FedSARSA:
        """The method without averages."""
        return replace(super().algorithm(), sync_every=None)

    def target(self, fleet: Fleet) -> Floats | None:  # noqa: ARG002
        """None: every agent has a point of its own, if any."""
        return None

    def policies(self, history: History) -> Floats:
        """Every agent's own policy, (R, N, S, A)."""
        algo = self.algorithm()
        features = algo.features.on(*(history.settings[name] for name in ("states", "actions")))
        return np.array(
            [[improvement(algo.policy, features, own) for own in run] for run in history.local.values]
        )

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return Communication(0, 0, None)


class Pooled(Setting):
    """All agents live in the mean world."""

    def problem(self, fleet: Fleet, steps: int, runs: int, seed: int) -> Problem:
        """The method's in the mean world."""
        return super().problem(pooled(fleet), steps, runs, seed)

    def target(self, fleet: Fleet) -> Any:
        """The method's in the mean world."""
        return super().target(pooled(fleet))  # type: ignore[misc]


class AloneSARSA(Alone, SARSA):
    """SARSA of every agent by itself."""

    name: ClassVar[str] = "alone, SARSA"


class AloneQ(Alone, FedQ):
    """Q-learning of every agent by itself."""

    name: ClassVar[str] = "alone, Q-learning"


class AloneTD(Alone, FedTD):
    """TD(0) of every agent by itself."""

    name: ClassVar[str] = "alone, TD(0)"

    def target(self, fleet: Fleet) -> Floats:
        """Every agent's own fixed point, (N, d)."""
        return np.array([one.solve() for one in each_operators(self, fleet)])


class PooledSARSA(Pooled, SARSA):
    """FedSARSA of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, SARSA"


class PooledQ(Pooled, FedQ):
    """Federated Q-learning of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, Q-learning"


class PooledTD(Pooled, FedTD):
    """Federated TD(0) of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, TD(0)"


def pooled(fleet: Fleet) -> Fleet:
    """As many agents, all in the mean world."""
    return Fleet([fleet.central()] * len(fleet))
