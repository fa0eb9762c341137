"""A world's semi-gradient noise on the explicit chain of pairs: slow, plain, and written on its own."""

import numpy as np

import fedsarsa as fs
from tests.worlds_of_tests import dense


class Pairs:
    """The chain over pairs (s, a) of a small world, as (S A) x (S A) matrices."""

    def __init__(self, mdp, features, policy):
        self.mdp, self.features, self.policy = mdp, features, policy
        states, actions = mdp.states, mdp.actions
        self.phi = np.array([dense(features, [s], a) for s in range(states) for a in range(actions)])
        reward = mdp.reward.reshape(mdp.reward.shape + (1,) * (3 - mdp.reward.ndim))
        full = np.broadcast_to(reward, (states, actions, states)).reshape(states * actions, states)
        self.reward = np.repeat(full, actions, axis=1)  # (x, x')

    def chain(self, theta):
        """P(x' | x) under Gamma(theta)."""
        states, actions = self.mdp.states, self.mdp.actions
        pi = np.broadcast_to(self.policy.probabilities(self.features.values(theta)), (states, actions))
        joint = np.einsum("ast,tb->satb", self.mdp.transition, pi)
        return joint.reshape(states * actions, states * actions)

    def stationary(self, theta):
        return np.linalg.matrix_power(self.chain(theta), 2**14)[0]

    def gradients(self, theta):
        """g(theta; x, x'), (x, x', d)."""
        q = self.phi @ theta
        error = self.reward + self.mdp.discount * q[None, :] - q[:, None]
        return self.phi[:, None, :] * error[..., None]

    def mean(self, theta):
        return np.einsum("x,xy,xyd->d", self.stationary(theta), self.chain(theta), self.gradients(theta))

    def lagged(self, theta, lags):
        """C_0, C_1, ..., each E[(g_t - g-bar) (g_{t + k} - g-bar)'] by summing over trajectories."""
        chain, mu = self.chain(theta), self.stationary(theta)
        centred = self.gradients(theta) - self.mean(theta)
        yield np.einsum("x,xy,xyd,xye->de", mu, chain, centred, centred)
        arrived = np.einsum("x,xy,xyd->yd", mu, chain, centred)
        expected = np.einsum("xy,xyd->xd", chain, centred)
        for _ in range(lags):
            yield arrived.T @ expected
            expected = chain @ expected

    def poisson(self, theta):
        """u with u - P u = E[g | x] - g-bar and mean zero, (x, d)."""
        chain, mu = self.chain(theta), self.stationary(theta)
        centred = np.einsum("xy,xyd->xd", chain, self.gradients(theta)) - self.mean(theta)
        return np.linalg.solve(np.eye(len(mu)) - chain + mu, centred)


def jacobian(mdp, features, policy, theta, here):
    """Derivative of g-bar, action by action, given the operators at theta; exact for softmax."""
    values, pi = features.values(theta), here.policy
    if not isinstance(policy, fs.Softmax):
        return here.A
    error = mdp.expected_reward + mdp.discount * mdp.kernel.expect((pi * values).sum(axis=1)) - values
    phi = [features.values(unit) for unit in np.eye(features.dim)]
    # A change of policy dpi moves the stationary distribution by eta dP Z, Z the fundamental matrix, so
    # it moves the mean of y(s) by eta dP u with u = Z y.
    y = np.stack([(pi * one * error).sum(axis=1) for one in phi], axis=1)
    u = np.linalg.solve(np.eye(mdp.states) - mdp.kernel.under(pi) + here.eta, y)
    result = here.A.copy()
    for k, one in enumerate(phi):
        # What one unit of pi(a|s) adds to coordinate k: now, later, and as the next action.
        worth = here.eta[:, None] * (one * error + mdp.kernel.expect(u[:, k]))
        worth += mdp.discount * here.inflow[:, k, None] * values
        change = pi * (worth - (pi * worth).sum(axis=1, keepdims=True)) / policy.temperature
        result[k] += [(change * one).sum() for one in phi]
    return result


def slope(function, theta, step=1e-5):
    """Derivative of a function of theta by central differences; the last axis is theta's."""
    units = step * np.eye(len(theta))
    return np.stack([(function(theta + u) - function(theta - u)) / (2 * step) for u in units], axis=-1)
