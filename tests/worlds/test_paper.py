import numpy as np
import pytest

import fedsarsa as fs


def test_nominal_world_follows_the_recipe():
    mdp = fs.paper.nominal(seed=3)
    assert (mdp.states, mdp.actions, mdp.discount) == (100, 100, 0.2)
    assert mdp.reward.shape == (100,)
    assert mdp.reward.min() == 0.0
    assert mdp.reward.max() == 10.0
    # Draws above the threshold are 100 times as large as those just below it. Scaled to the smallest
    # large one, large kernel entries lie in [1, 10/7], small ones below 0.01.
    row = mdp.kernel.P0[0] / mdp.kernel.P0[0].max()
    assert ((row > 0.69) | (row < 0.0101)).all()
    assert 10 < (row > 0.69).sum() < 50
    np.testing.assert_allclose(mdp.kernel.P0.sum(axis=1), 1)


def test_released_perturbations_by_their_definition():
    eps_p, eps_r = 0.5, 0.3
    fleet = fs.paper.fleet(30, eps_p, eps_r, seed=1)
    nominal = fleet[0]
    np.testing.assert_array_equal(nominal.kernel.P0, fs.paper.nominal(1).kernel.P0)
    ratios, kept = [], []
    for world in fleet[1:]:
        share = world.reward[nominal.reward > 0] / nominal.reward[nominal.reward > 0]
        assert np.logical_or(np.isclose(share, 1), np.isclose(share, 1 - eps_r)).all()
        kept.append(np.isclose(share, 1).mean())
        ratio = world.kernel.P0 / nominal.kernel.P0
        # Before rows were normalised each entry had a factor in [1/2, 3/2] times 1/2 or 3/2.
        assert ratio.max() / ratio.min() < (1.5 * 1.5) / (0.5 * 0.5) * 2
        ratios.append(ratio)
    assert np.mean(kept) == pytest.approx(0.5, abs=0.04)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.02)


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


def test_rows_that_lose_all_mass_are_drawn_again():
    for seed in range(20):
        fleet = fs.paper.fleet(5, 2.0, 1.0, seed=seed, states=2, actions=2)
        assert all(np.isfinite(world.kernel.P0).all() for world in fleet)


def test_no_heterogeneity_is_one_world():
    assert len(fs.paper.fleet(7, 0, 0).worlds) == 1


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
            "scheme must be one of calibrated, released, got 'calibrate'; did you mean 'calibrated'",
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
