"""Mean and covariance of the central parameter, round by round.

Around a parameter theta_n an agent's local step is affine with noise,

    theta_i <- theta_i + alpha_i (g_i + J_i (theta_i - theta_n) + noise that counts as Sigma_i),

so K local steps and an average of independent agents give an affine map of the central mean and a Lyapunov
recursion of its covariance. K local steps are composed exactly, which holds the client drift: agents that
move towards their own fixed points within a round.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.theory.action_classes import Classes, Dynamics
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import linearise

# Spread of Q-values in temperatures below which the curvature of the mean path is left out: it takes a
# third of the time, and moves a curve by less than half a percent. Tests measure that.
FLAT = 0.005


class DivergenceError(ValueError):
    """The mean dynamics leave every bounded set."""


@dataclass(frozen=True, eq=False)
class Members:
    """Agents with the same world, schedule and weight are one member.

    Attributes
    ----------
    world, schedule : (m,) int
        Which world, and which schedule.
    weight : (m,)
        The server's weight of one such agent.
    total, square : (m,)
        Sum of the weights of these agents, and of their squares.
    """

    world: NDArray[np.int64]
    schedule: NDArray[np.int64]
    weight: Floats
    total: Floats
    square: Floats


def members(world_of: NDArray[np.int64], schedule_of: NDArray[np.int64], weights: Floats) -> Members:
    """The members of a fleet."""
    found: dict[tuple[int, int, float], int] = {}
    for key in zip(world_of.tolist(), schedule_of.tolist(), weights.tolist(), strict=True):
        found[key] = found.get(key, 0) + 1
    world, schedule, weight = (np.array(column) for column in zip(*found, strict=True))
    count = np.array(list(found.values()))
    return Members(world, schedule, weight, count * weight, count * weight**2)


@dataclass(frozen=True, eq=False)
class Affine:
    """theta -> M theta + c + noise of covariance Q; leading axes are members."""

    M: Floats
    c: Floats
    Q: Floats

    def then(self, other: "Affine") -> "Affine":
        """First this map, then the other."""
        turned = np.swapaxes(other.M, -1, -2)
        return Affine(
            other.M @ self.M,
            (other.M @ self.c[..., None])[..., 0] + other.c,
            other.M @ self.Q @ turned + other.Q,
        )

    @np.errstate(over="ignore", invalid="ignore")  # unstable maps grow without bound; their users look
    def power(self, count: int) -> "Affine":
        """The map applied ``count`` times, at least once."""
        result, square = None, self
        while True:
            if count & 1:
                result = square if result is None else result.then(square)
            count >>= 1
            if not count:
                assert result is not None
                return result
            square = square.then(square)

    def moved(self, mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance after the map."""
        return self.M @ mean + self.c, self.M @ spread @ self.M.T + self.Q


@dataclass(frozen=True, eq=False)
class Node:
    """Every member at one central mean and covariance.

    Attributes
    ----------
    theta : (d,)
        The central mean.
    g, memory : (m, d)
        Mean-path semi-gradient with curvature; memory per unit of step size.
    J, noise : (m, d, d)
        Jacobian, and covariance of the noise with its lags at a parameter that is itself spread.
    sharpness : float
        Largest standard deviation of a Q-value in units of the softmax temperature; 0 for a fixed policy.
    """

    theta: Floats
    g: Floats
    memory: Floats
    J: Floats
    noise: Floats
    sharpness: float


