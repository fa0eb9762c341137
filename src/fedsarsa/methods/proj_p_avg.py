"""ProjPAvg: agents plan policies with their own kernel, and a server averages them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.step_sizes import StepSize
from fedsarsa.methods.planner import Model, Planning
from fedsarsa.theory.common_policy import project_rows


@dataclass(frozen=True, eq=False)
class ProjPAvg(Planning):
    """Jin, Peng, Yang, Wang and Zhang 2022: ProjPAvg, projected policy gradients that a server averages.

    Agents take E steps pi_k <- Proj(pi_k + eta G_k), every row projected on the distributions, with the exact
    gradient of their return, G_k(s, a) = rho_k(s) Q_k(s, a), where rho_k are discounted visits. A mean of
    policies is a policy. With E = 1 and steps that vanish it rests at stationary points of the agents' mean
    return, as `best_common_policy` does; constant steps leave an error of the order of eta, since the mean of
    projections is not the projection of the mean.

    Parameters
    ----------
    step_size : float, ConstantStep, LinearDecay, PiecewiseDecay, or a list with one per agent
        eta_t.
    sync_every : int or None
        E, steps per round; None: agents never meet, and are averaged once, at the end.
    decay : float in (0, 1]
        By what step sizes are multiplied at the beginning of every round, from the fourth on, if the mean
        return rose by less than 0.1 % between the beginnings of the two rounds before; 0.9 and 0.5 in
        the released programs.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Notes
    -----
    With discounted visits rho_k and values Q_k of pi_k in world k, E times and then the mean over agents,

        pi_k <- Proj(pi_k + eta rho_k(s) Q_k(s, a))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, method = fs.random_mdps.fleet(agents=3), fs.methods.ProjPAvg(sync_every=1)
    >>> method.policies(method.train(fleet, steps=20, runs=2)).shape
    (2, 5, 5)
    """

    step_size: StepSize = 0.01
    sync_every: int | None = 4
    decay: float | None = 0.9

    name: ClassVar[str] = "ProjPAvg"

    def first_table(self, rng: np.random.Generator, states: int, actions: int) -> Floats:
        """A random policy, (S, A)."""
        table: Floats = super().first_table(rng, states, actions)
        policy: Floats = table / table.sum(axis=1, keepdims=True)
        return policy

    def _start(self, problem: Problem, theta0: ArrayLike | None) -> Floats:
        start = super()._start(problem, theta0)
        if theta0 is not None:
            fleet, _ = problem.finite_worlds
            _checks.distribution("theta0", start.reshape(*start.shape[:-1], fleet.states, fleet.actions))
        return start

    def local(self, model: Model, tables: Floats, kept: Floats, step: Floats) -> tuple[Floats, Floats]:
        """One step of policies (M, S, A) along the gradients of their returns, projected."""
        slope = model.visits(tables)[..., None] * model.ahead(model.values(tables))
        return project_rows(tables + step * slope), kept

    def policy_of(self, tables: Floats) -> Floats:
        """The tables are policies, up to what averaging rounds."""
        policies: Floats = tables / tables.sum(axis=-1, keepdims=True)
        return policies
