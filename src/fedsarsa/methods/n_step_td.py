"""n-step TD, with the policy that is evaluated or with others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.servers import Mean
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.targets import Behaviour, Step, behaviours
from fedsarsa.methods.policy_evaluation import PredictionInRounds, each_operators, late_steps, rest_point
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet


@dataclass(frozen=True, eq=False)
class NStepTD(PredictionInRounds):
    """Khodadadian, Sharma, Joshi and Maguluri 2022: federated n-step TD, on- and off-policy.

    A step adds up the discounted errors of n transitions ahead, all at the present parameter. Where agents
    act by policies of their own (``behaviour``), errors are weighted by the products of pi / behaviour.

    Parameters
    ----------
    features, policy, step_size, sync_every, radius
        As for `FedTD`.
    n : int
        Transitions that a step looks ahead; 1 is TD(0).
    behaviour : FixedPolicy, or a list with one per agent, optional
        Who acts, where that is not ``policy``: Algorithm 2, for features that group states.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or an agent's behaviour never takes an action that the
        policy takes.

    Notes
    -----
    With errors e_l = r_l + discount Q(s_(l+1), a_(l+1)) - Q(s_l, a_l), all at the present parameter,

        theta_i <- theta_i + alpha_t phi(s_t, a_t) sum_(l = t .. t+n-1) discount^(l-t) rho_l e_l

    where rho_l is 1, or with ``behaviour`` the product of pi / behaviour from t to l.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=6, actions=4)
    >>> method = fs.methods.NStepTD(fs.ModuloFeatures(6, 1), fs.FixedPolicy(0), 0.05, n=3)
    >>> method.train(fleet, steps=100, runs=2)
    History(2 runs, 3 agents, 100 steps, 11 records, d = 6)
    """

    n: int = 2
    behaviour: Behaviour | None = None

    name: ClassVar[str] = "NStepTD"

    def __post_init__(self) -> None:
        _checks.integer("n", self.n, least=1)
        super().__post_init__()
        if self.independent and (self.n > 1 or self.behaviour is not None):
            raise ValueError(
                "independent must be False where steps look several transitions ahead or others act, as that "
                f"takes a chain, got True with n = {self.n}; FedTD takes independent samples"
            )

    def server(self) -> Mean:
        """The mean."""
        return Mean(radius=self.radius)

    def algorithm(self) -> FedSARSA:
        """FedSARSA with a fixed policy, and the agents' behaviour."""
        return replace(super().algorithm(), behaviour=self.behaviour)

    def step(self, step: Step) -> Step:
        """A step that looks n transitions ahead, with ratios where others act."""
        return replace(step, ahead=self.n, ratios=bool(step.behaviour))

    def check(self, fleet: Fleet) -> None:
        """Reject features and behaviours with which off-policy learning does not work."""
        if self.behaviour is None:
            return
        features = self.algorithm().feature_map(fleet)
        if not isinstance(features, Aggregation) or features.width != 1:
            raise ValueError(
                "features must group states, one parameter each, where a behaviour acts: with others, "
                f"off-policy TD may diverge, got {self.features!r}; ModuloFeatures(S, 1) is a table, and "
                "NStepTD without a behaviour takes any"
            )
        wanted = self.policy.table(fleet.states, fleet.actions)
        for agent, behaviour in enumerate(behaviours(self.behaviour, len(fleet))):
            never = np.argwhere((wanted > 0) & (behaviour.table(fleet.states, fleet.actions) == 0))
            if len(never):
                raise ValueError(
                    "behaviour must take every action that the policy takes, as ratios are infinite "
                    f"otherwise, got probability 0 at {_checks.index(never[0])} for agent {agent}; "
                    "FedTD learns where agents act by the policy itself"
                )

    def target(self, fleet: Fleet) -> Floats:
        """Where K steps and the average rest, (d,): the rest point of the n-step operators."""
        fleet = as_fleet(fleet)
        self.check(fleet)
        each = self._behind(fleet) if self.behaviour is not None else self._ahead(fleet)
        return rest_point(each, late_steps(self, fleet), self.sync_every)

    def _ahead(self, fleet: Fleet) -> list[tuple[Floats, Floats]]:
        """A and b of every agent on-policy: what follows a pair is F' P^(n-1) Psi of `Operators`."""
        found = []
        for world, one in zip(fleet, each_operators(self, fleet), strict=True):
            chain, reward = self._chain(world)
            flow, b = fleet.discount * one.inflow.T, one.b.copy()
            for _ in range(self.n - 1):
                b += flow @ reward
                flow = fleet.discount * flow @ chain
            found.append((flow @ one.ahead - one.Phi, b))
        return found

    def _behind(self, fleet: Fleet) -> list[tuple[Floats, Floats]]:
        """A and b of every agent off-policy: Phi' D ((g P)^n - I) Phi, with D of its behaviour."""
        features = self.algorithm().feature_map(fleet)
        assert isinstance(features, Aggregation)
        phi, given = np.eye(features.dim)[features.rows], behaviours(self.behaviour, len(fleet))
        found = []
        for agent, world in enumerate(fleet):
            acting = given[agent % len(given)].table(fleet.states, fleet.actions)
            visits = phi.T * stationary_distribution(world.kernel.under(acting))
            chain, reward = self._chain(world)
            ahead, total = np.eye(fleet.states), np.zeros(fleet.states)
            for _ in range(self.n):
                total += ahead @ reward
                ahead = fleet.discount * ahead @ chain
            found.append((visits @ (ahead - np.eye(fleet.states)) @ phi, visits @ total))
        return found

    def _chain(self, world: FiniteMDP) -> tuple[Floats, Floats]:
        """The chain (S, S) of the policy in a world, and its mean reward (S,)."""
        table = self.policy.table(world.states, world.actions)
        return world.kernel.under(table), (table * world.expected_reward).sum(axis=1)