@dataclass(frozen=True, eq=False)
class Field:
    """What moves the central parameter: worlds, members, and local steps per round."""

    classes: Classes
    worlds: Sequence[Dynamics]
    members: Members
    period: int

    @np.errstate(over="ignore", invalid="ignore")
    def node(self, theta: Floats, spread: Floats, alpha: Floats) -> Node:
        """Every member at a central mean and covariance, for step sizes ``alpha`` (m,).

        Raises
        ------
        DivergenceError
            Mean or covariance are not finite, or do not stay so within a round.
        """
        if not (np.isfinite(theta).all() and np.isfinite(spread).all()):
            raise DivergenceError
        point, who, count = self.classes.at(theta), self.members, len(self.members.world)
        g, memory = np.empty((2, count, len(theta)))
        J, noise = np.empty((2, count, len(theta), len(theta)))
        largest = 0.0
        # World by world: a linearisation is much larger than what is kept of it.
        for w in np.unique(who.world).tolist():
            here = linearise(self.worlds[w], point)
            shaken = here.shaken(spread)
            for j in np.flatnonzero(who.world == w):
                noise[j] = lags(here, alpha[j]).noise
                # Within a round an agent's parameter is spread more widely than the central one at its start.
                step = _local(here.J, np.zeros_like(theta), noise[j] + shaken, alpha[j], alpha[j] ** 2)
                own = _mean_spread(step, spread, self.period)
                if not np.isfinite(own).all():
                    raise DivergenceError
                widest = max(float(((point.phi @ own) * point.phi).sum(axis=2).max()), 0.0)
                sharpness = self.classes.slope * widest**0.5
                bend = here.curvature(own) if sharpness > FLAT else 0.0
                g[j], memory[j] = here.g + bend, here.memory(who.weight[j], self.period)
                J[j], noise[j] = here.J, noise[j] + here.shaken(own)
                largest = max(largest, sharpness)
        return Node(theta, g, memory, J, noise, largest)

    def round(self, nodes: Sequence[Node], alpha: Floats, square: Floats) -> Affine:
        """One round of the central parameter, between one or two nodes.

        ``alpha`` and ``square`` (m,) are the means of the step sizes and of their squares over the round.
        """
        J, noise = (np.mean([getattr(node, name) for node in nodes], axis=0) for name in ("J", "noise"))
        origin = [node.g + alpha[:, None] * node.memory - node.J @ node.theta for node in nodes]
        local = _local(J, np.mean(origin, axis=0), noise, alpha, square).power(self.period)
        return Affine(
            np.tensordot(self.members.total, local.M, 1),
            self.members.total @ local.c,
            np.tensordot(self.members.square, local.Q, 1),
        )


def _local(J: Floats, origin: Floats, noise: Floats, alpha: Floats, square: Floats) -> Affine:
    """One local step: theta + alpha (origin + J theta) + noise; leading axes of all are members."""
    step = alpha[..., None, None] * J
    return Affine(np.eye(J.shape[-1]) + step, alpha[..., None] * origin, square[..., None, None] * noise)


def _mean_spread(step: Affine, spread: Floats, period: int) -> Floats:
    """Mean over a round of an agent's covariance (d, d), ``spread`` at its start; ``step`` is one step."""
    # With X_k the covariance after k steps, X_{n + k} = M^n X_k M^n' + Q_n: sums over k double as maps do.
    total, done, count = spread, step, 1
    for bit in bin(period)[3:]:
        total = total + done.M @ total @ done.M.T + count * done.Q
        done, count = done.then(done), 2 * count
        if bit == "1":
            total = spread + step.M @ total @ step.M.T + count * step.Q
            done, count = done.then(step), count + 1
    return total / period


def limit(step: Affine, theta: Floats) -> tuple[Floats, Floats]:
    """Where mean and covariance settle under a map that is applied for ever, from ``theta``.

    By squaring the map: directions that it never moves (features never visited) stay where they are.
    """
    scale = 1.0 + float(np.abs(step.M @ theta + step.c).max()) + float(np.abs(step.Q).max())
    spread = step.Q
    for _ in range(200):
        with np.errstate(over="ignore", invalid="ignore"):
            after = step.M @ theta + step.c
            wider = step.Q + step.M @ spread @ step.M.T
            moved = max(float(np.abs(after - theta).max()), float(np.abs(wider - spread).max()))
            theta, spread, step = after, wider, step.then(step)
        if not np.isfinite(moved) or moved > 1e9 * scale:
            break
        if moved <= 1e-13 * scale:
            return theta, spread
    raise DivergenceError
