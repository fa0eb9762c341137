"""Every engine reproduces the reference engine's trajectories: states, actions and parameters."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.engines.fast_path import FastPathEngine
from fedsarsa.engines.general import GeneralEngine
from fedsarsa.federation.state import first_episodes, first_state
from fedsarsa.learning.features import FINITE
from tests.engines.parity import assert_same_training
from tests.pairwise import pairwise
from tests.worlds_of_tests import dense_features, every_kind, fleet

STATES, ACTIONS = 7, 6
POLICIES = [
    fs.Softmax(1.0),
    fs.Softmax(0.004),  # values a thousand temperatures apart: cached masses vanish and overflow
    fs.Greedy(),
    fs.EpsilonGreedy(0.2),
    fs.FixedPolicy("uniform"),
    fs.FixedPolicy(2),
    fs.Greedy(ties="first"),
    fs.EpsilonGreedy(0.2, ties="first"),
]
FEATURES = every_kind(FINITE, fs.OneHot(), fs.ModuloFeatures(3, 2), dense_features(0, STATES, ACTIONS, 4))
SCHEDULES = [0.3, fs.LinearDecay(4.0, 8.0), fs.PiecewiseDecay([0.4, 0.1], [15])]


@pytest.mark.parametrize(
    ("policy", "features", "kind", "axes"),
    pairwise(POLICIES, FEATURES, ["dense", "shift"], range(1, 4)),
    ids=repr,
)
def test_every_policy_feature_and_kernel(policy, features, kind, axes):
    for schedule in SCHEDULES:
        group = fleet(axes, agents=3, states=STATES, actions=ACTIONS, kind=kind, reward_axes=axes)
        algo = fs.FedSARSA(features, policy, schedule, sync_every=7)
        assert_same_training(algo, group, steps=30)


@pytest.mark.parametrize("features", FEATURES, ids=repr)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_actions_drawn_anew(policy, features):
    group = fleet(2, agents=3, states=STATES, actions=ACTIONS)
    assert_same_training(fs.FedSARSA(features, policy, 0.3, 7, redraw_actions=True), group, steps=30)


OPTIONS = [
    {"target": "expected"},
    {"target": "max"},
    {"target": "max", "behaviour": fs.FixedPolicy("uniform")},
    {"target": "expected", "behaviour": [fs.FixedPolicy(0), fs.FixedPolicy("uniform"), fs.FixedPolicy(2)]},
    {"trace_decay": 0.8},
    {"trace_decay": 0.8, "traces": "replacing", "redraw_actions": True},
    {"step_per_feature": True, "step_size": fs.LinearDecay(3.0, 9.0), "trace_decay": 0.3},
    {"behaviour": fs.FixedPolicy(np.random.default_rng(0).dirichlet(np.ones(ACTIONS), STATES))},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("features", FEATURES, ids=repr)
def test_every_option_of_the_step(features, options):
    group = fleet(2, agents=3, states=STATES, actions=ACTIONS, kind="shift")
    for policy in (fs.Softmax(1.0), fs.EpsilonGreedy(0.2, ties="first"), fs.FixedPolicy("uniform")):
        settings = {"features": features, "policy": policy, "step_size": 0.3, "sync_every": 7} | options
        assert_same_training(fs.FedSARSA(**settings), group, steps=30)


FAST_OPTIONS = [{}, {"redraw_actions": True}, *(one for one in OPTIONS if "trace_decay" not in one)]


@pytest.mark.parametrize(("policy", "features"), pairwise(POLICIES, FEATURES), ids=repr)
def test_the_fast_path_is_the_one_step(features, policy):
    """Without traces, finite worlds have an engine of their own; here it meets the one for all worlds."""
    group = fleet(2, agents=3, states=STATES, actions=ACTIONS)
    for options in FAST_OPTIONS:
        settings = {"features": features, "policy": policy, "step_size": 0.3, "sync_every": 7} | options
        problem = fs.FedSARSA(**settings).problem(group, 40, 2, 5)
        one, two = (first_state(problem, np.zeros(problem.features.dim)) for _ in range(2))
        two.episodes = first_episodes(problem)
        fast, general = FastPathEngine(problem), GeneralEngine(problem)
        fast.start(one)
        general.start(two)
        seen, again = fast.advance(one, 35), general.advance(two, 35)
        np.testing.assert_array_equal(two.states, one.states)
        np.testing.assert_array_equal(two.actions, one.actions)
        np.testing.assert_allclose(two.theta, one.theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(again.drift, seen.drift, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("sync_every", [1, 4, 40, None])
@pytest.mark.parametrize("radius", [None, 0.05])
def test_every_period_with_and_without_projection(sync_every, radius):
    group = fleet(3, agents=5, states=STATES, actions=ACTIONS)
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(0.5), 0.2, sync_every, radius)
    assert_same_training(algo, group, steps=50)


def test_weights_and_step_sizes_of_their_own():
    group = fleet(4, agents=3, states=STATES, actions=ACTIONS)
    steps = [0.1, fs.LinearDecay(3.0, 9.0), 0.3]
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), steps, 5, weights=[0.2, 0.5, 0.3])
    assert_same_training(algo, group, steps=40)
    decays = [fs.LinearDecay(w, 6.0) for w in (2.0, 3.0, 4.0)]
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), decays, 5, weights=[0.2, 0.5, 0.3])
    assert_same_training(algo, group, steps=43)


def test_more_actions_than_states_and_more_lanes_than_a_block():
    group = fleet(5, agents=37, states=3, actions=11, kind="shift", reward_axes=1)
    algo = fs.FedSARSA(fs.ModuloFeatures(2, 4), fs.Softmax(0.7), 0.2, 3)
    assert_same_training(algo, group, steps=20, runs=3)


def test_kernels_of_both_kinds_in_one_fleet():
    shift = fleet(6, agents=2, states=STATES, actions=ACTIONS, kind="shift")
    dense = fleet(7, agents=2, states=STATES, actions=ACTIONS, kind="dense", reward_axes=3)
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.EpsilonGreedy(0.1), 0.2, 6)
    assert_same_training(algo, fs.Fleet([*shift, *dense, shift[0]]), steps=30)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**63),
    states=st.integers(1, 6),
    actions=st.integers(1, 5),
    agents=st.integers(1, 5),
    kind=st.sampled_from(["dense", "shift"]),
    axes=st.integers(1, 3),
    sparse=st.booleans(),
    policy=st.sampled_from(POLICIES[:5]),
    tabular=st.booleans(),
    sync_every=st.one_of(st.none(), st.integers(1, 12)),
    step_size=st.sampled_from([0.05, 0.5, 1.0, fs.LinearDecay(8.0, 3.0)]),
)
def test_random_small_worlds(
    seed, states, actions, agents, kind, axes, sparse, policy, tabular, sync_every, step_size
):
    options = {"states": states, "actions": actions, "kind": kind, "reward_axes": axes, "sparse": sparse}
    group = fleet(seed, agents, **options)
    features = fs.OneHot() if tabular else dense_features(seed, states, actions, 3)
    algo = fs.FedSARSA(features, policy, step_size, sync_every)
    assert_same_training(algo, group, steps=25, seed=seed)


@pytest.mark.slow
@settings(max_examples=40)
@given(seed=st.integers(0, 1000), agents=st.integers(2, 6), sync_every=st.integers(1, 4))
def test_greedy_ties_are_the_same_ties(seed, agents, sync_every):
    # Rewards 0 and 1 and a step of 0.1: parameters of different pairs often meet exactly.
    rng = np.random.default_rng(seed)
    transition = np.stack([np.eye(3)[rng.permutation(3)] for _ in range(3)])
    group = fs.Fleet(fs.FiniteMDP(transition, rng.integers(0, 2, size=(3, 3)), 0.5) for _ in range(agents))
    for ties in ("share", "first"):
        algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(ties), 0.1, sync_every)
        assert_same_training(algo, group, steps=60, seed=seed)
        assert_same_training(algo, group, steps=60, seed=seed, scale=0.0)


def repeated_features():
    """A table in which actions 0, 2 and 5 have the same features, and so have 1 and 4."""
    table = np.random.default_rng(0).normal(size=(STATES, 3, 4))
    return fs.TabularFeatures(table[:, [0, 1, 0, 2, 1, 0]], normalise=True)


@pytest.mark.parametrize("policy", [fs.Greedy, lambda ties: fs.EpsilonGreedy(0.2, ties)], ids=["0", "0.2"])
@pytest.mark.parametrize("features", [*FEATURES, repeated_features()], ids=repr)
def test_ties_of_both_sorts_from_zero(features, policy):
    rewards = np.random.default_rng(1).integers(-1, 2, size=(STATES, ACTIONS))
    for kind in ("dense", "shift"):
        worlds = fleet(8, agents=3, states=STATES, actions=ACTIONS, kind=kind)
        transitions = [world.kernel if kind == "shift" else world.transition for world in worlds]
        group = fs.Fleet(fs.FiniteMDP(transition, rewards, 0.5) for transition in transitions)
        for ties in ("share", "first"):
            assert_same_training(fs.FedSARSA(features, policy(ties), 0.5, 4), group, 60, scale=0.0)


def test_from_zero_the_first_class_is_evaluated_for_ever():
    """With rewards that are not negative: what fig:ql of the paper shows."""
    group = fs.paper.fleet(3, 0.5, 0.5, states=30, actions=20)
    first = np.arange(20) % 5 == 0
    greedy = fs.FedSARSA(policy=fs.Greedy(ties="first")).train(group, 500, runs=2)
    td = fs.FedSARSA(policy=fs.FixedPolicy(first / first.sum())).train(group, 500, runs=2)
    np.testing.assert_array_equal(greedy.final.values.reshape(2, 5, 5)[:, :, 1:], 0.0)
    assert (greedy.final.values.reshape(2, 5, 5)[:, :, 0] > 0).all()
    # The two draw their actions by different sums of probabilities: the same walks all the same.
    np.testing.assert_allclose(greedy.central, td.central, rtol=0, atol=1e-12)


def published_parts():
    group = fs.paper.fleet(6, states=30, actions=20)
    return fs.FedSARSA(), group


def test_result_does_not_depend_on_threads():
    algo, group = published_parts()
    one = algo.train(group, 200, runs=5, threads=1)
    for threads in (2, 3, 8):
        again = algo.train(group, 200, runs=5, threads=threads)
        np.testing.assert_array_equal(again.local, one.local)
        np.testing.assert_array_equal(again.central, one.central)
        np.testing.assert_array_equal(again.drift, one.drift)


def test_result_does_not_depend_on_the_runs_beside_it():
    algo, group = published_parts()
    many = algo.train(group, 200, runs=7)
    few = algo.train(group, 200, runs=3)
    np.testing.assert_array_equal(many.central[:3], few.central)


def test_result_does_not_depend_on_the_fleets_beside_it():
    algo, group = published_parts()
    others = [fs.paper.fleet(n, seed=n, states=30, actions=20) for n in (2, 9, 17)]
    alone = algo.train(group, 400, runs=4)
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(algo.train, one, 400, 4) for one in [*others, group]]
        beside = jobs[-1].result()
    np.testing.assert_array_equal(beside.central, alone.central)


def test_an_agents_first_steps_do_not_depend_on_the_size_of_the_fleet():
    # Up to the first synchronisation an agent knows nothing of the others.
    small, large = fs.paper.fleet(3, states=30, actions=20), fs.paper.fleet(9, states=30, actions=20)
    algo = fs.FedSARSA(sync_every=None)
    one, two = algo.train(small, 50, runs=2), algo.train(large, 50, runs=2)
    np.testing.assert_array_equal(one.local, two.local[:, :3])


def test_splitting_a_federation_by_agents_changes_nothing(monkeypatch):
    algo, group = published_parts()
    problem = algo.problem(group, 60, 1, 3)
    results = []
    for long_round in (10**9, 1):
        monkeypatch.setattr("fedsarsa.engines.fast_path.FastPathEngine.long_round", long_round)
        engine, state = FastPathEngine(problem, threads=3), first_state(problem, np.zeros(25))
        engine.start(state)
        seen = engine.advance(state, 60)
        results.append((seen.central, seen.drift, state.theta, state.states))
    for by_runs, by_agents in zip(*results, strict=True):
        np.testing.assert_array_equal(by_agents, by_runs)


def test_seeds_and_runs_differ():
    algo, group = published_parts()
    one, two = algo.train(group, 100, runs=2, seed=0), algo.train(group, 100, runs=2, seed=1)
    assert not np.array_equal(one.final[0], one.final[1])
    assert not np.array_equal(one.final, two.final)


@pytest.mark.parametrize("dim", [12, 16, 33])
def test_greedy_ties_with_many_dense_features(dim):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        features = fs.TabularFeatures((rng.random((4, 4, dim)) < 0.5) * 0.125)
        transition = rng.dirichlet(np.ones(4), size=(4, 4))
        mdp = fs.FiniteMDP(transition, rng.integers(0, 2, (4, 4)), 0.5)
        for ties in ("share", "first"):
            algo = fs.FedSARSA(features, fs.Greedy(ties), 0.1, 5)
            assert_same_training(algo, fs.Fleet([mdp] * 3), steps=100, seed=seed)


def test_rounds_in_pieces_are_whole_rounds():
    group = fleet(3, agents=5, states=STATES, actions=ACTIONS)
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(0.5), fs.LinearDecay(4.0, 8.0), 9)
    problem = algo.problem(group, 40, 3, 1)
    whole, pieces = first_state(problem, np.zeros(6)), first_state(problem, np.zeros(6))
    engine = FastPathEngine(problem, threads=2)
    engine.start(whole)
    engine.start(pieces)
    for steps in (36, 4):
        engine.advance(whole, steps)
    for steps in (2, 3, 4, 9, 1, 8, 9, 1, 3):
        engine.advance(pieces, steps)
    for name in ("theta", "states", "actions", "central", "weighted_sum"):
        np.testing.assert_array_equal(getattr(pieces, name), getattr(whole, name))
