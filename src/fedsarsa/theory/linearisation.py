"""One world around one parameter: mean-path semi-gradient, its Jacobian, and the noise around it.

SARSA is a stochastic approximation driven by the chain of pairs x = (s, a), whose law depends on the
parameter. What decides its error, beside the mean-path semi-gradient, are

- the Jacobian J of g-bar, in which policy and stationary distribution move with the parameter;
- the long-run covariance Sigma = C_0 + sum_k (C_k + C_k') of the semi-gradient noise, lags included;
- and, one order in the step size higher, the *memory*: the parameter and the pair it was just updated from
  are correlated. (Of that order is the bending of g-bar over the parameter's spread, too: see ``averages``.)

All of them follow from the Poisson equation U - P_pi U = h - g-bar on *states*, h(s) = E[g | s]: pairs are
reached through U alone, and no (S A) x (S A) matrix is built.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning, lapack

from fedsarsa._checks import Floats
from fedsarsa.theory.action_classes import Dynamics, Point, flow, moment, per_state
from fedsarsa.theory.mixing import mixing_rate

# Steps up to which weights are moved one by one: cheaper than a power of the chain.
FEW = 20


@dataclass(frozen=True, eq=False)
class Poisson:
    """The chain of states under a policy, factorised: B = I - P + 1 1'/S.

    B x = y solves (I - P) x = y for every y of stationary mean zero, and x'B = y' solves x'(I - P) = y' for
    every y that sums to zero.
    """

    chain: Floats
    factors: tuple[Floats, NDArray[np.int32]]

    @cached_property
    def eta(self) -> Floats:
        """The stationary distribution, (S,)."""
        states = len(self.chain)
        eta = np.maximum(self._solve(np.full((states, 1), 1 / states), trans=1)[:, 0], 0.0)
        return eta / eta.sum()

    @cached_property
    def relaxation(self) -> float:
        """Relaxation time, max of 1 / (1 - |lambda|) over the eigenvalues but the one at 1; in steps.

        It is at least 1: a deviation lasts for one step less beyond its own.
        """
        gap = 1 - mixing_rate(self.chain)
        return 1 / gap if gap > 0 else np.inf

    def values(self, rewards: Floats) -> Floats:
        """U - P U = rewards, (S, k), of stationary mean zero as ``rewards`` are."""
        solution = self._solve(rewards)
        return solution - self.eta @ solution

    def moved(self, weights: Floats, steps: int) -> Floats:
        """P'^steps weights, (S, k) or (S,)."""
        if steps > FEW:
            return np.linalg.matrix_power(self.chain.T, steps) @ weights
        for _ in range(steps):
            weights = self.chain.T @ weights
        return weights

    def visits(self, weights: Floats) -> Floats:
        """X - P'X = weights, (S, k), for ``weights`` that sum to zero: sum over all times of P'^l weights."""
        return self._solve(weights, trans=1)

    def _solve(self, right: Floats, trans: int = 0) -> Floats:
        """x of B x = ``right``, (S, k), or of B'x = ``right``."""
        solution, _ = lapack.dgetrs(*self.factors, right, trans)  # scipy's lu_solve takes twice as long
        return solution


def poisson(chain: Floats) -> Poisson:
    """A transition matrix (S, S) with one recurrent class, factorised."""
    triangles, rows, singular = lapack.dgetrf(np.eye(len(chain)) - chain + 1 / len(chain))
    if singular:
        warnings.warn("the chain has more than one recurrent class", LinAlgWarning, stacklevel=2)
    return Poisson(chain, (triangles, rows))


