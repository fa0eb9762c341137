"""Whether a Gaussian is too simple: particles that follow the same drift and noise, each by its own policy.

The prediction takes the central parameter for a Gaussian around one mean. Here no shape is assumed: every
*particle* moves by the mean-path semi-gradient at its own parameter, and by noise with the covariance there,

    theta <- theta + Phi (n alpha g-bar(theta) + sqrt(n) alpha xi(theta)),

for n steps at once, with Phi = (I + M + ... + M^{n-1}) / n and M = I + alpha J; half of what g-bar changes on
the way beyond J is added, as in Heun's method. Their mean error is that of trainings to second order in the
step size, as the prediction is, but for chance, whose size is known.
"""

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import project
from fedsarsa.theory.action_classes import Dynamics
from fedsarsa.theory.federation_model import Block, FederationModel
from fedsarsa.theory.gaussian_averages import Points
from fedsarsa.theory.trajectory import JUMP, Stride, Trajectory, startup

PARTICLES = 256
# How far a particle may move at once: step size x steps x the Jacobian's norm, share of the steps done, and
# temperatures by which noise moves a Q-value.
REACH, GROWTH, STIRRED = 0.5, 1 / 8, 0.3
# Distance beyond two standard errors up to which a curve is that of the particles, and the most that these
# two may be: a sample that varies more cannot tell.
ALIKE, VAGUE = 0.05, 0.1
# The most moves of a world's particles, a few milliseconds each.
MOST_MOVES = 3000


class Move(NamedTuple):
    """Some rounds that particles move by at once, or one round in ``parts``; every group at a node nearby."""

    stride: Stride
    node: Block
    parts: int


def particles_confirm(
    model: FederationModel, start: Floats, strides: Sequence[Stride], trajectory: Trajectory, target: Floats
) -> bool:
    """Whether a predicted curve is that of particles from ``start``, and these are few and can tell."""
    moves = list(split_moves(model, strides, trajectory))
    if len(list(affordable(model, moves))) < len(moves):
        return False
    curve = trajectory.errors(target)
    for done, particles in follow_particles(model, start, strides, moves):
        errors = ((particles - target) ** 2).sum(axis=1)
        mean, chance = errors.mean(), 2 * errors.std(ddof=1) / len(errors) ** 0.5
        distance = abs(np.interp(done, trajectory.round, curve) - mean) - chance
        if not (chance <= VAGUE * mean and distance <= ALIKE * mean):
            return False
    return True


def affordable(model: FederationModel, moves: Iterable[Move]) -> Iterator[Move]:
    """The first of the moves, as many as cost at most ``MOST_MOVES`` moves of one world's particles."""
    agents, spent = model.groups.total / model.groups.weight, 0.0
    for move in moves:
        spent += len(agents) if move.parts == 1 else move.parts * agents.sum()
        if spent > MOST_MOVES:
            return
        yield move


def follow_particles(
    model: FederationModel, start: Floats, strides: Sequence[Stride], moves: Iterable[Move]
) -> Iterator[tuple[int, Floats]]:
    """Rounds done and particles (P, d), from ``start`` to the end of the last move."""
    rng = np.random.default_rng(0)
    central = np.tile(start, (PARTICLES, 1))
    draws = np.zeros((len(model.groups.world), *central.shape))
    shifts = np.array([shift.mean for shift in startup(model, start, strides)])
    ends = np.array([stride.start + stride.count for stride in strides])
    for stride, node, parts in moves:
        if parts == 1:
            central = _together(model, central, draws, stride, node, rng)
        else:
            central = _apart(model, central, stride, node, parts, rng)
        done = stride.start + stride.count
        central = project(central + shifts[(ends > stride.start) & (ends <= done)].sum(axis=0), model.radius)
        yield done, central


