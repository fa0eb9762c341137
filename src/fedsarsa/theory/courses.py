"""The course of a federation, or of agents apart: from a training problem to mean and variance over time."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.federation.problem import Problem
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.fixed_points import RESIDUAL, federated_point
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.operators import UNVISITED
from fedsarsa.theory.rounds import DivergenceError, Field, Members, members
from fedsarsa.theory.trajectory import Goal, follow, settle, strides, width
from fedsarsa.worlds.fleet import Fleet

# Work that a prediction may take: members of the fleet times d^3.
WORK = 40 * 200**3
# A schedule whose step size falls below this share of its first is taken to vanish.
VANISHED = 1e-9
LATE = 2**53
# Newton steps towards the federated point, and the share of ||J|| below which an eigenvalue counts as zero.
NEWTON = 8
STILL = 1e-12


def build_field(problem: Problem) -> Field:
    """The field of a training problem; without synchronisation every agent counts alike."""
    fleet, agents = problem.fleet, problem.agents
    weights = np.full(agents, 1 / agents) if problem.sync_every is None else problem.weights
    kinds = classes(problem.features, problem.policy, fleet.states, fleet.actions)
    who = members(fleet.world_of, problem.schedule_of, weights)
    largest = int((WORK / len(who.world)) ** (1 / 3) + 1e-9)
    if problem.features.dim > largest:
        raise ValueError(
            f"features must have at most {largest} parameters for a prediction with {len(who.world)} "
            f"different agents, got {problem.features.dim}: matrices of that size would take too long"
        )
    return Field(kinds, [dynamics(world, kinds) for world in fleet.worlds], who, problem.sync_every or 1)


def late_steps(problem: Problem) -> tuple[Floats, Floats]:
    """Every schedule's step size in the long run, 0 where it vanishes; and the share of a pull it gives.

    Where all step sizes vanish, their ratios still decide how much each agent pulls.
    """
    first, last = (np.array([s.at(np.array([t]))[0] for s in problem.schedules]) for t in (0, LATE))
    alpha = np.where(last > VANISHED * first, last, 0.0)
    return alpha, alpha if alpha.any() else last


def pulls(problem: Problem) -> Floats:
    """How much each agent weighs in the federated point, (N,): by server weight and late step size."""
    pull = problem.weights * late_steps(problem)[1][problem.schedule_of]
    return np.asarray(pull / pull.sum())


def destination(problem: Problem, algo: FedSARSA, field: Field, start: Floats) -> tuple[Goal, Floats]:
    """Where a federation settles, and the federated point near it: the limit for small step sizes."""
    who = field.members
    late, share = late_steps(problem)
    alpha, pull = late[who.schedule], who.total * share[who.schedule]
    root = _near_root(field, pull / pull.sum(), problem.fleet.reward_cap)
    if root is None:
        worlds = Fleet(problem.fleet.worlds[w] for w in who.world)
        root = federated_point(worlds, algo.features, algo.policy, pull / pull.sum())
    # Parameters that are never visited stay where they start.
    point = field.classes.at(root)
    gram = sum(linearise(field.worlds[w], point).gram for w in np.unique(who.world).tolist())
    sizes, vectors = np.linalg.eigh(gram)
    unseen = vectors[:, sizes <= UNVISITED * sizes[-1]]
    root = root + unseen @ (unseen.T @ (start - root))
    if not late.any():
        return Goal(root, np.zeros((len(root), len(root))), None, alpha), root
    return settle(field, root, alpha), root


def _near_root(field: Field, pull: Floats, reward_cap: float) -> Floats | None:
    """The federated point by a few Newton steps from 0, where they lead to a point that attracts.

    Much faster than ``federated_point``, whose wider search serves where policies change abruptly.
    """
    theta = np.zeros(field.classes.phi.shape[2])
    for _ in range(NEWTON):
        point = field.classes.at(theta)
        worlds = {w: linearise(field.worlds[w], point) for w in np.unique(field.members.world).tolist()}
        here = [worlds[w] for w in field.members.world.tolist()]
        g = sum(share * one.g for share, one in zip(pull, here, strict=True))
        J = sum(share * one.J for share, one in zip(pull, here, strict=True))
        if np.linalg.norm(g) <= RESIDUAL * min(1.0, reward_cap):
            attracts = np.linalg.eigvals(J).real.max() <= STILL * np.linalg.norm(J)
            return theta if attracts else None
        # Least squares: directions that are never visited have no slope, and the step none of them.
        theta = theta + np.linalg.lstsq(J, -g, rcond=None)[0]
    return None


@dataclass(frozen=True, eq=False)
class Course:
    """Mean (n, d) and variance (n,) after some rounds of ``every`` steps, and where they end."""

    rounds: NDArray[np.int64]
    every: int
    mean: Floats
    variance: Floats
    covariance: Floats
    point: Floats
    root: Floats
    remaining: float
    sharpness: float


def course(problem: Problem, algo: FedSARSA, field: Field, start: Floats) -> Course:
    """The course of a federation, or of its agents apart where it never synchronises."""
    try:
        return (_apart if problem.sync_every is None else _together)(problem, algo, field, start)
    except DivergenceError:
        raise ValueError(
            f"step_size must be small enough for parameters to settle, got {algo.step_size!r}: their mean or "
            f"variance grows without bound (for softmax, a higher temperature may help as well)"
        ) from None


def _together(problem: Problem, algo: FedSARSA, field: Field, start: Floats) -> Course:
    """The course of a federation."""
    every = field.period
    goal, root = destination(problem, algo, field, start)
    way = strides(problem.schedules, field.members, problem.steps // every, every)
    track = follow(field, start, way, goal)
    remaining = width(goal.spread) ** 2
    return Course(
        track.round,
        every,
        track.mean,
        track.variance,
        track.spread,
        goal.theta,
        root,
        remaining,
        track.sharpness,
    )


def _apart(problem: Problem, algo: FedSARSA, field: Field, start: Floats) -> Course:
    """The course of the plain average of agents that never synchronise: only its start and its end."""
    who, one = field.members, np.ones(1)
    alone = [
        _together(
            problem,
            algo,
            replace(field, members=Members(who.world[[j]], who.schedule[[j]], one, one, one)),
            start,
        )
        for j in range(len(who.world))
    ]
    shares, squares = who.total, who.square
    covariance = np.tensordot(squares, [course.covariance for course in alone], 1)
    return Course(
        rounds=np.array([0, 1]),
        every=problem.steps,
        mean=np.stack([start, shares @ [course.mean[-1] for course in alone]]),
        variance=np.array([0.0, np.trace(covariance)]),
        covariance=covariance,
        point=shares @ [course.point for course in alone],
        root=shares @ [course.root for course in alone],
        remaining=float(squares @ [course.remaining for course in alone]),
        sharpness=max(course.sharpness for course in alone),
    )
