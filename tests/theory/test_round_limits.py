import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import federated_point, fixed_point, predict, round_limit
from fedsarsa.theory.federation_model import federation_model
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.operators import operators

RNG = np.random.default_rng(1)
WORLDS = [
    fs.FiniteMDP(RNG.dirichlet(np.ones(5), size=(2, 5)), RNG.normal(size=(5, 2)), 0.8) for _ in range(3)
]
FLEET = fs.Fleet(WORLDS)
FEATURES = fs.TabularFeatures(RNG.normal(size=(5, 2, 4)), normalise=True)
FIXED = fs.FixedPolicy(RNG.dirichlet(np.ones(2), size=5))
WEIGHTS, STEPS = [0.5, 0.3, 0.2], [0.1, 0.2, 0.05]


@pytest.mark.parametrize("sync_every", [1, 7, 1000, 10**6])
def test_closed_form_of_a_fixed_policy(sync_every):
    algo = fs.FedSARSA(FEATURES, FIXED, STEPS, sync_every, weights=WEIGHTS)
    left, right = np.zeros((4, 4)), np.zeros(4)
    for world, weight, alpha in zip(WORLDS, WEIGHTS, STEPS, strict=True):
        here = operators(world, FEATURES.on(5, 2), FIXED.table(5, 2))
        share = weight * (np.eye(4) - np.linalg.matrix_power(np.eye(4) + alpha * here.A, sync_every))
        left, right = left + share, right + share @ here.solve()
    np.testing.assert_allclose(round_limit(FLEET, algo), np.linalg.solve(left, right), rtol=1e-9)


@pytest.mark.parametrize("policy", [FIXED, fs.Softmax(0.3)], ids=repr)
def test_one_step_a_round_gives_the_federated_point(policy):
    algo = fs.FedSARSA(FEATURES, policy, 0.1, 1, weights=WEIGHTS)
    np.testing.assert_allclose(
        round_limit(FLEET, algo), federated_point(FLEET, FEATURES, policy, WEIGHTS), atol=1e-7
    )


@pytest.mark.parametrize("sync_every", [10**6, None])
def test_endless_rounds_give_the_mean_of_the_fixed_points(sync_every):
    algo = fs.FedSARSA(FEATURES, FIXED, 0.1, sync_every)
    mean = np.mean([fixed_point(world, FEATURES, FIXED) for world in WORLDS], axis=0)
    np.testing.assert_allclose(round_limit(FLEET, algo), mean, rtol=1e-8)


@pytest.mark.parametrize(("step_size", "sync_every"), [(0.1, 10), (0.05, 200), (0.01, 2000)])
def test_policies_that_move_are_followed_through_the_round(step_size, sync_every):
    algo = fs.FedSARSA(FEATURES, fs.Softmax(1.0), step_size, sync_every)
    point = round_limit(FLEET, algo)
    model = federation_model(algo.problem(FLEET, sync_every, runs=1, seed=0))
    ends = []
    for world in model.worlds:
        theta = point
        for _ in range(sync_every):
            theta = theta + step_size * linearise(world, model.classes.at(theta)).g
        ends.append(theta)
    away = np.linalg.norm(point - federated_point(FLEET, FEATURES, fs.Softmax(1.0)))
    assert np.linalg.norm(np.mean(ends, axis=0) - point) < 0.01 * away


def test_vanishing_steps_and_single_agents_do_not_depend_on_k():
    decay = fs.FedSARSA(FEATURES, fs.Softmax(1.0), fs.LinearDecay(0.1, 1000), 50)
    np.testing.assert_allclose(
        round_limit(FLEET, decay), federated_point(FLEET, FEATURES, fs.Softmax(1.0)), atol=1e-7
    )
    single = fs.FedSARSA(FEATURES, fs.Softmax(1.0), 0.1, 50)
    np.testing.assert_allclose(
        round_limit(FLEET[:1], single), fixed_point(WORLDS[0], FEATURES, fs.Softmax(1.0)), atol=1e-7
    )


def test_predictions_settle_there_but_for_the_noise():
    algo = fs.FedSARSA(FEATURES, FIXED, 0.001, 5_000)
    limit = round_limit(FLEET, algo)
    drift = np.linalg.norm(limit - federated_point(FLEET, FEATURES, FIXED))
    assert np.linalg.norm(predict(FLEET, algo, 20_000).point - limit) < 0.05 * drift


def test_steps_that_are_too_large():
    with pytest.raises(ValueError, match=r"no limit was found for step_size 50\.0, sync_every 10"):
        round_limit(FLEET, fs.FedSARSA(FEATURES, FIXED, 50.0, 10))


def test_policies_that_jump():
    with pytest.raises(ValueError, match="policy must change smoothly"):
        round_limit(FLEET, fs.FedSARSA(FEATURES, fs.Greedy(), 0.1, 10))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("policy", ["fixed", "softmax"])
def test_rewards_only_set_the_unit(unit, policy):
    def limit(scale):
        fleet = fs.Fleet(fs.FiniteMDP(w.transition, scale * w.reward, w.discount) for w in WORLDS)
        acting = FIXED if policy == "fixed" else fs.Softmax(0.3 * scale)
        return round_limit(fleet, fs.FedSARSA(fs.OneHot(), acting, 0.05, 10)) / scale

    np.testing.assert_allclose(limit(unit), limit(1.0), rtol=1e-5)
