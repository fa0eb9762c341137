"""Worlds of other papers: every one has a number that can be checked by hand."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config


def test_random_mdps_share_rewards_and_differ_in_kernels():
    group = fs.random_mdps.fleet(agents=4, seed=3)
    assert group.eps_r == 0
    assert len(group.worlds) == 4
    successors = np.array([world.transition > 0 for world in group]).sum(axis=-1)
    assert successors.min() == 1
    # 500 rows of a binomial(5, 0.2) that is at least 1: mean 1 + 0.8^5, deviation 0.604. Four standard
    # errors are 6 false alarms in 100 000.
    rows = np.concatenate([fs.random_mdps.fleet(4, seed=seed)[0].transition for seed in range(20)])
    assert (rows > 0).sum(axis=-1).mean() == pytest.approx(1 + 0.8**5, abs=4 * 0.604 / np.sqrt(500))
    again = fs.random_mdps.fleet(agents=2, seed=3)
    np.testing.assert_array_equal(again[1].transition, group[1].transition)


def test_random_mdps_with_kappa_reach_what_the_centre_does_not():
    group = fs.random_mdps.fleet(agents=3, kappa=0.4)
    centre = group[0].transition
    reached = centre > 0
    assert reached.any(axis=-1).all()
    assert not reached.all(axis=-1).any()
    for world in group[1:]:
        np.testing.assert_allclose(world.transition[reached], 0.6 * centre[reached])
        np.testing.assert_allclose(np.where(reached, 0, world.transition).sum(axis=-1), 0.4)
    # ||P_i - P_0||_1 = 0.4 + 0.4 in every row, and no two others are further apart.
    assert group.eps_p == pytest.approx(0.8)
    assert fs.random_mdps.fleet(agents=3, kappa=0.0).eps_p == 0


def test_the_cliff_by_hand():
    world = fs.windy_cliffs.world(0.5)
    assert fs.theory.optimal_values(world)[0].max() == pytest.approx(133.9651345620546, rel=1e-13)
    # Up, right three times and down: six states of -1 (with the start), then 100 at the goal, and again.
    calm = fs.theory.optimal_values(fs.windy_cliffs.world(0.0))[0].max()
    cycle = 100 * 0.95**5 - sum(0.95**t for t in range(5))
    assert calm == pytest.approx(cycle / (1 - 0.95**6), rel=1e-13)
    # Up from the start against the wind: two thirds plus half a third, and else it stays on the floor.
    up = fs.windy_cliffs.world(1.0).transition[0]
    np.testing.assert_allclose(up[0, [0, 4]], [1 / 3, 2 / 3])
    np.testing.assert_allclose(up[15, [15, 11]], [2 / 3, 1 / 3])


def test_the_mean_of_winds_is_the_mean_of_worlds():
    group = fs.windy_cliffs.fleet(agents=7, seed=1)
    winds = [3 * world.transition[0, 15, 11] for world in group]
    mean = fs.windy_cliffs.world(float(np.mean(winds)))
    np.testing.assert_allclose(group.central().transition, mean.transition, atol=1e-15)
    near = fs.windy_cliffs.fleet(agents=7, kappa=0.2, seed=1)
    assert 3 * near[0].transition[0, 15, 11] == pytest.approx(0.5)
    assert 3 * near[4].transition[0, 15, 11] == pytest.approx(0.5 + 0.2 * (winds[4] - 0.5))


@pytest.mark.parametrize(("variant", "successors"), [("scafflsa", 2), ("sarsa", 2), ("pflsa", 3)])
def test_garnets_have_as_many_successors(variant, successors):
    group = fs.garnet.fleet(4, variant)
    for world in group:
        assert ((world.transition > 0).sum(axis=-1) == successors).all()
    assert len(group.worlds) == (2 if variant == "sarsa" else 4)
    assert fs.garnet.fleet(4, variant, heterogeneous=False).eps_p < 0.02
    table = fs.garnet.features(variant)
    np.testing.assert_allclose(table.sum(axis=-1), 1)
    features = fs.TabularFeatures(table).on(group.states, group.actions)
    assert features.dim == {"scafflsa": 8, "sarsa": 30, "pflsa": 5}[variant]
    np.testing.assert_allclose(fs.garnet.policy(variant).sum(axis=1), 1)


def test_garnets_of_scafflsa_by_hand():
    group = fs.garnet.fleet(4, "scafflsa")
    # Weights are in [1, 1.02], so that no probability is above 1.02 / 2.02.
    assert max(world.transition.max() for world in group) <= 1.02 / 2.02
    np.testing.assert_array_equal(group[0].reward, -group[1].reward)
    np.testing.assert_array_equal(group[0].reward, group[2].reward)
    np.testing.assert_array_equal(group[0].transition > 0, group[2].transition > 0)
    assert ((group[0].transition > 0) != (group[1].transition > 0)).any()
    assert (fs.garnet.policy("scafflsa").max(axis=1) == 1).all()
    # Opposite rewards: the mean world pays nothing at all.
    assert abs(fs.theory.optimal_values(group.central())).max() < 1e-12


def test_two_states_by_hand():
    """V(1) - V(0) = 1 / (1 - g (stay_1 + stay_0 - 1)), staying in 1 and leaving 0 as well as can be."""
    group = fs.two_state.fleet(agents=20)
    world = group[0]
    assert len(group.worlds) == 1
    stay = world.transition[:, [0, 1], [0, 1]]
    assert stay.min() >= 0.4
    assert stay.max() <= 0.6
    values = fs.theory.optimal_values(world).max(axis=1)
    apart = 1 / (1 - 0.9 * (stay[:, 1].max() + stay[:, 0].min() - 1))
    assert values[1] - values[0] == pytest.approx(apart)
    assert fs.two_state.behaviour(22)[-3:] == [19, 0, 1]


def test_seven_states_by_hand():
    pair = fs.seven_states.fleet()
    first, second = (fs.theory.optimal_values(world) for world in pair)
    for best in (first, second):  # 1 / (1 - 0.99) for ever, after one step from state 0, or two
        np.testing.assert_allclose(best[1:3], 100)
    np.testing.assert_allclose(first[0], [98.01, 98.01, 99, 99])
    np.testing.assert_allclose(second[0], [99, 99, 98.01, 98.01])
    assert pair.eps_r == 0

    def from_start(chance):
        """Mean over the worlds of the value of state 0 when actions 2 and 3 have this chance together."""
        table = np.full((7, 4), 0.25)
        table[0] = [(1 - chance) / 2] * 2 + [chance / 2] * 2
        there = [fs.FiniteMDP(world.transition, world.reward, 0.99, np.eye(7)[0]) for world in pair]
        return float(fs.theory.returns_of(there, table).discounted_return.mean())

    # Sure of its action a policy earns 99 and 0; with a coin V = 0.495 (V + 100), so 98.0198 in both.
    assert from_start(1.0) == pytest.approx(49.5)
    assert from_start(0.5) == pytest.approx(49.5 / 0.505)
    best = fs.theory.best_common_policy(pair, starts=4)
    assert best.policy[0, 2:].sum() == pytest.approx(0.5, abs=1e-3)


def test_seven_states_restart():
    world = fs.seven_states.fleet(restart=0.05)[1]
    np.testing.assert_allclose(world.transition[0, 2], 0.95 * np.eye(7)[2] + 0.05 * world.initial)


@pytest.mark.parametrize(
    ("table", "made"),
    [
        ({"kind": "random-mdps", "kappa": 0.4}, lambda: fs.random_mdps.fleet(kappa=0.4)),
        ({"kind": "random-mdps", "states": 7}, lambda: fs.random_mdps.fleet(states=7)),
        ({"kind": "windy-cliffs", "agents": 3}, lambda: fs.windy_cliffs.fleet(agents=3)),
        ({"kind": "garnet", "variant": "sarsa"}, lambda: fs.garnet.fleet(variant="sarsa")),
        ({"kind": "two-state", "seed": 5}, lambda: fs.two_state.fleet(seed=5)),
        ({"kind": "seven-states", "restart": 0.05}, lambda: fs.seven_states.fleet(restart=0.05)),
    ],
)
def test_worlds_in_toml(table, made, tmp_path):
    built = config.validate({"fleet": table}, "file").fleet.build(tmp_path)
    assert built.identity() == made().identity()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fs.random_mdps.fleet(kappa=1.5), r"kappa must be a number in \[0, 1\], got 1.5"),
        (lambda: fs.random_mdps.fleet(agents=0), "agents must be an integer of at least 1, got 0"),
        (lambda: fs.windy_cliffs.world(-0.1), r"wind must be a number in \[0, 1\], got -0.1"),
        (lambda: fs.garnet.fleet(variant="scaflsa"), "variant must be one of .* did you mean 'scafflsa'"),
        (lambda: fs.seven_states.fleet(restart=2), r"restart must be a number in \[0, 1\], got 2"),
        (lambda: fs.two_state.fleet(actions=0), "actions must be an integer of at least 1, got 0"),
    ],
)
def test_arguments_out_of_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_bad_keys_in_toml():
    with pytest.raises(ValueError, match=r"fleet.kappa: expected at most 1, got 2"):
        config.validate({"fleet": {"kind": "random-mdps", "kappa": 2.0}}, "file")
    with pytest.raises(ValueError, match=r"fleet.kind: expected .* did you mean 'windy-cliffs'"):
        config.validate({"fleet": {"kind": "windy-cliff"}}, "file")
