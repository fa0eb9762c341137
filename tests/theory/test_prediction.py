import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import fedsarsa as fs
from fedsarsa.theory import federated_point, fixed_point, predict
from fedsarsa.theory.prediction import SHARP, SLOW
from tests.theory.against_training import excess, floor_excess, relaxation, ring, trained
from tests.theory.exact_errors import exact_errors
from tests.theory.random_fleets import settings_of_theory

TOLERANCE, SLOW_TOLERANCE = 0.05, 0.15


def small_fleet(agents=5, level=1.0, states=20, actions=10, seed=0):
    return fs.paper.fleet(agents, level, level, seed=seed, states=states, actions=actions)


def holds(fleet, algo, steps, runs, tolerance=TOLERANCE, seed=0):
    prediction = predict(fleet, algo, steps)
    assert not prediction.warnings
    errors = trained(prediction, fleet, algo, runs, seed)
    assert excess(prediction.mse, errors) <= tolerance
    return prediction, errors


# Against training: the published setting


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agents", "level", "step_size", "sync_every", "runs"),
    [
        (1, 0.0, 0.01, 10, 200),
        (1, 0.0, 0.05, 1, 300),
        (5, 0.5, 0.01, 100, 100),
        (5, 1.0, 0.05, 10, 100),
        (20, 0.5, 0.01, 1, 40),
        (20, 2.0, 0.05, 100, 60),
        (40, 0.0, 0.05, 100, 60),
        (40, 1.0, 0.01, 10, 30),
        (40, 2.0, 0.05, 1, 40),
    ],
)
def test_published_setting(agents, level, step_size, sync_every, runs):
    fleet = fs.paper.fleet(agents, level, level)
    algo = fs.FedSARSA(step_size=step_size, sync_every=sync_every)
    steps = 20_000 if step_size == 0.01 else 8_000
    prediction, errors = holds(fleet, algo, steps, runs)
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("states", "actions", "dim"), [(100, 100, 10), (30, 6, 8)])
def test_dense_features(states, actions, dim):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(states, actions, dim))
    fleet = small_fleet(states=states, actions=actions)
    algo = fs.FedSARSA(fs.TabularFeatures(table, normalise=True), step_size=0.05)
    holds(fleet, algo, 6_000, 150)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agents", "step_size", "sync_every"), [(1, 0.05, 10), (5, 0.01, 100), (20, 0.05, 1)]
)
def test_tabular_features(agents, step_size, sync_every):
    fleet = small_fleet(agents, states=6, actions=5)
    algo = fs.FedSARSA(fs.OneHot(), step_size=step_size, sync_every=sync_every)
    prediction, errors = holds(fleet, algo, int(300 / step_size), 150)
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agents", "step_size", "sync_every"), [(1, 0.01, 10), (5, 0.05, 100), (20, 0.01, 10)]
)
def test_federated_td(agents, step_size, sync_every):
    fleet = fs.paper.fleet(agents, 1.0, 1.0)
    algo = fs.FedSARSA(policy=fs.FixedPolicy(0), step_size=step_size, sync_every=sync_every)
    prediction, errors = holds(fleet, algo, int(80 / step_size), 200)
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "step_size",
    [
        fs.LinearDecay(0.05, 1500),
        fs.PiecewiseDecay([0.1, 0.02], [3003]),
        [0.01, 0.02, 0.03, 0.04, 0.05],
        [0.05, fs.LinearDecay(0.05, 1500), 0.01, 0.01, 0.02],
    ],
    ids=["linear", "piecewise", "per agent", "mixed"],
)
def test_step_sizes_and_weights(step_size):
    algo = fs.FedSARSA(
        fs.ModuloFeatures(4, 3), step_size=step_size, weights=[0.4, 0.3, 0.1, 0.1, 0.1], sync_every=20
    )
    holds(small_fleet(), algo, 8_000, 150)


@pytest.mark.slow
def test_agents_that_never_synchronise():
    fleet, algo = small_fleet(), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05, sync_every=None)
    prediction = predict(fleet, algo, 3_000)
    assert prediction.mse.t.values.tolist() == [0, 3_000]
    history = algo.train(fleet, steps=3_000, runs=400, engine="cpu", threads=1)
    errors = ((history.final - prediction.reference) ** 2).sum("d")
    assert float(prediction.mse[-1]) == pytest.approx(
        float(errors.mean()), rel=TOLERANCE, abs=3 * float(errors.std()) / 20
    )


@pytest.mark.slow
def test_from_another_start():
    fleet, algo = small_fleet(3), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05)
    theta0 = np.linspace(-20, 20, 12)
    prediction = predict(fleet, algo, 3_000, theta0=theta0)
    history = algo.train(fleet, steps=3_000, runs=100, engine="cpu", threads=1, theta0=theta0)
    assert excess(prediction.mse, history.mse(prediction.reference)) <= TOLERANCE


# Against training: slow chains and sharp policies


