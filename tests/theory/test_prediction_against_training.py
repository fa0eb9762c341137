"""Predictions against trainings: published setting, other features and steps, slow chains, sharp policies."""

import itertools

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import predict
from fedsarsa.theory.prediction_warnings import BENT, LARGE, SLOW
from tests.pairwise import pairwise
from tests.theory.against_training import excess, floor_excess, relaxation, ring, small_fleet, trained

pytestmark = pytest.mark.slow

TOLERANCE, SLOW_TOLERANCE = 0.05, 0.15


def holds(fleet, algo, steps, runs, tolerance=TOLERANCE, seed=0):
    prediction = predict(fleet, algo, steps)  # a warning is an error
    errors = trained(prediction, fleet, algo, runs, seed)
    assert excess(prediction.mse, errors) <= tolerance
    return prediction, errors


RUNS = {1: 200, 5: 100, 20: 50, 40: 40}


STEP_SIZES, PERIODS = [0.01, 0.05], [1, 10, 100]
CORNERS = itertools.product([5, 40], [0.0, 2.0], STEP_SIZES, [1, 100])


@pytest.mark.parametrize(
    ("agents", "level", "step_size", "sync_every"),
    [
        *itertools.product([1], [0.0], STEP_SIZES, PERIODS),
        # All corners, and every two values at least once.
        *pairwise([5, 20, 40], [0.0, 0.5, 1.0, 2.0], STEP_SIZES, PERIODS, kept=CORNERS),
    ],
)
def test_published_setting(agents, level, step_size, sync_every):
    fleet = fs.paper.fleet(agents, level, level)  # a single agent is the nominal one at every level
    algo = fs.FedSARSA(step_size=step_size, sync_every=sync_every)
    steps = 20_000 if step_size == 0.01 else 8_000
    prediction, errors = holds(fleet, algo, steps, RUNS[agents])
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


@pytest.mark.parametrize(("states", "actions", "dim"), [(100, 100, 10), (30, 6, 8)])
def test_dense_features(states, actions, dim):
    rng = np.random.default_rng(1)
    table = rng.normal(size=(states, actions, dim))
    fleet = small_fleet(states=states, actions=actions)
    algo = fs.FedSARSA(fs.TabularFeatures(table, normalise=True), step_size=0.05)
    holds(fleet, algo, 6_000, 150)


@pytest.mark.parametrize(
    ("agents", "step_size", "sync_every"), [(1, 0.05, 10), (5, 0.01, 100), (20, 0.05, 1)]
)
def test_tabular_features(agents, step_size, sync_every):
    fleet = small_fleet(agents, states=6, actions=5)
    algo = fs.FedSARSA(fs.OneHot(), step_size=step_size, sync_every=sync_every)
    prediction, errors = holds(fleet, algo, int(300 / step_size), 150)
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


@pytest.mark.parametrize(
    ("agents", "step_size", "sync_every"), [(1, 0.01, 10), (5, 0.05, 100), (20, 0.01, 10)]
)
def test_federated_td(agents, step_size, sync_every):
    fleet = fs.paper.fleet(agents, 1.0, 1.0)
    algo = fs.FedSARSA(policy=fs.FixedPolicy(0), step_size=step_size, sync_every=sync_every)
    prediction, errors = holds(fleet, algo, int(80 / step_size), 200)
    assert floor_excess(prediction.floor, errors) <= TOLERANCE


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


def test_agents_that_never_synchronise():
    fleet, algo = small_fleet(), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05, sync_every=None)
    prediction = predict(fleet, algo, 3_000)
    assert prediction.mse.t.values.tolist() == [0, 3_000]
    history = algo.train(fleet, steps=3_000, runs=400, engine="cpu", threads=1)
    errors = ((history.final - prediction.reference) ** 2).sum("d")
    assert float(prediction.mse[-1]) == pytest.approx(
        float(errors.mean()), rel=TOLERANCE, abs=3 * float(errors.std()) / 20
    )


def test_from_another_start():
    fleet, algo = small_fleet(3), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05)
    theta0 = np.linspace(-20, 20, 12)
    prediction = predict(fleet, algo, 3_000, theta0=theta0)
    history = algo.train(fleet, steps=3_000, runs=100, engine="cpu", threads=1, theta0=theta0)
    assert excess(prediction.mse, history.mse(prediction.reference)) <= TOLERANCE


@pytest.mark.parametrize("features", [fs.OneHot(), fs.ModuloFeatures(5, 2)], ids=["one-hot", "modulo"])
def test_slow_walks_up_to_the_threshold(features):
    states = 15  # second eigenvalue 0.957
    step_size = 0.97 * SLOW / relaxation(states)
    algo = fs.FedSARSA(features, fs.Softmax(20.0), step_size)
    holds(fs.Fleet([ring(states, bias=0.6)]), algo, int(80 / step_size), 1_000)


def sticky(stay, states):
    """States that are all hardly ever left, and the steps that their chain remembers."""
    chain = np.where(np.eye(states), stay, (1 - stay) / (states - 1))
    reward = 3 * np.random.default_rng(0).normal(size=states)
    fleet = fs.Fleet([fs.FiniteMDP(chain[None], reward, 0.5)])
    return fleet, (states - 1) / states / (1 - stay) - 1


