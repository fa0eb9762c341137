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
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import PrivateMean
from fedsarsa.theory.action_classes import Classes, Dynamics, Point, classes, dynamics
from fedsarsa.theory.affine import Affine, DivergenceError, mean_spread
from fedsarsa.theory.gaussian_averages import average, projected
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import Linearisation, linearise
from fedsarsa.theory.roots import MeanField

# A world is averaged over the spread of its parameter where Q-values vary by more than this many
# temperatures, or where multiplicative noise is more than this share of the noise. Else it is taken at the
# mean, which is much faster in large worlds and moves a curve by less than half a percent; tests measure it.
FLAT = 0.005
FAINT = 0.03
# Step size x local steps of the first block of a round, and of rounds that are not cut. The linearisation
# at a block's end may move agents by a share of their way in it; beyond that the block is shortened.
FIRST_BLOCK = 0.25
BLOCK_TOLERANCE = 0.03
# A way that is a smaller share of the parameter is at rest: what moves there is rounding.
AT_REST = 1e-10
# How much lengths change at most from one block to the next, and from one batch of rounds to the next.
SHORTEN, LENGTHEN = 0.2, 4.0
# Work that a prediction may take: groups of agents times d^3.
WORK = 40 * 200**3
# A schedule whose step size falls below this share of its first is taken to vanish.
VANISHED = 1e-9
LATE = 2**53


@dataclass(frozen=True, eq=False)
class AgentGroups:
    """Agents with the same world, schedule and weight are one group.

    Attributes
    ----------
    world, schedule : (m,) int
        Which world, and which schedule.
    weight : (m,)
        The server's weight of one such agent.
    total, square : (m,)
        Sum of the weights of these agents, and of their mean squares: an agent that takes part in n / N of
        the rounds has a weight of 1 / n there.
    sampling : float
        What the agents' covariance around their mean is multiplied by, where a round samples some of them:
        (1 / n - 1 / N) N / (N - 1), the variance of a mean of n out of N.
    """

    world: NDArray[np.int64]
    schedule: NDArray[np.int64]
    weight: Floats
    total: Floats
    square: Floats
    sampling: float = 0.0

    def average(self, local: Affine, theta: Floats | None = None) -> Affine:
        """The server's average of agents that follow the map of their group.

        Where some are sampled, that adds noise, which is taken at ``theta`` (d,).
        """
        M, Q = np.tensordot(self.total, local.M, 1), np.tensordot(self.square, local.Q, 1)
        if self.sampling and theta is not None:
            ends = local.M @ theta + local.c
            apart = ends - self.total @ ends
            Q = Q + self.sampling * (self.total[:, None] * apart).T @ apart
        return Affine(M, self.total @ local.c, Q)


def agent_groups(
    world_of: NDArray[np.int64], schedule_of: NDArray[np.int64], weights: Floats, asked: int | None = None
) -> AgentGroups:
    """Group the agents of a fleet, of whom a round asks some, or all."""
    found: dict[tuple[int, int, float], int] = {}
    for key in zip(world_of.tolist(), schedule_of.tolist(), weights.tolist(), strict=True):
        found[key] = found.get(key, 0) + 1
    world, schedule, weight = (np.array(column) for column in zip(*found, strict=True))
    count, agents = np.array(list(found.values())), len(weights)
    if asked is None or asked == agents:
        return AgentGroups(world, schedule, weight, count * weight, count * weight**2)
    rise, sampling = agents / asked, (1 / asked - 1 / agents) * agents / (agents - 1)
    return AgentGroups(world, schedule, weight * rise, count * weight, count * weight**2 * rise, sampling)


