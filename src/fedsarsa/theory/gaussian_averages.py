"""One world averaged over a Gaussian parameter: what SARSA does there while its policy varies with the noise.

The mean-path semi-gradient g-bar bends with the policy, and its noise Sigma with the parameter. Where a
parameter theta ~ N(m, V) is spread so widely that this counts, its moments follow the averages

    E[g-bar(theta)],    E[Dg-bar(theta)] = E[g-bar(theta) (theta - m)'] V^-1,    E[Sigma(theta)],

not the values at m (the second is Stein's lemma). They are taken over points that have exactly the mean and
the covariance of the Gaussian: affine semi-gradients (fixed policies) are averaged exactly, and so is their
noise with all its lags.
"""

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from fedsarsa._checks import Floats
from fedsarsa.theory.action_classes import Classes, Dynamics

# Points at least; there are at least two per parameter. Projections are cheap, and take more.
POINTS = 64
PROJECTION_POINTS = 4096
# Standard deviation in every direction at least, so that there are difference quotients: as a share of the
# parameter's size, or of the temperature where that is less.
LEAST_WIDTH = 1e-4
# Standard deviations between the mean and the ball's surface from which on a projection changes nothing.
INSIDE = 5.0


class Average(NamedTuple):
    """Averages over a Gaussian: semi-gradient (d,), Jacobian (d, d) and long-run noise covariance (d, d)."""

    g: Floats
    J: Floats
    noise: Floats