@pytest.mark.slow
@pytest.mark.parametrize("features", [fs.OneHot(), fs.ModuloFeatures(5, 2)], ids=["one-hot", "modulo"])
@pytest.mark.parametrize("slowness", [0.2, SLOW])
def test_slow_chains_up_to_the_threshold(features, slowness):
    states = 15  # second eigenvalue 0.957
    step_size = 0.97 * slowness / relaxation(states)
    algo = fs.FedSARSA(features, fs.Softmax(20.0), step_size)
    holds(fs.Fleet([ring(states, bias=0.6)]), algo, int(80 / step_size), 1_000, SLOW_TOLERANCE)


@pytest.mark.slow
def test_slow_chains_beyond_the_threshold_are_off_and_say_so():
    states = 15
    step_size = 8 * SLOW / relaxation(states)
    fleet, algo = fs.Fleet([ring(states)]), fs.FedSARSA(fs.ModuloFeatures(5, 2), fs.Softmax(100.0), step_size)
    with pytest.warns(UserWarning, match="relaxation time"):
        prediction = predict(fleet, algo, int(80 / step_size))
    assert prediction.slowness == pytest.approx(8 * SLOW, rel=0.05)
    assert excess(prediction.mse, trained(prediction, fleet, algo, 1_000)) > SLOW_TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("sync_every", [1, 1000])
def test_slow_fleets(sync_every):
    fleet = fs.Fleet([ring(15, bias=0.6, seed=i) for i in range(5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(20.0), 0.99 * SLOW / relaxation(15), sync_every)
    holds(fleet, algo, 8_000, 200)


@pytest.mark.slow
def test_a_start_that_is_not_stationary():
    corner = np.eye(15)[3]
    algo = fs.FedSARSA(fs.ModuloFeatures(5, 2), fs.Softmax(100.0), 0.3 / relaxation(15))
    holds(fs.Fleet([ring(15, initial=corner)]), algo, 4_000, 1_000, SLOW_TOLERANCE)


@pytest.mark.slow
def test_sharp_policies_up_to_the_threshold_and_beyond():
    fleet = small_fleet(1, 0.0, seed=1)
    features = fs.ModuloFeatures(4, 3)
    near = fs.FedSARSA(features, fs.Softmax(3.0), 0.02)
    prediction, _ = holds(fleet, near, 15_000, 600, SLOW_TOLERANCE)
    assert 0.8 * SHARP < prediction.sharpness <= SHARP
    far = fs.FedSARSA(features, fs.Softmax(2.0), 0.1)
    with pytest.warns(UserWarning, match="temperatures"):
        prediction = predict(fleet, far, 4_000)
    assert prediction.sharpness > 3 * SHARP
    assert excess(prediction.mse, trained(prediction, fleet, far, 300)) > SLOW_TOLERANCE


# Against exact numbers


@pytest.mark.parametrize(("sync_every", "step_size"), [(1, 0.02), (5, 0.02), (5, 0.1)])
def test_exact_curve_of_two_agents(sync_every, step_size):
    rng = np.random.default_rng(3)
    fleet = fs.Fleet(
        fs.FiniteMDP(rng.dirichlet(np.ones(3), size=(1, 3)), 2 * rng.normal(size=3), 0.6) for _ in range(2)
    )
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), step_size, sync_every)
    reference = fixed_point(fleet[0], algo.features, algo.policy)
    steps = int(30 / step_size)
    exact = exact_errors(fleet, algo, steps, np.zeros(3), reference)
    predicted = predict(fleet, algo, steps, reference)
    # What is left out is of third order; relative to the error it shrinks with the step size.
    np.testing.assert_allclose(predicted.mse, exact[::sync_every], rtol=0.25 * step_size, atol=1e-12)


def test_second_order_effects_are_right():
    """Without memory, a slow chain's error would be off at first order in the step size."""
    fleet = fs.Fleet([ring(5)])
    algo = fs.FedSARSA(fs.ModuloFeatures(5, 1), fs.FixedPolicy(0), 0.05)
    reference = fixed_point(fleet[0], algo.features, algo.policy)
    off = []
    for step_size in (0.05, 0.025):
        algo = fs.FedSARSA(fs.ModuloFeatures(5, 1), fs.FixedPolicy(0), step_size, 1)
        steps = int(10 / step_size)
        exact = exact_errors(fleet, algo, steps, np.zeros(5), reference)
        off.append(abs(predict(fleet, algo, steps, reference).mse / exact - 1).values.max())
    assert off[1] < 0.01
    assert off[1] < 0.6 * off[0]


# What holds always


@settings(max_examples=60, deadline=None)
@given(settings_of_theory(policies=("softmax", "fixed", "one action")))
def test_any_fleet_gives_a_sound_prediction_or_a_clear_error(case):
    fleet, algo, _ = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            prediction = predict(fleet, algo, 200)
        except ValueError as error:
            if "step_size must be small enough" in str(error) or "no fixed point" in str(error):
                return
            raise
    start = (prediction.reference**2).sum()
    assert float(prediction.mse[0]) == pytest.approx(start)
    assert np.isfinite(prediction.mse).all()
    assert (prediction.mse >= -1e-9 * (1 + start)).all()
    assert prediction.floor >= prediction.bias >= 0
    parts = prediction.transient + prediction.bias + prediction.variance
    np.testing.assert_allclose(parts, prediction.mse, rtol=1e-9, atol=1e-9 * (1 + start))