class Block(NamedTuple):
    """Every group during some local steps, around its own mean.

    Attributes
    ----------
    theta, g, memory : (m, d)
        Each group's mean; its mean-path semi-gradient; memory per unit of step size.
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
class FederationModel:
    """What moves the central parameter: worlds, groups, local steps per round, and the projection.

    Attributes
    ----------
    noisy : bool
        Whether steps have noise; without it agents take their mean-path semi-gradients.
    averaged : bool
        Whether worlds are averaged over the spread of a parameter where that counts, or taken at its mean.
    added : float
        Variance that the server adds to every parameter after a round.
    """

    classes: Classes
    worlds: Sequence[Dynamics]
    groups: AgentGroups
    period: int
    radius: float | None = None
    noisy: bool = True
    averaged: bool = True
    added: float = 0.0

    def linearised(self, theta: Floats) -> dict[int, Linearisation]:
        """Every world that an agent is in, at a parameter (d,)."""
        point = self.classes.at(theta)
        return {w: linearise(self.worlds[w], point) for w in np.unique(self.groups.world).tolist()}

    def node(self, theta: Floats, spread: Floats, alpha: Floats, last: Node | None = None) -> Node:
        """The federation at a central mean and covariance, for step sizes ``alpha`` (m,).

        ``last``, a node nearby, gives how widely agents are spread within a round.

        Raises
        ------
        DivergenceError
            Mean or covariance are not finite, or do not stay so within a round.
        """
        count = len(self.groups.world)
        mean, own = np.tile(theta, (count, 1)), np.tile(spread, (count, 1, 1))
        nearby = None if last is None else last.blocks[0]
        left, steps = self.period, max(1, int(FIRST_BLOCK / float(alpha.max())))
        here, sharpness = self._block(min(steps, left), mean, own, alpha, nearby)
        blocks, left = ([here], 0) if steps >= left else ([], left)
        while left:
            steps = min(steps, left)
            predicted = _local(here, alpha, alpha**2).power(steps).moved(mean, own)
            ahead, sharp = self._block(steps, *predicted, alpha, here)
            block = _joined(here, ahead)._replace(steps=steps)
            ends = _local(block, alpha, alpha**2).power(steps).moved(mean, own)
            way = np.linalg.norm(ends[0] - mean, axis=1).max()
            way = max(way, AT_REST * np.linalg.norm(mean, axis=1).max())
            apart = np.linalg.norm(ends[0] - predicted[0], axis=1).max()
            error = apart / (BLOCK_TOLERANCE * way) if way > 0 else 0.0
            if not np.isfinite(error):
                raise DivergenceError
            factor = next_length(error)
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
        """AgentGroups at their own means (m, d) and covariances (m, d, d), and their sharpness."""
        _finite(mean, spread)
        groups, largest = self.groups, 0.0
        g, memory = np.empty((2, *mean.shape))
        J, noise = np.empty((2, *spread.shape))
        # Both are large: the last one alone is kept.
        points: dict[bytes, Point] = {}
        seen: dict[int, Linearisation] = {}
        for j, w in enumerate(groups.world.tolist()):
            world, place = self.worlds[w], mean[j].tobytes()
            if place not in points:
                points, seen = {place: self.classes.at(mean[j])}, {}
            if w not in seen:
                seen = {w: linearise(world, points[place])}
            here = seen[w]
            if not self.noisy:
                g[j], memory[j], J[j], noise[j] = here.g, 0.0, here.J, 0.0
                continue
            lagged, shaken = lags(here, alpha[j]).noise, here.shaken(spread[j])
            # Within a round an agent's parameter is spread more widely than the central one at its start.
            slope, size = (here.J, lagged + shaken) if nearby is None else (nearby.J[j], nearby.noise[j])
            step = Affine(np.eye(len(slope)) + alpha[j] * slope, np.zeros_like(here.g), alpha[j] ** 2 * size)
            (own,) = _finite(mean_spread(step, spread[j], count))
            widest = max(float(here.point.variances(own).max()), 0.0)
            sharpness = self.classes.slope * widest**0.5
            largest = max(largest, sharpness)
            memory[j] = here.memory(groups.weight[j], self.period)
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
        central = self.groups.average(self.local_round(node, alpha, square), node.blocks[0].theta[0])
        if self.added:
            central = replace(central, Q=central.Q + self.added * np.eye(len(central.c)))
        return central if node.projection is None else central.then(node.projection)

    def local_round(self, node: Node, alpha: Floats, square: Floats) -> Affine:
        """The local steps of a round around a node, of every group."""
        first, *others = (_local(block, alpha, square).power(block.steps) for block in node.blocks)
        return reduce(Affine.then, others, first)


def federation_model(problem: Problem) -> FederationModel:
    """Build the model of a training problem; without synchronisation every agent counts alike."""
    (fleet, features), agents = problem.finite_worlds, problem.agents
    weights = np.full(agents, 1 / agents) if problem.sync_every is None else problem.weights
    kinds = classes(features, problem.policy, fleet.states, fleet.actions)
    groups = agent_groups(
        fleet.world_of, problem.schedule_of, weights, problem.asked if problem.partial else None
    )
    largest = int((WORK / len(groups.world)) ** (1 / 3) + 1e-9)
    if problem.features.dim > largest:
        raise ValueError(
            f"features must have at most {largest} parameters for a prediction with {len(groups.world)} "
            f"different agents, got {problem.features.dim}: matrices of that size would take too long"
        )
    # Averaging one agent is the identity: without projections its K means nothing.
    period = problem.sync_every if problem.sync_every and (agents > 1 or problem.radius) else 1
    radius = problem.radius if problem.sync_every else None
    worlds, rule = [dynamics(world, kinds) for world in fleet.worlds], problem.server
    added = rule.deviation(problem.asked or agents) ** 2 if isinstance(rule, PrivateMean) else 0.0
    if added:
        period = problem.sync_every or 1
    return FederationModel(kinds, worlds, groups, period, radius, added=added)


def limiting_step_sizes(problem: Problem, schedule: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Step sizes (m,) in the long run, 0 where they vanish, of agents with the schedules ``schedule`` (m,).

    With them comes how much each agent pulls, (m,): where all step sizes vanish, their ratios still decide.
    """
    sizes = np.array([s.at(np.array([0, LATE])) for s in problem.schedules])
    first, last = sizes[schedule].T
    alpha = np.where(last > VANISHED * first, last, 0.0)
    return alpha, alpha if alpha.any() else last


def effective_weights(problem: Problem) -> Floats:
    """How much each agent weighs in the federated point, (N,): by server weight and late step size."""
    pull = problem.weights * limiting_step_sizes(problem, problem.schedule_of)[1]
    return pull / pull.sum()


def mean_field(problem: Problem, model: FederationModel) -> MeanField:
    """The agents' averaged semi-gradient, by server weight and late step size."""
    groups = model.groups
    late = limiting_step_sizes(problem, groups.schedule)[1]
    pull = np.bincount(groups.world, groups.total * late, len(model.worlds))
    return MeanField(model.classes, model.worlds, pull / pull.sum())


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
    """One local step of every group: theta + alpha (g + J (theta - mean) + alpha memory) + noise."""
    origin = block.g + alpha[:, None] * block.memory - (block.J @ block.theta[..., None])[..., 0]
    step = alpha[:, None, None] * block.J
    return Affine(np.eye(step.shape[-1]) + step, alpha[:, None] * origin, square[:, None, None] * block.noise)


def next_length(error: float) -> float:
    """Length of the next block or batch over the last one's, whose ``error``, in tolerances, is quadratic."""
    return float(np.clip(0.9 / max(error, 1e-9) ** 0.5, SHORTEN, LENGTHEN))


def _finite(*arrays: Floats) -> tuple[Floats, ...]:
    if not all(np.isfinite(array).all() for array in arrays):
        raise DivergenceError
    return arrays
