"""Mean and variance of the central parameter over a training, for federations and for agents apart."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.problem import Problem
from fedsarsa.theory.affine import DivergenceError, limit
from fedsarsa.theory.basins import basin_change
from fedsarsa.theory.federation_model import (
    AgentGroups,
    FederationModel,
    Node,
    limiting_step_sizes,
    mean_field,
)
from fedsarsa.theory.particles import particles_confirm
from fedsarsa.theory.prediction_warnings import BENT, SKEWED
from fedsarsa.theory.roots import MeanField
from fedsarsa.theory.trajectory import (
    Moments,
    Segment,
    Stride,
    Trajectory,
    follow,
    split_rounds,
    width,
)

# Where Q-values vary by fewer temperatures, averaging over that has never changed a curve by much.
SHARP = 0.4
# Distance to the limit of the last node at which a federation has settled, and that it must have in the end.
SETTLED, NEARLY_SETTLED = 1e-4, 0.02
SETTLE_STEPS = 40
GROWN = 1e6  # how many times its size a parameter's mean square may become before it counts as divergent
# Linearisation error on the way there, which is not drawn, in tolerances.
ROUGHLY = 10
NEAR = 0.1  # relative distance of the floor to the end of a curve that shows both
LEVEL = 0.05  # relative change of the error in the second half of a way that has come to its end


@dataclass(frozen=True, eq=False)
class PredictedMoments:
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
    confirmed : bool
        Whether particles that are not taken for a Gaussian have the same curve; looked at where ``bend`` or
        ``skew`` are beyond their limits.
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
    confirmed: bool
    settled: bool


def predict_moments(
    problem: Problem, algo: FedSARSA, model: FederationModel, start: Floats, target: Floats
) -> PredictedMoments:
    """Predict a federation, or its agents apart where it never synchronises."""
    with named_divergence(algo):
        return (_apart if problem.sync_every is None else _together)(problem, model, start, target)


@contextmanager
def named_divergence(algo: FedSARSA) -> Iterator[None]:
    """Say of which step size it is that a prediction diverges."""
    try:
        yield
    except DivergenceError:
        raise ValueError(
            f"step_size must be small enough for a prediction, got {algo.step_size!r}: the linearised "
            "prediction diverges, or oscillates (for softmax, a higher temperature may help as well)"
        ) from None


def follow_training(
    problem: Problem, model: FederationModel, start: Floats, target: Floats
) -> tuple[Trajectory, float]:
    """The way of a federation to the end of training, and how far noise bends it (``bend``)."""
    strides = split_rounds(problem.schedules, model.groups, problem.steps // model.period, model.period)
    trajectory = follow(model, start, strides, target)
    sharp = trajectory.sharpness > SHARP
    bend = _bend(model, start, strides, trajectory, target) if sharp else 0.0
    led = basin_change(model, mean_field(problem, model), strides, trajectory, target)
    return trajectory, max(bend, led)


def each_alone(model: FederationModel) -> list[FederationModel]:
    """The model of every group's agents, each on its own."""
    groups, whole = model.groups, np.ones(1)
    return [
        replace(model, groups=AgentGroups(groups.world[[j]], groups.schedule[[j]], whole, whole, whole))
        for j in range(len(groups.world))
    ]


def _together(problem: Problem, model: FederationModel, start: Floats, target: Floats) -> PredictedMoments:
    """Predict a federation."""
    every, groups = model.period, model.groups
    trajectory, bend = follow_training(problem, model, start, target)
    late, flow = limiting_step_sizes(problem, groups.schedule)[0], mean_field(problem, model)
    if late.any():
        end = settle(model, trajectory.end, trajectory.node, late, target)
        if not end.settled:  # the way there may be long, and lead past points that repel
            rest = flow.rest_from(trajectory.end.mean, model.radius)
            if rest is not None:
                begun = trajectory.end._replace(mean=rest)
                end = settle(model, begun, trajectory.node, late, target)
        if not end.settled:  # where noise makes the way sway, a level curve says as much
            end = LimitMoments(trajectory.end, _level(trajectory, target))
    else:
        rest = flow.rest_from(trajectory.end.mean, model.radius)
        end = LimitMoments(
            Moments(trajectory.end.mean if rest is None else rest, np.zeros_like(trajectory.end.spread)),
            rest is not None,
        )
    root = flow.root_from(end.state.mean)
    skew = max(trajectory.skew, end.skew)
    confirmed = (bend > BENT or skew > SKEWED) and _confirmed(problem, model, start, trajectory, end, target)
    return PredictedMoments(
        trajectory.round * every,
        trajectory.mean,
        trajectory.variance,
        trajectory.end.spread,
        end.state.mean,
        np.full_like(start, np.nan) if root is None else root,
        flow,
        width(end.state.spread) ** 2,
        trajectory.sharpness,
        bend,
        trajectory.projected,
        skew,
        confirmed,
        end.settled,
    )


