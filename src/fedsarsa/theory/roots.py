"""Roots of the agents' averaged mean-path semi-gradient: the one that the mean path reaches, and the others.

The mean of small steps follows the flow d theta / dt = g-bar(theta), which ends where g-bar is zero and its
Jacobian has no eigenvalue with a positive real part: an *attracting* root. Sharp policies may have several.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.theory.action_classes import Classes, Dynamics
from fedsarsa.theory.gaussian_averages import Points
from fedsarsa.theory.linearisation import linearise

RESIDUAL = 1e-10  # of semi-gradients for rewards of size 1
ROUNDING = 1e-14  # semi-gradients below this share of the terms that they are sums of are rounding
FLOW_STEPS = 1000
STRAIGHT = 0.3  # change of g along one step that its Jacobian does not foretell, as a share of g
SMALL = 1e-8  # share of its size by which the last step to a root may move it
FAR = 0.05  # share of the largest value by which one step may move a parameter, or one temperature
# Share of ||J|| below which an eigenvalue counts as zero: of directions that are never visited.
STILL = 1e-12
# Other roots are searched from the values of so many random policies.
STARTS = 12
RIDGE = 1e-12
# Squared states x classes x parameters beyond which that search takes longer than it is worth.
SEARCH_WORK = 1e8
# Distance of two roots, as a share of their size, from which on they are two.
APART = 1e-4


@np.errstate(over="ignore", invalid="ignore")  # what is not finite ends the search
def end_of_flow(
    field: Callable[[Floats], tuple[Floats, Floats]],
    theta: Floats,
    residual: float,
    longest: float = np.inf,
    time: float = np.inf,
) -> Floats | None:
    """The root that the flow d theta / dt = g(theta) from ``theta`` leads to, (d,); None where there is none.

    By pseudo-transient continuation: implicit steps that follow the flow where it is fast, and become Newton
    steps as it slows down. Directions that are never visited stay where they are.

    Parameters
    ----------
    field : callable
        g (d,) and its Jacobian (d, d) at a parameter.
    residual : float
        Largest norm of g at a root. The last Newton step must be small as well: where an action is hardly
        ever chosen, g is small far from a root.
    longest : float
        Largest norm of a step.
    time : float
        Where the flow is followed no longer than this, what it has come to is the end.
    """
    g, J = field(theta)
    size, shortest = float(np.linalg.norm(g)), 1.0 / max(float(np.linalg.norm(J)), 1e-300)
    if size == 0:
        return theta
    step = shortest
    for _ in range(FLOW_STEPS):
        # Where the flow flees from a point, an implicit step beyond its rate would turn round.
        step = min(step, 0.5 / max(growth(J), 1e-300), 1e15 * shortest, time)
        move = np.linalg.solve(np.eye(len(theta)) / step - J, g)
        part = min(1.0, longest / max(float(np.linalg.norm(move)), 1e-300))
        move *= part
        ahead = theta + move
        g_ahead, J_ahead = field(ahead)
        after = float(np.linalg.norm(g_ahead))
        if not np.isfinite(after):
            return None
        bent = float(np.linalg.norm(g_ahead - g - J @ move)) / max(size, residual)
        factor = float(np.clip((STRAIGHT / max(bent, 1e-300)) ** 0.5, 0.1, 10.0))
        if bent > 2 * STRAIGHT and step > shortest:
            step = max(step * factor, shortest)
            continue
        theta, g, J, size = ahead, g_ahead, J_ahead, after
        time -= part * step
        if time <= 0 or (size <= residual and np.linalg.norm(move) <= SMALL * np.linalg.norm(theta)):
            return theta
        step = max(step * factor, shortest)
    return None


def longest_step(reward_cap: float, discount: float, slope: float) -> float:
    """Largest step of a parameter along the flow, by the size of values and the policy's slope per value."""
    return max(FAR * reward_cap / (1 - discount), 1 / slope) if slope and reward_cap else np.inf


def growth(J: Floats) -> float:
    """The fastest rate at which the flow leaves a root with Jacobian ``J``; 0 where it attracts."""
    rate = float(np.linalg.eigvals(J).real.max())
    return rate if rate > STILL * np.linalg.norm(J) else 0.0


