"""The best weights of a mixture at all scales and signs: optimality conditions and another minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedsarsa.federation.servers.mixtures import mixture_errors, mixture_weights


def random_case(seed):
    """Means (m, d), a point (d,) and variances (m,), of sizes that differ by orders."""
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    scale = 10.0 ** rng.uniform(-3, 3)
    means = scale * rng.normal(size=(count, dim)) + 10 * scale
    variances = scale**2 * 10.0 ** rng.uniform(-3, 1, size=count)
    return means, means[0] + 0.1 * scale * rng.normal(size=dim), variances


CASES = range(60)


def gradient(weights, means, point, variances):
    """Of the error in the weights."""
    return 2 * ((means - point) @ (weights @ means - point) + variances * weights)


@pytest.mark.parametrize("seed", CASES)
def test_non_negative_weights_meet_the_optimality_conditions(seed):
    """Karush, Kuhn and Tucker: one slope for all weights above 0, and none that is lower for those at 0."""
    means, point, variances = random_case(seed)
    weights = mixture_weights(means, point, variances)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    slope = gradient(weights, means, point, variances)
    price = slope @ weights  # the multiplier of the sum
    size = np.abs(gradient(np.eye(len(weights))[0], means, point, variances)).max()
    assert np.abs((slope - price)[weights > 0]).max() <= 1e-9 * size
    assert (slope - price).min() >= -1e-9 * size


@pytest.mark.parametrize("seed", CASES)
def test_no_other_minimiser_finds_less(seed):
    means, point, variances = random_case(seed)
    size = mixture_errors(np.eye(len(means)), means, point, variances).min()
    for nonnegative in (True, False):
        weights = mixture_weights(means, point, variances, nonnegative)
        least = mixture_errors(weights, means, point, variances)
        found = minimize(
            lambda w, scale=size: mixture_errors(w, means, point, variances) / scale,
            np.full(len(means), 1 / len(means)),
            method="SLSQP",
            bounds=[(0, None) if nonnegative else (None, None)] * len(means),
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"maxiter": 1000, "ftol": 1e-12},
        )
        other = mixture_errors(found.x / found.x.sum(), means, point, variances)
        assert least <= other * (1 + 1e-9)
        assert other <= least + 1e-3 * size  # the same problem: it comes close


@pytest.mark.parametrize("seed", CASES)
def test_weights_of_either_sign_have_a_closed_form(seed):
    """w = H^-1 1 / (1' H^-1 1), H the matrix of the quadratic form on weights that sum to one."""
    means, point, variances = random_case(seed)
    away = means - point
    solved = np.linalg.solve(away @ away.T + np.diag(variances), np.ones(len(means)))
    weights = mixture_weights(means, point, variances, nonnegative=False)
    np.testing.assert_allclose(weights, solved / solved.sum(), rtol=1e-6, atol=1e-9)


def test_parameters_on_two_sides_of_the_point_cancel():
    weights = mixture_weights(np.array([[-1.0], [3.0]]), np.zeros(1), np.zeros(2))
    np.testing.assert_allclose(weights, [0.75, 0.25])
    assert mixture_errors(weights, np.array([[-1.0], [3.0]]), np.zeros(1), np.zeros(2)) < 1e-28


def test_an_agent_without_error_is_all_that_is_needed():
    weights = mixture_weights(np.array([[5.0], [0.0], [7.0]]), np.zeros(1), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(weights, [0, 1, 0], atol=1e-12)


def test_where_nothing_matters_weights_still_sum_to_one():
    for nonnegative in (True, False):
        weights = mixture_weights(np.zeros((3, 2)), np.zeros(2), np.zeros(3), nonnegative)
        assert weights.sum() == pytest.approx(1)