# Where an agent stays for long in a state, its semi-gradients keep one slope for as long: the hardest case.
STICKY = {
    "one-hot": (10, fs.OneHot()),
    "modulo": (10, fs.ModuloFeatures(5, 1)),
    "two features": (2, fs.TabularFeatures(np.array([[[1.0, 0.0]], [[0.6, 0.8]]]))),
}


@pytest.mark.parametrize("stay", [0.9, 0.98])
@pytest.mark.parametrize("features", STICKY)
def test_sticky_states_up_to_the_threshold(features, stay):
    states, table = STICKY[features]
    fleet, remembered = sticky(stay, states)
    step_size = 0.97 * SLOW / remembered
    algo = fs.FedSARSA(table, fs.FixedPolicy(0), step_size)
    prediction, _ = holds(fleet, algo, int(80 / step_size), 600, SLOW_TOLERANCE)
    assert prediction.slowness == pytest.approx(0.97 * SLOW)


@pytest.mark.parametrize("features", STICKY)
def test_sticky_states_beyond_the_threshold_are_off_and_say_so(features):
    states, table = STICKY[features]
    fleet, remembered = sticky(0.98, states)
    step_size = 4 * SLOW / remembered
    algo = fs.FedSARSA(table, fs.FixedPolicy(0), step_size)
    with pytest.warns(UserWarning, match="while the chain still mixes"):
        prediction = predict(fleet, algo, int(80 / step_size))
    assert excess(prediction.mse, trained(prediction, fleet, algo, 600)) > SLOW_TOLERANCE


@pytest.mark.parametrize("step_size", [0.2, 0.5])
def test_large_steps_in_fast_chains(step_size):
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=step_size)
    with pytest.warns(UserWarning, match="second order in the step size"):
        holds(small_fleet(1), algo, int(100 / step_size), 400)


def test_large_steps_that_are_off_say_so():
    fleet = fs.Fleet([fs.FiniteMDP([[[0.05, 0.95], [0.95, 0.05]]], [1.0, -1.0], 0.9)])
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 2 * LARGE, 1)
    with pytest.warns(UserWarning, match="second order in the step size|while the chain still mixes") as seen:
        prediction = predict(fleet, algo, 2_000)
    assert len(seen) == 2
    assert excess(prediction.mse, trained(prediction, fleet, algo, 600)) > 0.2


@pytest.mark.parametrize("sync_every", [1, 1000])
def test_slow_fleets(sync_every):
    fleet = fs.Fleet([ring(15, bias=0.6, seed=i) for i in range(5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(20.0), 0.99 * SLOW / relaxation(15), sync_every)
    holds(fleet, algo, 8_000, 200)


def test_a_start_that_is_not_stationary():
    corner = np.eye(15)[3]
    algo = fs.FedSARSA(fs.ModuloFeatures(5, 2), fs.Softmax(100.0), 0.97 * SLOW / relaxation(15))
    holds(fs.Fleet([ring(15, initial=corner)]), algo, 4_000, 1_000, 0.01)


@pytest.mark.parametrize(("temperature", "step_size"), [(3.0, 0.02), (4.0, 0.05), (2.0, 0.02)])
def test_policies_that_vary_with_the_noise(temperature, step_size):
    fleet = small_fleet(1, 0.0, seed=1)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.Softmax(temperature), step_size)
    prediction, _ = holds(fleet, algo, int(400 / step_size), 600, 0.1)
    assert prediction.sharpness > 0.1


@pytest.mark.parametrize(
    ("temperature", "words"),
    [(2.0, "noise in the policy changes the curve"), (1.2, "noise moves Q-values too far")],
)
def test_policies_that_vary_too_much_are_off_and_say_so(temperature, words):
    fleet = small_fleet(1, 0.0, seed=1)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.Softmax(temperature), 0.1)
    with pytest.warns(UserWarning, match="may be off by more than 10%") as said:
        prediction = predict(fleet, algo, 4_000)
    assert any(words in str(one.message) for one in said)
    assert prediction.bend > BENT
    assert excess(prediction.mse, trained(prediction, fleet, algo, 600)) > 0.1


def test_agents_that_spread_within_long_rounds_bend_the_point():
    """Twenty equal agents: their average hardly varies, but the curvature that each meets stays."""
    fleet = small_fleet(20, 0.0, seed=1)
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.Softmax(3.0), 0.02, sync_every=1_000)
    prediction = predict(fleet, algo, 20_000)
    assert not prediction.warnings
    history = algo.train(fleet, steps=20_000, runs=60, engine="cpu", threads=1)
    settled = history.central.sel(t=slice(8_000, None)).mean(["run", "t"]).values
    bent = np.linalg.norm(settled - prediction.federated_point)
    assert np.linalg.norm(settled - prediction.point) < 0.25 * bent


def test_states_that_are_left_for_ever_are_noted():
    chain = np.array([[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]])
    fleet = fs.Fleet([fs.FiniteMDP(chain, [1.0, 0.0, 1.0], 0.5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1)
    with pytest.warns(UserWarning, match="1 of 3 states are left for ever"):
        prediction = fs.theory.predict(fleet, algo, 100)
    assert len(prediction.warnings) == 1
