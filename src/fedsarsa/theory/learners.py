"""Agents that learn alone: where each of them stands after some steps, and how widely it is spread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA, checked, plain
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import Personal
from fedsarsa.theory.federation_model import FederationModel, federation_model
from fedsarsa.theory.fixed_points import fixed_point
from fedsarsa.theory.linearisation import Linearisation, linearise
from fedsarsa.theory.predicted_moments import each_alone, follow_training, named_divergence
from fedsarsa.theory.prediction import noted
from fedsarsa.theory.prediction_warnings import check_step, largest_share, largest_step, notes, slowness
from fedsarsa.theory.smoothness import require_smooth
from fedsarsa.theory.trajectory import Trajectory
from fedsarsa.worlds.fleet import Fleet


class Way(NamedTuple):
    """A way to the end of training, how far noise bends it, and the point (d,) to which it errs."""

    trajectory: Trajectory
    bend: float
    target: Floats


@dataclass(frozen=True, eq=False)
class Learners:
    """Agents apart. Those with the same world and step sizes are one kind of learner.

    Attributes
    ----------
    of : (N,) int
        Which kind each agent is.
    count : (m,) int
        How many agents of a kind there are.
    means, covariances : (m, d), (m, d, d)
        Of an agent's parameter.
    points : (m, d)
        Its fixed point.
    worlds : mapping
        Every world at its own fixed point.
    start : (d,)
        Where all of them started.
    warnings : tuple of str
        Why these predictions may be off.
    """

    of: NDArray[np.int64]
    count: NDArray[np.int64]
    means: Floats
    covariances: Floats
    points: Floats
    worlds: Mapping[int, Linearisation]
    start: Floats
    warnings: tuple[str, ...]

    @property
    def variances(self) -> Floats:
        """Traces of the covariances, (m,)."""
        return np.asarray(np.trace(self.covariances, axis1=1, axis2=2))

    @property
    def alone(self) -> Floats:
        """Predicted error of a learner to its own fixed point, (m,)."""
        return np.asarray(((self.means - self.points) ** 2).sum(axis=1) + self.variances)


def apart(algo: FedSARSA) -> FedSARSA:
    """``algo`` as theory asks; with the mean in the place of ``Personal``, whose agents learn alone."""
    rule = checked(algo).server
    if isinstance(rule, Personal):
        if rule.mixes:
            raise ValueError(
                "server.act must be 'own' here, as agents that act by their mixture do not learn alone, "
                f"got {rule.act!r}"
            )
        algo = replace(algo, server=None, radius=rule.radius)
    return plain(algo)


def learn_alone(fleet: Fleet, algo: FedSARSA, steps: int, theta0: ArrayLike | None) -> Learners:
    """Predict every agent of a fleet on its own, from ``theta0`` (d,), 0 unless given."""
    try:
        require_smooth(algo.policy, fleet.actions)
    except ValueError as error:
        error.add_note("fs.servers.Personal learns weights from what agents send, whatever the policy.")
        raise
    problem = replace(algo, sync_every=None, weights=None, radius=None).problem(fleet, steps, runs=1, seed=0)
    dim = problem.features.dim
    start = np.zeros(dim) if theta0 is None else _checks.vector("theta0", theta0, dim)
    model = federation_model(problem)
    check_step(algo, largest_step(problem, model))
    found = [noted(fixed_point, world, algo.features, algo.policy) for world in fleet.worlds]
    points = np.stack([point for point, _ in found])[model.groups.world]
    with named_divergence(algo):
        ways = [
            Way(*follow_training(problem, one, start, point), point)
            for one, point in zip(each_alone(model), points, strict=True)
        ]
    at = dict(zip(model.groups.world.tolist(), points, strict=True))
    worlds = {w: linearise(model.worlds[w], model.classes.at(point)) for w, point in at.items()}
    kinds = zip(model.groups.world.tolist(), model.groups.schedule.tolist(), strict=True)
    places = {kind: place for place, kind in enumerate(kinds)}
    agents = zip(fleet.world_of.tolist(), problem.schedule_of.tolist(), strict=True)
    of = np.array([places[kind] for kind in agents])
    return Learners(
        of=of,
        count=np.bincount(of),
        means=np.stack([way.trajectory.end.mean for way in ways]),
        covariances=np.stack([way.trajectory.end.spread for way in ways]),
        points=points,
        worlds=worlds,
        start=start,
        warnings=(*(note for _, said in found for note in said), *way_notes(problem, model, worlds, ways)),
    )


def way_notes(
    problem: Problem, model: FederationModel, worlds: Mapping[int, Linearisation], ways: Sequence[Way]
) -> Iterator[str]:
    """Why the end of these ways may be off."""
    return notes(
        problem,
        worlds,
        slowness=slowness(problem, model, worlds),
        step=largest_step(problem, model),
        variable=max(largest_share(way.variance, way.errors(target)) for way, _, target in ways),
        skew=max(way.skew for way, *_ in ways),
        bend=max(bend for _, bend, _ in ways),
        projected=max(way.projected for way, *_ in ways),
    )
