"""Consensus TD: agents on a graph who watch one chain, each with a reward of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers import Consensus
from fedsarsa.federation.servers.consensus import RING
from fedsarsa.learning.targets import SHARED_CHAIN, Step
from fedsarsa.methods.method import Communication
from fedsarsa.methods.policy_evaluation import Prediction, each_operators, late_steps
from fedsarsa.methods.setting import mean_root
from fedsarsa.worlds.fleet import Fleet, as_fleet

ROUNDING = 1e-12  # by which probabilities of one kernel may differ


@dataclass(frozen=True, eq=False)
class ConsensusTD(Prediction):
    """Doan, Maguluri and Romberg 2019: distributed TD(0) on a graph, without a server.

    At every step an agent mixes the parameters of its neighbours by W, and adds the direction at its own:
    theta_i = sum_j W_ij theta_j + alpha g_i(theta_i).

    Parameters
    ----------
    features, policy, step_size
        As for `FedTD`.
    graph : {"complete", "ring", "star"} or (N, N) array
        W: a graph of ``fs.servers.Consensus``, or a doubly stochastic matrix.
    shared : bool
        Whether all agents watch one chain, as in the paper: their kernels must then be equal. Otherwise every
        agent has a chain of its own.
    radius : float, optional
        Of the ball on which every agent's parameter is projected; no projection unless given.
    independent : bool
        Whether pairs are drawn from stationary distributions, as in the paper, and not along chains.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range; with ``shared``, when it trains, agents have different
        kernels.

    Notes
    -----
    With the direction g_i(theta) = phi(s, a) (r + discount phi(s', a')'theta - phi(s, a)'theta) of TD(0),

        theta_i <- Proj(sum_j W_ij theta_j + alpha_t g_i(theta_i))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, eps_p=0.0, eps_r=0.5, states=6, actions=4)
    >>> method = fs.methods.ConsensusTD(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05, graph="star")
    >>> method.train(fleet, steps=100, runs=2).personal.sizes["agent"]
    3
    """

    graph: ArrayLike | str = RING
    shared: bool = False
    radius: float | None = None

    name: ClassVar[str] = "ConsensusTD"

    def __post_init__(self) -> None:
        _checks.instance("shared", self.shared, bool, "True or False")
        super().__post_init__()

    def server(self) -> Consensus:
        """Consensus on the graph."""
        return Consensus(self.graph, self.radius)

    def step(self, step: Step) -> Step:
        """A step of the agent's own chain, or of the one that all watch."""
        step = super().step(step)
        return replace(step, sampling=SHARED_CHAIN) if self.shared else step

    def check(self, fleet: Fleet) -> None:
        """Reject kernels that differ where agents watch one chain."""
        if not self.shared:
            return
        first = fleet.worlds[0]
        for place, world in enumerate(fleet.worlds):
            pairs = [(world.kernel.matrix(a), first.kernel.matrix(a)) for a in range(fleet.actions)]
            pairs.append((world.initial, first.initial))
            if not all(np.allclose(own, other, rtol=0, atol=ROUNDING) for own, other in pairs):
                agent = int(np.flatnonzero(fleet.world_of == place)[0])
                raise ValueError(
                    "shared must be False where kernels or first states differ, as agents cannot watch one "
                    f"chain then, got True and others for agent {agent}; ConsensusTD(shared=False) gives "
                    "every agent a chain of its own"
                )

    def target(self, fleet: Fleet) -> Floats:
        """Where every agent's mean path rests, (N, d); the federated point as step sizes vanish.

        With one kernel and equal step sizes the mean over agents is the federated point for every step size.
        """
        fleet = as_fleet(fleet)
        agents, alpha = len(fleet), late_steps(self, fleet)
        if not alpha.any():
            return np.tile(mean_root(self, fleet), (agents, 1))
        each = each_operators(self, fleet)
        dim = each[0].dim
        mixing = np.eye(agents) - self.server().matrix(agents)
        system = np.einsum("ij,kl->ikjl", mixing, np.eye(dim))
        for i, one in enumerate(each):
            system[i, :, i] -= alpha[i] * one.A
        constant = np.concatenate([size * one.b for size, one in zip(alpha, each, strict=True)])
        rest = np.linalg.lstsq(system.reshape(agents * dim, -1), constant, rcond=None)[0]
        return np.asarray(rest.reshape(agents, dim))

    def communication(self, d: int, N: int) -> Communication:
        """Numbers that one of ``N`` agents sends and receives: a parameter per neighbour, at every step."""
        weights = self.server().matrix(N)
        neighbours = float((weights > 0).sum(axis=1).mean() - 1)
        return Communication(neighbours * d, neighbours * d, 1)
