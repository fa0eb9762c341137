"""Means over runs with their confidence intervals."""

import math

import xarray as xr
from scipy import stats


def mean_and_margin(data: xr.DataArray, level: float = 0.95) -> tuple[xr.DataArray, xr.DataArray]:
    """Mean over ``run`` and the half-width of its Student confidence interval; NaN for a single run.

    Failed runs (NaN) are left out.
    """
    count = data.notnull().sum("run")
    quantile = xr.apply_ufunc(lambda n: stats.t.ppf(0.5 + level / 2, n - 1), count.where(count > 1, math.nan))
    return data.mean("run"), quantile * data.std("run", ddof=1) / count**0.5
