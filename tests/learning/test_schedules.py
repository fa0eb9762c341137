"""Numbers that change while agents learn: what they are, and that every engine follows them alike."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.experiments import config
from fedsarsa.federation.state import first_state
from fedsarsa.learning.schedules import stage_of
from tests.engines.parity import assert_same_state, assert_same_training
from tests.worlds_of_tests import dense_features, fleet

COOLING = fs.ExponentialSchedule(5.0, 0.1, steps=300)
POLICIES = [fs.Softmax(COOLING), fs.EpsilonGreedy(fs.LinearSchedule(1.0, 0.0, steps=250), ties="first")]


def test_schedules_by_hand():
    t = np.array([0, 25, 100, 10**9])
    np.testing.assert_allclose(fs.LinearSchedule(1.0, 0.2, 100).at(t), [1.0, 0.8, 0.2, 0.2])
    np.testing.assert_allclose(fs.ExponentialSchedule(16.0, 1.0, 100).at(t), [16.0, 8.0, 1.0, 1.0])
    assert fs.EpsilonGreedy(fs.LinearSchedule(1.0, 0.2, 100)).at_step(25) == fs.EpsilonGreedy(0.8)
    assert fs.Softmax(fs.PiecewiseDecay([2.0, 1.0], [50])).at_step(60) == fs.Softmax(1.0)
    assert fs.Softmax(3.0).at_step(60) == fs.Softmax(3.0)


def test_a_policy_by_itself_is_that_of_the_end():
    values = np.array([0.0, 1.0])
    for policy in POLICIES:
        end = policy.at_step(10**9)
        np.testing.assert_array_equal(policy.probabilities(values), end.probabilities(values))
    group, features = fleet(), fs.OneHot()
    own = fs.theory.fixed_point(group[0], features, POLICIES[0])
    np.testing.assert_array_equal(own, fs.theory.fixed_point(group[0], features, fs.Softmax(0.1)))
    algo = fs.FedSARSA(features, POLICIES[0])
    acts = fs.Policy.of(group, algo, own)
    assert acts.improvement == fs.Softmax(0.1)


@pytest.mark.parametrize(("every", "stage"), [(1, 100), (7, 105), (100, 100), (130, 130), (None, 100)])
def test_a_number_holds_for_whole_rounds_and_a_hundred_steps(every, stage):
    assert stage_of(every) == stage


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("options", [{}, {"trace_decay": 0.5}, {"sync_every": None}], ids=str)
def test_engines_agree(policy, options):
    settings = {"step_size": 0.2, "sync_every": 7} | options
    for features in (fs.OneHot(), dense_features(0, 5, 3, 4)):
        assert_same_training(fs.FedSARSA(features, policy, **settings), fleet(2), 240, runs=1)
    carts = fs.control.fleet("CartPole", 3, spread=0.3, noise=0.01, time_limit=15)
    assert_same_training(fs.FedSARSA(fs.TileCoding(4, 3), policy, **settings), carts, 120, runs=1)


@pytest.mark.parametrize("name", ["reference", "cpu"])
@pytest.mark.parametrize("rule", [None, fs.servers.FirstDirections()], ids=str)
def test_a_stage_is_a_training_with_a_constant_number(name, rule):
    """The same by hand: engines for constant policies, one after the other on one state."""
    group, algo = fleet(2), fs.FedSARSA(fs.OneHot(), fs.Softmax(COOLING), 0.2, 7, server=rule)
    problem = algo.problem(group, 315, 2, 3)
    one, two = (first_state(problem, np.zeros(problem.features.dim)) for _ in range(2))
    scheduled = engines.build(name, problem, 1)
    scheduled.start(one)
    seen = scheduled.advance(one, 315)
    again = []
    for t in (0, 105, 210):
        constant = engines.build(name, problem.at_step(t), 1)
        if t == 0:
            constant.start(two)
        again.append(constant.advance(two, 105).central)
    assert_same_state(two, one)
    np.testing.assert_array_equal(np.concatenate(again, axis=1), seen.central)


def test_rules_that_look_ahead_follow_them_too():
    """A round that begins with an exchange of directions, in both engines."""
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(COOLING), 0.1, 30, server=fs.servers.FirstDirections())
    assert_same_training(algo, fleet(2), 240, runs=1)


def test_gymnasium_follows_them():
    """Until the number jumps, from all to nearly none, the training is that of a constant one."""
    group = fs.GymFleet.make("CartPole-v1", agents=2)
    falling = fs.EpsilonGreedy(fs.PiecewiseDecay([1.0, 1e-9], [200]))
    features = fs.TileCoding(3, 4, bounds=([-2.4, -3, -0.2, -3], [2.4, 3, 0.2, 3]))
    both = fs.FedSARSA(features, falling, 0.1, 50).train(group, 300, runs=1)
    early = fs.FedSARSA(features, fs.EpsilonGreedy(1.0), 0.1, 50).train(group, 300, runs=1)
    np.testing.assert_array_equal(both.central.sel(t=slice(0, 200)), early.central.sel(t=slice(0, 200)))
    assert (both.central.sel(t=250) != early.central.sel(t=250)).any()


def test_a_training_goes_on_from_its_checkpoint(tmp_path):
    group, algo = fleet(2), fs.FedSARSA(fs.OneHot(), fs.Softmax(COOLING), 0.2, 7)
    algo.train(group, 140, runs=2, checkpoint=tmp_path / "first.nc")
    longer = algo.train(group, 420, runs=2, checkpoint=tmp_path / "first.nc")
    whole = algo.train(group, 420, runs=2)
    np.testing.assert_array_equal(longer.central, whole.central)
    other = fs.FedSARSA(fs.OneHot(), fs.Softmax(5.0), 0.2, 7)
    with pytest.raises(ValueError, match=r"policy .*ExponentialSchedule.* there, .*5\.0.* here"):
        other.train(group, 840, runs=2, checkpoint=tmp_path / "first.nc")


def test_toml(tmp_path):
    (tmp_path / "a.toml").write_text("""
