import numpy as np
import pytest

import fedsarsa as fs


def sharpened(draws, threshold):
    return [10 * x if x > threshold else x / 10 for x in draws]


def test_nominal_world_follows_the_recipe():
    mdp = fs.paper.nominal(seed=3)
    assert (mdp.states, mdp.actions, mdp.discount) == (100, 100, 0.2)
    # The recipe again, draw by draw.
    rng = np.random.default_rng([3, 0])
    reward = sharpened(rng.random(100), 0.95)
    low, high = min(reward), max(reward)
    np.testing.assert_allclose(mdp.reward, [(x - low) / (high - low) * 10 for x in reward])
    rows = [sharpened(row, 0.7) for row in rng.random((100, 100))]
    np.testing.assert_allclose(mdp.kernel.P0, [[x / sum(row) for x in row] for row in rows])
    assert (mdp.reward.min(), mdp.reward.max()) == (0.0, 10.0)


@pytest.mark.parametrize(("eps_p", "eps_r"), [(0.5, 0.3), (1.0, 1.0), (2.0, 2.0), (0.5, 0.0)])
def test_released_perturbations_by_their_definition(eps_p, eps_r):
    seed = 1
    fleet = fs.paper.fleet(4, eps_p, eps_r, seed=seed)
    nominal = fleet[0]
    np.testing.assert_array_equal(nominal.kernel.P0, fs.paper.nominal(seed).kernel.P0)
    for agent in (1, 2, 3):
        rng = np.random.default_rng([seed, agent])
        kept = rng.random(100) < 0.5
        assert 25 < kept.sum() < 75
        reward = [r if keep else (1 - eps_r) * r for r, keep in zip(nominal.reward, kept, strict=True)]
        np.testing.assert_allclose(fleet[agent].reward, reward)
        noise, signs = rng.uniform(-1, 1, (100, 100)), rng.random((100, 100)) < 0.5
        for s in range(100):
            row = [
                max(p * (1 + eps_p * u) * (1 + eps_p if plus else 1 - eps_p), 0)
                for p, u, plus in zip(nominal.kernel.P0[s], noise[s], signs[s], strict=True)
            ]
            np.testing.assert_allclose(fleet[agent].kernel.P0[s], np.array(row) / sum(row))


def test_at_level_two_rewards_change_sign_and_kernels_lose_entries():
    fleet = fs.paper.fleet(5, 2.0, 2.0)
    share = fleet[1].reward[fleet[0].reward > 0] / fleet[0].reward[fleet[0].reward > 0]
    assert set(np.round(share, 9)) == {1.0, -1.0}
    assert (fleet[1].kernel.P0 == 0).any()
    assert fleet.eps_r == pytest.approx(2.0)


def test_small_fleets_begin_large_ones():
    small, large = fs.paper.fleet(3, seed=5), fs.paper.fleet(6, seed=5)
    for one, two in zip(small, large, strict=False):
        np.testing.assert_array_equal(one.kernel.P0, two.kernel.P0)
        np.testing.assert_array_equal(one.reward, two.reward)


@pytest.mark.parametrize("scheme", ["released", "symmetric"])
def test_rows_that_lose_all_mass_are_drawn_again(scheme):
    for seed in range(20):
        fleet = fs.paper.fleet(5, 2.0, 1.0, seed=seed, scheme=scheme, states=2, actions=2)
        assert all(np.isfinite(world.kernel.P0).all() for world in fleet)


def test_no_heterogeneity_is_one_world():
    for scheme in ("released", "calibrated", "symmetric"):
        assert len(fs.paper.fleet(7, 0, 0, scheme=scheme).worlds) == 1


@pytest.mark.parametrize(("eps_p", "eps_r"), [(0.5, 0.3), (1.0, 1.0), (2.0, 2.0), (0.0, 1.0), (1.0, 0.0)])
def test_symmetric_perturbations_by_their_definition(eps_p, eps_r):
    seed = 1
    fleet = fs.paper.fleet(5, eps_p, eps_r, seed=seed, scheme="symmetric")
    nominal = fs.paper.nominal(seed)
    np.testing.assert_array_equal(fleet[0].kernel.P0, nominal.kernel.P0)
    np.testing.assert_array_equal(fleet[0].reward, nominal.reward)
    for agent in (1, 3):
        rng = np.random.default_rng([seed, agent])
        plus, signs = rng.random(100) < 0.5, np.where(rng.random((100, 100)) < 0.5, 1, -1)
        assert 25 < plus.sum() < 75
        for partner, way in ((agent, 1), (agent + 1, -1)):
            factors = [1 + way * eps_r if one else 1 - way * eps_r for one in plus]
            np.testing.assert_allclose(fleet[partner].reward, nominal.reward * factors)
            for s in range(100):
                mean = sum(p * u for p, u in zip(nominal.kernel.P0[s], signs[s], strict=True))
                row = [
                    max(p * (1 + way * eps_p * (u - mean)), 0)
                    for p, u in zip(nominal.kernel.P0[s], signs[s], strict=True)
                ]
                np.testing.assert_allclose(fleet[partner].kernel.P0[s], np.array(row) / sum(row), atol=1e-15)


