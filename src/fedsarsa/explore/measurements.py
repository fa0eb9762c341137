"""What a federation's settings lead to when they are trained: curves, the floor's parts, gains, returns."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config, finite
from fedsarsa.experiments.method_sections import ours
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import TAIL, mean_and_margin, squared_distance
from fedsarsa.explore.jobs import Stopped, StoppedError
from fedsarsa.federation import published_setting
from fedsarsa.federation.history import History
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.learning.policies import improvement
from fedsarsa.methods import Method
from fedsarsa.worlds.fleet import Fleet

RECORDS = 400  # synchronisations that a curve shows at most
FALLING, RISING, SETTLED, UNKNOWN = "falling", "rising", "settled", "unknown"
LEAST_CHANGE = 1e-3  # of the late error, half a tail later: less is settled, also where runs do not differ
MOST_DOUBT = 0.5  # of the late error: where an interval is wider, runs do not tell whether it settled


class Bars(NamedTuple):
    """A mean over runs per agent, (N,), and its 95% interval."""

    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Trained:
    """A federation that was trained.

    Attributes
    ----------
    parameters : (run, t, d)
        The central parameter at synchronisations and after the last step.
    point : (d,) or None
        Where agent 0 would settle alone, or what another method aims at, to which errors are measured; None
        where there is no such parameter.
    """

    fleet: Fleet
    algo: FedSARSA | Method
    history: History
    parameters: xr.DataArray
    point: Floats | None

    @property
    def steps(self) -> int:
        """Steps per agent."""
        return int(self.history.settings["steps"])

    def error(self) -> xr.DataArray:
        """Squared distance of the central parameter to ``point``, (run, t); NaN where there is none."""
        where = np.nan if self.point is None else self.point
        return ((self.parameters - where) ** 2).sum("d", skipna=False).rename("error")

    @cached_property
    def curves(self) -> xr.Dataset:
        """Over t: mean ``error`` and its 95% band ``low`` to ``high``, and mean ``drift``."""
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # every run has failed
            mean, margin = mean_and_margin(self.error())
            drift = self.history.drift.mean("run")
        margin = margin.fillna(0.0)
        low = (mean - margin).clip(min=np.finfo(float).tiny)  # zero cannot be drawn on a logarithmic axis
        curves = xr.Dataset({"error": mean, "low": low, "high": mean + margin})
        return curves.assign(drift=drift.reindex(t=curves["t"]))

    def late(self) -> xr.DataArray:
        """The central parameter in the last quarter of the training, (run, t, d)."""
        return self.parameters.sel(t=slice((1 - TAIL) * self.steps, None))

    @cached_property
    def trend(self) -> str:
        """Whether the error still is ``falling`` or ``rising`` at the end, has ``settled``, or ``unknown``.

        By the runs' changes from the first to the second half of the last quarter, and their 95% interval.
        """
        late = self.error().sel(t=slice((1 - TAIL) * self.steps, None))
        half = late.sizes["t"] // 2
        if half == 0 or late.sizes["run"] == 1:
            return UNKNOWN
        first, last = (late.isel(t=part).mean("t", skipna=False) for part in (slice(half), slice(half, None)))
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # every run has failed
            change, margin = (float(part) for part in mean_and_margin(last - first))
        level = float(first.mean())
        if not math.isfinite(change + margin):
            return UNKNOWN
        if abs(change) > max(margin, LEAST_CHANGE * level):
            return FALLING if change < 0 else RISING
        return SETTLED if margin <= MOST_DOUBT * level else UNKNOWN

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What the training warned of."""
        return remarks(self.fleet, self.algo, self.history)

    def floor(self) -> dict[str, float]:
        """The mean error in the last quarter, split into ``bias`` and ``noise``.

        Bias is the squared distance of the mean parameter to ``point``, less what the noise of a mean over
        few runs adds to it; noise is the rest. A single run does not show that part.
        """
        if self.point is None:
            return {"bias": math.nan, "noise": math.nan}
        late = self.late()
        total = float(((late - self.point) ** 2).sum("d").mean())
        means = late.mean("t")
        bias = float(((means.mean("run") - self.point) ** 2).sum("d"))
        if late.sizes["run"] > 1:
            with warnings.catch_warnings(
                action="ignore", category=RuntimeWarning
            ):  # two runs have no interval
                bias = max(0.0, squared_distance(means, self.point).value)
        return {"bias": bias, "noise": total - bias}

    def errors_to(self, points: Floats) -> Bars:
        """Squared distance of what every agent has learned to its own point (N, d)."""
        return _bars(((learned(self.history) - _labelled(points)) ** 2).sum("d"))