[fleet]
agents = 2
[algorithm]
step_size = { kind = "linear", start = 0.1, end = 0.01, steps = 50 }
[algorithm.policy]
kind = "softmax"
temperature = { kind = "exponential", start = 100.0, end = 1.0, steps = 50 }
[training]
steps = 100
""")
    algo = config.load(tmp_path / "a.toml").algorithm.build()
    assert algo.policy == fs.Softmax(fs.ExponentialSchedule(100.0, 1.0, 50))
    assert algo.step_size == fs.LinearSchedule(0.1, 0.01, 50)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: fs.LinearSchedule(-1.0, 0.0, 10), "start must be a number of at least 0, got -1.0"),
        (lambda: fs.ExponentialSchedule(1.0, 0.0, 10), "end must be a positive number, got 0.0"),
        (lambda: fs.LinearSchedule(1.0, 0.0, 0), "steps must be an integer of at least 1, got 0"),
        (
            lambda: fs.Softmax(fs.LinearSchedule(1.0, 0.0, 10)),
            "temperature must be a positive number, got 0.0",
        ),
        (
            lambda: fs.EpsilonGreedy(fs.LinearSchedule(0.5, 2.0, 10)),
            r"eps must be a number in \[0, 1\], got 2.0 at its end, from LinearSchedule",
        ),
        (
            lambda: fs.EpsilonGreedy(fs.LinearSchedule(2.0, 0.1, 100)),
            r"eps must be a number in \[0, 1\], got 2.0 at step 0, from LinearSchedule",
        ),
        (lambda: fs.Softmax(fs.LinearSchedule), "temperature must be a positive number, got <class"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        wrong()


def test_a_number_out_of_range_on_the_way_is_named_with_its_step():
    class Hump:
        def at(self, t):
            return np.where(t == 100, 3.0, 0.5)

    algo = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(Hump()), 0.1, 10)
    with pytest.raises(ValueError, match=r"eps must be a number in \[0, 1\], got 3.0 at step 100, from <"):
        algo.train(fleet(), 200)


def test_predictions_are_refused():
    algo = fs.FedSARSA(fs.OneHot(), POLICIES[0], 0.1, 10)
    for ask in (fs.theory.predict, fs.theory.round_limit):
        with pytest.raises(
            ValueError, match="policy must keep its temperature for its error to be predicted"
        ):
            ask(fleet(), algo, *([100] if ask is fs.theory.predict else []))
