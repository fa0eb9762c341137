"""Exact quantities of the published fleets that claims are tested against."""

import math
import warnings
from dataclasses import dataclass

import numpy as np

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.theory.mixing import LEAST_SIGMA
from fedsarsa.worlds import paper


@dataclass(frozen=True, eq=False)
class Exact:
    """What theory knows of the fleet at one level of heterogeneity.

    The theory leaves m, rho and G to whoever applies it. Bounds and limits here are the furthest that any
    valid choice gives: sigma is above 3, G at least the largest norm of a fixed point, and m / rho at least
    1.

    Attributes
    ----------
    own, central, federated : (d,)
        Fixed point of agent 0, of the central MDP, and the root of the averaged semi-gradients.
    apart, bound : float
        Largest distance of two fixed points, and the least Lambda / w of Theorem ``thm:fix-drift``.
    unmet : str
        The condition of the theorem that is not met, in a sentence; empty if it applies.
    excess, excess_chosen : float
        How many times L exceeds the largest w / (H sigma), and the largest with the H that is chosen here.
    step, step_limit : float
        The step size, and the largest that Corollary ``cor:err-con`` allows.
    """

    level: float
    own: Floats
    central: Floats
    federated: Floats
    apart: float
    bound: float
    unmet: str
    excess: float
    excess_chosen: float
    step: float
    step_limit: float


def exact(level: float, agents: int, seed: int) -> Exact:
    """The exact quantities of ``agents`` worlds with both heterogeneities at ``level``."""
    fleet, algo = paper.fleet(agents, level, level, seed), FedSARSA()
    with warnings.catch_warnings(action="ignore"):  # that the theory does not apply is one of the results
        bounds = theory.bounds(fleet, algo, steps=1)
    c, drift = bounds.constants, bounds["thm:fix-drift"]
    assert c.theta_star is not None
    assert c.theta_each is not None
    assert bounds.federated is not None
    assert drift.exact is not None
    # The least H there is: G must bound the norms of the fixed points.
    H = c.R + (1 + c.gamma) * float(np.linalg.norm(np.vstack([c.theta_star, c.theta_each]), axis=1).max())
    return Exact(
        level=level,
        own=np.asarray(c.theta_each[0]),
        central=c.theta_star,
        federated=bounds.federated,
        apart=drift.exact,
        bound=(c.R * c.eps_r + H * LEAST_SIGMA * c.eps_p) / c.w,
        unmet=drift.fails,
        excess=c.L * H * LEAST_SIGMA / c.w,
        excess_chosen=c.L * c.H * LEAST_SIGMA / c.w,
        step=c.alpha_0,
        step_limit=c.w / (2120 * (2 * c.K + 8 + math.log(1 / c.w))),
    )
