"""Rows to compare with: agents that learn alone, and agents that all learn in the mean world."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.learning.policies import improvement
from fedsarsa.methods import SARSA, Communication, FedQ, FedTD, OneShotTD
from fedsarsa.methods.policy_evaluation import each_operators
from fedsarsa.methods.setting import Setting
from fedsarsa.worlds.fleet import Fleet

NOTHING = Communication(0, 0, None)


class Alone(Setting):
    """Agents that learn how to act by themselves: nothing is sent, and every agent has its own policy."""

    def algorithm(self) -> FedSARSA:
        """FedSARSA that never averages."""
        return replace(super().algorithm(), sync_every=None)

    def target(self, fleet: Fleet) -> None:  # noqa: ARG002
        """None: every agent has a point of its own, if there is one."""
        return

    def policies(self, history: History) -> Floats:
        """Every agent's own policy, (R, N, S, A)."""
        algo, runs = self.algorithm(), history.local.values
        features: Any = algo.features
        on_world = features.on(*(history.settings[name] for name in ("states", "actions")))
        return np.array([[improvement(algo.policy, on_world, own) for own in run] for run in runs])

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return NOTHING


class Pooled(Setting):
    """Agents that all live in the mean world."""

    def train(self, fleet: Fleet, *args: Any, **options: Any) -> History:
        """Train in the mean world."""
        return super().train(pooled(fleet), *args, **options)

    def target(self, fleet: Fleet) -> Any:
        """That of the mean world."""
        return super().target(pooled(fleet))  # type: ignore[misc]


class AloneSARSA(Alone, SARSA):
    """SARSA of every agent by itself."""

    name: ClassVar[str] = "alone, SARSA"


class AloneQ(Alone, FedQ):
    """Q-learning of every agent by itself."""

    name: ClassVar[str] = "alone, Q-learning"


class AloneTD(OneShotTD):
    """TD(0) of every agent by itself."""

    name: ClassVar[str] = "alone, TD(0)"

    def target(self, fleet: Fleet) -> Floats:
        """Every agent's own fixed point, (N, d)."""
        return np.array([one.solve() for one in each_operators(self, fleet)])

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Nothing is sent."""
        return NOTHING


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
