"""What a plan looks at: the first agents of a fleet at their federated point, and each agent on its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.theory.action_classes import Classes, Dynamics
from fedsarsa.theory.courses import build_field
from fedsarsa.theory.fixed_points import federated_point, fixed_point
from fedsarsa.theory.horizons import Mooring, doublings, errors, moor, rounds_until
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.prediction import LARGE, SLOW
from fedsarsa.theory.rounds import DivergenceError, members
from fedsarsa.theory.smoothness import require_smooth
from fedsarsa.theory.trajectory import follow, strides
from fedsarsa.worlds.fleet import Fleet

ROUNDING = 1e-20  # squared distance of a fixed point to itself, of its squared norm


@dataclass(frozen=True, eq=False)
class Scene:
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
        return np.asarray(kept / kept.sum())

    def root(self, agents: int) -> Floats:
        """The federated point of the first ``agents``, (d,)."""
        algo = self.algo
        return federated_point(self.fleet[:agents], algo.features, algo.policy, self.weights(agents))

    def moor(self, agents: int) -> Mooring:
        """The federation of the first ``agents`` at its federated point."""
        worlds = self.fleet.world_of[:agents]
        who = members(worlds, np.zeros(agents, np.int64), self.weights(agents))
        point = self.classes.at(self.root(agents))
        each = {w: linearise(self.worlds[w], point) for w in np.unique(who.world).tolist()}
        return moor([each[w] for w in who.world.tolist()], who)

    def curve(
        self, agents: int, sync_every: int, step_size: float, steps: int
    ) -> tuple[NDArray[np.int64], Floats]:
        """The predicted errors of a setting: steps (n,), errors (n,); empty where it diverges."""
        algo = self.setting(agents, sync_every, step_size)
        problem = algo.problem(self.fleet[:agents], steps, runs=1, seed=0)
        field = build_field(problem)
        way = strides(problem.schedules, field.members, steps // field.period, field.period)
        try:
            track = follow(field, self.start, way, self.reference)
        except DivergenceError:
            return np.zeros(0, np.int64), np.zeros(0)
        return track.round * field.period, track.errors(self.reference)

    @cached_property
    def own_points(self) -> Floats:
        """The fixed point of every world, (W, d)."""
        algo = self.algo
        return np.stack([fixed_point(world, algo.features, algo.policy) for world in self.fleet.worlds])

    def alone(self) -> Mooring:
        """Every world on its own, at its own fixed point."""
        count = len(self.worlds)
        each = [linearise(w, self.classes.at(p)) for w, p in zip(self.worlds, self.own_points, strict=True)]
        return moor(each, members(np.arange(count), np.zeros(count, np.int64), np.ones(count)))

    def largest_step(self) -> float:
        """The largest step size at which a prediction need not warn of slow chains or large steps."""
        point = self.classes.at(self.root(len(self.fleet)))
        slow = max(linearise(world, point).states.remembered for world in self.worlds)
        # Far from the floor, noise is less than half of the error.
        large = 2 * LARGE / float((self.classes.phi**2).sum(axis=2).max())
        return min(SLOW / slow, large) if slow > 0 else large


def scene(fleet: Fleet, algo: FedSARSA, reference: Floats | None) -> Scene:
    """A fleet and its learner; the reference is agent 0's fixed point unless given."""
    require_smooth(algo.policy, fleet.actions)
    field = build_field(replace(algo, step_size=1.0, sync_every=1).problem(fleet, 1, runs=1, seed=0))
    own = fixed_point(fleet[0], algo.features, algo.policy) if reference is None else reference
    return Scene(fleet, algo, own, field.classes, field.worlds)


def choices(
    at: Scene, moorings: dict[int, Mooring], step_sizes: Sequence[float], target: float, most_steps: int
) -> xr.Dataset:
    """Steps until the target and least error by N and step size, synchronising always; and each N's bias."""
    steps, least = np.full((2, len(moorings), len(step_sizes)), np.inf)
    for row, mooring in enumerate(moorings.values()):
        for column, alpha in enumerate(step_sizes):
            step = mooring.round(alpha, 1)
            steps[row, column], met = rounds_until(step, at.start, at.reference, target, most_steps)
            end = float(errors(step.power(most_steps), at.start, at.reference))
            least[row, column] = min(met, end)
    bias = np.array([((mooring.root() - at.reference) ** 2).sum() for mooring in moorings.values()])
    bias[bias <= ROUNDING * (at.reference**2).sum()] = 0.0
    both = ("agents", "step_size")
    return xr.Dataset(
        {"steps": (both, steps), "least_error": (both, least), "bias": ("agents", bias)},
        {"agents": list(moorings), "step_size": list(step_sizes)},
    )


def verdicts(at: Scene, period: int, step_sizes: Sequence[float], steps: int, most_steps: int) -> xr.Dataset:
    """For every agent: its error after ``steps`` federated and alone, and where its own data start to win."""
    fleet, own = at.fleet, at.own_points
    together, alone = at.moor(len(fleet)), at.alone()
    rounds, most = max(1, steps // period), max(1, most_steps // period)
    now, later = [], []  # (federated, alone) per step size; later: after 1, 2, 4, ... rounds
    for alpha in step_sizes:
        maps = together.round(alpha, period), alone.step(alpha).power(period)
        now.append([errors(one.power(rounds), at.start, own) for one in maps])
        later.append([[errors(p, at.start, own) for p in doublings(one, most)] for one in maps])
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
