import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory.federation_model import federation_model
from fedsarsa.theory.gaussian_averages import Points, average, gaussian_points, projected
from fedsarsa.theory.linearisation import linearise
from tests.theory.against_training import small_fleet, small_world


@pytest.mark.parametrize("dim", [1, 2, 7, 25, 60])
def test_points_have_the_moments_of_a_gaussian(dim):
    z = gaussian_points(dim)
    assert len(z) >= max(64, 2 * dim)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(dim), atol=1e-12)
    assert (z**4).mean() == pytest.approx(3, abs=0.6)


@pytest.mark.parametrize("reward", ["state", "pair", "next"])
@pytest.mark.parametrize("policy", [fs.Softmax(2.0), fs.FixedPolicy("uniform")], ids=repr)
def test_without_spread_the_average_is_the_value_at_the_mean(policy, reward):
    one, kinds = small_world(policy, reward)
    theta = np.arange(6.0)
    here = linearise(one, kinds.at(theta))
    found = average(one, kinds, theta, np.zeros((6, 6)))
    np.testing.assert_allclose(found.g, here.g, atol=1e-7)
    np.testing.assert_allclose(found.J, here.J, atol=1e-7)
    np.testing.assert_allclose(found.noise, here.noise, atol=1e-6)


def test_averages_of_a_fixed_policy_are_exact():
    """g-bar is affine and Sigma quadratic: any points with the right covariance give the same."""
    one, kinds = small_world(fs.FixedPolicy("uniform"))
    theta, root = np.arange(6.0), np.random.default_rng(1).normal(size=(6, 6))
    found = average(one, kinds, theta, root @ root.T)
    here = linearise(one, kinds.at(theta))
    np.testing.assert_allclose(found.g, here.g, atol=1e-10)
    np.testing.assert_allclose(found.J, here.J, atol=1e-10)
    each = [theta + sign * 6**0.5 * column for column in root.T for sign in (1, -1)]
    noise = np.mean([linearise(one, kinds.at(point)).noise for point in each], axis=0)
    np.testing.assert_allclose(found.noise, noise, rtol=1e-9, atol=1e-9)


def test_averages_of_a_softmax_policy_agree_with_sampling():
    one, kinds = small_world(fs.Softmax(0.5))
    theta, spread = np.linspace(-0.5, 0.5, 6), 0.04 * np.eye(6)
    found = average(one, kinds, theta, spread)
    z = gaussian_points(6, 200_000)
    points = Points(one, kinds, theta + 0.2 * z)
    bend = points.g.mean(axis=0) - linearise(one, kinds.at(theta)).g
    # What is averaged beyond the mean's value, to a tenth: the error of 64 points.
    np.testing.assert_allclose(
        found.g - linearise(one, kinds.at(theta)).g, bend, atol=0.1 * np.abs(bend).max()
    )
    np.testing.assert_allclose(found.J, points.g.T @ z / len(z) / 0.2, atol=0.02 * np.abs(found.J).max())


def test_operators_are_those_of_each_point():
    one, kinds = small_world(fs.Softmax(0.5))
    theta = np.random.default_rng(2).normal(size=(5, 6))
    points = Points(one, kinds, theta)
    A, b = points.operators()
    np.testing.assert_allclose((A @ theta[..., None])[..., 0] + b, points.g, atol=1e-12)


def test_projection_inside_the_ball_is_the_identity():
    M, c, Q, share = projected(np.array([1.0, 0.0]), 1e-4 * np.eye(2), 2.0)
    np.testing.assert_array_equal(M, np.eye(2))
    assert not c.any()
    assert not Q.any()
    assert share == 0


def test_projection_has_the_moments_of_projected_points():
    rng = np.random.default_rng(0)
    theta, root = np.array([1.5, 0.5, 0.0]), 0.3 * rng.normal(size=(3, 3))
    spread = root @ root.T
    M, c, Q, share = projected(theta, spread, 1.6)
    sample = rng.multivariate_normal(theta, spread, size=400_000)
    norms = np.linalg.norm(sample, axis=1)
    sample *= np.minimum(1, 1.6 / norms)[:, None]
    np.testing.assert_allclose(M @ theta + c, sample.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(M @ spread @ M.T + Q, np.cov(sample.T), atol=0.01)
    assert share == pytest.approx((norms > 1.6).mean(), abs=0.02)


def test_far_outside_only_the_direction_is_left():
    M, c, Q, share = projected(np.array([10.0, 0.0]), 0.01 * np.eye(2), 1.0)
    np.testing.assert_allclose(M @ [10.0, 0.0] + c, [1.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(np.diag(M), [0.0, 0.1], atol=2e-3)
    assert share == 1
    assert np.abs(Q).max() < 1e-6


def test_large_worlds_are_averaged_as_small_ones_are():
    """Every branch of a prediction is continuous: averaging a flat policy changes next to nothing."""
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.Softmax(500.0), 0.01)
    model = federation_model(algo.problem(small_fleet(1), 1, runs=1, seed=0))
    theta = np.ones(12)
    here = linearise(model.worlds[0], model.classes.at(theta))
    found = average(model.worlds[0], model.classes, theta, 0.01 * np.eye(12))
    np.testing.assert_allclose(found.g, here.g, atol=1e-6)
    np.testing.assert_allclose(found.noise, here.noise + here.shaken(0.01 * np.eye(12)), rtol=0.02, atol=1e-4)
