import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import fedsarsa as fs
from fedsarsa.theory import (
    constants,
    decompose,
    federated_point,
    federation_model,
    fixed_point,
    plan,
    predict,
    prediction_warnings,
    trajectory,
)
from tests.theory.against_training import ring, small_fleet, three_roots
from tests.theory.exact_errors import exact_errors
from tests.theory.random_fleets import settings_of_theory


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


@pytest.mark.slow
def test_agents_apart_whose_step_sizes_vanish_beside_others():
    fleet, sizes = small_fleet(2, states=6, actions=3), [fs.ConstantStep(0.02), fs.LinearDecay(0.5, 400.0)]
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(5.0), sizes, sync_every=None)
    both = predict(fleet, algo, 2000)
    each = [
        predict(fleet[k : k + 1], replace(algo, step_size=sizes[k]), 2000, both.reference) for k in range(2)
    ]
    np.testing.assert_allclose(both.point, np.mean([one.point for one in each], axis=0), rtol=1e-3)
    left = [one.floor - one.bias for one in each]
    assert left[1] == 0
    assert both.floor - both.bias == pytest.approx(left[0] / 4, rel=1e-2)


def test_second_order_effects_are_right(monkeypatch):
    """Without memory, a slow chain's error would be off at first order in the step size."""
    monkeypatch.setattr(trajectory, "TOLERANCE", 0.001)
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


@pytest.mark.slow
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


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.EpsilonGreedy(0.1)])
def test_policies_that_jump(policy):
    with pytest.raises(ValueError, match="policy must change smoothly"):
        predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), policy), 100)


def same_theory(algo, twin, fleet):
    """Everything that theory says of two algorithms is the same."""
    first, second = predict(fleet, algo, 300), predict(fleet, twin, 300)
    np.testing.assert_array_equal(first.mse, second.mse)
    np.testing.assert_array_equal(first.covariance, second.covariance)
    assert first.warnings == second.warnings == ()
    assert first.sharpness == 0
    points = [federated_point(fleet, one.features, one.policy) for one in (algo, twin)]
    np.testing.assert_array_equal(*points)
    np.testing.assert_array_equal(*(fixed_point(fleet[0], one.features, one.policy) for one in (algo, twin)))
    target = 0.1 * float(first.mse[0]) + first.bias
    assert str(plan(fleet, algo, target)) == str(plan(fleet, twin, target))
    history = algo.train(fleet, steps=40, runs=1, engine="reference")
    terms = [decompose(history, fleet, one) for one in (algo, twin)]
    assert terms[0].identical(terms[1])
    assert np.isfinite(terms[0]["change"]).all()
    assert constants(fleet, algo).scalars() == constants(fleet, twin).scalars()


@pytest.mark.slow
def test_random_actions_are_the_uniform_policy():
    same_theory(
        fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.EpsilonGreedy(1.0), 0.05),
        fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.FixedPolicy("uniform"), 0.05),
        small_fleet(2, 0.2),
    )


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.EpsilonGreedy(0.1), fs.Softmax(1e-4)], ids=repr)
def test_the_only_action_is_a_fixed_policy(policy):
    same_theory(
        fs.FedSARSA(fs.ModuloFeatures(4, 1), policy, 0.05),
        fs.FedSARSA(fs.ModuloFeatures(4, 1), fs.FixedPolicy(0), 0.05),
        small_fleet(2, 0.2, actions=1),
    )


def test_too_many_parameters():
    with pytest.raises(ValueError, match=r"at most 542 parameters .* 2 different agents, got 10000"):
        predict(fs.paper.fleet(2, 1.0, 1.0), fs.FedSARSA(fs.OneHot()), 100)


def test_steps_that_diverge():
    with pytest.raises(ValueError, match=r"step_size must be small enough .* got 2\.5"):
        predict(small_fleet(1, 0.0), fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=2.5), 100)


@pytest.mark.parametrize("sync_every", [1, 10, None])
def test_first_steps_that_diverge_in_a_slow_chain(sync_every):
    algo = fs.FedSARSA(fs.OneHot(), step_size=fs.LinearDecay(0.01, 1), sync_every=sync_every)
    with pytest.raises(ValueError, match=r"step_size must be small enough .* got LinearDecay"):
        predict(fs.Fleet([ring(15)]), algo, 3_000)


@pytest.mark.parametrize("sync_every", [1, 7])
def test_periodic_chains(sync_every):
    fleet = fs.Fleet([fs.FiniteMDP(np.array([[[0.0, 1.0], [1.0, 0.0]]]), [1.0, -1.0], 0.5)])
    algo = fs.FedSARSA(fs.TabularFeatures(np.ones((2, 1, 1))), fs.FixedPolicy(0), 0.1, sync_every)
    with pytest.warns(UserWarning, match=r"mixes: .* \(inf, limit .* No step size is small enough"):
        prediction = predict(fleet, algo, 700, theta0=[2.0])
    exact = exact_errors(fleet, algo, 700, [2.0], prediction.reference)
    # The exact curve alternates; the first 32 steps are predicted one by one, later ones in strides.
    single = slice(32 // sync_every + 1)
    np.testing.assert_allclose(prediction.mse[single], exact[::sync_every][single], rtol=1e-9)
    assert prediction.floor == pytest.approx(exact[-1])


@pytest.mark.parametrize("name", ["reference", "theta0"])
def test_vectors_of_the_wrong_shape(name):
    with pytest.raises(ValueError, match=rf"{name} must have shape \(12,\), got \(3,\)"):
        predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3)), 100, **{name: np.zeros(3)})


