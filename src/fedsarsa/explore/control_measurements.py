"""What training in control worlds leads to: learning curves, episodes that are played, values of states."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import xarray as xr

from fedsarsa._checks import Floats
from fedsarsa.acting import Policy
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.method_sections import ours
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.explore import measurements
from fedsarsa.explore.jobs import Stopped
from fedsarsa.explore.measurements import watch
from fedsarsa.federation.history import History
from fedsarsa.worlds.control import ControlFleet, ControlWorld
from fedsarsa.worlds.control.world import OBSERVATION, STATE, pack

LEAST = 3  # runs that have an interval: that of two is nine times as wide as the runs differ
POINTS = 50  # of a learning curve
CELLS = 41  # of a map of values, along each of its sides


@dataclass(frozen=True, eq=False)
class Learned:
    """A federation that was trained in control worlds; what is played is the policy of its first run."""

    fleet: ControlFleet
    algo: FedSARSA
    history: History

    @cached_property
    def curves(self) -> xr.Dataset:
        """Over t: ``mean`` return with its 95% band over runs, ``low`` to ``high``, and every agent's own.

        The name of ``agents`` (agent, t) says of what it is, a return or a reward per step.
        """
        curve = self.history.learning_curve(bins=POINTS)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # bins without an episode
            agents, (mean, margin) = curve.mean("run"), _mean_and_margin(curve.mean("agent"))
        found = xr.Dataset({"mean": mean, "low": mean - margin, "high": mean + margin, "agents": agents})
        return found.assign_attrs(of=str(curve.name))

    @cached_property
    def late(self) -> xr.Dataset:
        """Over agents: ``mean`` return of late episodes with its 95% band over runs, ``low`` to ``high``."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # agents without an episode
            mean, margin = _mean_and_margin(self.history.late_return())
        return xr.Dataset({"mean": mean, "low": mean - margin, "high": mean + margin})

    @property
    def apart(self) -> bool:
        """Whether every agent has a policy of its own."""
        return "agent" in measurements.learned(self.history).dims

    def policy(self, agent: int) -> Policy:
        """The greedy policy of what the first run has left an agent, or all of them."""
        theta = measurements.learned(self.history)[0]
        return Policy.of(self.fleet, self.algo, theta[agent] if self.apart else theta, greedy=True)


@dataclass(frozen=True, eq=False)
class Episode:
    """An episode in an agent's world: its states (t, 4), and its return."""

    agent: int
    world: ControlWorld
    states: Floats
    total: float


def train(
    config: Config,
    folder: Path = Path(),
    stopped: Stopped = lambda: False,
    report: Callable[[float], None] | None = None,
    runs: int | None = None,
) -> Learned:
    """Train what a configuration of control worlds describes, or fewer ``runs`` of it.

    Raises
    ------
    StoppedError
        ``stopped`` said so.
    ValueError, TypeError
        The settings do not fit together, or the worlds are others.
    """
    fleet, built = config.build(folder)
    algo = ours(built, "this page")
    if not isinstance(fleet, ControlFleet):
        raise ValueError(f"fleet.kind: expected 'control', got {config.fleet.kind!r}")
    every = algo.sync_every or config.training.steps
    settings = config.training.model_copy(
        update={
            "record_every": max(1, config.training.steps // every),  # parameters are shown at the end only
            "runs": config.training.runs if runs is None else min(runs, config.training.runs),
        }
    )
    progress = watch(settings.steps, stopped, report)
    return Learned(fleet, algo, algo.train(fleet, **settings.model_dump(), progress=progress))


def _mean_and_margin(data: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over runs and the half-width of its 95% interval; zero for fewer than `LEAST` runs."""
    mean, margin = mean_and_margin(data)
    return mean, margin.where(data.notnull().sum("run") >= LEAST, 0.0)


def play(learned: Learned, agent: int, seed: int = 0) -> Episode:
    """An episode of the learned policy in an agent's world, to its end or its time limit."""
    world, policy = learned.fleet[agent], learned.policy(agent)
    rng = np.random.default_rng([seed, agent])
    physics, state, seen = pack([world])[0], np.zeros(STATE), np.zeros(OBSERVATION)
    size = len(world.bounds[0])
    world.reset(physics, state, *rng.random(4).tolist())
    states, total, over = [state.copy()], 0.0, False
    while not over and len(states) <= world.time_limit:
        world.observe(physics, state, seen)
        _, number = policy.choose(seen[:size], rng)
        reward, over = world.step(physics, state, number, float(rng.random()))
        states.append(state.copy())
        total += reward
    return Episode(agent, world, np.array(states), total)


def value_map(learned: Learned, across: int, up: int, agent: int = 0) -> xr.DataArray:
    """The largest value of any action to an agent, over two numbers of the observation, (up, across).

    The other numbers are in the middle between their bounds.
    """
    low, high = (np.array(side) for side in learned.fleet.bounds)
    axes = [np.linspace(low[place], high[place], CELLS) for place in (up, across)]
    seen = (low + high) / 2
    found, policy = np.empty((CELLS, CELLS)), learned.policy(agent)
    for row, column in np.ndindex(found.shape):
        seen[up], seen[across] = axes[0][row], axes[1][column]
        found[row, column] = policy.values(seen).max()
    return xr.DataArray(found, coords={"up": axes[0], "across": axes[1]}, dims=("up", "across"))
