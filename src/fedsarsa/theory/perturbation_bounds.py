"""Bounds on how far worlds, their operators and their fixed points lie apart."""

import math

import numpy as np
import scipy

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.learning.policies import improvement
from fedsarsa.theory.inequality import FIXED, MIXING, SMOOTH, Bound, failing
from fedsarsa.theory.operators import Operators, operators
from fedsarsa.theory.paper_constants import Constants
from fedsarsa.worlds.fleet import Fleet

# Norms of the differences of all pairs of A-bar are computed up to this many parameters.
PAIRS_DIM = 200


def of_worlds(fleet: Fleet, algo: FedSARSA, c: Constants) -> list[Bound]:
    """Lemmas ``lem:distri-hetero``, ``lem:td-hetero`` and ``lem:grad-hetero``, and equation ``eq:w``.

    Exact values are those at theta_* (at 0 where there is none), largest over all pairs of agents, the
    central MDP among them.
    """
    features = algo.feature_map(fleet)
    theta = np.zeros(features.dim) if c.theta_star is None else c.theta_star
    pi = improvement(algo.policy, features, theta)
    fails = failing(c, MIXING)
    each: list[Operators] | None = None
    try:
        each = [operators(world, features, pi) for world in (fleet.central(), *fleet.worlds)]
    except ValueError as error:  # more than one recurrent class
        fails = fails or str(error)
    apart = [None] * 3 if each is None else _apart(each)
    drift = None
    if each is not None:
        share = np.bincount(fleet.world_of, minlength=len(fleet.worlds)) / len(fleet)
        central, *agents = (one.semi_gradient(theta) for one in each)
        drift = float(np.linalg.norm(share @ agents - central))
    spread = _scaled(c.sigma, c.eps_p)
    return [
        Bound(
            "lem:distri-hetero",
            _scaled(c.sigma_prime, c.eps_p),
            apart[0],
            "stationary distributions of pairs differ by at most sigma' eps_p in total variation",
            fails,
        ),
        Bound(
            "lem:td-hetero A",
            (1 + c.gamma) * spread,
            apart[1],
            "mean-path matrices differ by at most (1 + gamma) sigma eps_p",
            fails,
        ),
        Bound(
            "lem:td-hetero b",
            c.R * (c.eps_r + spread),
            apart[2],
            "mean-path vectors differ by at most R (eps_r + sigma eps_p)",
            fails,
        ),
        Bound(
            "lem:grad-hetero",
            c.R * c.eps_r + _scaled((c.R + (1 + c.gamma) * float(np.linalg.norm(theta))) * c.sigma, c.eps_p),
            drift,
            "the agents' mean semi-gradient is from the central MDP's at most R eps_r + h(theta) sigma eps_p",
            fails,
            c.Lambda,
        ),
        Bound(
            "eq:w",
            math.inf if not c.lam > 0 else 2 / ((1 - c.gamma) * c.lam),
            1 / c.w if c.w > 0 else None,
            "1/w is at most 2 / ((1 - gamma) lambda)",
            failing(c, FIXED),
        ),
    ]


def of_fixed_points(c: Constants, federated: Floats | None) -> list[Bound]:
    """Theorem ``thm:fix-drift``, and what its argument says of the federated point.

    The sharp forms use the norm of the fixed points for G, and keep 2w - L H sigma where the paper
    rounds it down to w: they stand as long as L H sigma is below 2w.
    """
    exact = away = None
    largest = math.nan
    if c.theta_star is not None and c.theta_each is not None:
        points = np.vstack([c.theta_star, c.theta_each])
        exact = float(scipy.spatial.distance.pdist(points).max())
        largest = float(np.linalg.norm(points, axis=1).max())
        if federated is not None:
            away = float(np.linalg.norm(federated - c.theta_star))
            largest = max(largest, float(np.linalg.norm(federated)))
    loose = c.Lambda / c.w if c.w > 0 else math.inf
    sharp, missing = _sharp(c, largest)
    fails = failing(c, SMOOTH)
    if not fails and not largest <= c.G < math.inf:
        fails = f"G = {c.G:.4g} must be finite and at least {largest:.4g} (sec:const)"
    missing = failing(c, FIXED) or missing
    lost = "" if federated is not None else "no federated point was found"
    says = "fixed points of agents and central MDP differ by at most"
    tends = "the federated point is from theta_* at most"
    return [
        Bound("thm:fix-drift", loose, exact, f"{says} Lambda / w", fails),
        Bound("thm:fix-drift sharp", sharp, exact, f"{says} Lambda / (2w - L H sigma)", missing),
        Bound("federated point", loose, away, f"{tends} Lambda / w", lost or fails),
        Bound("federated point sharp", sharp, away, f"{tends} Lambda / (2w - L H sigma)", lost or missing),
    ]


def _sharp(c: Constants, largest: float) -> tuple[float, str]:
    H = c.R + (1 + c.gamma) * largest
    room = 2 * c.w - _scaled(H * c.sigma, c.L)
    if not room > 0:
        return math.inf, f"L H sigma must be below 2w = {2 * c.w:.3g} (lem:des-dir)"
    return (c.R * c.eps_r + _scaled(H * c.sigma, c.eps_p)) / room, ""


def _apart(each: list[Operators]) -> list[float | None]:
    """The largest distances of mu (total variation), A-bar (spectral norm) and b-bar of all pairs."""
    if len(each) == 1:
        return [0.0, 0.0, 0.0]
    mu = float(scipy.spatial.distance.pdist(np.array([one.mu.ravel() for one in each]), "cityblock").max())
    b = float(scipy.spatial.distance.pdist(np.array([one.b for one in each])).max())
    if each[0].dim > PAIRS_DIM:
        return [mu, None, b]
    matrices = np.array([one.A for one in each])
    A = max(float(np.linalg.norm(matrices[i:] - one, 2, axis=(1, 2)).max()) for i, one in enumerate(matrices))
    return [mu, A, b]


def _scaled(factor: float, amount: float) -> float:
    """factor * amount, zero where the amount is zero and the factor infinite."""
    return factor * amount if amount > 0 else 0.0
