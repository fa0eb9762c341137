"""Worlds seen through classes of actions: actions that share features and are chosen alike are one.

``ModuloFeatures(5, 5)`` has 5 classes, however many actions there are. Arrays over pairs are (C, S, .) with C
classes; where no two actions are alike, classes are the actions themselves.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.learning.features import Aggregation, FeatureMap
from fedsarsa.learning.policies import FixedPolicy, Policy, Softmax
from fedsarsa.theory.stationary import one_class
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.kernels import ShiftKernel


@dataclass(frozen=True, eq=False)
class Classes:
    """Actions grouped into classes that share features and policy.

    Attributes
    ----------
    of : (A,) int
        Class of each action.
    share : (A, S)
        Probability of an action within its class, whatever the parameter.
    phi : (C, S, d)
        Features of a class.
    rows : (R, S) or None
        Of an aggregation: 1 where a state is in a row, else 0; phi(s, c) is e_j with j = row C + c.
    slope : float
        beta in d pi(c|s) = beta pi(c|s) (phi(s, c) - E[phi | s])'d theta: 1/temperature for softmax. The
        other policies are constant around almost every parameter: 0.
    """

    features: FeatureMap
    policy: Policy
    of: NDArray[np.int64]
    share: Floats
    phi: Floats
    rows: Floats | None
    slope: float

    @cached_property
    def member(self) -> Floats:
        """Which action is in which class, (A, C)."""
        return np.eye(len(self.phi))[self.of]

    @cached_property
    def rotations(self) -> Floats | None:
        """Share of a class's actions that rotate one state to another, (C, S, S), for shift kernels.

        None where shares differ between states.
        """
        if (self.share != self.share[:, :1]).any():
            return None
        states = np.arange(self.share.shape[1])
        result = np.zeros((len(self.phi), len(states), len(states)))
        for action, c in enumerate(self.of):
            result[c, states, (states + action) % len(states)] += self.share[action, 0]
        return result

    def masses(self, values: Floats) -> Floats:
        """pi(c | s), (..., C, S), for ``values`` Q(s, c) of the same shape."""
        each = np.swapaxes(values[..., self.of, :], -1, -2)  # (..., S, A)
        pi = np.broadcast_to(self.policy.probabilities(each, classes=self.features.classes), each.shape)
        return np.ascontiguousarray(np.swapaxes(pi @ self.member, -1, -2))

    def at(self, theta: Floats) -> "Point":
        """Policy and values at a parameter, the same in every world."""
        return Point(self.phi, self.rows, theta, self.masses(self.phi @ theta), self.slope)


def classes(features: FeatureMap, policy: Policy, states: int, actions: int) -> Classes:
    """The classes of actions of a feature map and a policy."""
    rows = None
    if isinstance(features, Aggregation):
        of, width = features.columns, features.width
        rows = np.eye(features.dim // width)[:, features.rows]
        phi = np.zeros((width, states, features.dim))
        for c in range(width):
            phi[c, np.arange(states), features.rows * width + c] = 1.0
    else:
        of, phi = np.arange(actions), np.ascontiguousarray(np.moveaxis(features.table, 1, 0))
    # Within a class a fixed policy says who is chosen; the others choose all alike.
    alike = np.ones((states, actions))
    chosen = policy.table(states, actions) if isinstance(policy, FixedPolicy) else alike
    total = (chosen @ np.eye(len(phi))[of])[:, of]
    share = np.divide(chosen, total, out=np.zeros_like(total), where=total > 0).T
    slope = 1 / policy.parameter if isinstance(policy, Softmax) and actions > 1 else 0.0
    return Classes(features, policy, of, share, phi, rows, slope)


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A world as its classes of actions see it.

    Attributes
    ----------
    kernel : (C, S, S)
        P(s' | s, c).
    reward, reward_square : (C, S)
        E[r | s, c] and E[r^2 | s, c].
    rewarded : (C, S, S) or None
        E[r; s' | s, c]; None where the reward is known from (s, c) and this is their product.
    """

    kernel: Floats
    reward: Floats
    reward_square: Floats
    rewarded: Floats | None
    discount: float
    initial: Floats

    def chain(self, pi: Floats) -> Floats:
        """Transitions between states (S, S) under a policy (C, S)."""
        return np.einsum("cs,cst->st", pi, self.kernel)

    def expect_paid(self, values: Floats, expected: Floats) -> Floats:
        """E[r X(s') | s, c], (C, S, k), for X = ``values`` (S, k) with E[X(s') | s, c] = ``expected``."""
        return self.reward[..., None] * expected if self.rewarded is None else self.rewarded @ values


