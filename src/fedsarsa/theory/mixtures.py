"""The mixture of several noisy parameters that errs least from a point."""

import numpy as np
from scipy.optimize import nnls

from fedsarsa._checks import Floats


def mixture_errors(weights: Floats, means: Floats, variances: Floats, points: Floats) -> Floats:
    """Mean of ||sum_j w_j theta_j - point||^2, for independent theta_j of these means and variances.

    ``weights`` are (..., m), ``means`` (m, d) and ``points`` (..., d); ``variances`` (m,) are the traces of
    covariances.
    """
    return np.asarray(((weights @ means - points) ** 2).sum(axis=-1) + weights**2 @ variances)


def best_mixture(means: Floats, variances: Floats, point: Floats, nonnegative: bool = True) -> Floats:
    """The weights (m,), of sum one, whose `mixture_errors` are least.

    Since weights sum to one, the error is q(w) = ||A w||^2, A having the columns m_j - point above a diagonal
    of standard deviations. For a weight x = s w of sum s and any c, the least of ||A x||^2 + c^2 (s - 1)^2
    over s is c^2 q(w) / (q(w) + c^2), which grows with q(w). So least squares of the right-hand side (0, c),
    non-negative or not, give the best w up to its sum: exactly, c being no penalty but a scale.
    """
    A = np.vstack([(means - point).T, np.diag(np.sqrt(variances))])
    sizes = np.linalg.norm(A, axis=0)
    scale = float(sizes.min()) or float(sizes.max()) or 1.0
    system = np.vstack([A, np.full(len(means), scale)])
    right = np.zeros(len(system))
    right[-1] = scale
    x = nnls(system, right)[0] if nonnegative else np.linalg.lstsq(system, right, rcond=None)[0]
    return np.asarray(x / x.sum())
