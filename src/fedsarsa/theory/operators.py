"""The mean-path operators of a world under a policy: A-bar, b-bar and Phi (Definition ``def:td-op``).

A-bar = discount F'Psi - Phi, where Psi(s) = E[phi(s, a) | s] and F(s') is the features' flow into s':
the mean of phi(s, a) over steps (s, a) -> s'. Both have S rows, so nothing of size S x A x d is built
for features that aggregate pairs, and one-hot features of large worlds stay cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.features import Aggregation, FeatureMap
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.kernels import Kernel, ShiftKernel

# Eigenvalues of Phi below this share of the largest may be rounding: of directions never visited.
UNVISITED = 1e-13
# Singular values of the visited features below this share of the largest are rounding.
DEPENDENT = 1e-13


@dataclass(frozen=True, eq=False)
class Operators:
    """Where a policy leads in a world, and what SARSA does there on average.

    Attributes
    ----------
    policy : (S, A)
        pi(a|s).
    eta : (S,)
        Stationary distribution of states.
    mu : (S, A)
        Stationary distribution of pairs, eta(s) pi(a|s).
    b : (d,)
        b-bar = E[phi(s, a) r(s, a)].
    gram : (d,) or (d, d)
        Phi = E[phi phi']; its diagonal alone where features aggregate pairs (the rest is zero).
    inflow, ahead : (S, d)
        F and Psi of the module's docstring.
    table : (S, A, d) or None
        The features themselves, where they do not aggregate pairs.
    """

    policy: Floats
    eta: Floats
    mu: Floats
    b: Floats
    gram: Floats
    inflow: Floats
    ahead: Floats
    discount: float
    table: Floats | None

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return len(self.b)

    @cached_property
    def Phi(self) -> Floats:  # noqa: N802
        """E[phi(s, a) phi(s, a)'] over the stationary distribution, (d, d)."""
        return np.diag(self.gram) if self.gram.ndim == 1 else self.gram

    @cached_property
    def A(self) -> Floats:  # noqa: N802
        """A-bar = E[phi(s, a) (discount phi(s', a') - phi(s, a))'], (d, d)."""
        return self.discount * (self.inflow.T @ self.ahead) - self.Phi

    @cached_property
    def lam(self) -> float:
        """The smallest eigenvalue of Phi on the visited subspace (``eq:lam``); 0 where rounding hides it."""
        if self.table is None:
            return float(self.gram[self.visited].min())
        if self._well_visited:
            return float(np.linalg.eigvalsh(self.gram)[0])
        # As a squared singular value it keeps its digits where it is tiny.
        weighted = np.sqrt(self.mu[self.mu > 0])[:, None] * (self.table[self.mu > 0] @ self.basis)
        sizes = np.linalg.svd(weighted, compute_uv=False)
        return float(sizes[-1] ** 2) if sizes[-1] > DEPENDENT * sizes[0] else 0.0

    @cached_property
    def _well_visited(self) -> bool:
        """Whether every direction is visited, and by far."""
        values = np.linalg.eigvalsh(self.Phi)
        return bool(values[0] > UNVISITED * values[-1])

    @property
    def rank(self) -> int:
        """Number of directions of the parameter that the policy ever visits; d when all are."""
        return int(self.visited.sum()) if self.table is None else self.basis.shape[1]

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Which parameters the policy ever moves, (d,)."""
        return (self.gram if self.gram.ndim == 1 else np.diag(self.gram)) > 0

    @cached_property
    def basis(self) -> Floats:
        """Orthonormal basis of the visited subspace, (d, rank): what visited features span.

        However rarely a pair is visited, in the long run its parameters are learned.
        """
        if self.table is None:
            return np.eye(self.dim)[:, self.visited]
        if self._well_visited:
            return np.eye(self.dim)
        _, sizes, directions = np.linalg.svd(self.table[self.mu > 0], full_matrices=False)
        return directions[sizes > DEPENDENT * sizes[0]].T

    def semi_gradient(self, theta: Floats) -> Floats:
        """g-bar = A-bar theta + b-bar, the mean-path semi-gradient (Definition ``def:semi-grad``), (d,)."""
        shrink = self.gram * theta if self.gram.ndim == 1 else self.gram @ theta
        return self.discount * (self.inflow.T @ (self.ahead @ theta)) - shrink + self.b

    def solve(self) -> Floats:
        """The parameter with A-bar theta + b-bar = 0, (d,); unvisited directions stay 0.

        On the visited subspace A-bar is negative definite (``eq:gd-3``), so the solution is unique.
        """
        if self.table is None:
            # Phi is diagonal: divide by it, and solve for d parameters or for the S state values
            # Psi theta, whichever are fewer. Rows of unvisited parameters are zero, and so are they.
            flow, reward = (
                np.divide(part, self.gram, out=np.zeros_like(part), where=self.visited)
                for part in (self.discount * self.inflow, self.b)
            )
            if self.dim <= len(self.eta):
                return np.asarray(np.linalg.solve(np.eye(self.dim) - flow.T @ self.ahead, reward))
            system = np.eye(len(self.eta)) - self.ahead @ flow.T
            return np.asarray(reward + flow.T @ np.linalg.solve(system, self.ahead @ reward))
        if self._well_visited:
            return np.asarray(np.linalg.solve(self.A, -self.b))
        # Directions visited so rarely that rounding hides them are left at zero, as unvisited ones are.
        reduced = np.linalg.lstsq(self.basis.T @ self.A @ self.basis, -(self.basis.T @ self.b), rcond=None)
        return self.basis @ reduced[0]


def operators(mdp: FiniteMDP, features: FeatureMap, policy: Floats) -> Operators:
    """Stationary quantities of a world under a fixed policy.

    Parameters
    ----------
    features : FeatureMap
        The features on this world, ``features.on(S, A)``.
    policy : (S, A)
        pi(a|s).
    """
    states, actions = mdp.states, mdp.actions
    if policy.shape != (states, actions):
        raise ValueError(f"policy must have shape ({states}, {actions}), got {policy.shape}")
    eta = stationary_distribution(mdp.kernel.under(policy))
    mu = eta[:, None] * policy
    paid = mu * mdp.expected_reward
    if isinstance(features, Aggregation):
        rows = _one_hot(features.rows)
        columns = _one_hot(features.columns, features.width)
        # Row group by row group, then actions gathered into their column group.
        arrived = _arrivals(mdp.kernel, mu.T[:, :, None] * rows)
        inflow = np.tensordot(arrived, columns, axes=(0, 0)).reshape(states, -1)
        ahead = (rows[:, :, None] * (policy @ columns)[:, None, :]).reshape(states, -1)
        gram, b = (np.ravel(rows.T @ pairs @ columns) for pairs in (mu, paid))
    else:
        phi = features.table
        inflow = _arrivals(mdp.kernel, np.moveaxis(mu[:, :, None] * phi, 1, 0)).sum(axis=0)
        ahead = np.matmul(policy[:, None, :], phi)[:, 0]
        flat = phi.reshape(-1, features.dim)
        gram = (flat * mu.reshape(-1, 1)).T @ flat
        b = paid.ravel() @ flat
    table = None if isinstance(features, Aggregation) else features.table
    return Operators(policy, eta, mu, b, gram, inflow, ahead, mdp.discount, table)


def average(each: Sequence[Operators], weights: Floats) -> Operators:
    """Weighted mean of the operators of several worlds under one policy: what a server sees on average."""

    def mean(name: str) -> Floats:
        return sum(w * getattr(one, name) for w, one in zip(weights, each, strict=True))

    return replace(
        each[0], eta=mean("eta"), mu=mean("mu"), b=mean("b"), gram=mean("gram"), inflow=mean("inflow")
    )


def _arrivals(kernel: Kernel, weights: Floats) -> Floats:
    """sum_s weights(a, s, .) P_a(s, s'), shape (A, S, k), for ``weights`` (A, S, k)."""
    if not isinstance(kernel, ShiftKernel):
        return kernel.array.transpose(0, 2, 1) @ weights
    # P_a is P0 with rotated columns: move all mass by P0 at once, then rotate what arrived.
    actions, states, width = weights.shape
    moved = kernel.P0.T @ np.moveaxis(weights, 0, 1).reshape(states, -1)
    moved = moved.reshape(states, actions, width)
    start = np.subtract.outer(np.arange(states), np.arange(actions)).T % states
    return moved[start, np.arange(actions)[:, None]]


def _one_hot(groups: NDArray[np.int64], width: int | None = None) -> Floats:
    return np.eye(int(groups.max()) + 1 if width is None else width)[groups]