def test_times_are_those_of_the_history():
    fleet, algo = small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), sync_every=7)
    history = algo.train(fleet, steps=100, runs=1, engine="reference")
    np.testing.assert_array_equal(predict(fleet, algo, 100).mse.t, history.central.t)


def test_fewer_steps_than_a_round_leave_the_start():
    prediction = predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), sync_every=50), 20)
    assert prediction.mse.t.values.tolist() == [0]


def test_curves_end_at_the_floor():
    for level in (0.0, 1.0):
        prediction = predict(
            small_fleet(level=level), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.1), 20_000
        )
        assert float(prediction.mse[-1]) == pytest.approx(prediction.floor, rel=1e-6)


def test_vanishing_steps_end_at_the_federated_point():
    fleet, features = small_fleet(), fs.ModuloFeatures(4, 3)
    prediction = predict(fleet, fs.FedSARSA(features, step_size=fs.LinearDecay(0.05, 1500)), 5_000)
    root = federated_point(fleet, features, fs.Softmax())
    np.testing.assert_allclose(prediction.point, root, atol=1e-9)
    assert prediction.floor == prediction.bias == pytest.approx(((root - prediction.reference) ** 2).sum())


def test_equal_agents_share_the_variance():
    one, ten = (
        predict(small_fleet(n, 0.0), fs.FedSARSA(fs.ModuloFeatures(4, 3), sync_every=1), 20_000)
        for n in (1, 10)
    )
    assert one.floor / ten.floor == pytest.approx(10, rel=0.02)
    assert ten.bias < 1e-3 * ten.floor


def test_client_drift_moves_the_point():
    """Longer rounds bend the fixed point towards what the agents agree on least; here by a known formula."""
    worlds = [fs.FiniteMDP(np.ones((1, 1, 1)), [r], g) for r, g in ((1.0, 0.5), (0.0, 0.5))]
    fleet = fs.Fleet(worlds)
    for period in (1, 50):
        algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), [0.1, 0.2], period)
        shares = 1 - (1 - 0.5 * np.array([0.1, 0.2])) ** period  # how far each agent gets in a round
        expected = shares @ [2.0, 0.0] / shares.sum()
        assert predict(fleet, algo, 5_000).point == pytest.approx([expected])


def test_unvisited_parameters_stay_where_they_start():
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.FixedPolicy(0), 0.05)
    theta0 = np.arange(12.0)
    prediction = predict(small_fleet(2), algo, 2_000, theta0=theta0)
    visited = np.arange(12) % 3 == 0
    np.testing.assert_allclose(prediction.point[~visited], theta0[~visited], atol=1e-9)
    assert np.diag(prediction.covariance)[~visited].max() < 1e-12
    assert np.diag(prediction.covariance)[visited].min() > 0


def test_dense_features_that_no_policy_visits():
    table = np.zeros((3, 2, 4))
    table[..., :2] = np.random.default_rng(0).normal(size=(3, 2, 2))
    fleet = small_fleet(2, states=3, actions=2)
    algo = fs.FedSARSA(fs.TabularFeatures(table, normalise=True), step_size=0.1)
    prediction = predict(fleet, algo, 1_000, theta0=[0.0, 0.0, 3.0, 4.0])
    np.testing.assert_allclose(prediction.point[2:], [3.0, 4.0])


# Warnings and errors


def test_projection_is_said_to_be_ignored():
    with pytest.warns(UserWarning, match="radius 1: the prediction ignores"):
        prediction = predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), radius=1.0), 2_000)
    assert len(prediction.warnings) == 1


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.EpsilonGreedy(0.1)])
def test_policies_that_jump(policy):
    with pytest.raises(ValueError, match="policy must change smoothly"):
        predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), policy), 100)


def test_too_many_parameters():
    with pytest.raises(ValueError, match=r"at most 542 parameters .* 2 different agents, got 10000"):
        predict(fs.paper.fleet(2, 1.0, 1.0), fs.FedSARSA(fs.OneHot()), 100)


def test_steps_that_diverge():
    with pytest.raises(ValueError, match=r"step_size must be small enough .* got 2\.5"):
        predict(small_fleet(1, 0.0), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=2.5), 100)


@pytest.mark.parametrize("name", ["reference", "theta0"])
def test_vectors_of_the_wrong_shape(name):
    with pytest.raises(ValueError, match=rf"{name} must have shape \(12,\), got \(3,\)"):
        predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3)), 100, **{name: np.zeros(3)})


def test_prints_what_it_says():
    text = repr(predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3)), 1_000))
    assert text.startswith("Prediction(t = 0 .. 1000, mse ")
