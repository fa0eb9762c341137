"""Federated Q-learning with behaviour policies of the agents' own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import ImportanceMean, Mean
from fedsarsa.learning.features import Aggregation, FiniteFeatures, OneHot
from fedsarsa.learning.policies import FixedPolicy, Greedy
from fedsarsa.learning.step_sizes import StepSize, largest_step_size, schedules
from fedsarsa.learning.targets import MAX, Behaviour, behaviours
from fedsarsa.methods.method import Communication, Task
from fedsarsa.methods.setting import Setting, learned_policies
from fedsarsa.theory.mixed_worlds import mixture, visit_shares
from fedsarsa.theory.optimality import optimal_values
from fedsarsa.worlds.fleet import Fleet, as_fleet

EQUAL, IMPORTANCE = AVERAGING = ("equal", "importance")


@dataclass(frozen=True, eq=False)
class FedQ(Setting):
    """Khodadadian et al. 2022 (equal), Woo, Joshi and Chi 2023 (importance): federated Q-learning.

    Every agent acts by a fixed policy of its own, and learns Q(s, a) towards r + discount max Q(s', .). The
    server averages every K steps: alike, or every entry by how often the agents have updated it.

    Parameters
    ----------
    behaviour : FixedPolicy, or a list with one per agent
        Who acts. Together agents must visit all pairs; with importance averaging each may cover a part.
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        Below 1.
    sync_every : int
        K, local steps per round.
    averaging : {"equal", "importance"}
        The mean, or weights (1 - alpha)^-n for n updates of an entry in the round.
    features : OneHot or ModuloFeatures
        One active parameter per pair; OneHot is the papers' table.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, a step size is 1 or more, or features have several active
        parameters per pair.

    Notes
    -----
        Q(s, a) <- Q(s, a) + alpha_t (r + discount max_b Q(s', b) - Q(s, a))

    In worlds that differ it rests where sum_i mu_i(s, a) (T_i Q - Q)(s, a) = 0, with the agents' long-run
    visits mu_i and Bellman optimality operators T_i.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(2, 0.5, 0.5, states=6, actions=2)
    >>> each = [fs.FixedPolicy([0.9, 0.1]), fs.FixedPolicy([0.1, 0.9])]
    >>> method = fs.methods.FedQ(each, step_size=0.1, averaging="importance")
    >>> method.policies(method.train(fleet, steps=100, runs=3)).shape
    (3, 6, 2)
    """

    behaviour: Behaviour = field(default_factory=FixedPolicy)
    step_size: StepSize = 0.1
    sync_every: int = 10
    averaging: str = EQUAL
    features: FiniteFeatures = field(default_factory=OneHot)

    name: ClassVar[str] = "FedQ"
    task: ClassVar[Task] = "control"

    def __post_init__(self) -> None:
        if self.behaviour is None or not behaviours(self.behaviour):
            raise TypeError(f"behaviour must be a FixedPolicy, or one per agent, got {self.behaviour!r}")
        _checks.integer("sync_every", self.sync_every, least=1)
        _checks.choice("averaging", self.averaging, AVERAGING)
        _check_largest(largest_step_size(schedules(self.step_size), 1))
        self.algorithm()

    def algorithm(self) -> FedSARSA:
        """FedSARSA with the largest value as target, and the agents' behaviour."""
        server = ImportanceMean() if self.averaging == IMPORTANCE else Mean()
        return FedSARSA(
            self.features,
            Greedy(),
            self.step_size,
            self.sync_every,
            server=server,
            target=MAX,
            behaviour=self.behaviour,
        )

    def check(self, fleet: Fleet) -> None:
        """Reject features with which Q-learning may diverge, and behaviours that leave out a pair."""
        phi = self.algorithm().feature_map(fleet)
        if not isinstance(phi, Aggregation):
            raise ValueError(
                "features must have one active parameter per pair, as updates of an entry cannot be counted "
                f"otherwise and Q-learning may diverge, got {self.features!r}; FedSARSA takes any"
            )
        entries = phi.rows[:, None] * phi.width + phi.columns
        tables = [one.table(fleet.states, fleet.actions) for one in behaviours(self.behaviour, len(fleet))]
        never = np.argwhere(~np.isin(entries, entries[np.any(tables, axis=0)]))
        if len(never):
            raise ValueError(
                "behaviour must let some agent try every action, as nothing is learned of others, got none "
                f"at {_checks.index(never[0])}; FixedPolicy() tries all, and FedSARSA acts by what it learns"
            )

    def problem(self, fleet: Fleet, steps: int, runs: int, seed: int) -> Problem:
        """The training problem of this method on a fleet, checked."""
        problem = super().problem(fleet, steps, runs, seed)
        _check_largest(problem.largest_step_size)
        return problem

    def target(self, fleet: Fleet) -> Floats | None:
        """The optimal Q of the worlds mixed pair by pair by visits, (S A,), as step sizes vanish.

        None for features that are not one-hot.

        Parameters
        ----------
        fleet : Fleet
            The agents' worlds.

        Returns
        -------
        (S A,) array or None
            The point to which training converges, noise apart.
        """
        if not isinstance(self.features, OneHot):
            return None
        fleet = as_fleet(fleet)
        return optimal_values(mixture(fleet, visit_shares(fleet, self.behaviour))).ravel()

    def policies(self, history: History) -> Floats:
        """The greedy policies (R, S, A) of the last central parameters.

        Parameters
        ----------
        history : History
            What ``train`` returned.

        Returns
        -------
        (R, S, A) array
            Probabilities of actions.
        """
        return learned_policies(history, self.features, Greedy())

    def communication(self, d: int, N: int) -> Communication:  # noqa: ARG002
        """Numbers that one of ``N`` agents sends and receives: with importance, updates are counted too."""
        return Communication(2 * d if self.averaging == IMPORTANCE else d, d, self.sync_every)


def _check_largest(step_size: float) -> None:
    """Refuse step sizes of 1 or more."""
    if step_size >= 1:
        raise ValueError(
            "step_size must be below 1 at every step, as larger ones overshoot and (1 - alpha)^-n is "
            f"infinite or changes sign, got {step_size:g}; FedSARSA with target 'max' takes larger ones"
        )
