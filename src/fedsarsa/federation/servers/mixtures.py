"""Mixtures of the agents' parameters: whom an agent should listen to, and how much.

Let agent j's parameter have the mean m_j and noise of mean square v_j, independent of the other agents'. The
mixture sum_j w_j theta_j then has the mean square distance

    |sum_j w_j m_j - x|^2 + sum_j w_j^2 v_j

from a point x. `mixture_weights` minimises it. Where means and noise are not known, `estimate` takes them
from a few parameters of each agent, and `estimated_weights` minimises what is then known of the distance.
Where agents know different features, `completed` gives each what the others know, and `weights_by_visits`
counts distances where the agent goes.
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
    """What a few parameters of every agent show.

    Attributes
    ----------
    mean : (..., N, d)
        Their mean.
    noise : (..., N)
        Mean square of the noise of one of them.
    share : (..., N)
        Mean square error of ``mean`` over ``noise``: 1/n for n independent samples, near 1 where samples are
        all alike, or still on their way.
    directions : (...)
        Over how many directions the noise is spread: d where it is alike in all, less where it is not.
    """

    mean: Floats
    noise: Floats
    share: Floats
    directions: Floats


def estimate(samples: Floats) -> Estimates:
    """Mean and noise of the agents' parameters (..., n, N, d), sampled n times at equal distances in time.

    Let samples of an agent that are k apart have the correlation rho^k. Then the mean of n has the variance
    s v with s = (1 + 2 sum_k (1 - k/n) rho^k) / n, the mean of |x - mean|^2 is (1 - s) v, and half the mean
    square of the difference of neighbours is (1 - rho) v. The ratio of these two gives rho. As the share s of
    one agent is uncertain, the mean over the agents counts as much.

    Independent x and y of two agents, with covariances that are multiples of S, have
    E|x|^2 E|y|^2 / E(x'y)^2 = (tr S)^2 / tr S^2, the number of directions: d if S is a multiple of I.
    """
    n, agents, dim = samples.shape[-3:]
    mean = samples.mean(axis=-3)
    around = np.sum((samples - mean[..., None, :, :]) ** 2, axis=-1).mean(axis=-2)
    moves = np.diff(samples, axis=-3)
    moved = np.sum(moves**2, axis=-1).mean(axis=-2) / 2
    lags = np.arange(1, n)[:, None]
    shares = (1 + 2 * np.sum((1 - lags / n) * CORRELATIONS**lags, axis=0)) / n
    ratios = (1 - CORRELATIONS) / (1 - shares)  # they fall as the correlation rises
    ratio = np.divide(moved, around, out=np.zeros_like(moved), where=around > 0)
    share = np.interp(ratio, ratios[::-1], shares[::-1])
    share = (share + share.mean(axis=-1, keepdims=True)) / 2
    others = 1 - np.eye(agents)
    squares = np.sum((moves @ moves.swapaxes(-1, -2)) ** 2 * others, axis=(-2, -1)).mean(axis=-1) / 4
    products = np.sum(moved[..., :, None] * moved[..., None, :] * others, axis=(-2, -1))
    directions = np.divide(products, squares, out=np.full_like(squares, dim), where=squares > 0)
    return Estimates(mean, around / (1 - share), share, np.clip(directions, 1, dim))


def denoised(points: Floats, error: Floats, directions: float) -> Floats:
    """Where N points may truly be, of which estimates (N, d) are known with mean square errors (N,).

    Estimates are further apart than the true points, most of all in directions that hold nothing but error.
    Take the matrix of estimates around their centre, in units of their errors. Errors of variance 1 in each
    of m = N - 1 rows and n ``directions`` leave singular values up to sqrt(m) + sqrt(n). One above, l,
    becomes sqrt((l^2 - m - n)^2 - 4 m n) / l, and the others become 0, which is the best that singular values
    can do for large matrices (Gavish and Donoho, "Optimal Shrinkage of Singular Values", 2017). If n is large
    beside N, that is the factor A / (A + error) of James and Stein, A being the mean square of the points.

    Returns
    -------
    (N, min(N, d)) array
        The points in coordinates of their own: with the same distances, and their centre at 0.
    """
    rows = len(points) - 1
    unit = np.sqrt(error / directions)[:, None]
    centre = np.average(points, axis=0, weights=1 / error)
    left, size, _ = np.linalg.svd((points - centre) / unit, full_matrices=False)
    beyond = (size**2 - rows - directions) ** 2 - 4 * rows * directions
    seen = size > np.sqrt(rows) + np.sqrt(directions)
    kept = np.sqrt(beyond, out=np.zeros_like(size), where=seen)
    moved: Floats = left * np.divide(kept, size, out=kept, where=seen) * unit
    return moved


def estimated_weights(estimates: Estimates, most: float) -> Floats:
    """Every agent's weights (N, N) for a mixture near its own mean, from estimates of one run.

    Means are those of `denoised`, so agents that may well be alike are taken for alike. An agent whose
    ``share`` exceeds ``most`` listens to itself alone, and nobody listens to it.
    """
    mean, noise, share, directions = estimates
    weights = np.eye(len(mean))
    known = np.flatnonzero(share <= most)
    if len(known) < 2:
        return weights
    points = denoised(mean[known], (share * noise)[known], float(directions))
    for agent, own in zip(known, points, strict=True):
        weights[agent] = 0.0
        weights[agent, known] = mixture_weights(points, own, noise[known])
    return weights


def completed(theta: Floats, visits: Floats) -> Floats:
    """Parameters (..., N, d) in which agents take what they have not learned from those who have.

    After ``visits`` (..., N, d), the sum of alpha phi_j^2, an agent has forgotten all but the share
    exp(-visits) of where parameter j began. It keeps the rest, c = 1 - exp(-visits), of its own, and takes
    1 - c from the mean of all agents' with the weights c.
    """
    learned = -np.expm1(-visits)
    total = learned.sum(axis=-2, keepdims=True)
    common = np.sum(learned * theta, axis=-2, keepdims=True)
    common = np.divide(common, total, out=theta.mean(axis=-2, keepdims=True), where=total > 0)
    whole: Floats = theta + (1 - learned) * (common - theta)
    return whole


def weights_by_visits(samples: Floats, visits: Floats, most: float) -> Floats:
    """Every agent's weights (N, N) of the agents' `completed` parameters, from samples (n, N, d) of one run.

    They are `estimated_weights`, for every agent with squares that count a parameter as often as the agent
    visits it: sum_j visits_ij (x_j - y_j)^2. That is the mean square error of its values where it goes.
    """
    tables = completed(samples, visits)
    weights = np.eye(len(visits))
    for agent, own in enumerate(visits):
        seen = np.flatnonzero(own)
        if len(seen):
            scale = np.sqrt(own[seen] / own.sum())
            weights[agent] = estimated_weights(estimate(tables[..., seen] * scale), most)[agent]
    return weights
