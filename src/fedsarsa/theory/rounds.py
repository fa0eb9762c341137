"""Mean and covariance of the central parameter, round by round.

Around a parameter theta_n an agent's local step is affine with noise,

    theta_i <- theta_i + alpha_i (g_i + J_i (theta_i - theta_n) + noise that counts as Sigma_i),

so K local steps and an average of independent agents give an affine map of the central mean and a Lyapunov
recursion of its covariance. K local steps are composed exactly, which holds the client drift: agents that
move towards their own fixed points within a round. Where they move far, a round is cut into blocks, and every
agent is linearised again at its own mean in each of them. A projection is linearised in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.theory.action_classes import Classes, Dynamics
from fedsarsa.theory.averages import average, projected
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import Linearisation, linearise

# A world is averaged over the spread of its parameter where Q-values vary by more than this many
# temperatures, or where multiplicative noise is more than this share of the noise. Else it is taken at the
# mean, which is much faster in large worlds and moves a curve by less than half a percent; tests measure it.
FLAT = 0.005
FAINT = 0.03
# Step size x local steps of the first block of a round, and of rounds that are not cut. The linearisation
# at a block's end may move agents by a share of their way in it; beyond that the block is shortened. From one
# block to the next, lengths change by at most these factors.
FIRST_BLOCK = 0.25
BLOCK_TOLERANCE = 0.03
SHORTEN, LENGTHEN = 0.2, 4.0
# Share of its size by which the last of ever more rounds may move a limit, and how often they are doubled:
# what rests on actions that are not chosen once in 1e15 rounds stays where it is.
LAST, DOUBLINGS = 1e-13, 50


class DivergenceError(ValueError):
    """The prediction is not finite."""


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
        mean, spread = other.moved(self.c, self.Q)
        return Affine(other.M @ self.M, mean, spread)

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

    @np.errstate(over="ignore", invalid="ignore")
    def moved(self, mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
        """Mean and covariance after the map."""
        turned = np.swapaxes(self.M, -1, -2)
        return (self.M @ mean[..., None])[..., 0] + self.c, self.M @ spread @ turned + self.Q


class Block(NamedTuple):
    """Every member during some local steps, around its own mean.

    Attributes
    ----------
    theta, g, memory : (m, d)
        Each member's mean; its mean-path semi-gradient; memory per unit of step size.
    J, noise : (m, d, d)
        Jacobian, and covariance of the noise with its lags at a parameter that is itself spread.
    """

    steps: int
    theta: Floats
    g: Floats
    memory: Floats
    J: Floats
    noise: Floats


@dataclass(frozen=True, eq=False)
class Node:
    """A federation at one central mean and covariance: the blocks of a round, and the projection after it.

    Attributes
    ----------
    sharpness : float
        Largest standard deviation of a Q-value in units of the softmax temperature; 0 for a fixed policy.
    projected : float
        Probability that the projection moves the parameter.
    """

    blocks: tuple[Block, ...]
    sharpness: float
    projection: Affine | None = None
    projected: float = 0.0


@dataclass(frozen=True, eq=False)
class Field:
    """What moves the central parameter: worlds, members, local steps per round, and the projection.

    Attributes
    ----------
    noisy : bool
        Whether steps have noise; without it agents take their mean-path semi-gradients.
    averaged : bool
        Whether worlds are averaged over the spread of a parameter where that counts, or taken at its mean.
    """

    classes: Classes
    worlds: Sequence[Dynamics]
    members: Members
    period: int
    radius: float | None = None
    noisy: bool = True
    averaged: bool = True

    def node(self, theta: Floats, spread: Floats, alpha: Floats, last: Node | None = None) -> Node:
        """The federation at a central mean and covariance, for step sizes ``alpha`` (m,).

        ``last``, a node nearby, tells how widely agents are spread within a round.

        Raises
        ------
        DivergenceError
            Mean or covariance are not finite, or do not stay so within a round.
        """
        count = len(self.members.world)
        mean, own = np.tile(theta, (count, 1)), np.tile(spread, (count, 1, 1))
        nearby = None if last is None else last.blocks[0]
        left, steps = self.period, max(1, int(FIRST_BLOCK / float(alpha.max())))
        here, sharpness = self._block(min(steps, left), mean, own, alpha, nearby)
        blocks = [here] if steps >= left else []
        while left and steps < self.period:
            steps = min(steps, left)
            predicted = _local(here, alpha, alpha**2).power(steps).moved(mean, own)
            ahead, sharp = self._block(steps, *predicted, alpha, here)
            block = _joined(here, ahead)._replace(steps=steps)
            ends = _local(block, alpha, alpha**2).power(steps).moved(mean, own)
            way = np.linalg.norm(ends[0] - mean, axis=1).max()
            error = np.linalg.norm(ends[0] - predicted[0], axis=1).max() / (BLOCK_TOLERANCE * way)
            factor = float(np.clip(0.9 / max(error, 1e-9) ** 0.5, SHORTEN, LENGTHEN)) if way > 0 else LENGTHEN
            if error > 1 and steps > 1:
                steps = max(1, int(steps * factor))
                continue
            blocks.append(block)
            (mean, own), here, sharpness = ends, ahead, max(sharpness, sharp)
            left, steps = left - steps, max(1, int(steps * factor))
        node = Node(tuple(blocks), sharpness)
        if self.radius is None:
            return node
        mean, covariance = _finite(*self.round(node, alpha, alpha**2).moved(theta, spread))
        M, c, Q, share = projected(mean, covariance, self.radius)
        return replace(node, projection=Affine(M, c, Q), projected=share)

    @np.errstate(over="ignore", invalid="ignore")
    def _block(
        self, count: int, mean: Floats, spread: Floats, alpha: Floats, nearby: Block | None
    ) -> tuple[Block, float]:
        """Members at their own means (m, d) and covariances (m, d, d), and their sharpness."""
        _finite(mean, spread)
        who, largest = self.members, 0.0
        g, memory = np.empty((2, *mean.shape))
        J, noise = np.empty((2, *spread.shape))
        seen: dict[tuple[int, bytes], Linearisation] = {}
        for j, w in enumerate(who.world.tolist()):
            world, key = self.worlds[w], (w, mean[j].tobytes())
            if key not in seen:
                seen = {key: linearise(world, self.classes.at(mean[j]))}  # large: the last one alone is kept
            here = seen[key]
            if not self.noisy:
                g[j], memory[j], J[j], noise[j] = here.g, 0.0, here.J, 0.0
                continue
            lagged, shaken = lags(here, alpha[j]).noise, here.shaken(spread[j])
            # Within a round an agent's parameter is spread more widely than the central one at its start.
            slope, size = (here.J, lagged + shaken) if nearby is None else (nearby.J[j], nearby.noise[j])
            step = Affine(np.eye(len(slope)) + alpha[j] * slope, np.zeros_like(here.g), alpha[j] ** 2 * size)
            (own,) = _finite(_mean_spread(step, spread[j], count))
            widest = max(float(((here.point.phi @ own) * here.point.phi).sum(axis=2).max()), 0.0)
            sharpness = self.classes.slope * widest**0.5
            largest = max(largest, sharpness)
            memory[j] = here.memory(who.weight[j], self.period)
            shaken = here.shaken(own)
            flat = sharpness <= FLAT and np.trace(shaken) <= FAINT * np.trace(lagged)
            if flat or not self.averaged:
                g[j], J[j], noise[j] = here.g, here.J, lagged + shaken
            else:
                g[j], J[j], noise[j] = average(world, self.classes, mean[j], own)
                noise[j] += lagged - here.noise
        return Block(count, mean, g, memory, J, noise), largest

    def round(self, node: Node, alpha: Floats, square: Floats) -> Affine:
        """One round of the central parameter around a node.

        ``alpha`` and ``square`` (m,) are the means of the step sizes and of their squares over the round.
        """
        first, *others = (_local(block, alpha, square).power(block.steps) for block in node.blocks)
        local = reduce(Affine.then, others, first)
        total, squares = self.members.total, self.members.square
        central = Affine(np.tensordot(total, local.M, 1), total @ local.c, np.tensordot(squares, local.Q, 1))
        return central if node.projection is None else central.then(node.projection)


def between(maps: tuple[Affine, Affine], ends: tuple[Floats, Floats]) -> Affine:
    """One round on the way between two points (d,), from the maps that were linearised at each of them.

    With M the mean of both slopes, the mean of both maps errs by H h^3 / 6 on a way of length h along which
    the slope changes by H h, and the secant through their values at both ends by -H h^3 / 12: two secants and
    one mean leave a fourth-order error.
    """
    M = (maps[0].M + maps[1].M) / 2
    mean = (maps[0].c + maps[1].c) / 2
    secant = sum(one.M @ end + one.c - M @ end for one, end in zip(maps, ends, strict=True)) / 2
    return Affine(M, (mean + 2 * secant) / 3, (maps[0].Q + maps[1].Q) / 2)


def _joined(start: Block, end: Block) -> Block:
    """Members on the way between two blocks, as `between` joins maps."""
    J = (start.J + end.J) / 2

    def value(block: Block, slope: Floats, at: Floats) -> Floats:
        """A block's semi-gradients at 0, by its own slope from its mean to ``at``, by another from there."""
        there = block.g + (block.J @ (at - block.theta)[..., None])[..., 0]
        return there - (slope @ at[..., None])[..., 0]

    nothing = np.zeros_like(start.theta)
    mean = (value(start, J, nothing) + value(end, J, nothing)) / 2
    secant = (value(start, J, start.theta) + value(end, J, end.theta)) / 2
    origin = (mean + 2 * secant) / 3
    g = origin + (J @ start.theta[..., None])[..., 0]
    memory, noise = (start.memory + end.memory) / 2, (start.noise + end.noise) / 2
    return Block(start.steps, start.theta, g, memory, J, noise)


