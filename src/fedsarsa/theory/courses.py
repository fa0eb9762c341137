"""The course of a federation, or of agents apart: from a training problem to mean and variance over time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.problem import Problem
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.basins import astray
from fedsarsa.theory.roots import MeanField
from fedsarsa.theory.rounds import DivergenceError, Field, Members, members
from fedsarsa.theory.trajectory import Goal, State, Stride, Track, follow, settle, strides, width

# Work that a prediction may take: members of the fleet times d^3.
WORK = 40 * 200**3
# A schedule whose step size falls below this share of its first is taken to vanish.
VANISHED = 1e-9
# Where Q-values vary by fewer temperatures, averaging over that has never changed a curve by much.
SHARP = 0.4
LEVEL = 0.05  # relative change of the error in the second half of a way that has come to its end
LATE = 2**53


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
    # Averaging one agent is the identity: without projections its K means nothing.
    period = problem.sync_every if problem.sync_every and (agents > 1 or problem.radius) else 1
    radius = problem.radius if problem.sync_every else None
    return Field(kinds, [dynamics(world, kinds) for world in fleet.worlds], who, period, radius)


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


def mean_field(problem: Problem, field: Field, world: int | None = None) -> MeanField:
    """The members' averaged semi-gradient, by server weight and late step size; or that of one world."""
    who = field.members
    pull = np.bincount(who.world, who.total * late_steps(problem)[1][who.schedule], len(field.worlds))
    if world is not None:
        pull = np.eye(len(field.worlds))[world]
    return MeanField(field.classes, field.worlds, pull / pull.sum())


@dataclass(frozen=True, eq=False)
class Course:
    """Mean (n, d) and variance (n,) after some steps, and where they end.

    Attributes
    ----------
    steps : (n,) int
        Steps done; the first is 0.
    covariance : (d, d)
        Of the central parameter at the end.
    point, root : (d,)
        Where the mean settles; the root next to it, NaN where none was found.
    flow : MeanField or None
        What the mean of small steps follows; None for agents apart.
    remaining : float
        The variance that remains.
    sharpness, bend : float
        Largest standard deviation of a Q-value in temperatures; largest relative change of the error by
        averaging worlds over that noise (none below ``SHARP``), or by noise that leads to other roots.
    projected : float
        Largest probability of a projection in a round.
    skew : float
        Largest standard deviation of a Q-value in temperatures times the variance's share of the error then.
    settled : bool
        Whether mean and covariance come to rest.
    """

    steps: NDArray[np.int64]
    mean: Floats
    variance: Floats
    covariance: Floats
    point: Floats
    root: Floats
    flow: MeanField | None
    remaining: float
    sharpness: float
    bend: float
    projected: float
    skew: float
    settled: bool


def course(problem: Problem, algo: FedSARSA, field: Field, start: Floats, target: Floats) -> Course:
    """The course of a federation, or of its agents apart where it never synchronises."""
    try:
        return (_apart if problem.sync_every is None else _together)(problem, field, start, target)
    except DivergenceError:
        raise ValueError(
            f"step_size must be small enough for a prediction, got {algo.step_size!r}: the linearised "
            "prediction diverges, or sways for ever (for softmax, a higher temperature may help as well)"
        ) from None


def _together(problem: Problem, field: Field, start: Floats, target: Floats) -> Course:
    """The course of a federation."""
    every, who = field.period, field.members
    way = strides(problem.schedules, who, problem.steps // every, every)
    track = follow(field, start, way, target)
    late = late_steps(problem)[0]
    flow = mean_field(problem, field)
    if late.any():
        goal = settle(field, track.end, track.node, late[who.schedule], target)
        if not goal.settled:  # the way there may be long, and lead past points that repel
            rest = flow.rest_from(track.end.mean, field.radius)
            if rest is not None:
                goal = settle(field, track.end._replace(mean=rest), track.node, late[who.schedule], target)
        if not goal.settled:  # where noise makes the way sway, a level curve tells as much
            goal = Goal(track.end, _level(track, target))
    else:
        rest = flow.rest_from(track.end.mean, field.radius)
        end = track.end.mean if rest is None else rest
        goal = Goal(State(end, np.zeros_like(track.end.spread)), rest is not None)
    root = flow.root_from(goal.state.mean)
    return Course(
        track.round * every,
        track.mean,
        track.variance,
        track.end.spread,
        goal.state.mean,
        np.full_like(start, np.nan) if root is None else root,
        flow,
        width(goal.state.spread) ** 2,
        track.sharpness,
        max(
            _bend(field, start, way, track, target) if track.sharpness > SHARP else 0.0,
            astray(field, flow, way, track, target),
        ),
        track.projected,
        max(track.skew, goal.skew),
        goal.settled,
    )


def _level(track: Track, target: Floats) -> bool:
    """Whether the error hardly changes in the second half of the way."""
    late = track.errors(target)[2 * track.round >= track.round[-1]]
    return bool(len(late) > 1 and np.ptp(late) <= LEVEL * late.min())


def _bend(field: Field, start: Floats, way: Sequence[Stride], track: Track, target: Floats) -> float:
    """Largest relative change of the error by averaging worlds over the noise."""
    try:
        other = follow(replace(field, averaged=False), start, way, target)
    except DivergenceError:
        return np.inf
    rounds = np.intersect1d(track.round, other.round)
    errors = [one.errors(target)[np.isin(one.round, rounds)] for one in (track, other)]
    return float(
        np.abs(
            np.divide(errors[1], errors[0], out=np.ones_like(rounds, float), where=errors[0] > 0) - 1
        ).max()
    )


def _apart(problem: Problem, field: Field, start: Floats, target: Floats) -> Course:
    """The course of the plain average of agents that never synchronise: only its start and its end."""
    who, one = field.members, np.ones(1)
    alone = [
        _together(
            problem,
            replace(field, members=Members(who.world[[j]], who.schedule[[j]], one, one, one)),
            start,
            target,
        )
        for j in range(len(who.world))
    ]
    shares, squares = who.total, who.square
    covariance = np.tensordot(squares, [course.covariance for course in alone], 1)
    return Course(
        steps=np.array([0, problem.steps]),
        mean=np.stack([start, shares @ [course.mean[-1] for course in alone]]),
        variance=np.array([0.0, np.trace(covariance)]),
        covariance=covariance,
        point=shares @ [course.point for course in alone],
        root=shares @ [course.root for course in alone],
        flow=None,
        remaining=float(squares @ [course.remaining for course in alone]),
        sharpness=max(course.sharpness for course in alone),
        bend=max(course.bend for course in alone),
        projected=0.0,
        skew=max(course.skew for course in alone),
        settled=all(course.settled for course in alone),
    )
