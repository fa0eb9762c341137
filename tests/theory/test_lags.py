import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import predict
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.lags import lags
from fedsarsa.theory.linearisation import linearise
from tests.theory.brute_force import Pairs
from tests.theory.exact_errors import exact_errors


@pytest.fixture(params=["one-hot softmax", "modulo softmax", "dense fixed"])
def case(request):
    """A linearisation, and C_0, C_1, ... summed over trajectories of its chain of pairs."""
    rng = np.random.default_rng([3, *map(ord, request.param)])
    states, actions = 4, 3
    features, policy = {
        "one-hot softmax": (fs.OneHot(), fs.Softmax(0.7)),
        "modulo softmax": (fs.ModuloFeatures(2, 2), fs.Softmax(0.7)),
        "dense fixed": (
            fs.TabularFeatures(rng.normal(size=(states, actions, 5)), normalise=True),
            fs.FixedPolicy(rng.dirichlet(np.ones(actions), size=states)),
        ),
    }[request.param]
    table = features.on(states, actions)
    # Rewards of (s, a, s'), and states that are left one time in five: ten lags are far from enough.
    kernel = 0.8 * np.eye(states) + 0.2 * rng.dirichlet(np.full(states, 0.5), size=(actions, states))
    mdp = fs.FiniteMDP(kernel, 3 * rng.normal(size=(states, actions, states)), 0.7)
    kinds, theta = classes(table, policy, states, actions), rng.normal(size=table.dim)
    here = linearise(dynamics(mdp, kinds), kinds.at(theta))
    return here, list(Pairs(mdp, table, policy).lagged(theta, 600))


def up_to(M, covariances):
    """M C_1 + M^2 C_2 + ... and transpose."""
    total, power = np.zeros_like(M), np.eye(len(M))
    for covariance in covariances:
        power = power @ M
        total += power @ covariance
    return total + total.T


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.5])
def test_noise_is_the_sum_of_damped_lagged_covariances(case, alpha):
    here, (instant, *later) = case
    M = np.eye(len(here.g)) + alpha * here.J
    np.testing.assert_allclose(lags(here, alpha).noise, instant + up_to(M, later), atol=1e-8)
    if alpha == 0:
        np.testing.assert_allclose(lags(here, alpha).noise, here.noise, atol=1e-9)


@pytest.mark.parametrize("counts", [[1] * 12, [7, 1, 2, 30], [3, 4, 4, 64]], ids=str)
def test_what_the_start_lacks(case, counts):
    here, (_, *later) = case
    M, found = np.eye(len(here.g)) + 0.3 * here.J, iter(lags(here, 0.3).missing(counts))
    t = 0
    for count in counts:
        expected = np.zeros_like(M)
        for _ in range(count):  # step by step: a step at t lacks the lags beyond t
            expected = M @ expected @ M.T + up_to(M, later) - up_to(M, later[:t])
            t += 1
        np.testing.assert_allclose(next(found), expected, atol=1e-8)


def test_nothing_is_missing_in_the_end(case):
    assert len(list(lags(case[0], 0.1).missing([100] * 50))) < 10


@pytest.mark.parametrize(("slowness", "sync_every"), [(0.5, 1), (4.0, 1), (4.0, 10)])
def test_additive_noise_is_predicted_exactly_however_slow(slowness, sync_every):
    # Two states that are hardly ever left and one feature for both: every semi-gradient has the same slope.
    chain = np.array([[[0.99, 0.01], [0.01, 0.99]]])
    fleet = fs.Fleet([fs.FiniteMDP(chain, [1.0, -1.0], 0.5)])
    features = fs.TabularFeatures(np.ones((2, 1, 1)))
    algo = fs.FedSARSA(features, fs.FixedPolicy(0), slowness / 49, sync_every)  # second eigenvalue 0.98
    with pytest.warns(UserWarning, match="while the chain still mixes"):
        prediction = predict(fleet, algo, 2_000, reference=[0.0], theta0=[1.0])
    assert prediction.slowness == pytest.approx(slowness)
    exact = exact_errors(fleet, algo, 2_000, np.ones(1), np.zeros(1))
    np.testing.assert_allclose(prediction.mse, exact[::sync_every], rtol=1e-3)
    assert prediction.floor == pytest.approx(exact[-1], rel=1e-5)


def test_variances_from_a_far_start_stay_positive():
    rng = np.random.default_rng(2)
    chain = 0.95 * np.eye(3) + 0.05 * rng.dirichlet(np.ones(3), size=3)
    fleet = fs.Fleet([fs.FiniteMDP(chain[None], rng.normal(size=3), 0.5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.005, 1)
    prediction = predict(fleet, algo, 3_000, theta0=[100.0, -50.0, 10.0])
    # Noise falls fast on the way, and its mean up to the next node is less than what the start lacks.
    assert (prediction.variance[1:] > 0).all()
