import numpy as np
import pytest
import xarray as xr
from scipy import stats

from fedsarsa.experiments import plots
from fedsarsa.experiments.statistics import (
    Estimate,
    floor,
    known,
    log_slope,
    mean_and_margin,
    ratio,
    slope,
    squared_distance,
)

REPETITIONS = 400
# Intervals of 95% that miss the truth, of 400: between 8 and 36 but once in a thousand repetitions.
MISSES = stats.binom(REPETITIONS, 0.05).interval(0.999)


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


def test_floor_is_the_mean_of_the_last_quarter():
    error = xr.DataArray(np.arange(9.0)[None], dims=("run", "t"), coords={"t": 10 * np.arange(9)})
    assert floor(error).values.tolist() == [7.0]


def missed(truth, estimate):
    return not estimate.low <= truth <= estimate.high


def test_intervals_of_slopes_hold_the_truth():
    rng = np.random.default_rng(1)
    x = np.array([1.0, 2.0, 5.0, 10.0])
    misses = 0
    for _ in range(REPETITIONS):
        # Points of one run share noise, as fleets of different sizes share random numbers.
        noise = 1 + 0.2 * rng.normal(size=(10, 1)) + 0.1 * rng.normal(size=(10, 4))
        misses += missed(-1.0, log_slope(x, xr.DataArray(noise / x, dims=("run", "point"))))
    assert MISSES[0] <= misses <= MISSES[1]


def test_slope_of_an_exponential():
    t = np.arange(0, 50, 5)
    curves = np.outer([1.0, 2.0, 3.0], np.exp(-0.07 * t))
    estimate = slope(t, xr.DataArray(curves, dims=("run", "t")))
    assert estimate.value == pytest.approx(-0.07)
    assert estimate.low == pytest.approx(estimate.high)


def test_intervals_of_ratios_hold_the_truth():
    rng = np.random.default_rng(2)
    misses = 0
    for _ in range(REPETITIONS):
        shared = rng.normal(size=10)
        top, bottom = (
            xr.DataArray(mean * (1 + 0.2 * shared + 0.1 * rng.normal(size=10)), dims="run")
            for mean in (3.0, 2.0)
        )
        misses += missed(1.5, ratio(top, bottom))
    assert MISSES[0] <= misses <= MISSES[1]


def test_squared_distance_leaves_out_what_noise_adds():
    rng = np.random.default_rng(3)
    point, truth = np.zeros(25), np.full(25, 0.1)
    estimates = [
        squared_distance(xr.DataArray(truth + rng.normal(size=(10, 25)), dims=("run", "d")), point).value
        for _ in range(REPETITIONS)
    ]
    error = np.std(estimates) / np.sqrt(REPETITIONS)
    assert abs(np.mean(estimates) - 0.25) < 4 * error  # by chance once in 16 000 repetitions
    assert 4 * error < 0.25


def test_estimates_in_words():
    assert str(Estimate(1.5, 1.25, 2.0)) == "1.5 [1.25, 2]"
    assert str(known(0.1234)) == "0.123"
    assert -Estimate(1.5, 1.25, 2.0) == Estimate(-1.5, -2.0, -1.25)


def test_bands_show_means_and_axes_ignore_bands_that_reach_zero():
    error = xr.DataArray([[1.0, 2.0], [3.0, 6.0]], dims=("run", "t"), coords={"t": [0, 10]})
    _, (axes,) = plots.panels("title", 1)
    plots.band(axes, error, "t", color="black")
    plots.decorate(axes)
    plots.finish([axes], "x", "y")
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [2, 4])
    assert axes.get_yscale() == "log"
    assert 1 < axes.get_ylim()[0] < 2