@dataclass(frozen=True, eq=False)
class Linearisation:
    """A world at a parameter.

    Attributes
    ----------
    g : (d,)
        Mean-path semi-gradient g-bar(theta), Definition 4 (``def:semi-grad``).
    J : (d, d)
        Its Jacobian.
    mu : (C, S)
        Stationary distribution of pairs.
    error : (C, S)
        Mean TD error of a pair.
    derror : (C, S, d)
        Its gradient in the parameter.
    by_state : (S, d)
        E[g | s].
    U, ahead, onward : (S, d), (C, S, d), (C, S, d)
        The Poisson solution; E[U(s') | s, c]; E[g | s, c] + E[U(s') | s, c].
    """

    world: Dynamics
    point: Point
    states: Poisson
    g: Floats
    J: Floats
    mu: Floats
    error: Floats
    derror: Floats
    by_state: Floats
    U: Floats
    ahead: Floats
    onward: Floats

    @property
    def gram(self) -> Floats:
        """Phi = E[phi phi'], (d, d)."""
        return self.point.second_moment(self.mu)

    @cached_property
    def square_error(self) -> Floats:
        """E[delta^2 | s, c], (C, S), of the TD error delta = r + discount Q(x') - Q(x)."""
        world, q, discount = self.world, self.point.q, self.world.discount
        value, square = self.point.value, (self.point.pi * self.point.q**2).sum(axis=0)
        expected = world.kernel @ value
        paid = world.expect_paid(value[:, None], expected[..., None])[..., 0]
        now = world.reward_square - 2 * world.reward * q + q**2
        return now + 2 * discount * (paid - q * expected) + discount**2 * (world.kernel @ square)

    @cached_property
    def noise(self) -> Floats:
        """Sigma, (d, d): the long-run covariance of the semi-gradient noise, all lags included.

        g - g-bar = xi + u(x) - u(x'), with u the Poisson solution on pairs and xi a martingale difference:
        sums of g - g-bar have the covariance of sums of xi, and Sigma = E[xi xi'].
        """
        world, point = self.world, self.point
        pairs = self.onward - self.g  # u(s, c)
        scored = per_state(point.pi * point.q, pairs)
        # E[delta u(x') | s, c]
        cross = world.expect_paid(self.U, self.ahead) - point.q[..., None] * self.ahead
        cross += world.discount * (world.kernel @ scored)
        mixed = point.moment_with(self.mu, cross)
        return (
            point.second_moment(self.mu * self.square_error)
            + (mixed + mixed.T)
            + moment(self.mu, pairs, pairs)
            - moment(self.mu, self.onward, self.onward)
        )

    @cached_property
    def instant_noise(self) -> Floats:
        """C_0, (d, d): the covariance of one semi-gradient."""
        return self.point.second_moment(self.mu * self.square_error) - np.outer(self.g, self.g)

    @cached_property
    def arrived(self) -> Floats:
        """sum over x of mu(x) P(x' | x) (g(x, x') - g-bar), (C, S, d): noise by the pair x' it leads to."""
        point, world, mu = self.point, self.world, self.mu
        if world.rewarded is None:
            paid = point.flow_of(mu * (world.reward - point.q), world.kernel)
        else:
            paid = point.flow_of(mu, world.rewarded) - point.flow_of(mu * point.q, world.kernel)
        ahead = world.discount * point.q[..., None] * point.flow_of(mu, world.kernel)
        return point.pi[..., None] * (paid + ahead - self.states.eta[:, None] * self.g)

    @cached_property
    def gone(self) -> Floats:
        """The same by the state after x', (S, d)."""
        return flow(self.world.kernel, self.arrived)

    @cached_property
    def operator(self) -> tuple[Floats, Floats]:
        """E[phi(x') | s, c], (C, S, d), and A-bar (d, d) of Definition 5 (``def:td-op``)."""
        ahead = self.world.kernel @ self.point.ahead
        return ahead, self.point.moment_with(self.mu, self.world.discount * ahead - self.point.phi)

    def shaken(self, spread: Floats) -> Floats:
        """Noise that a parameter's covariance V = ``spread`` adds: E[A V A'] - A-bar V A-bar', (d, d)."""
        world, point, (ahead, A) = self.world, self.point, self.operator
        square = point.variances(spread)
        size = square - 2 * world.discount * np.einsum("csd,csd->cs", point.phi @ spread, ahead)
        size += world.discount**2 * (world.kernel @ (point.pi * square).sum(axis=0))
        return point.second_moment(self.mu * size) - A @ spread @ A.T

    def memory(self, weight: float, period: int) -> Floats:
        """Drift per step and per unit of step size that the correlation of theta and x causes, (d,).

        It is E[Du(x') (g - g-bar)], u the Poisson solution on pairs, less what each synchronisation (every
        ``period`` steps, own ``weight``) takes back of the last updates. A single agent has weight 1.
        """
        point, world, pi = self.point, self.world, self.point.pi[..., None]
        later = self.states.visits(self.gone)  # noise at all later lags together
        lost = (1 - weight) / period
        beyond = self.states.moved(later, period - 1)
        kept = (1 - lost) * self.arrived - lost * pi * (later - beyond)
        after = self.states.visits(flow(world.kernel, kept))
        held = np.einsum("csd,csd->cs", self.derror, kept + pi * after)
        turned = np.einsum("csd,sd->cs", point.dpi, after)
        return point.total(held) + np.tensordot(turned, self.onward, 2)


def linearise(world: Dynamics, point: Point) -> Linearisation:
    """A world at a parameter."""
    discount, phi = world.discount, point.phi
    states = poisson(world.chain(point.pi))
    eta = states.eta
    mu = point.pi * eta
    error = world.reward + discount * (world.kernel @ point.value) - point.q
    derror = discount * (world.kernel @ point.dvalue) - phi
    here = phi * error[..., None]
    h = per_state(point.pi, here)
    g = eta @ h
    U = states.values(h - g)
    ahead = world.kernel @ U
    onward = here + ahead
    J = point.moment_with(mu, derror) + moment(np.broadcast_to(eta, mu.shape), onward, point.dpi)
    return Linearisation(world, point, states, g, J, mu, error, derror, h, U, ahead, onward)
