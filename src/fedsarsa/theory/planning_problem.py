"""What a plan compares: settings to first order, the first agents together, and each agent on its own.

One linearisation at the federated point stands for the whole training: the error after any number of rounds
follows from powers of one affine map. `predict` then says what the chosen setting really gives.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.theory.action_classes import Classes, Dynamics
from fedsarsa.theory.affine import Affine, DivergenceError, doublings, errors, rounds_until
from fedsarsa.theory.federation_model import AgentGroups, FederationModel, agent_groups, federation_model
from fedsarsa.theory.fixed_points import federated_point, fixed_point
from fedsarsa.theory.linearisation import Linearisation, linearise
from fedsarsa.theory.particles import affordable, follow_particles, split_moves
from fedsarsa.theory.prediction_warnings import LARGE, SLOW
from fedsarsa.theory.smoothness import require_smooth
from fedsarsa.theory.trajectory import Stride, follow, split_rounds
from fedsarsa.worlds.fleet import Fleet

ROUNDING = 1e-20  # squared distance of a fixed point to itself, of its squared norm


@dataclass(frozen=True, eq=False)
class LinearisedFederation:
    """A federation around its federated point, for any step size and number of local steps.

    Attributes
    ----------
    J, noise : (m, d, d)
        Jacobian and long-run noise covariance of every group.
    origin : (m, d)
        g - J theta, so that a group's mean-path semi-gradient is origin + J theta.
    """

    J: Floats
    noise: Floats
    origin: Floats
    groups: AgentGroups

    @np.errstate(over="ignore", invalid="ignore")
    def round(self, alpha: float, period: int) -> Affine:
        """One round of the central parameter."""
        return self.groups.average(self.step(alpha).power(period))

    def root(self) -> Floats:
        """The federated point, (d,); parameters that are never visited are 0."""
        total = self.groups.total
        J = np.tensordot(total, self.J, 1)
        return np.asarray(np.linalg.lstsq(J, -total @ self.origin, rcond=None)[0])

    def step(self, alpha: float) -> Affine:
        """One local step of every group."""
        return Affine(np.eye(self.J.shape[1]) + alpha * self.J, alpha * self.origin, alpha**2 * self.noise)


def linearised_federation(each: Sequence[Linearisation], groups: AgentGroups) -> LinearisedFederation:
    """A federation whose groups have these linearisations at the federated point."""
    J, noise = np.stack([one.J for one in each]), np.stack([one.noise for one in each])
    origin = np.stack([one.g - one.J @ one.point.theta for one in each])
    return LinearisedFederation(J, noise, origin, groups)


@dataclass(frozen=True, eq=False)
class PlanningProblem:
    """A fleet and its learner, training from 0 towards ``reference`` (d,)."""

    fleet: Fleet
    algo: FedSARSA
    reference: Floats
    classes: Classes
    worlds: Sequence[Dynamics]

    @property
    def start(self) -> Floats:
        """Where training starts, (d,)."""
        return np.zeros_like(self.reference)

    def setting(self, agents: int, sync_every: int, step_size: float) -> FedSARSA:
        """The learner of the first ``agents`` with another K and step size."""
        weights = None if self.algo.weights is None else self.weights(agents)
        return replace(self.algo, step_size=step_size, sync_every=sync_every, weights=weights)

    def weights(self, agents: int) -> Floats:
        """The server's weights of the first ``agents``, (N,)."""
        if self.algo.weights is None:
            return np.full(agents, 1 / agents)
        kept: Floats = np.asarray(self.algo.weights, dtype=np.float64)[:agents]
        return kept / kept.sum()

    def root(self, agents: int) -> Floats:
        """The federated point of the first ``agents``, (d,)."""
        algo = self.algo
        return federated_point(self.fleet[:agents], algo.features, algo.policy, self.weights(agents))

    def linearised(self, agents: int) -> LinearisedFederation:
        """The federation of the first ``agents`` at its federated point."""
        worlds = self.fleet.world_of[:agents]
        groups = agent_groups(worlds, np.zeros(agents, np.int64), self.weights(agents))
        point = self.classes.at(self.root(agents))
        each = {w: linearise(self.worlds[w], point) for w in np.unique(groups.world).tolist()}
        return linearised_federation([each[w] for w in groups.world.tolist()], groups)

    def federations(self, counts: Sequence[int]) -> dict[int, LinearisedFederation]:
        """The federation of the first agents, for every number of them that has a federated point."""
        found, failure = {}, None
        for agents in counts:
            try:
                with warnings.catch_warnings(action="ignore"):  # `predict` warns about the one that is chosen
                    found[agents] = self.linearised(agents)
            except ValueError as error:
                failure = error
        if failure is not None and not found:
            raise failure
        return found

    def curve(
        self, agents: int, sync_every: int, step_size: float, steps: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """The predicted errors of a setting: steps (n,), errors (n,); empty where it diverges."""
        model, strides = self._training(agents, sync_every, step_size, steps)
        try:
            trajectory = follow(model, self.start, strides, self.reference)
        except DivergenceError:
            return np.zeros(0, np.int64), np.zeros(0)
        return trajectory.round * model.period, trajectory.errors(self.reference)

    def particle_errors(
        self, agents: int, sync_every: int, step_size: float, steps: int
    ) -> Iterator[tuple[int, float]]:
        """Steps done and the mean error of particles then, to the end or until this takes too long."""
        model, strides = self._training(agents, sync_every, step_size, steps)
        trajectory = follow(model, self.start, strides, self.reference)
        moves = affordable(model, split_moves(model, strides, trajectory))
        for done, particles in follow_particles(model, self.start, strides, moves):
            yield done * model.period, float(((particles - self.reference) ** 2).sum(axis=1).mean())

    def _training(
        self, agents: int, sync_every: int, step_size: float, steps: int
    ) -> tuple[FederationModel, list[Stride]]:
        """The model of a setting, and its rounds."""
        algo = self.setting(agents, sync_every, step_size)
        problem = algo.problem(self.fleet[:agents], steps, runs=1, seed=0)
        model = federation_model(problem)
        return model, split_rounds(problem.schedules, model.groups, steps // model.period, model.period)

    @cached_property
    def own_points(self) -> Floats:
        """The fixed point of every world, (W, d)."""
        algo = self.algo
        return np.stack([fixed_point(world, algo.features, algo.policy) for world in self.fleet.worlds])

    def alone(self) -> LinearisedFederation:
        """Every world on its own, at its own fixed point."""
        count = len(self.worlds)
        each = [linearise(w, self.classes.at(p)) for w, p in zip(self.worlds, self.own_points, strict=True)]
        return linearised_federation(
            each, agent_groups(np.arange(count), np.zeros(count, np.int64), np.ones(count))
        )

    def largest_step(self) -> float:
        """The largest step size at which a prediction need not warn of slow chains or large steps."""
        point = self.classes.at(self.root(len(self.fleet)))
        slow = max(linearise(world, point).states.relaxation for world in self.worlds) - 1
        # Far from the floor, noise is less than half of the error.
        large = 2 * LARGE / float((self.classes.phi**2).sum(axis=2).max())
        return min(SLOW / slow, large) if slow > 0 else large


def planning_problem(fleet: Fleet, algo: FedSARSA, reference: Floats | None) -> PlanningProblem:
    """A fleet and its learner; the reference is agent 0's fixed point unless given."""
    require_smooth(algo.policy, fleet.actions)
    model = federation_model(replace(algo, step_size=1.0, sync_every=1).problem(fleet, 1, runs=1, seed=0))
    own = fixed_point(fleet[0], algo.features, algo.policy) if reference is None else reference
    return PlanningProblem(fleet, algo, own, model.classes, model.worlds)


def choices(
    problem: PlanningProblem,
    federations: dict[int, LinearisedFederation],
    step_sizes: Sequence[float],
    target: float,
    most_steps: int,
) -> xr.Dataset:
    """Steps until the target and least error by N and step size, synchronising always; and each N's bias."""
    steps, least = np.full((2, len(federations), len(step_sizes)), np.inf)
    for row, federation in enumerate(federations.values()):
        for column, alpha in enumerate(step_sizes):
            step = federation.round(alpha, 1)
            steps[row, column], met = rounds_until(step, problem.start, problem.reference, target, most_steps)
            end = float(errors(step.power(most_steps), problem.start, problem.reference))
            least[row, column] = min(met, end)
    bias = np.array(
        [((federation.root() - problem.reference) ** 2).sum() for federation in federations.values()]
    )
    bias[bias <= ROUNDING * (problem.reference**2).sum()] = 0.0
    both = ("agents", "step_size")
    return xr.Dataset(
        {"steps": (both, steps), "least_error": (both, least), "bias": ("agents", bias)},
        {"agents": list(federations), "step_size": list(step_sizes)},
    )


def fastest_settings(
    problem: PlanningProblem,
    federations: dict[int, LinearisedFederation],
    table: xr.Dataset,
    periods: Sequence[int],
    target: float,
    slack: float,
    tried: set[tuple[int, int, float]],
) -> list[tuple[int, int, float, int]]:
    """Settings (N, K, step size, T), not yet tried, that reach the target within the slack.

    Those with the least communication come first.
    """
    fewest = float(table["steps"].min())
    if np.isinf(fewest):
        return []
    allowed = int((1 + slack) * fewest)
    found = []
    # Longer rounds never shorten T by much: only what is fast enough at K = 1 is looked at again.
    for row, column in np.argwhere(table["steps"].values <= allowed).tolist():
        agents, alpha = int(table["agents"][row]), float(table["step_size"][column])
        for period in [k for k in periods if k <= allowed] if agents > 1 else [min(periods)]:
            if (agents, period, alpha) in tried:
                continue
            step = federations[agents].round(alpha, period)
            rounds, _ = rounds_until(step, problem.start, problem.reference, target, allowed // period)
            if np.isfinite(rounds):
                uploads = agents * int(rounds) if agents > 1 else 0
                found.append((uploads, int(rounds) * period, agents, period, alpha))
    return [(agents, period, alpha, steps) for _, steps, agents, period, alpha in sorted(found)]


def verdicts(
    problem: PlanningProblem, period: int, step_sizes: Sequence[float], steps: int, most_steps: int
) -> xr.Dataset:
    """For every agent: its error after ``steps`` federated and alone, and where its own data start to win."""
    fleet, own = problem.fleet, problem.own_points
    together, alone = problem.linearised(len(fleet)), problem.alone()
    rounds, most = max(1, steps // period), max(1, most_steps // period)
    now, later = [], []  # (federated, alone) per step size; later: after 1, 2, 4, ... rounds
    for alpha in step_sizes:
        maps = together.round(alpha, period), alone.step(alpha).power(period)
        now.append([errors(one.power(rounds), problem.start, own) for one in maps])
        later.append([[errors(p, problem.start, own) for p in doublings(one, most)] for one in maps])
    federated, single = np.min(now, axis=0)
    federated_then, single_then = np.min(later, axis=0)  # (doublings, W)
    switch = np.array(
        [_switch(f, a, period, most_steps) for f, a in zip(federated_then.T, single_then.T, strict=True)]
    )
    columns = {
        "federated": federated,
        "alone": single,
        "helps": federated < single,
        "switch_error": switch[:, 0],
        "switch_steps": switch[:, 1],
    }
    data = {name: ("agent", np.asarray(values)[fleet.world_of]) for name, values in columns.items()}
    return xr.Dataset(data, {"agent": np.arange(len(fleet))})


def _switch(federated: Floats, alone: Floats, period: int, most_steps: int) -> tuple[float, float]:
    """Error and steps from which on learning alone is as good, given errors after 1, 2, 4 ... rounds."""
    ahead = np.flatnonzero(federated < alone)
    if len(ahead) == 0:
        return np.inf, 0.0
    last = int(ahead[-1])
    if last == len(federated) - 1:
        return 0.0, np.inf
    # Between the two doublings errors are nearly powers of time.
    log = np.log(np.stack([federated, alone])[:, last : last + 2])
    gap = log[0] - log[1]
    share = -gap[0] / (gap[1] - gap[0])
    error = float(np.exp((1 - share) * log[0, 0] + share * log[0, 1]))
    return error, float(min(period * 2 ** (last + share), most_steps))
