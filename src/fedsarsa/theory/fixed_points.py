"""Solutions of the projected Bellman equation ``eq:bellman``: where SARSA tends to."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.learning.features import FeatureMap, Features
from fedsarsa.learning.policies import Policy
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.finite import FiniteMDP

RESIDUAL = 1e-10
ITERATIONS = 1000


def fixed_point(mdp: FiniteMDP, features: Features, policy: Policy) -> Floats:
    """theta_*, (d,): E[phi(s, a) (r + discount phi(s', a')'theta - phi(s, a)'theta)] = 0.

    The expectation is over the stationary distribution of the policy Gamma(theta_*) itself. Solved by
    iterating: fix the policy, solve the linear equation. Parameters that the policy never visits stay 0.
    """
    table = features.on(mdp.states, mdp.actions)
    theta: Floats = np.zeros(table.dim)
    best = np.inf
    for _ in range(ITERATIONS):
        A, b = mean_path(mdp, table, policy.probabilities(table.values(theta)))
        residual = float(np.linalg.norm(A @ theta + b))
        best = min(best, residual)
        if residual <= RESIDUAL * max(1.0, float(np.linalg.norm(b))):
            return theta
        theta = np.asarray(np.linalg.lstsq(A, -b, rcond=None)[0], dtype=np.float64)
    raise ValueError(
        f"no fixed point found for {policy!r}: {ITERATIONS} iterations of solving for a fixed policy "
        f"left a residual of {best:.3g}, expected {RESIDUAL:g}"
    )


def mean_path(mdp: FiniteMDP, features: FeatureMap, policy: Floats) -> tuple[Floats, Floats]:
    """A-bar (d, d) and b-bar (d,) of Definition ``def:td-op`` under a fixed policy (S, A)."""
    states, actions = mdp.states, mdp.actions
    visits = stationary_distribution(mdp.kernel.under(policy))[:, None] * policy
    phi = np.stack([[features.vector(s, a) for a in range(actions)] for s in range(states)])
    expected = np.einsum("sa,sad->sd", policy, phi)  # E[phi(s, a) | s], a ~ policy
    ahead = np.stack([mdp.kernel.expect(expected[:, k]) for k in range(features.dim)], axis=2)
    weighted = visits[:, :, None] * phi
    A = np.einsum("sad,sae->de", weighted, mdp.discount * ahead - phi)
    b = np.einsum("sad,sa->d", weighted, mdp.expected_reward)
    return A, b
