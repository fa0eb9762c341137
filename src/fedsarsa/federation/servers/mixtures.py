"""Mixtures of the agents' parameters: whom an agent should listen to, and how much.

Let agent j's parameter have the mean m_j and noise of mean square v_j, independent of the other agents'. The
mixture sum_j w_j theta_j then has the mean square distance

    |sum_j w_j m_j - x|^2 + sum_j w_j^2 v_j

from a point x. `mixture_weights` minimises it. Where means and noise are not known, `estimate` takes them
from a few parameters of each agent, and `estimated_weights` minimises what is then known of the distance.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from fedsarsa._checks import Floats

# Correlations of neighbouring samples, among which `estimate` finds the one that fits.
CORRELATIONS = 1 - np.geomspace(1, 1e-6, 400)


def mixture_weights(points: Floats, target: Floats, noise: Floats, cost: Floats | None = None) -> Floats:
    """The weights (N,) of the mixture with the least error; none is negative, and they sum to one.

    The error is |sum_j w_j points_j - target|^2 + sum_j noise_j w_j^2, and 2 sum_j cost_j w_j if given.

    Parameters
    ----------
    points : (N, d) array
        Means of the agents' parameters.
    target : (d,) array
        Where the mixture should be.
    noise : (N,) array
        Mean squares of the noise of the agents' parameters, positive.
    cost : (N,) array, optional
        What a unit of weight costs besides.

    Returns
    -------
    (N,) array
        The minimum, by an active-set method.

    Examples
    --------
    >>> import numpy as np
    >>> mixture_weights(np.array([[0.0], [3.0]]), np.array([0.0]), np.array([1.0, 1.0])).round(3)
    array([0.909, 0.091])
    """
    apart = np.linalg.qr((points - target).T, mode="r")  # the same squares, of at most N numbers each
    spread = np.sqrt(noise)
    own = np.diag(spread) if cost is None else np.diag(spread) + (cost / spread)[:, None]
    # On the simplex the error is |A w|^2, up to a constant. Over all u >= 0, |A u|^2 + c (sum u - 1)^2 is
    # least at a multiple of the best w, whatever c > 0.
    square = np.concatenate([apart, own])
    scale = np.sqrt(np.mean(np.sum(square**2, axis=0)))
    row = np.ones((1, len(noise)))
    multiple, _ = nnls(np.concatenate([square / scale, row]), np.append(np.zeros(len(square)), 1.0))
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

    The distance |sum_j w_j mean_j - mean_i|^2 is too large in the mean, by s_j w_j^2 for the others and by
    s_i (1 - w_i)^2, where s is the mean square error of ``mean``. That bias is removed but for a share: the
    less is known, the more an agent listens to itself. An agent whose ``share`` exceeds ``most`` listens to
    itself alone, and nobody else listens to it.
    """
    mean, noise, share = estimates
    weights = np.eye(len(mean))
    known = np.flatnonzero(share <= most)
    removed = ((1 - share) * share * noise)[known]
    left = noise[known] - removed
    for place, agent in enumerate(known):
        cost = np.zeros(len(known))
        cost[place] = removed[place]  # (1 - w)^2 = 1 - 2 w + w^2
        weights[agent] = 0.0
        weights[agent, known] = mixture_weights(mean[known], mean[agent], left, cost)
    return weights