def _local(block: Block, alpha: Floats, square: Floats) -> Affine:
    """One local step of every member: theta + alpha (g + J (theta - mean) + alpha memory) + noise."""
    origin = block.g + alpha[:, None] * block.memory - (block.J @ block.theta[..., None])[..., 0]
    step = alpha[:, None, None] * block.J
    return Affine(np.eye(step.shape[-1]) + step, alpha[:, None] * origin, square[:, None, None] * block.noise)


def _finite(*arrays: Floats) -> tuple[Floats, ...]:
    if not all(np.isfinite(array).all() for array in arrays):
        raise DivergenceError
    return arrays


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
    """Where mean and covariance settle under a map that is applied ever again, from ``theta``.

    By squaring the map: directions that it never moves (features never visited) stay where they are.
    """
    spread = step.Q
    for _ in range(DOUBLINGS):
        with np.errstate(over="ignore", invalid="ignore"):
            after = step.M @ theta + step.c
            wider = step.Q + step.M @ spread @ step.M.T
            moved, widened = np.abs(after - theta).max(), np.abs(wider - spread).max()
            theta, spread, step = after, wider, step.then(step)
        if not (np.isfinite(moved) and np.isfinite(widened)):
            raise DivergenceError
        if moved <= LAST * np.abs(theta).max() and widened <= LAST * np.abs(spread).max():
            break
    return theta, spread
