"""Means over runs, slopes and ratios, with their confidence intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa._checks import Floats

LEVEL = 0.95
TAIL = 0.25  # the last part of a curve, whose mean is called its floor


@dataclass(frozen=True)
class Estimate:
    """A number and its 95% confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.value:.3g}"
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def __neg__(self) -> "Estimate":
        return Estimate(-self.value, -self.high, -self.low)


def known(value: float) -> Estimate:
    """A number that is exact."""
    return Estimate(value, value, value)


def student(runs: ArrayLike, level: float = LEVEL) -> Any:
    """Half-width of a confidence interval in standard errors of a mean over ``runs`` runs."""
    return scipy.special.stdtrit(np.asarray(runs) - 1, 0.5 + level / 2)


@np.errstate(over="ignore", invalid="ignore")  # runs that diverge
def mean_and_margin(data: xr.DataArray, level: float = LEVEL) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over ``run`` and the half-width of its Student confidence interval; NaN for a single run.

    Failed runs (NaN) are left out.
    """
    count = data.notnull().sum("run")
    quantile = xr.apply_ufunc(student, count.where(count > 1, math.nan), level)
    return data.mean("run"), quantile * data.std("run", ddof=1) / count**0.5


def floor(error: xr.DataArray) -> xr.DataArray:
    """Mean over the last quarter of the curves, (..., run)."""
    return error.sel(t=slice((1 - TAIL) * float(error["t"][-1]), None)).mean("t")


def floor_around(cell: xr.Dataset, reference: Floats, point: Floats) -> xr.DataArray:
    """The floor (run,) of squared distances to another ``point`` than the ``reference`` of ``cell.error``.

    ||x - p||^2 = ||x - r||^2 + 2 (x - r)'(r - p) + ||r - p||^2, and means of x are in ``cell.late``.
    """
    start = xr.DataArray(reference, dims="d")
    moved = start - xr.DataArray(point, dims="d")
    return floor(cell["error"]) + 2 * (cell["late"] - start).dot(moved) + moved.dot(moved)


def ratio(top: xr.DataArray, bottom: xr.DataArray) -> Estimate:
    """The mean of ``top`` over that of ``bottom``, runs paired where they share random numbers.

    By the delta method: log-ratio of the means, whose deviations run by run are top / mean - bottom / mean.
    """
    one, two = float(top.mean("run")), float(bottom.mean("run"))
    deviations = top.values / one - bottom.values / two
    margin = student(len(deviations)) * float(np.std(deviations, ddof=1)) / math.sqrt(len(deviations))
    return Estimate(one / two, one / two * math.exp(-margin), one / two * math.exp(margin))


def log_slope(x: ArrayLike, y: xr.DataArray) -> Estimate:
    """Slope of log mean-over-runs of ``y`` (point, run) against log ``x`` (point,)."""
    return log_slopes([x], y)[0]


def slope(x: ArrayLike, y: xr.DataArray) -> Estimate:
    """Slope of log mean-over-runs of ``y`` (point, run) against ``x`` (point,): an exponential's rate."""
    return _slopes(np.atleast_2d(np.asarray(x, dtype=float)), y)[0]


def log_slopes(x: Sequence[ArrayLike], y: xr.DataArray) -> list[Estimate]:
    """Exponents of several factors: log mean-over-runs of ``y`` (point, run) against the logs of ``x``."""
    return _slopes(np.log(np.asarray(x, dtype=float)), y)


def _slopes(factors: Floats, y: xr.DataArray) -> list[Estimate]:
    """Slopes of log mean-over-runs of ``y`` (point, run) against every one of ``factors`` (k, point)."""
    design = np.vstack([factors, np.ones(factors.shape[1])]).T
    values = y.transpose("run", ...).values

    def fitted(place: int, runs: Floats) -> float:
        return float(np.linalg.lstsq(design, np.log(runs.mean(axis=0)), rcond=None)[0][place])

    return [jackknife(partial(fitted, place), values) for place in range(len(factors))]


def mean_ratio(top: xr.DataArray, bottom: xr.DataArray) -> Estimate:
    """Geometric mean over points of mean(top) / mean(bottom), both (point, run), runs paired."""
    both = np.stack([one.transpose("run", ...).values for one in (top, bottom)], axis=1)

    def logarithm(runs: Floats) -> float:
        means = np.log(runs.mean(axis=0))
        return float((means[0] - means[1]).mean())

    found = jackknife(logarithm, both)
    return Estimate(*(math.exp(x) for x in (found.value, found.low, found.high)))


def squared_distance(theta: xr.DataArray, point: Floats) -> Estimate:
    """||E theta - point||^2 of parameters (run, d), without the part that the noise of the mean adds."""

    def distance(runs: Floats) -> float:
        noise = runs.var(axis=0, ddof=1).sum() / len(runs)
        return float(((runs.mean(axis=0) - point) ** 2).sum() - noise)

    return jackknife(distance, theta.values)


def jackknife(statistic: Callable[[Floats], float], values: Floats) -> Estimate:
    """A statistic of independent runs (run, ...), its error by leaving out one run at a time.

    Points that share a run's random numbers may depend on each other: only runs are left out, as a whole.
    """
    runs = len(values)
    parts = np.array([statistic(np.delete(values, run, axis=0)) for run in range(runs)])
    error = math.sqrt((runs - 1) / runs * ((parts - parts.mean()) ** 2).sum())
    value, margin = statistic(values), student(runs) * error
    return Estimate(value, value - margin, value + margin)
