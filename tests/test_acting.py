"""Learned policies: values and actions without the fleet, and files of them."""

import json

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import _npz
from tests import damage
from tests.without_numba import run_without_numba
from tests.worlds_of_tests import fleet as finite_fleet


def layer(x):
    return np.tanh(x[:, :3]) / 2


CARTS = fs.control.fleet("CartPole", 2)
SWINGS = fs.control.fleet("Pendulum", 2)
LAKES = fs.GymFleet([fs.GymWorld("FrozenLake-v1")] * 2, processes=0)
FINITE = finite_fleet()
PLANS = [
    (FINITE, fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0)), 3),
    (FINITE, fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Greedy(ties="first")), 4),
    (FINITE, fs.FedSARSA(fs.TabularFeatures(np.ones((5, 3, 2)) / 2), fs.EpsilonGreedy(0.2)), 0),
    (FINITE, fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(np.full((5, 3), 1 / 3))), 2),
    (CARTS, fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2)), [0.1, 0.2, 0.03, -0.1]),
    (CARTS, fs.FedSARSA(fs.TileCoding(4, 3, memory=64), fs.Greedy()), [0.1, 0.2, 0.03, -0.1]),
    (CARTS, fs.FedSARSA(fs.RandomFourier(9), fs.Softmax(0.5)), [0.1, 0.2, 0.03, -0.1]),
    (CARTS, fs.FedSARSA(fs.RBF(2), fs.FixedPolicy(1)), [0.1, 0.2, 0.03, -0.1]),
    (SWINGS, fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), actions=fs.GridActions(3)), [0.1, 0.2, 0.3]),
    (SWINGS, fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), actions=fs.RandomActions(4)), [0.1, 0.2, 0.3]),
    (LAKES, fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0)), 7),
]
IDS = [f"{type(fleet).__name__} {algo.features} {algo.policy} {algo.actions}" for fleet, algo, _ in PLANS]


def theta_of(fleet, algo):
    dim = algo.problem(fleet, 1, 1, 0).features.dim
    return np.random.default_rng(1).normal(size=dim)


@pytest.mark.parametrize(("fleet", "algo", "seen"), PLANS, ids=IDS)
def test_a_saved_policy_acts_as_before(tmp_path, fleet, algo, seen):
    policy = fs.Policy.of(fleet, algo, theta_of(fleet, algo))
    path = tmp_path / "policy.npz"
    policy.save(path)
    again = fs.Policy.load(path)
    assert repr(again) == repr(policy)
    np.testing.assert_array_equal(again.values(seen), policy.values(seen))
    one, two = (np.random.default_rng(0) for _ in range(2))
    for _ in range(10):
        ours, theirs = policy.act(seen, one), again.act(seen, two)
        assert type(ours) is type(theirs)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("fleet", "algo", "seen"), PLANS, ids=IDS)
def test_actions_are_drawn_by_the_policy(fleet, algo, seen):
    """Shares of 2000 draws: within five standard errors, which one in 1.7 million is not."""
    theta = theta_of(fleet, algo)
    if algo.actions is not None and type(algo.actions) is fs.RandomActions:
        low, high = fleet.action_bounds
        drawn = [algo.act(theta, seen, rng, fleet) for rng in range(20)]
        assert all(low <= one <= high for one in drawn)
        assert len(set(drawn)) > 10
        return
    values = algo.values(theta, seen, fleet)
    state = seen if fleet.finite else slice(None)
    classes = algo.problem(fleet, 1, 1, 0).features.classes
    expected = algo.policy.probabilities(values, state, classes)
    policy, rng = fs.Policy.of(fleet, algo, theta), np.random.default_rng(3)
    chosen = [policy.choose(seen, rng)[0] for _ in range(2000)]
    shares = np.bincount(chosen, minlength=len(values)) / 2000
    error = np.sqrt(expected * (1 - expected) / 2000)
    assert (np.abs(shares - expected) <= 5 * error + 1e-12).all()


def test_an_algorithm_acts_in_the_worlds_of_its_last_training():
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy())
    with pytest.raises(ValueError, match="fleet must be given before this algorithm was trained"):
        algo.values(np.zeros(15), 0)
    history = algo.train(FINITE, 60, runs=1)
    values = algo.values(history.final[0], 3)
    np.testing.assert_array_equal(values, history.final[0].values.reshape(5, 3)[3])
    assert algo.act(history.final[0], 3, np.random.default_rng(0)) == values.argmax()
    other = finite_fleet(1, states=4, actions=2)
    assert algo.values(np.arange(8.0), 1, other).tolist() == [2.0, 3.0]