@dataclass(frozen=True, eq=False)
class LimitMoments:
    """Where mean and covariance settle, and the skew there (``Trajectory.skew``).

    ``settled`` is False where no end was found: then the nearest.
    """

    state: Moments
    settled: bool
    skew: float = 0.0


@np.errstate(over="ignore", invalid="ignore")
def settle(
    model: FederationModel, state: Moments, node: Node | None, alpha: Floats, target: Floats
) -> LimitMoments:
    """Find where a federation that has come to ``state`` settles with constant step sizes ``alpha`` (m,)."""
    node = model.node(*state, alpha, node)
    still = Moments(np.zeros_like(state.mean), np.zeros_like(state.spread))
    best, nearest, count = state, np.inf, 1.0
    size = state.error(target) + float(target @ target)
    for _ in range(SETTLE_STEPS):
        try:
            end = Moments(*limit(model.round(node, alpha, alpha**2), state.mean))
        except DivergenceError:
            end = None
        apart = np.inf if end is None else end.distance(state, target)
        if apart < nearest:
            assert end is not None
            best, nearest = end, apart
        if apart <= SETTLED:
            break
        segment = Segment(model, node, state, [(Stride(0, int(count), alpha, alpha**2), still)], target)
        if segment.ahead is not None and (segment.error <= ROUGHLY or count < 2):
            ahead = segment.states[-1]
            if apart > nearest:  # the way to the limit overshoots
                ahead = Moments((state.mean + ahead.mean) / 2, (state.spread + ahead.spread) / 2)
                node = model.node(*ahead, alpha, segment.ahead)
            else:
                node = segment.ahead
            state = ahead
        elif count < 2:
            break
        count = min(max(1.0, segment.reach * ROUGHLY**0.5), 1e15)
        if not state.error(target) <= GROWN * size:
            raise DivergenceError
    return LimitMoments(best, nearest <= NEARLY_SETTLED, node.sharpness * best.variable(target))


def _level(trajectory: Trajectory, target: Floats) -> bool:
    """Whether the error hardly changes in the second half of the way."""
    late = trajectory.errors(target)[2 * trajectory.round >= trajectory.round[-1]]
    return bool(len(late) > 1 and np.ptp(late) <= LEVEL * late.min())


def _confirmed(
    problem: Problem,
    model: FederationModel,
    start: Floats,
    trajectory: Trajectory,
    end: LimitMoments,
    target: Floats,
) -> bool:
    """Whether particles have the predicted curve, and the floor is near its end where its noise is skewed."""
    last = trajectory.end.error(target)
    if end.skew > SKEWED and abs(end.state.error(target) - last) > NEAR * last:
        return False
    strides = split_rounds(problem.schedules, model.groups, problem.steps // model.period, model.period)
    return particles_confirm(model, start, strides, trajectory, target)


def _bend(
    model: FederationModel,
    start: Floats,
    strides: Sequence[Stride],
    trajectory: Trajectory,
    target: Floats,
) -> float:
    """Largest relative change of the error by averaging worlds over the noise."""
    try:
        other = follow(replace(model, averaged=False), start, strides, target)
    except DivergenceError:
        return np.inf
    rounds = np.intersect1d(trajectory.round, other.round)
    errors = [one.errors(target)[np.isin(one.round, rounds)] for one in (trajectory, other)]
    return float(
        np.abs(
            np.divide(errors[1], errors[0], out=np.ones_like(rounds, float), where=errors[0] > 0) - 1
        ).max()
    )


def _apart(problem: Problem, model: FederationModel, start: Floats, target: Floats) -> PredictedMoments:
    """Predict the plain average of agents that never synchronise: only its start and its end."""
    groups = model.groups
    alone = [_together(problem, one, start, target) for one in each_alone(model)]
    shares, squares = groups.total, groups.square
    covariance = np.tensordot(squares, [one.covariance for one in alone], 1)
    return PredictedMoments(
        steps=np.array([0, problem.steps]),
        mean=np.stack([start, shares @ [one.mean[-1] for one in alone]]),
        variance=np.array([0.0, np.trace(covariance)]),
        covariance=covariance,
        point=shares @ [one.point for one in alone],
        root=shares @ [one.root for one in alone],
        flow=None,
        remaining=float(squares @ [one.remaining for one in alone]),
        sharpness=max(one.sharpness for one in alone),
        bend=max(one.bend for one in alone),
        projected=0.0,
        skew=max(one.skew for one in alone),
        confirmed=all(one.confirmed or (one.bend <= BENT and one.skew <= SKEWED) for one in alone),
        settled=all(one.settled for one in alone),
    )