@pytest.mark.parametrize("agents", [1, 2, 3, 4, 9, 20])
@pytest.mark.parametrize("level", [0.1, 0.5, 1.0, 2.0])
def test_symmetric_worlds_have_the_nominal_mean(agents, level):
    fleet = fs.paper.fleet(agents, level, level, seed=2, scheme="symmetric")
    nominal, central = fleet[0], fleet.central()
    assert len(fleet) == agents
    # The last of an even number has no partner.
    assert len(fleet.worlds) == agents - (agents % 2 == 0)
    np.testing.assert_allclose(central.reward, nominal.reward, rtol=0, atol=1e-12)
    off = np.abs(central.kernel.P0 - nominal.kernel.P0).sum(axis=1).max()
    # Over eight seeds: at most 0.084 at level 1 and 0.33 at level 2, where half the entries are clipped.
    assert off < {0.1: 1e-12, 0.5: 1e-12, 1.0: 0.1, 2.0: 0.4}[level]
    if agents > 2:
        released = fs.paper.fleet(agents, level, level, seed=2).central()
        assert off < 0.6 * np.abs(released.kernel.P0 - nominal.kernel.P0).sum(axis=1).max()
        assert np.abs(released.reward - nominal.reward).max() > 0.3 * level * 10
        assert fleet.eps_r == pytest.approx(2 * level / (1 + level))
        assert fleet.eps_p == pytest.approx(2 * min(level, 1), abs=0.01)


def test_symmetric_fleets_of_odd_numbers_begin_larger_ones():
    small, large = (fs.paper.fleet(n, seed=5, scheme="symmetric", states=20, actions=5) for n in (5, 8))
    for one, two in zip(small, large, strict=False):
        np.testing.assert_array_equal(one.kernel.P0, two.kernel.P0)
        np.testing.assert_array_equal(one.reward, two.reward)
    assert large[7] is large[0]


@pytest.mark.parametrize("agents", [2, 3, 10])
@pytest.mark.parametrize(("eps_p", "eps_r"), [(0.1, 0.2), (0.0, 1.0), (1.0, 0.0), (1.9, 0.7)])
def test_calibrated_levels_are_measured_levels(agents, eps_p, eps_r):
    fleet = fs.paper.fleet(agents, eps_p, eps_r, seed=2, scheme="calibrated", states=20, actions=5)
    assert fleet.eps_p == pytest.approx(eps_p, abs=1e-6)
    assert fleet.eps_r == pytest.approx(eps_r, abs=1e-6)
    assert all(world.reward.min() >= 0 and world.reward.max() <= 10 for world in fleet)


def test_three_calibrated_agents_reach_the_largest_level():
    fleet = fs.paper.fleet(3, 2.0, 1.0, scheme="calibrated")
    assert fleet.eps_p == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"agents": 2, "eps_p": 2.0},
            r"eps_p = 2 cannot be reached by 2 calibrated agents; expected at most 1\.9",
        ),
        (
            {"agents": 5, "eps_r": 1.5},
            "eps_r = 1.5 cannot be reached by 5 calibrated agents; expected at most 1.0$",
        ),
        ({"agents": 1}, "eps_p = 1 cannot be reached by 1 calibrated agents; expected at most 0.0"),
        (
            {"scheme": "calibrate"},
            "scheme must be one of .*, symmetric, got 'calibrate'; did you mean 'calibrated'",
        ),
        ({"eps_p": -1}, r"eps_p must be a number in \[0, 2\], got -1"),
        ({"eps_r": 3}, r"eps_r must be a number in \[0, 2\], got 3"),
        ({"agents": 0}, "agents must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"states": 1}, "states must be an integer of at least 2, got 1"),
        ({"reward_cap": 0}, "reward_cap must be a positive number, got 0"),
    ],
)
def test_bad_fleets(arguments, message):
    with pytest.raises(ValueError, match=message):
        fs.paper.fleet(**({"scheme": "calibrated"} | arguments))
