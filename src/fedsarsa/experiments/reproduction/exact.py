"""Exact quantities of the published fleets that claims are tested against."""

import warnings
from dataclasses import dataclass

import numpy as np

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.worlds import paper


@dataclass(frozen=True, eq=False)
class Exact:
    """What theory knows of the fleet at one level of heterogeneity.

    Attributes
    ----------
    own, central, federated : (d,)
        Fixed point of agent 0, of the central MDP, and the root of the averaged semi-gradients.
    apart, bound : float
        Largest distance of two fixed points, and Lambda / w of Theorem ``thm:fix-drift``.
    unmet : str
        The condition of the theorem that is not met, in a sentence; empty if it applies.
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
    step: float
    step_limit: float


def exact(level: float, agents: int, seed: int) -> Exact:
    """The exact quantities of ``agents`` worlds with both heterogeneities at ``level``."""
    fleet, algo = paper.fleet(agents, level, level, seed), FedSARSA()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the theory does not apply is one of the results
        bounds = theory.bounds(fleet, algo, steps=1)
    constants, drift = bounds.constants, bounds["thm:fix-drift"]
    assert constants.theta_star is not None
    assert constants.theta_each is not None
    assert bounds.federated is not None
    assert drift.exact is not None
    step = next(condition for condition in constants.conditions if condition.name == "step size as printed")
    return Exact(
        level=level,
        own=np.asarray(constants.theta_each[0]),
        central=constants.theta_star,
        federated=bounds.federated,
        apart=drift.exact,
        bound=drift.bound,
        unmet="" if drift.applies else drift.reason.removeprefix("does not apply: "),
        step=step.value,
        step_limit=step.limit,
    )
