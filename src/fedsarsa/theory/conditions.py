"""What the paper's theory asks of a fleet and an algorithm, and what is the case."""

import math
from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.learning.features import Aggregation
from fedsarsa.theory.mixing import LEAST_SIGMA
from fedsarsa.theory.recursion import Scale, printed_step_limit, step_limit


@dataclass(frozen=True)
class Condition:
    """One condition: ``value`` must be at most (or below: see ``text``) ``limit``.

    Both are NaN where a condition is yes or no and nothing is measured.

    Attributes
    ----------
    above : bool
        Whether the value must be above the limit instead.
    needed : bool
        Whether the bounds stand on it; conditions that the paper prints without need are shown too.
    text : str
        The condition in a sentence that says how it stands.
    """

    name: str
    value: float
    limit: float
    holds: bool
    text: str
    needed: bool = True
    above: bool = False

    @property
    def margin(self) -> float:
        """limit / value: above 1 there is room, below 1 it is missed by that factor; NaN where neither is."""
        if self.above or self.value == self.limit == 0:
            return math.nan
        if self.value == 0:
            return math.inf if self.holds else 0.0
        return self.limit / self.value


def check(
    problem: Problem,
    alphas: Floats,
    scale: Scale,
    G_bar: float,
    points: Floats | None,
    visited: int,
    failure: str,
) -> tuple[Condition, ...]:
    """Every condition of the theory; ``points`` are fixed points of the central MDP and the worlds."""
    s, alpha = scale, float(alphas[0])
    smooth = math.inf if s.H * s.sigma == 0 else s.w / (s.H * s.sigma)
    limit, printed = step_limit(s, float(alphas[-1]) / alpha), printed_step_limit(s)
    norm = math.nan if points is None else float(np.linalg.norm(points, axis=1).max())
    # Other choices of m, rho and G are valid too, but sigma > 3, and G is at least the norm of fixed points.
    least_H = problem.finite_worlds[0].reward_cap + (1 + s.gamma) * norm
    any_choice = math.inf if least_H == 0 else s.w / (least_H * LEAST_SIGMA)
    needs_radius = problem.radius is None and not isinstance(problem.features, Aggregation)
    dim = problem.features.dim
    conditions = [
        Condition(
            "ergodic under every policy",
            s.rho,
            1.0,
            s.rho < 1,
            f"rho = {s.rho:.6g} must be below 1 (asmp:steady)",
        ),
        Condition(
            "fixed points",
            math.nan,
            math.nan,
            points is not None,
            failure or "every world has a fixed point",
        ),
        Condition(
            "exploration",
            s.w,
            0.0,
            s.w > 0,
            f"w = {s.w:.3g} must be above 0 (eq:w); {visited} of {dim} directions are ever visited",
            above=True,
        ),
        Condition(
            "smooth policy",
            s.L,
            smooth,
            s.L == 0 or s.L * s.H * s.sigma <= s.w,
            f"L = {s.L:.3g} must be at most w / (H sigma) = {smooth:.3g} (asmp:lip) with H = {s.H:.3g} and "
            f"sigma = {s.sigma:.3g} as chosen here, and below {any_choice:.3g} with any valid choice",
        ),
        Condition(
            "projection",
            norm,
            G_bar,
            not needs_radius and norm <= G_bar,
            f"the radius must be set and at least {norm:.4g}, the largest norm of a fixed point (sec:const)"
            if needs_radius
            else f"fixed points of norm {norm:.4g} must lie within the radius {G_bar:.4g} (sec:const)",
        ),
        Condition(
            "step size",
            alpha,
            limit,
            alpha <= limit,
            f"alpha_0 = {alpha:.3g} must be at most {limit:.3g} (what the proofs of cor:msv and thm use)",
        ),
        Condition(
            "step size as printed",
            alpha,
            printed,
            alpha <= printed,
            f"alpha_0 = {alpha:.3g} against the printed limit {printed:.3g} (cor:err-con)",
            needed=False,
        ),
        Condition(
            "local steps",
            4 * s.K * alpha,
            1.0,
            4 * s.K * alpha <= 1,
            f"4 K alpha_0 = {4 * s.K * alpha:.3g} must be at most 1 (lem:drift)",
        ),
    ]
    spread = float(np.ptp(problem.weights) * s.N)
    uneven = len(problem.schedules) - 1
    increase = float(np.diff(alphas, prepend=alphas[0]).max())
    conditions += [
        Condition("equal weights", spread, 0.0, spread <= 1e-12, "the server weighs all agents alike"),
        Condition("equal step sizes", uneven, 0.0, uneven == 0, "all agents have the same step sizes"),
        Condition("steps never grow", increase, 0.0, increase <= 0, "step sizes never increase"),
    ]
    return tuple(conditions)