def test_prints_what_it_says():
    text = repr(predict(small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3)), 1_000))
    assert text.startswith("Prediction(t = 0 .. 1000, mse ")


@pytest.mark.parametrize(("agents", "temperature"), [(1, 33.0), (3, 18.0), (5, 13.0)])
def test_curvature_that_is_left_out_hardly_counts(monkeypatch, agents, temperature):
    fleet = fs.paper.fleet(agents, 1.0, 1.0, states=20, actions=20, reward_cap=3.0)
    algo = fs.FedSARSA(policy=fs.Softmax(temperature))
    without = predict(fleet, algo, 20_000)
    assert 0.5 * federation_model.FLAT < without.sharpness < federation_model.FLAT
    monkeypatch.setattr(federation_model, "FLAT", 0.0)
    whole = predict(fleet, algo, 20_000)
    off = float(abs(without.mse / whole.mse - 1).max())
    assert 0 < off < 0.005


def test_actions_drawn_anew_are_noted():
    fleet, algo = small_fleet(2), fs.FedSARSA(fs.ModuloFeatures(4, 3), redraw_actions=True)
    with pytest.warns(UserWarning, match="actions are drawn anew at every step"):
        prediction = predict(fleet, algo, 100)
    carried = predict(fleet, fs.FedSARSA(fs.ModuloFeatures(4, 3)), 100)
    np.testing.assert_array_equal(prediction.mse, carried.mse)


@pytest.mark.parametrize("policy", [fs.FixedPolicy("uniform"), fs.Softmax(20.0)], ids=repr)
def test_floors_of_tiny_steps_are_in_proportion(policy):
    fleet = fs.Fleet([small_fleet(1, states=6, actions=2)[0]])
    algos = [fs.FedSARSA(fs.OneHot(), policy, step_size, 1) for step_size in (1e-4, 1e-8)]
    floors = [predict(fleet, algo, 1_000).floor / algo.step_size for algo in algos]
    assert floors[1] == pytest.approx(floors[0], rel=0.01)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_rewards_only_set_the_unit_of_predictions(unit):
    def scaled(scale):
        worlds = small_fleet(2, states=6, actions=2)
        fleet = fs.Fleet(fs.FiniteMDP(w.kernel, scale * w.reward, w.discount) for w in worlds)
        return predict(fleet, fs.FedSARSA(fs.OneHot(), fs.Softmax(5.0 * scale), 0.05, 10), 2_000)

    one, other = scaled(1.0), scaled(unit)
    np.testing.assert_allclose(other.mse / unit**2, one.mse, rtol=1e-4)
    assert other.floor / unit**2 == pytest.approx(one.floor, rel=1e-3)
    assert len(other.warnings) == len(one.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [fs.FixedPolicy("uniform"), fs.Softmax(2.0)])
def test_steps_that_vanish_end_on_the_ball_where_projected_steps_rest(policy):
    """Not at the root's projection: the semi-gradient must point outwards there."""
    fleet = small_fleet()
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), policy, fs.LinearDecay(0.5, 400), 5)
    root = federated_point(fleet, algo.features, policy)
    radius = float(np.linalg.norm(root)) / 2
    predicted = predict(fleet, replace(algo, radius=radius), 2000)
    assert predicted.warnings == ()
    theta = np.zeros_like(root)
    for _ in range(1500):
        theta = theta + 0.5 * predicted.flow.at(theta)[0]
        theta *= min(1.0, radius / np.linalg.norm(theta))
    np.testing.assert_allclose(predicted.point, theta, atol=1e-6)
    assert np.linalg.norm(predicted.point - root / 2) > 0.01


def test_noise_that_fades_before_it_counts_is_no_reason_to_warn():
    """Q-values vary most while the error is large, and noise is all of it in the end."""
    fleet = fs.Fleet([fs.FiniteMDP(np.full((2, 3, 3), 1 / 3), np.arange(6.0).reshape(3, 2), 0.5)])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(2.5), 0.05, 1)
    theta0 = np.full(6, 50.0)
    predicted = predict(fleet, algo, 3000, theta0=theta0)
    assert predicted.sharpness > prediction_warnings.SKEWED
    assert predicted.variance[-1] > 0.99 * predicted.mse[-1]
    assert predicted.warnings == ()
    history = algo.train(fleet, 3000, runs=2000, seed=0, record_every=100, theta0=theta0)
    errors = history.mse(predicted.reference)
    mean, deviation = errors.mean("run"), errors.std("run") / 2000**0.5
    assert (abs(predicted.mse.sel(t=mean.t) - mean) <= 0.1 * mean + 3 * deviation).all()


def test_noise_that_leads_to_another_root_is_a_reason_to_warn():
    """From the edge of a basin the mean takes one way, and some trainings take the other."""
    mdp, features, policy = three_roots()
    fleet, algo = fs.Fleet([mdp]), fs.FedSARSA(features, policy, 0.02, 1)
    inside = predict(fleet, algo, 5000)
    assert inside.warnings == ()
    (other,) = inside.other_roots
    edge = inside.point + 0.8 * (other - inside.point)
    with pytest.warns(UserWarning, match="noise in the policy changes the curve"):
        predicted = predict(fleet, algo, 5000, theta0=edge)
    np.testing.assert_allclose(predicted.point, inside.point, atol=1e-3)
    last = algo.train(fleet, 5000, runs=400, seed=0, theta0=edge).mse(predicted.reference).isel(t=-1)
    assert 0.02 < (last > 1).mean() < 0.5
    assert last.mean() > 100 * predicted.mse[-1]
