"""Rows to compare with: agents that learn alone, and agents that all learn in the mean world."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, Prepared
from fedsarsa.federation.history import History
from fedsarsa.learning.features import FiniteFeatures
from fedsarsa.learning.policies import Greedy, Policy, improvement
from fedsarsa.methods import SARSA, Communication, FedQ, FedTD, OneShotTD
from fedsarsa.methods.policy_evaluation import each_operators
from fedsarsa.worlds.fleet import Fleet

NOTHING = Communication(0, 0, None)


@dataclass(frozen=True, eq=False)
class AloneSARSA(SARSA):
    """SARSA of every agent by itself."""

    name: ClassVar[str] = "alone, SARSA"

    def algorithm(self) -> FedSARSA:
        """FedSARSA that never averages."""
        return replace(super().algorithm(), sync_every=None)

    def target(self, fleet: Fleet) -> None:  # noqa: ARG002
        """None: every agent has a point of its own, if its policy is smooth."""
        return

    def policies(self, history: History) -> Floats:
        """Every agent's own policy, (R, N, S, A)."""
        return _own_policies(history, self.features, self.policy)

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return NOTHING


@dataclass(frozen=True, eq=False)
class AloneQ(FedQ):
    """Q-learning of every agent by itself."""

    name: ClassVar[str] = "alone, Q-learning"

    def algorithm(self) -> FedSARSA:
        """Q-learning that never averages."""
        return replace(super().algorithm(), sync_every=None)

    def target(self, fleet: Fleet) -> None:  # noqa: ARG002
        """None: every agent has a point of its own, if it visits all pairs."""
        return

    def policies(self, history: History) -> Floats:
        """Every agent's own policy, (R, N, S, A)."""
        return _own_policies(history, self.features, Greedy())

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return NOTHING


@dataclass(frozen=True, eq=False)
class AloneTD(OneShotTD):
    """TD(0) of every agent by itself."""

    name: ClassVar[str] = "alone, TD(0)"

    def target(self, fleet: Fleet) -> Floats:
        """Every agent's own fixed point, (N, d)."""
        return np.array([one.solve() for one in each_operators(self, fleet)])

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return NOTHING


@dataclass(frozen=True, eq=False)
class PooledSARSA(SARSA):
    """FedSARSA of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, SARSA"

    def prepare(self, fleet: Fleet, *args: Any, **options: Any) -> Prepared:
        """Prepare a training in the mean world."""
        return super().prepare(pooled(fleet), *args, **options)

    def target(self, fleet: Fleet) -> Floats | None:
        """That of the mean world."""
        return super().target(pooled(fleet))


@dataclass(frozen=True, eq=False)
class PooledQ(FedQ):
    """Federated Q-learning of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, Q-learning"

    def prepare(self, fleet: Fleet, *args: Any, **options: Any) -> Prepared:
        """Prepare a training in the mean world."""
        return super().prepare(pooled(fleet), *args, **options)

    def target(self, fleet: Fleet) -> Floats | None:
        """That of the mean world."""
        return super().target(pooled(fleet))


@dataclass(frozen=True, eq=False)
class PooledTD(FedTD):
    """Federated TD(0) of agents that all live in the mean world."""

    name: ClassVar[str] = "pooled, TD(0)"

    def prepare(self, fleet: Fleet, *args: Any, **options: Any) -> Prepared:
        """Prepare a training in the mean world."""
        return super().prepare(pooled(fleet), *args, **options)

    def target(self, fleet: Fleet) -> Floats:
        """That of the mean world."""
        return super().target(pooled(fleet))


def pooled(fleet: Fleet) -> Fleet:
    """As many agents, all in the mean world."""
    return Fleet([fleet.central()] * len(fleet))


def _own_policies(history: History, features: FiniteFeatures, policy: Policy) -> Floats:
    on_world = features.on(*(history.settings[name] for name in ("states", "actions")))
    return np.array([[improvement(policy, on_world, own) for own in run] for run in history.local.values])