@lru_cache(maxsize=16)
def gaussian_points(dim: int, least: int = POINTS) -> Floats:
    """Points (P, dim) of mean 0 and covariance I, in pairs z, -z, with the radii of a Gaussian."""
    rng = np.random.default_rng(0)
    frames = -(-least // (2 * dim))
    count = frames * dim
    radii = rng.permutation(scipy.stats.chi(dim).ppf((np.arange(count) + 0.5) / count))
    directions = [np.linalg.qr(rng.normal(size=(dim, dim)))[0] for _ in range(frames)]
    half = radii[:, None] * np.concatenate(directions)
    sizes, vectors = np.linalg.eigh(half.T @ half / count)
    half = half @ (vectors / np.sqrt(sizes)) @ vectors.T
    points = np.concatenate([half, -half])
    points.setflags(write=False)
    return points


def average(world: Dynamics, classes: Classes, theta: Floats, spread: Floats) -> Average:
    """A world averaged over parameters of mean ``theta`` (d,) and covariance ``spread`` (d, d)."""
    z = gaussian_points(len(theta))
    sizes, vectors = np.linalg.eigh(spread)
    size = max(float(np.abs(theta).max()), float(world.reward_square.max()) ** 0.5) or 1.0
    least = LEAST_WIDTH * min(size, 1 / classes.slope if classes.slope else np.inf)
    widths = np.sqrt(np.maximum(sizes, least**2))
    # The symmetric root: points then move continuously with the covariance.
    here = Points(world, classes, theta + z @ (vectors * widths) @ vectors.T)
    slope = (here.g.T @ z / len(z) @ vectors / widths) @ vectors.T
    return Average(here.g.mean(axis=0), slope, here.noise())


def projected(theta: Floats, spread: Floats, radius: float) -> tuple[Floats, Floats, Floats, float]:
    """The projection on a ball of parameters with mean ``theta`` and covariance ``spread``, as an affine map.

    It has the mean and covariance that the projection has, and its mean slope: M (d, d), c (d,), Q (d, d).
    With them comes the probability that the projection moves the parameter.
    """
    sizes, vectors = np.linalg.eigh(spread)
    widths = np.sqrt(np.maximum(sizes, 0.0))
    if np.sqrt(theta @ theta + sizes.sum()) + INSIDE * widths[-1] <= radius:
        return np.eye(len(theta)), np.zeros_like(theta), np.zeros_like(spread), 0.0
    z = gaussian_points(len(theta), PROJECTION_POINTS)
    widths = np.maximum(widths, LEAST_WIDTH * radius)
    around = z @ (vectors * widths) @ vectors.T
    points = theta + around
    norms = np.linalg.norm(points, axis=1)
    points *= np.minimum(1.0, radius / norms)[:, None]
    mean = points.mean(axis=0)
    points -= mean
    slope = (points.T @ z / len(z) @ vectors / widths) @ vectors.T
    rest = points - around @ slope.T
    return slope, mean - slope @ theta, rest.T @ rest / len(z), float((norms > radius).mean())


class Points:
    """A world at parameters (P, d), under their policies unless others are given. Arrays are (P, C, S)."""

    def __init__(self, world: Dynamics, classes: Classes, theta: Floats, pi: Floats | None = None) -> None:
        self.world, self.phi = world, classes.phi
        count, states = len(theta), world.kernel.shape[2]
        flat = self.phi.reshape(-1, self.phi.shape[2])
        self.q = (theta @ flat.T).reshape(count, -1, states)
        self.pi = classes.masses(self.q) if pi is None else pi
        self.system = np.eye(states) - self._chain(self.pi) + 1 / states
        uniform = np.full((count, states, 1), 1 / states)
        eta = np.maximum(np.linalg.solve(self.system.transpose(0, 2, 1), uniform)[..., 0], 0.0)
        self.eta = eta / eta.sum(axis=1, keepdims=True)
        self.mu = self.pi * self.eta[:, None]
        self.value = (self.pi * self.q).sum(axis=1)
        self.expected = self._ahead(self.world.kernel, self.value)
        self.error = world.reward + world.discount * self.expected - self.q
        self.g: Floats = (self.mu * self.error).reshape(count, -1) @ flat

    def _ahead(self, kernel: Floats, values: Floats) -> Floats:
        """E[X(s') | s, c], (P, C, S), for X = ``values`` (P, S)."""
        return np.moveaxis(kernel @ values.T, 2, 0)

    @cached_property
    def values(self) -> Floats:
        """E[sum_t g_t - g-bar | s], (P, S, d): the Poisson solution."""
        U = np.linalg.solve(self.system, self._per_state(self.pi * self.error) - self.g[:, None])
        return U - self.eta[:, None] @ U

    def operators(self) -> tuple[Floats, Floats]:
        """A-bar (P, d, d) and b-bar (P, d) of Definition 5 (``def:td-op``)."""
        world, dim = self.world, self.phi.shape[2]
        psi = np.einsum("pcs,csd->psd", self.pi, self.phi)
        ahead = (world.kernel.reshape(-1, psi.shape[1]) @ psi).reshape(*self.mu.shape, dim)
        slope = (self.mu[..., None] * (world.discount * ahead - self.phi)).reshape(len(psi), -1, dim)
        flat = self.phi.reshape(-1, dim)
        return flat.T @ slope, (self.mu * world.reward).reshape(len(psi), -1) @ flat

    def square_error(self) -> Floats:
        """E[delta^2 | s, c], (P, C, S), of the TD error delta."""
        world, q = self.world, self.q
        square = self._ahead(world.kernel, (self.pi * q**2).sum(axis=1))
        paid = world.reward * self.expected
        if world.rewarded is not None:
            paid = self._ahead(world.rewarded, self.value)
        now = world.reward_square - 2 * world.reward * q + q**2
        return now + 2 * world.discount * (paid - q * self.expected) + world.discount**2 * square

    def noise(self) -> Floats:
        """The mean of Sigma = C_0 + D + D', (d, d), D the sum of the noise's covariances at all later lags.

        D = sum over x' of a(x') E[sum_t g_t - g-bar | x']', where a(x'), the noise by the pair x' it leads
        to, is pi(x') (F(s') + G(s') Q(x')): what depends on x' through s' alone is summed over classes first.
        The part of a(x') that is proportional to eta(s') leads to nothing, as eta'U = 0.
        """
        world, phi, mu, q, U = self.world, self.phi, self.mu, self.q, self.values
        count, dim = len(self.g), phi.shape[2]
        flat = phi.reshape(-1, dim)
        instant = (mu * self.square_error()).mean(axis=0).reshape(-1)
        # E[sum_t g_t - g-bar | s'] = U(s'); the same weighed by Q(x').
        weighed = self.pi * q
        scored = self._per_state(weighed * self.error) + self._chain(weighed) @ U
        scored -= self.value[..., None] * self.g[:, None]
        if world.rewarded is None:
            later = self._led_to(world.kernel, mu * (world.reward - q), U)
        else:
            later = self._led_to(world.rewarded, mu, U) - self._led_to(world.kernel, mu * q, U)
        later += self._led_to(world.kernel, world.discount * mu, scored)
        return (flat.T * instant) @ flat + (later + later.T - self.g.T @ self.g) / count

    def _chain(self, weights: Floats) -> Floats:
        """sum over classes of weights(c, s) P_c(s, s'), (P, S, S)."""
        return (weights.transpose(2, 0, 1) @ self.world.kernel.transpose(1, 0, 2)).transpose(1, 0, 2)

    def _led_to(self, kernel: Floats, weights: Floats, values: Floats) -> Floats:
        """sum over points, pairs x and s' of weights(x) phi(x) kernel(x, s') values(s')', (d, d).

        For weights (P, C, S) and values (P, S, d). The sum over points comes first: one product of matrices.
        """
        states, dim = values.shape[1:]
        pairs = weights.reshape(len(values), -1).T @ values.reshape(len(values), -1)
        ahead = kernel.reshape(-1, 1, states) @ pairs.reshape(-1, states, dim)
        return self.phi.reshape(-1, dim).T @ ahead[:, 0]

    def _per_state(self, weights: Floats) -> Floats:
        """sum over classes of weights(c, s) phi(s, c), (P, S, d)."""
        return np.moveaxis(weights.transpose(2, 0, 1) @ self.phi.transpose(1, 0, 2), 0, 1)