def split_moves(model: FederationModel, strides: Sequence[Stride], trajectory: Trajectory) -> Iterator[Move]:
    """Split a training into moves that are short enough; the trajectory's nodes say how short."""
    done, last = 0, strides[-1].start + strides[-1].count
    while done < last:
        stride, node = _ahead(strides, done, max(1, int(GROWTH * done))), _node(trajectory, done)
        rate = float((stride.alpha * np.linalg.norm(node.J, 2, axis=(1, 2))).max())
        own = stride.square[:, None, None] * node.noise
        central = np.tensordot(model.groups.square, own, 1)[None]
        reach = REACH / max(rate, np.finfo(float).tiny)
        rounds = min(reach, _still(model, central)) / model.period
        alone = max(1.0, min(reach, _still(model, own)))
        parts = 1 if rounds >= 1 else math.ceil(model.period / alone)
        count = max(1, int(min(rounds, stride.count)))
        yield Move(replace(stride, count=count), node, parts)
        done += count


def _still(model: FederationModel, noise: Floats) -> float:
    """Steps, each with one of the covariances (k, d, d), that move no Q-value by ``STIRRED`` temperatures."""
    phi = model.classes.phi
    widest = max(float(((phi @ one) * phi).sum(axis=2).max()) for one in noise)
    return STIRRED**2 / max(widest * model.classes.slope**2, np.finfo(float).tiny)


def _ahead(strides: Sequence[Stride], done: int, count: int) -> Stride:
    """Up to ``count`` rounds after ``done`` ones, with nearly one step size."""
    first = next(k for k, one in enumerate(strides) if one.start + one.count > done)
    sizes, end = np.zeros((2, len(strides[0].alpha))), done
    for one in strides[first:]:
        if end == done + count or (np.abs(one.alpha - strides[first].alpha) > JUMP * one.alpha).any():
            break
        rounds = min(one.start + one.count, done + count) - end
        sizes, end = sizes + rounds * np.stack([one.alpha, one.square]), end + rounds
    return Stride(done, end - done, *(sizes / (end - done)))


def _node(trajectory: Trajectory, done: int) -> Block:
    """Every group at the last node before ``done`` rounds."""
    places = [place for place, *_ in trajectory.nodes]
    *_, node = trajectory.nodes[max(0, bisect.bisect_right(places, done) - 1)]
    return node.blocks[0]


def _together(
    model: FederationModel,
    central: Floats,
    draws: Floats,
    stride: Stride,
    node: Block,
    rng: np.random.Generator,
) -> Floats:
    """Particles (P, d) after rounds that are short: agents hardly leave the central parameter.

    Within a round agents spread around it: by ``draws`` (m, P, d), the last ones, which the next replace.
    """
    groups, steps = model.groups, stride.count * model.period
    turned = [steps * a * mean_power(J, a, steps).T for J, a in zip(node.J, stride.alpha, strict=True)]
    apart = stride.alpha * np.sqrt((model.period - 1) / 2 * (1 - groups.weight))
    shaken = central + apart[:, None, None] * draws
    moved, slopes = np.zeros_like(central), []
    for j, w in enumerate(groups.world.tolist()):
        here = Points(model.worlds[w], model.classes, shaken[j])
        draws[j] = noise(here, rng)
        size = (groups.square[j] * stride.square[j] / steps) ** 0.5 / stride.alpha[j]
        way = groups.total[j] * (here.g + stride.alpha[j] * node.memory[j]) + size * draws[j]
        moved += way @ turned[j]
        slopes.append(here.g)
    after = central + moved
    for j, w in enumerate(groups.world.tolist()):
        ahead = Points(model.worlds[w], model.classes, shaken[j] + moved)
        after += groups.total[j] / 2 * (ahead.g - slopes[j] - moved @ node.J[j].T) @ turned[j]
    return after