def train(
    config: Config,
    folder: Path = Path(),
    stopped: Stopped = lambda: False,
    report: Callable[[float], None] | None = None,
    runs: int | None = None,
) -> Trained:
    """Train what a configuration describes, or fewer ``runs`` of it.

    Raises
    ------
    StoppedError
        ``stopped`` said so.
    ValueError, TypeError
        The settings do not fit together.
    """
    worlds, algo = config.build(folder)
    fleet = finite(worlds)
    settings = config.training.model_copy(update={"record_every": record_every(config)})
    if runs is not None:
        settings = settings.model_copy(update={"runs": min(runs, settings.runs)})
    history = algo.train(fleet, **settings.model_dump(), progress=watch(settings.steps, stopped, report))
    parameters, last = history.central, history.settings["steps"]
    if int(parameters["t"][-1]) != last:
        end = history.final.expand_dims(t=[last]).transpose("run", "t", "d")
        parameters = xr.concat([parameters, end], "t")
    if stopped():
        raise StoppedError
    return Trained(fleet, algo, history, parameters, reference(config, folder))


def remarks(fleet: AnyFleet, algo: FedSARSA | Method, history: History) -> tuple[str, ...]:
    """What training warns of: published numbers that do not fit, mixtures that never came about."""
    if not isinstance(algo, FedSARSA):
        return ()
    problem = algo.problem(fleet, history.settings["steps"], 1, 0)
    said = published_setting.remarks(problem)
    if "weights" in history.data:
        rounds = history.settings["steps"] // (algo.sync_every or math.inf)
        left = {"weights": history.weights.isel(t=-1).values, "rounds": np.array([int(rounds)])}
        said += [one for one in [algo.rule.remark(left)] if one is not None]
    return tuple(one[0].upper() + one[1:] + "." for one in said)


def learned(history: History) -> xr.DataArray:
    """What agents act by after a training: the central parameter (run, d), or one each, (run, agent, d).

    Server rules that leave every agent a parameter of its own have given none before the first round's end.
    """
    if "personal" not in history.data:
        return history.final
    last = history.personal.isel(t=-1)
    return last if last["t"] > 0 else history.local


def record_every(config: Config) -> int:
    """As the configuration says, or less often: a curve needs no more than ``RECORDS`` points."""
    training, every = config.training, getattr(config.algorithm, "sync_every", 1)
    rounds = 0 if every == "never" else training.steps // every
    return max(training.record_every, rounds // RECORDS, 1)


def train_alone(
    trained: Trained, stopped: Stopped = lambda: False, report: Callable[[float], None] | None = None
) -> xr.DataArray:
    """What every agent learns without the others in the same steps and runs, (run, agent, d)."""
    settings = trained.history.settings
    algo = replace(
        ours(trained.algo, "agents alone"), sync_every=None, server=None, weights=None, radius=None
    )
    history = algo.train(
        trained.fleet,
        steps=trained.steps,
        runs=settings["runs"],
        seed=settings["seed"],
        progress=watch(trained.steps, stopped, report),
    )
    return history.local


def errors_alone(local: xr.DataArray, points: Floats) -> Bars:
    """Squared distance of every agent's own learner (run, agent, d) to its own point (N, d)."""
    return _bars(((local - _labelled(points)) ** 2).sum("d"))


def returns(trained: Trained, local: xr.DataArray) -> xr.Dataset:
    """Exact returns per agent, of parameters' means over runs: ``together``, ``alone``; and ``optimal``."""
    algo = ours(trained.algo, "returns")
    features = algo.feature_map(trained.fleet)
    own, common = (
        [improvement(algo.policy, features, theta) for theta in np.atleast_2d(each.mean("run").values)]
        for each in (local, learned(trained.history))
    )
    found = theory.returns_of(trained.fleet, [common * (len(own) // len(common)), own])
    together, alone = found["discounted_return"].drop_vars("run")
    return xr.Dataset({"together": together, "alone": alone, "optimal": found["optimal_return"]})


def _bars(error: xr.DataArray) -> Bars:
    mean, margin = mean_and_margin(error)
    margin = margin.fillna(0.0)
    return Bars(mean.values, (mean - margin).values.clip(min=0), (mean + margin).values)


def _labelled(points: Floats) -> xr.DataArray:
    return xr.DataArray(points, dims=("agent", "d"))


def watch(
    steps: int, stopped: Stopped, report: Callable[[float], None] | None = None
) -> Callable[[int], None]:
    """A function to call with the steps done, which ends the training when it is no longer wanted."""

    def progress(done: int) -> None:
        if stopped():
            raise StoppedError
        if report is not None:
            report(done / steps)

    return progress
