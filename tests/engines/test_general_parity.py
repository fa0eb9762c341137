"""Control worlds: the compiled engine reproduces the reference, with all features, policies and options."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.engines.general import GeneralEngine
from fedsarsa.federation import checkpoint, training
from fedsarsa.federation.state import first_state
from fedsarsa.learning.bases import CONTINUOUS
from fedsarsa.worlds.control import WORLDS
from tests.engines.parity import OPTIONS, assert_same_state, assert_same_training
from tests.pairwise import pairwise
from tests.worlds_of_tests import every_kind

FEATURES = every_kind(
    CONTINUOUS,
    fs.TileCoding(4, 3),
    fs.TileCoding(3, 4, memory=60),
    fs.FourierBasis(1),
    fs.RBF(2),
    fs.RandomFourier(20),
)
POLICIES = [
    fs.Softmax(0.5),
    fs.Greedy(),
    fs.EpsilonGreedy(0.2),
    fs.FixedPolicy("uniform"),
    fs.EpsilonGreedy(0.2, ties="first"),
]
STEPS = 60


def fleet(name, agents=3, **options):
    # Short episodes: some end by the time limit, in CartPole also by themselves.
    return fs.control.fleet(name, agents, spread=0.3, noise=0.01, time_limit=15, **options)


def candidates(name, random=False):
    if WORLDS[name].action_count is not None:
        return None
    return fs.RandomActions(5) if random else fs.GridActions(3)


@pytest.mark.parametrize(("name", "features", "policy"), pairwise([*WORLDS], FEATURES, POLICIES), ids=str)
def test_every_pair_of_world_features_and_policy(name, features, policy):
    algo = fs.FedSARSA(features, policy, 0.2, sync_every=7, actions=candidates(name))
    state = assert_same_training(algo, fleet(name), STEPS)
    assert state.episodes.episodes.sum() >= 2 * 3 * (STEPS // 15)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("features", [FEATURES[1], FEATURES[3]], ids=repr)
def test_every_option(features, options):
    settings = {"features": features, "policy": fs.Softmax(0.5), "step_size": 0.2, "sync_every": 7} | options
    assert_same_training(fs.FedSARSA(**settings), fleet("CartPole"), STEPS)


@pytest.mark.parametrize(
    ("name", "features", "policy", "trace_decay"),
    pairwise(["Pendulum", "MountainCarContinuous"], FEATURES, POLICIES, [0.0, 0.7]),
    ids=str,
)
def test_fresh_candidates(name, features, policy, trace_decay):
    algo = fs.FedSARSA(
        features, policy, 0.2, sync_every=7, actions=candidates(name, True), trace_decay=trace_decay
    )
    assert_same_training(algo, fleet(name), steps=40)


@pytest.mark.parametrize("policy", [fs.Greedy(), fs.Greedy(ties="first")], ids=repr)
def test_angles_of_the_acrobot_and_greedy_ties(policy):
    # From zero parameters all values tie at first, and tiles that met the same rewards tie again.
    algo = fs.FedSARSA(fs.TileCoding(8, 2), policy, 0.5, sync_every=5)
    problem = algo.problem(fleet("Acrobot", angles=True), 120, 2, 1)
    one, two = (
        first_state(problem, np.zeros(problem.features.dim)),
        first_state(problem, np.zeros(problem.features.dim)),
    )
    reference, cpu = engines.build("reference", problem, None), engines.build("cpu", problem, 2)
    for engine, state in ((reference, one), (cpu, two)):
        engine.start(state)
        engine.advance(state, 120)
    assert_same_state(two, one)


def test_long_episodes_stay_together():
    group = fs.control.fleet("CartPole", 2, spread=0.2)
    algo = fs.FedSARSA(fs.TileCoding(8, 4), fs.Softmax(0.3), 0.3, 50, trace_decay=0.8)
    state = assert_same_training(algo, group, steps=1500, runs=1)
    assert state.episodes.episodes.sum() > 10


def test_parameters_that_overflow_are_reported_alike():
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0), 1e200, 5)
    problem = algo.problem(fleet("CartPole"), 30, 2, 0)
    states = [first_state(problem, np.zeros(problem.features.dim)) for _ in range(2)]
    for name, state in zip(("reference", "cpu"), states, strict=True):
        engine = engines.build(name, problem, 2)
        engine.start(state)
        engine.advance(state, 30)
    np.testing.assert_array_equal(states[0].failed_at, states[1].failed_at)
    assert (states[0].failed_at >= 0).all()
    assert np.isnan(states[1].theta).all()


@pytest.mark.parametrize(
    "algo",
    [
        fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), 1e3, 10),
        fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.2), 1e3, None, trace_decay=0.8),
    ],
    ids=["values overflow first", "in the middle of a round"],
)
def test_what_is_told_of_a_run_that_failed_does_not_depend_on_when_that_was_noticed(algo, monkeypatch):
    group = fleet("CartPole", agents=5)
    expected = algo.train(group, 400, runs=2, engine="reference")
    assert (expected.failed_at.values > 60).all()
    assert (expected.data["episodes"].sum(("agent", "bin")) > 10).all()  # before they failed
    for threads, length in ((1, 10), (1, 400), (2, 100)):
        monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", length * 5 * 2)
        monkeypatch.setattr(training, "adapted", lambda *_, length=length: length)
        history = algo.train(group, 400, runs=2, threads=threads)
        for name in expected.data:
            np.testing.assert_allclose(
                history.data[name], expected.data[name], rtol=1e-12, atol=1e-12, err_msg=name
            )


def parts():
    algo = fs.FedSARSA(fs.TileCoding(4, 3), fs.Softmax(0.3), 0.3, 20, trace_decay=0.6)
    return algo, fleet("CartPole", agents=5)


def test_result_depends_neither_on_threads_nor_on_the_runs_beside_it(monkeypatch):
    algo, group = parts()
    one = algo.train(group, 400, runs=5, threads=1)
    for threads in (2, 3):
        again = algo.train(group, 400, runs=5, threads=threads)
        assert again.data.equals(one.data)
    few = algo.train(group, 400, runs=2, threads=3)
    np.testing.assert_array_equal(few.central, one.central[:2])
    monkeypatch.setattr("fedsarsa.engines.general.GeneralEngine.long_round", 1)
    split = algo.train(group, 400, runs=2, threads=3)
    assert split.data.equals(few.data)


def test_rounds_in_pieces_are_whole_rounds():
    algo, group = parts()
    problem = algo.problem(group, 100, 3, 1)
    whole, pieces = (first_state(problem, np.zeros(problem.features.dim)) for _ in range(2))
    engine = GeneralEngine(problem, threads=2)
    engine.start(whole)
    engine.start(pieces)
    engine.advance(whole, 100)
    for steps in (2, 18, 20, 7, 13, 40):
        engine.advance(pieces, steps)
    assert_same_state(pieces, whole)
    np.testing.assert_array_equal(pieces.theta, whole.theta)


def test_a_checkpoint_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch):
    algo, group = parts()
    whole = algo.train(group, 400, runs=2)
    monkeypatch.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", 1000)
    saves = []

    keep = checkpoint.save

    def stop(path, mark, state, *rest):
        keep(path, mark, state, *rest)
        saves.append(state.t)
        if len(saves) == 1:
            raise InterruptedError

    monkeypatch.setattr(checkpoint, "save", stop)
    path = tmp_path / "checkpoint.nc"
    with pytest.raises(InterruptedError):
        algo.train(group, 400, runs=2, checkpoint=path)
    assert 0 < saves[0] < 400
    again = algo.train(group, 400, runs=2, checkpoint=path)
    assert again.data.equals(whole.data)
    with pytest.raises(ValueError, match="one of another"):
        algo.train(fleet("CartPole", agents=5, seed=1), 400, runs=2, checkpoint=path)
