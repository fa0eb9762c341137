"""How the mean-path semi-gradient changes with the parameter, the policy's own change included."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.learning.features import Aggregation, FeatureMap
from fedsarsa.learning.policies import Policy, Softmax, improvement
from fedsarsa.theory.operators import Operators, operators
from fedsarsa.worlds.finite import FiniteMDP


def jacobian(
    mdp: FiniteMDP, features: FeatureMap, policy: Policy, theta: Floats, here: Operators | None = None
) -> Floats:
    """Derivative (d, d) of theta -> g-bar_theta(theta) = A-bar_theta theta + b-bar_theta.

    A-bar is the part that TD(0) has; the rest says how a step changes the policy, and with it the
    stationary distribution and the actions of the next pair. That part is exact for softmax; the other
    policies are constant around almost every parameter, so theirs is zero.

    Parameters
    ----------
    here : Operators, optional
        The operators under Gamma(theta), if they are at hand.
    """
    values = features.values(theta)
    if here is None:
        here = operators(mdp, features, improvement(policy, features, theta))
    if not isinstance(policy, Softmax):
        return here.A
    pi, dim = here.policy, features.dim
    error = mdp.expected_reward + mdp.discount * mdp.kernel.expect((pi * values).sum(axis=1)) - values
    phi = [features.values(unit) for unit in np.eye(dim)]
    # A change of policy dpi moves the stationary distribution by eta dP Z, Z the fundamental matrix, so
    # it moves the mean of y(s) by eta dP u with u = Z y.
    y = np.stack([(pi * one * error).sum(axis=1) for one in phi], axis=1)
    u = np.linalg.solve(np.eye(mdp.states) - mdp.kernel.under(pi) + here.eta, y)
    result = here.A.copy()
    for k in range(dim):
        # What one unit of pi(a|s) adds to coordinate k: now, later, and as the next action.
        worth = here.eta[:, None] * (phi[k] * error + mdp.kernel.expect(u[:, k]))
        worth += mdp.discount * here.inflow[:, k, None] * values
        mean = (pi * worth).sum(axis=1, keepdims=True)
        result[k] += gather(features, pi * (worth - mean)) / policy.temperature
    return result


def gather(features: FeatureMap, weights: Floats) -> Floats:
    """sum_{s, a} weights(s, a) phi(s, a), (d,), for ``weights`` (S, A)."""
    if isinstance(features, Aggregation):
        index = features.rows[:, None] * features.width + features.columns
        return np.bincount(index.ravel(), weights.ravel(), features.dim).astype(np.float64)
    total: Floats = np.tensordot(weights, features.table, axes=2)
    return total