def _apart(
    model: FederationModel, central: Floats, stride: Stride, node: Block, parts: int, rng: np.random.Generator
) -> Floats:
    """Particles (P, d) after one long round, in which every agent goes its own way in ``parts``."""
    groups = model.groups
    result = np.zeros_like(central)
    lengths = np.diff(np.linspace(0, model.period, parts + 1).round().astype(int))
    for j, w in enumerate(groups.world.tolist()):
        alpha, agents = stride.alpha[j], round(groups.total[j] / groups.weight[j])
        turned = {n: n * alpha * mean_power(node.J[j], alpha, n).T for n in set(lengths.tolist())}
        theta = np.tile(central, (agents, 1))
        for n in lengths.tolist():
            here = Points(model.worlds[w], model.classes, theta)
            size = (stride.square[j] / n) ** 0.5 / alpha
            moved = (here.g + alpha * node.memory[j] + size * noise(here, rng)) @ turned[n]
            ahead = Points(model.worlds[w], model.classes, theta + moved)
            theta = theta + moved + (ahead.g - here.g - moved @ node.J[j].T) @ turned[n] / 2
        result += groups.weight[j] * theta.reshape(agents, *central.shape).sum(axis=0)
    return result


def mean_power(J: Floats, alpha: float, count: int) -> Floats:
    """(I + M + ... + M^{n-1}) / n for M = I + alpha J and n = ``count``."""
    M = np.eye(len(J)) + alpha * J
    total, power = np.eye(len(J)), M
    for bit in bin(count)[3:]:
        total, power = total + power @ total, power @ power
        if bit == "1":
            total, power = total + power, power @ M
    return total / count


def noise(points: Points, rng: np.random.Generator) -> Floats:
    """One draw per parameter, (P, d), with the long-run covariance of the semi-gradient noise there.

    g - g-bar = xi + u(x) - u(x') with martingale differences xi (see `Linearisation.noise`), and the
    covariance is E[xi xi'] over pairs x and the x' that follow them. So every pair gets one successor and one
    normal variable, times the root of the pair's probability.
    """
    world, phi, q, pi = points.world, points.phi, points.q, points.pi
    count, (kinds, states, dim) = len(q), phi.shape
    mine, pair = np.arange(count)[:, None, None], np.arange(kinds)[:, None]
    state = (rng.random((count, kinds, states, 1)) > np.cumsum(world.kernel, axis=2)[..., :-1]).sum(axis=3)
    chosen = np.cumsum(pi, axis=1)[:, :-1].transpose(0, 2, 1)[mine, state]  # (P, C, S, C - 1)
    kind = (rng.random((count, kinds, states, 1)) > chosen).sum(axis=3)
    reward, rest = _rewards(world)
    error = reward[pair, np.arange(states), state] + world.discount * q[mine, kind, state] - q
    z, more = rng.normal(size=(2, count, kinds, states)) * np.sqrt(points.mu)
    # sum of z (u(x') - u(x)), with u(x) = phi(x) E[delta | x] + E[U(s') | x] - g-bar, by the weight of each u
    places = ((mine * kinds + kind) * states + state).ravel()
    weight = np.bincount(places, z.ravel(), minlength=z.size).reshape(z.shape) - z
    slopes = (z * error + more * rest + weight * points.error).reshape(count, -1)
    onward = weight.reshape(count, 1, -1) @ world.kernel.reshape(-1, states) @ points.values
    total: Floats = slopes @ phi.reshape(-1, dim) + onward[:, 0]
    return total - z.sum(axis=(1, 2))[:, None] * points.g


def _rewards(world: Dynamics) -> tuple[Floats, Floats]:
    """E[r | s, c, s'], (C, S, S), and the standard deviation that is left, (C, S)."""
    if world.rewarded is None:
        mean = np.broadcast_to(world.reward[..., None], world.kernel.shape)
    else:
        mean = np.divide(
            world.rewarded, world.kernel, out=np.zeros_like(world.kernel), where=world.kernel > 0
        )
    return mean, np.sqrt(np.maximum(world.reward_square - (world.kernel * mean**2).sum(axis=2), 0.0))