class MeanField:
    """sum_i share_i g-bar_i, for worlds with shares that sum to 1."""

    def __init__(self, classes: Classes, worlds: Sequence[Dynamics], share: Floats) -> None:
        self.classes, self.share = classes, share[share > 0]
        self.worlds = [world for world, one in zip(worlds, share, strict=True) if one > 0]
        self.reward_cap = max(float(np.sqrt(world.reward_square.max())) for world in self.worlds)

    def at(self, theta: Floats) -> tuple[Floats, Floats]:
        """g-bar (d,) and its Jacobian (d, d)."""
        point = self.classes.at(theta)
        g, J = np.zeros_like(theta), np.zeros((len(theta), len(theta)))
        for share, world in zip(self.share, self.worlds, strict=True):
            here = linearise(world, point)
            g += share * here.g
            J += share * here.J
        return g, J

    def root_from(self, theta: Floats) -> Floats | None:
        """The root that the flow from ``theta`` leads to, (d,); None where it leads to none."""
        return end_of_flow(self.at, theta, self.residual, self.longest)

    def after(self, theta: Floats, time: float) -> Floats | None:
        """Where the flow from ``theta`` is after some time, roughly, (d,); None where that is not found."""
        return end_of_flow(self.at, theta, self.residual, self.longest, time)

    def rest_from(self, theta: Floats, radius: float | None) -> Floats | None:
        """Where the flow from ``theta``, projected on the ball, ends: at its root, or on the surface."""
        root = self.root_from(theta)
        if radius is None or (root is not None and np.linalg.norm(root) <= radius):
            return root
        return self._rest_on_sphere(theta, radius)

    def _rest_on_sphere(self, theta: Floats, radius: float) -> Floats | None:
        """Where the flow that is projected on a ball ends at its surface, (d,); None where it does not.

        The semi-gradient points outwards there: what is tangential of it is zero.
        """

        def tangential(theta: Floats) -> tuple[Floats, Floats]:
            size = float(np.linalg.norm(theta))
            normal = theta / size
            g, J = self.at(radius * normal)
            outwards = float(normal @ g)
            along = np.eye(len(theta)) - np.outer(normal, normal)
            slope = along @ J @ along - (outwards * along + np.outer(normal, along @ g)) / radius
            # Beside the surface, a pull back to it.
            return along @ g - (size - radius) * normal, slope - np.outer(normal, normal)

        size = float(np.linalg.norm(theta))
        rest = end_of_flow(tangential, theta * (radius / size), self.residual, self.longest) if size else None
        return rest if rest is not None and rest @ self.at(rest)[0] >= 0 else None

    @property
    def residual(self) -> float:
        """Largest norm of the semi-gradient at a root."""
        terms = self.reward_cap * (1 + 2 / (1 - self.worlds[0].discount))
        return max(RESIDUAL * min(1.0, self.reward_cap), ROUNDING * terms)

    @property
    def longest(self) -> float:
        """Largest step of a parameter that follows the flow."""
        return longest_step(self.reward_cap, self.worlds[0].discount, self.classes.slope)

    def attracting_roots(self, known: Floats) -> Floats:
        """Attracting roots (k, d) beside the ``known`` one, as far as a search from random policies leads.

        Empty where the policy is fixed, or the search would take too long.
        """
        found = [known]
        kinds, states, dim = self.classes.phi.shape
        if self.classes.slope == 0 or (states * kinds * dim) ** 2 * len(self.worlds) > SEARCH_WORK:
            return np.zeros((0, dim))
        for theta in self._starts():
            root = self.root_from(theta)
            if root is not None and _new(root, found) and growth(self.at(root)[1]) == 0:
                found.append(root)
        return np.array(found[1:]).reshape(-1, dim)

    def _starts(self) -> Floats:
        """Solutions of A theta + b = 0 for random policies, (k, d): near to where such policies lead."""
        rng = np.random.default_rng(0)
        kinds, states, dim = self.classes.phi.shape
        pi = self.classes.masses(rng.normal(scale=10 / self.classes.slope, size=(STARTS, kinds, states)))
        A, b = np.zeros((STARTS, dim, dim)), np.zeros((STARTS, dim))
        for share, world in zip(self.share, self.worlds, strict=True):
            slope, offset = Points(world, self.classes, b, pi).operators()
            A, b = A + share * slope, b + share * offset
        # Directions that are hardly visited have hardly a slope; a tiny one keeps them near 0.
        A -= RIDGE * np.abs(A).max(axis=(1, 2), keepdims=True) * np.eye(dim)
        solutions = -np.linalg.solve(A, b[..., None])[..., 0]
        return solutions[np.isfinite(solutions).all(axis=1)]


def _new(theta: Floats, known: Sequence[Floats]) -> bool:
    """Whether a parameter is none of the known ones."""
    sizes = [np.linalg.norm(theta) + np.linalg.norm(one) for one in known]
    return all(np.linalg.norm(theta - one) > APART * size for one, size in zip(known, sizes, strict=True))