def test_actions_are_what_environments_take():
    group = fs.GymFleet([fs.GymWorld("Pendulum-v1")] * 2, processes=0)
    for actions in (fs.GridActions(3), fs.RandomActions(3)):
        algo = fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), actions=actions)
        action = fs.Policy.of(group, algo, theta_of(group, algo)).act([1.0, 0.0, 0.0], 0)
        assert group.action_space.contains(action)
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0))
    assert type(fs.Policy.of(LAKES, algo, theta_of(LAKES, algo)).act(3, 0)) is int


def test_a_greedy_policy_takes_the_best():
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(100.0))
    policy = fs.Policy.of(FINITE, algo, np.arange(15.0), greedy=True)
    assert {policy.act(2, seed) for seed in range(20)} == {2}


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (5, "a state from 0 to 4, got 5"),
        (-1, "a state"),
        (0.5, "a state"),
        ([0, 1], "1 of them"),
        (np.nan, "finite"),
    ],
)
def test_states_that_are_none(observation, words):
    policy = fs.Policy.of(FINITE, fs.FedSARSA(fs.OneHot()), np.zeros(15))
    with pytest.raises(ValueError, match=words):
        policy.act(observation, 0)


def test_other_mistakes():
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Greedy())
    with pytest.raises(ValueError, match=r"theta must have shape \(324,\)"):
        fs.Policy.of(CARTS, algo, np.zeros(3))
    with pytest.raises(ValueError, match="finite numbers, 4 of them, got"):
        fs.Policy.of(CARTS, algo, np.zeros(324)).values([1.0, 2.0])
    method = fs.methods.FedQ([fs.FixedPolicy()] * 2, step_size=0.1, sync_every=10)
    with pytest.raises(TypeError, match=r"algo must be a FedSARSA, got FedQ.*own policies\(history\) are"):
        fs.Policy.of(fs.paper.fleet(2, states=2, actions=2), method, np.zeros(4))


def test_a_file_that_was_not_there_is_not_called_intact(tmp_path):
    policy = fs.Policy.of(CARTS, fs.FedSARSA(fs.TileCoding(2, 2), fs.Greedy()), np.zeros(324))
    with pytest.raises(OSError, match=r"nowhere.*could not be written \(No such file or directory\)$"):
        policy.save(tmp_path / "nowhere" / "policy.npz")


def test_functions_are_given_again(tmp_path):
    algo = fs.FedSARSA(layer, fs.Greedy())
    policy, path = fs.Policy.of(CARTS, algo, np.arange(6.0)), tmp_path / "policy.npz"
    policy.save(path)
    with pytest.raises(ValueError, match="give it as function="):
        fs.Policy.load(path)
    with pytest.raises(ValueError, match="features of another function"):
        fs.Policy.load(path, lambda x: layer(x) * 2)
    again, x = fs.Policy.load(path, layer), [0.1, 0.2, 0.3, 0.4]
    np.testing.assert_array_equal(again.values(x), policy.values(x))


def test_a_policy_acts_without_numba(tmp_path):
    algo = fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2))
    policy, path = fs.Policy.of(CARTS, algo, theta_of(CARTS, algo)), tmp_path / "policy.npz"
    policy.save(path)
    assert path.stat().st_size < 8 * len(policy.theta) + 10_000
    printed = run_without_numba(
        """
        import sys
        import fedsarsa as fs

        policy = fs.Policy.load(sys.argv[1])
        print([policy.act([0.1, 0.2, 0.03, -0.1], seed) for seed in range(8)])
        """,
        str(path),
    )
    assert printed == [str([policy.act([0.1, 0.2, 0.03, -0.1], seed) for seed in range(8)])]


def test_files_that_are_no_policies(tmp_path):
    path = tmp_path / "policy.npz"
    with pytest.raises(FileNotFoundError, match="no such file; expected a fedsarsa policy"):
        fs.Policy.load(path)
    fs.Policy.of(FINITE, fs.FedSARSA(fs.OneHot()), np.zeros(15)).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for harm in (damage.bit, damage.zeros, damage.noise, damage.cut, damage.longer):
        harmed = harm(rng, content)
        assert harmed != content
        path.write_bytes(harmed)
        with pytest.raises(ValueError, match="expected a fedsarsa policy, got"):
            fs.Policy.load(path)
    path.write_bytes(content)
    about, arrays = _npz.load(path, "policy")
    for change in (
        {"format": 2},
        {"policy": {}},
        {"policy": json.loads(json.dumps(about["policy"]).replace("Aggregation", "system"))},
        {"policy": about["policy"] | {"numbers": {"array": "nowhere"}}},
        {"policy": about["policy"] | {"theta": {"array": "numbers"}}},
    ):
        _npz.save(path, "policy", about | change, arrays)
        with pytest.raises(ValueError, match="expected a fedsarsa policy, got"):
            fs.Policy.load(path)
