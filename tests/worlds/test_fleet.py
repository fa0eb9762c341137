import itertools

import numpy as np
import pytest

import fedsarsa as fs
from tests.worlds_of_tests import fleet, kernel_of, world


def test_the_same_world_is_stored_once():
    rng = np.random.default_rng(0)
    one, two = world(rng), world(rng)
    group = fs.Fleet([one, two, one, one])
    assert len(group) == 4
    assert group.worlds == (one, two)
    assert list(group) == [one, two, one, one]
    assert group[-1] is one
    assert len(group[1:3]) == 2


@pytest.mark.parametrize("kind", ["dense", "shift"])
@pytest.mark.parametrize("reward_axes", [1, 2, 3])
def test_measured_heterogeneity_is_the_definition(kind, reward_axes):
    group = fleet(3, agents=4, kind=kind, reward_axes=reward_axes)
    pairs = list(itertools.combinations(group, 2))
    eps_p = max(np.abs(p.transition - q.transition).sum(axis=2).max() for p, q in pairs)
    cap = max(np.abs(w.reward).max() for w in group)
    eps_r = max(np.abs(p.expected_reward - q.expected_reward).max() for p, q in pairs) / cap
    assert group.eps_p == pytest.approx(eps_p)
    assert group.eps_r == pytest.approx(eps_r)


def test_fleets_of_both_kernels_are_measured_and_averaged():
    rng = np.random.default_rng(0)
    reward = rng.random((4, 3))
    shift = fs.FiniteMDP(kernel_of("shift", rng, 4, 3), reward, 0.2)
    dense = fs.FiniteMDP(kernel_of("dense", rng, 4, 3), reward, 0.2)
    group = fs.Fleet([shift, dense, dense])
    gap = np.abs(shift.transition - dense.transition).sum(axis=2).max()
    assert group.eps_p == pytest.approx(gap)
    mean = (shift.transition + 2 * dense.transition) / 3
    np.testing.assert_allclose(group.central().transition, mean)


def test_one_world_has_no_heterogeneity():
    group = fs.Fleet([world(np.random.default_rng(0))] * 3)
    assert group.eps_p == group.eps_r == 0.0


def test_central_world_is_the_mean():
    group = fleet(1, agents=3, kind="shift", reward_axes=1)
    central = group.central()
    assert isinstance(central.kernel, fs.ShiftKernel)
    np.testing.assert_allclose(central.transition, np.mean([w.transition for w in group], axis=0))
    np.testing.assert_allclose(central.reward, np.mean([w.reward for w in group], axis=0))


def test_central_reward_averages_expected_rewards():
    group = fleet(2, agents=3, reward_axes=3)
    mean = np.mean([w.expected_reward for w in group], axis=0)
    np.testing.assert_allclose(group.central().expected_reward, mean)


def test_mixed_repeats_weigh_by_how_often_they_appear():
    rng = np.random.default_rng(0)
    one, two = world(rng), world(rng)
    central = fs.Fleet([one, one, one, two]).central()
    np.testing.assert_allclose(central.reward, 0.75 * one.reward + 0.25 * two.reward)


@pytest.mark.parametrize(
    ("worlds", "message"),
    [
        ([], "worlds must hold at least one FiniteMDP, got none"),
        ([3], r"worlds\[0\] must be a FiniteMDP, got 3"),
    ],
)
def test_bad_fleets(worlds, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.Fleet(worlds)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"states": 6}, "worlds must share states: agent 0 has 5, agent 2 has 6"),
        ({"actions": 4}, "worlds must share actions: agent 0 has 3, agent 2 has 4"),
        ({"discount": 0.5}, "worlds must share discount: agent 0 has 0.6, agent 2 has 0.5"),
    ],
)
def test_worlds_that_do_not_belong_together(other, message):
    rng = np.random.default_rng(0)
    one = world(rng)
    with pytest.raises(ValueError, match=message):
        fs.Fleet([one, one, world(rng, **other)])


def test_equal_worlds_are_stored_once():
    def world(reward, discount=0.9):
        return fs.FiniteMDP([[[0.5, 0.5], [0.2, 0.8]]], reward, discount)

    fleet = fs.Fleet([world([0, 1]), world([0, 2]), world([0, 1])])
    assert fleet.world_of.tolist() == [0, 1, 0]
    assert [w.reward.tolist() for w in fleet] == [[0, 1], [0, 2], [0, 1]]
    shared = fs.Fleet([fleet[0], fleet[1], fleet[0]])
    assert shared.identity() == fleet.identity()
    with pytest.raises(ValueError, match="worlds must share discount"):
        fs.Fleet([world([0, 1]), world([0, 1], 0.8)])