def dynamics(mdp: FiniteMDP, classes: Classes) -> Dynamics:
    """The dynamics of a world, actions averaged over their class; it must have one recurrent class.

    Softmax and fixed policies reach the same states whatever the parameter: one look, at 0, is enough for
    them.
    """
    if isinstance(mdp.kernel, ShiftKernel) and mdp.reward.ndim == 1 and classes.rotations is not None:
        # The published worlds, much faster: one product per class instead of one matrix per action.
        first, second = (np.tile(mdp.reward**power, (len(classes.phi), 1)) for power in (1, 2))
        kernel = mdp.kernel.P0 @ classes.rotations
        world = Dynamics(kernel, first, second, None, mdp.discount, mdp.initial)
    else:
        world = _sum_over_actions(mdp, classes)
    one_class(world.chain(classes.at(np.zeros(classes.phi.shape[2])).pi))
    return world


def _sum_over_actions(mdp: FiniteMDP, classes: Classes) -> Dynamics:
    """The dynamics of any world, action by action."""
    count, states = len(classes.phi), mdp.states
    kernel = np.zeros((count, states, states))
    first, second = np.zeros((2, count, states))
    known = mdp.reward.ndim == 1 or (mdp.reward.ndim == 2 and count == mdp.actions)
    rewarded = None if known else np.zeros_like(kernel)
    for action, c in enumerate(classes.of):
        moves = classes.share[action][:, None] * mdp.kernel.matrix(action)
        reward = mdp.reward if mdp.reward.ndim == 1 else mdp.reward[:, action]
        reward = reward if reward.ndim == 2 else reward[:, None]
        paid = moves * reward
        kernel[c] += moves
        first[c] += paid.sum(axis=1)
        second[c] += (paid * reward).sum(axis=1)
        if rewarded is not None:
            rewarded[c] += paid
    return Dynamics(kernel, first, second, rewarded, mdp.discount, mdp.initial)


@dataclass(frozen=True, eq=False)
class Point:
    """Policy and values at a parameter.

    Sums with features have few terms where they are an aggregation's, which ``rows`` says.
    """

    phi: Floats
    rows: Floats | None
    theta: Floats
    pi: Floats  # (C, S)
    slope: float

    @cached_property
    def q(self) -> Floats:
        """Q(s, c), (C, S)."""
        return self.phi @ self.theta

    @cached_property
    def value(self) -> Floats:
        """V(s) = E[Q(s, c) | s], (S,)."""
        return (self.pi * self.q).sum(axis=0)

    @cached_property
    def ahead(self) -> Floats:
        """E[phi(s, c) | s], (S, d)."""
        return per_state(self.pi, self.phi)

    @cached_property
    def dpi(self) -> Floats:
        """Gradient of pi(c|s) in the parameter, (C, S, d)."""
        return self.slope * self.pi[..., None] * (self.phi - self.ahead)

    @cached_property
    def dvalue(self) -> Floats:
        """Gradient of V(s) in the parameter, (S, d)."""
        return per_state(self.q, self.dpi) + self.ahead

    def variances(self, spread: Floats) -> Floats:
        """phi' V phi of every pair, (C, S), for V = ``spread`` (d, d)."""
        if self.rows is None:
            return np.einsum("csd,csd->cs", self.phi @ spread, self.phi)
        return np.diag(spread).reshape(len(self.rows), -1).T @ self.rows

    def total(self, weights: Floats) -> Floats:
        """sum over pairs of weights(c, s) phi(s, c), (d,)."""
        if self.rows is None:
            return np.tensordot(weights, self.phi, 2)
        return (self.rows @ weights.T).ravel()

    def second_moment(self, weights: Floats) -> Floats:
        """sum over pairs of weights(c, s) phi phi', (d, d)."""
        return moment(weights, self.phi, self.phi) if self.rows is None else np.diag(self.total(weights))

    def moment_with(self, weights: Floats, right: Floats) -> Floats:
        """sum over pairs of weights(c, s) phi(s, c) right(c, s, .)', (d, k)."""
        if self.rows is None:
            return moment(weights, self.phi, right)
        each = (weights[:, None] * self.rows) @ right  # (C, R, k)
        return each.swapaxes(0, 1).reshape(-1, right.shape[2])

    def flow_of(self, weights: Floats, kernel: Floats) -> Floats:
        """sum over pairs of weights(c, s) phi(s, c) kernel(c, s, s'), (S, d)."""
        if self.rows is None:
            return flow(kernel, weights[..., None] * self.phi)
        each = (weights[:, None] * self.rows) @ kernel  # (C, R, S)
        return each.transpose(2, 1, 0).reshape(kernel.shape[2], -1)


def per_state(weights: Floats, pairs: Floats) -> Floats:
    """sum over classes of weights(c, s) pairs(c, s, .), (S, k)."""
    return np.einsum("cs,csk->sk", weights, pairs)


def moment(weights: Floats, left: Floats, right: Floats) -> Floats:
    """sum over pairs of weights left right', (k, l), for ``left`` (C, S, k) and ``right`` (C, S, l)."""
    flat = (weights[..., None] * left).reshape(-1, left.shape[2])
    return flat.T @ right.reshape(-1, right.shape[2])


def flow(kernel: Floats, weights: Floats) -> Floats:
    """sum over pairs of weights(c, s, .) kernel(c, s, s'), (S, k)."""
    return kernel.reshape(-1, kernel.shape[2]).T @ weights.reshape(-1, weights.shape[2])
