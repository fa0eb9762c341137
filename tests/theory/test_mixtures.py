"""The best weights of a mixture: optimality conditions, another minimiser, and cases by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fedsarsa.theory.mixtures import best_mixture, mixture_errors


def random_case(seed):
    """Means (m, d), variances (m,) and a point (d,), of sizes that differ by orders."""
    rng = np.random.default_rng(seed)
    count, dim = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    scale = 10.0 ** rng.uniform(-3, 3)
    means = scale * rng.normal(size=(count, dim)) + 10 * scale
    variances = scale**2 * 10.0 ** rng.uniform(-3, 1, size=count)
    return means, variances, means[0] + 0.1 * scale * rng.normal(size=dim)


CASES = range(60)


def gradient(weights, means, variances, point):
    """Of the error in the weights."""
    return 2 * ((means - point) @ (weights @ means - point) + variances * weights)


@pytest.mark.parametrize("seed", CASES)
def test_non_negative_weights_meet_the_optimality_conditions(seed):
    """Karush, Kuhn and Tucker: one slope for all weights above 0, and none that is lower for those at 0."""
    means, variances, point = random_case(seed)
    weights = best_mixture(means, variances, point)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    slope = gradient(weights, means, variances, point)
    price = slope @ weights  # the multiplier of the sum
    size = np.abs(gradient(np.eye(len(weights))[0], means, variances, point)).max()
    assert np.abs((slope - price)[weights > 0]).max() <= 1e-9 * size
    assert (slope - price).min() >= -1e-9 * size


@pytest.mark.parametrize("seed", CASES)
def test_no_other_minimiser_finds_less(seed):
    means, variances, point = random_case(seed)
    size = mixture_errors(np.eye(len(means)), means, variances, point).min()
    for nonnegative in (True, False):
        weights = best_mixture(means, variances, point, nonnegative)
        least = mixture_errors(weights, means, variances, point)
        found = minimize(
            lambda w, scale=size: mixture_errors(w, means, variances, point) / scale,
            np.full(len(means), 1 / len(means)),
            method="SLSQP",
            bounds=[(0, None) if nonnegative else (None, None)] * len(means),
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
            options={"maxiter": 1000, "ftol": 1e-12},
        )
        other = mixture_errors(found.x / found.x.sum(), means, variances, point)
        assert least <= other * (1 + 1e-9)
        assert other <= least + 1e-3 * size  # the same problem: it comes close


@pytest.mark.parametrize("seed", CASES)
def test_weights_of_either_sign_have_a_closed_form(seed):
    """w = H^-1 1 / (1' H^-1 1), H the matrix of the quadratic form on weights that sum to one."""
    means, variances, point = random_case(seed)
    away = means - point
    solved = np.linalg.solve(away @ away.T + np.diag(variances), np.ones(len(means)))
    weights = best_mixture(means, variances, point, nonnegative=False)
    np.testing.assert_allclose(weights, solved / solved.sum(), rtol=1e-6, atol=1e-9)


def test_alike_agents_weigh_by_their_precision():
    means, variances = np.ones((3, 2)), np.array([1.0, 2.0, 4.0])
    np.testing.assert_allclose(best_mixture(means, variances, np.ones(2)), np.array([4, 2, 1]) / 7)


def test_two_agents_by_hand():
    """One at the point, one a distance b off, both of variance v: weights (b^2 + v, v) / (b^2 + 2 v)."""
    b, v = 3.0, 2.0
    weights = best_mixture(np.array([[0.0], [b]]), np.full(2, v), np.zeros(1))
    np.testing.assert_allclose(weights, [(b**2 + v) / (b**2 + 2 * v), v / (b**2 + 2 * v)])


def test_parameters_on_two_sides_of_the_point_cancel():
    weights = best_mixture(np.array([[-1.0], [3.0]]), np.zeros(2), np.zeros(1))
    np.testing.assert_allclose(weights, [0.75, 0.25])
    assert mixture_errors(weights, np.array([[-1.0], [3.0]]), np.zeros(2), np.zeros(1)) < 1e-28


def test_an_agent_without_error_is_all_that_is_needed():
    weights = best_mixture(np.array([[5.0], [0.0], [7.0]]), np.array([1.0, 0.0, 1.0]), np.zeros(1))
    np.testing.assert_allclose(weights, [0, 1, 0], atol=1e-12)


def test_where_nothing_matters_weights_still_sum_to_one():
    for nonnegative in (True, False):
        weights = best_mixture(np.zeros((3, 2)), np.zeros(3), np.zeros(2), nonnegative)
        assert weights.sum() == pytest.approx(1)
