import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedsarsa.experiments.plots import error_curves
from fedsarsa.experiments.statistics import mean_and_margin


def test_interval_is_students():
    values = np.random.default_rng(0).normal(size=(10, 3))
    mean, margin = mean_and_margin(xr.DataArray(values, dims=("run", "t")))
    low, high = stats.t.interval(0.95, 9, loc=values.mean(axis=0), scale=stats.sem(values))
    np.testing.assert_allclose(mean - margin, low)
    np.testing.assert_allclose(mean + margin, high)


def test_failed_runs_are_left_out():
    values = np.array([[1.0], [2.0], [np.nan]])
    mean, margin = mean_and_margin(xr.DataArray(values, dims=("run", "t")))
    assert float(mean[0]) == 1.5
    assert float(margin[0]) == pytest.approx(stats.t.ppf(0.975, 1) * np.std([1, 2], ddof=1) / np.sqrt(2))


def test_curves_show_means():
    data = xr.DataArray(np.array([[1.0, 2.0], [3.0, 6.0]]), dims=("run", "t"), coords={"t": [0, 10]})
    axes = error_curves({"N = 1": data}, "title").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [2, 4])
    assert axes.get_yscale() == "log"
    assert axes.get_legend().get_texts()[0].get_text() == "N = 1"
