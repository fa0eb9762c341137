"""Mixtures of the agents' parameters: whom an agent should listen to, and how much.

Let agent j's parameter have the mean m_j and noise of mean square v_j, independent of the other agents'. The
mixture sum_j w_j theta_j then has the mean square distance

    |sum_j w_j m_j - x|^2 + sum_j w_j^2 v_j

from a point x. `mixture_weights` minimises it. Where means and noise are not known, `estimate` takes them
from a few parameters of each agent, and `estimated_weights` minimises what is then known of the distance.
"""

from typing import NamedTuple

import numpy as np
import scipy

from fedsarsa._checks import Floats

# Correlations of neighbouring samples, among which `estimate` finds the one that fits.
CORRELATIONS = 1 - np.geomspace(1, 1e-6, 400)


def mixture_errors(weights: Floats, points: Floats, target: Floats, noise: Floats) -> Floats:
    """|sum_j w_j points_j - target|^2 + sum_j noise_j w_j^2 of mixtures (..., N), with targets (..., d)."""
    errors: Floats = ((weights @ points - target) ** 2).sum(axis=-1) + weights**2 @ noise
    return errors


def mixture_weights(points: Floats, target: Floats, noise: Floats, nonnegative: bool = True) -> Floats:
    """The weights (N,), of sum one, of the mixture whose `mixture_errors` are least.

    Parameters
    ----------
    points : (N, d) array
        Means of the agents' parameters.
    target : (d,) array
        Where the mixture should be.
    noise : (N,) array
        Mean squares of the noise of the agents' parameters.
    nonnegative : bool
        Whether weights must be at least 0.

    Returns
    -------
    (N,) array
        The minimum; by an active-set method where weights must not be negative.

    Examples
    --------
    >>> import numpy as np
    >>> mixture_weights(np.array([[0.0], [3.0]]), np.array([0.0]), np.array([1.0, 1.0])).round(3)
    array([0.909, 0.091])
    """
    # Where weights sum to one, the error is q(w) = |A w|^2. Of u = s w with the sum s, the least of
    # |A u|^2 + c^2 (s - 1)^2 over s is c^2 q(w) / (q(w) + c^2), which grows with q(w): over all u, or all
    # u >= 0, it is least at a multiple of the best w, whatever c > 0.
    apart = np.linalg.qr((points - target).T, mode="r")  # the same squares, of at most N numbers each
    square = np.concatenate([apart, np.diag(np.sqrt(noise))])
    scale = np.sqrt(np.mean(np.sum(square**2, axis=0))) or 1.0
    system = np.concatenate([square, np.full((1, len(noise)), scale)])
    right = np.append(np.zeros(len(square)), scale)
    multiple = (
        scipy.optimize.nnls(system, right)[0]
        if nonnegative
        else np.linalg.lstsq(system, right, rcond=None)[0]
    )
    weights: Floats = multiple / multiple.sum()
    return weights


class Estimates(NamedTuple):
    """What a few parameters of every agent tell.

    Attributes
    ----------
    mean : (..., N, d)
        Their mean.
    noise : (..., N)
        Mean square of the noise of one of them.
    share : (..., N)
        Mean square error of ``mean`` over ``noise``: 1/n for n independent samples, near 1 where samples are
        all alike, or still on their way.
    """

    mean: Floats
    noise: Floats
    share: Floats


def estimate(samples: Floats) -> Estimates:
    """Mean and noise of the agents' parameters (..., n, N, d), sampled n times at equal distances in time.

    Let samples of an agent that are k apart have the correlation rho^k. Then the mean of n has the variance
    s v with s = (1 + 2 sum_k (1 - k/n) rho^k) / n, the mean of |x - mean|^2 is (1 - s) v, and half the mean
    square of the difference of neighbours is (1 - rho) v. The ratio of these two gives rho. As the share s of
    one agent is uncertain, the mean over the agents counts as much.
    """
    n = samples.shape[-3]
    mean = samples.mean(axis=-3)
    around = np.sum((samples - mean[..., None, :, :]) ** 2, axis=-1).mean(axis=-2)
    moved = np.sum(np.diff(samples, axis=-3) ** 2, axis=-1).mean(axis=-2) / 2
    lags = np.arange(1, n)[:, None]
    shares = (1 + 2 * np.sum((1 - lags / n) * CORRELATIONS**lags, axis=0)) / n
    ratios = (1 - CORRELATIONS) / (1 - shares)  # they fall as the correlation rises
    ratio = np.divide(moved, around, out=np.zeros_like(moved), where=around > 0)
    share = np.interp(ratio, ratios[::-1], shares[::-1])
    share = (share + share.mean(axis=-1, keepdims=True)) / 2
    return Estimates(mean, around / (1 - share), share)


def estimated_weights(estimates: Estimates, most: float) -> Floats:
    """Every agent's weights (N, N) for a mixture near its own mean, from estimates of one run.

    Estimated means are further apart than the true ones. If these scatter around a common centre with the
    mean square A, the best guess of each is nearer to it by the factor A / (A + s), s being the mean square
    error of the estimate (empirical Bayes, as James and Stein's). So agents that may well be alike are taken
    for alike. An agent whose ``share`` exceeds ``most`` listens to itself alone, and nobody listens to it.
    """
    mean, noise, share = estimates
    weights = np.eye(len(mean))
    known = np.flatnonzero(share <= most)
    if len(known) < 2:
        return weights
    points, noise, error = mean[known], noise[known], (share * noise)[known]
    centre = np.average(points, axis=0, weights=1 / error)
    scatter = np.sum((points - centre) ** 2) / (len(known) - 1) - error.mean()
    points = centre + (max(scatter, 0.0) / (max(scatter, 0.0) + error))[:, None] * (points - centre)
    for agent, own in zip(known, points, strict=True):
        weights[agent] = 0.0
        weights[agent, known] = mixture_weights(points, own, noise)
    return weights
