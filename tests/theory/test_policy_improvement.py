"""Policies among candidate actions: the operator in theory is what engines draw actions from."""

import itertools

import numpy as np
import pytest
from scipy import stats

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from fedsarsa.theory.policy_improvement import among_draws
from tests.worlds_of_tests import dense

POLICIES = [
    fs.Softmax(1.0),
    fs.Softmax(0.001),
    fs.Greedy(),
    fs.EpsilonGreedy(0.3),
    fs.FixedPolicy(),
    fs.EpsilonGreedy(0.3, ties="first"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_mean_over_draws_is_that_of_all_draws_one_by_one(policy, count):
    values = np.random.default_rng(count).normal(size=4)
    values[2] = values[0]  # a tie
    expected = np.zeros(4)
    for drawn in itertools.product(range(4), repeat=count):
        np.add.at(expected, list(drawn), policy.probabilities(values[list(drawn)]) / 4**count)
    np.testing.assert_allclose(among_draws(policy, count, values), expected, rtol=0, atol=1e-13)


def test_many_draws_are_the_softmax_over_all_actions():
    values = np.random.default_rng(0).normal(size=50)
    limit = fs.Softmax(0.5).probabilities(values)
    away = [np.abs(among_draws(fs.Softmax(0.5), count, values) - limit).sum() for count in (100, 1000)]
    assert away[0] < 0.2
    assert away[0] / away[1] == pytest.approx(10, rel=0.1)  # as 1 / count


def car(actions, policy=None):
    """A car that always begins in one place, an algorithm and a parameter that prefers some actions."""
    group = fs.control.fleet("MountainCarContinuous", 1, start_low=-0.5, start_high=-0.5)
    algo = fs.FedSARSA(fs.FourierBasis(2), policy or fs.Softmax(0.5), actions=actions)
    dim = algo.problem(group, 1, 1, 0).features.dim
    return group, algo, np.random.default_rng(3).normal(size=dim)


@pytest.mark.parametrize("actions", [fs.GridActions(5), fs.RandomActions(1), fs.RandomActions(4)], ids=repr)
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_engines_draw_from_the_operator(actions, engine):
    group, algo, theta = car(actions)
    probability = fs.theory.improvement(group, algo, theta, [-0.5, 0.0])
    assert probability.sum() == pytest.approx(1, abs=1e-12)
    problem = algo.problem(group, 1, runs=20_000 if engine == "cpu" else 2_000, seed=1)
    state = first_state(problem, theta)
    engines.build(engine, problem, 1).start(state)
    numbers = state.episodes.numbers.ravel()
    if isinstance(actions, fs.GridActions):
        chances, edges = probability.values, np.append(probability["action"] - 0.25, 1.25)
    else:
        chances, edges = probability.values.reshape(10, -1).sum(axis=1), np.linspace(-1, 1, 11)
    counts, _ = np.histogram(numbers, edges)
    assert counts.sum() == problem.runs
    assert stats.chisquare(counts, chances * problem.runs).pvalue > 1e-3
    assert chances.max() / chances.min() > 1.5 or actions.count == 1  # something to tell apart


@pytest.mark.parametrize(
    ("actions", "share"),
    [(fs.GridActions(3), 1), (fs.RandomActions(2), 1 / 2), (fs.RandomActions(64), 63 / 64)],
    ids=repr,
)
def test_the_operator_is_lipschitz(actions, share):
    group, algo, theta = car(actions)
    seen, rng = [-0.5, 0.0], np.random.default_rng(0)
    features = algo.problem(group, 1, 1, 0).features

    def moved(start, step):
        """How a small step changes the chances, per unit."""
        before, after = (fs.theory.improvement(group, algo, x, seen) for x in (start, start + 1e-6 * step))
        return (after - before) / 1e-6

    for direction in rng.normal(size=(5, len(theta))):
        step = direction / np.linalg.norm(direction)
        at_zero = moved(np.zeros(len(theta)), step)
        # By hand: where values are equal every candidate has the chance 1 / M, and M - 1 in M draws move it.
        if features.joint:
            x = np.array([dense(features, np.array([*seen, a]), 0) @ step for a in at_zero["action"].values])
        else:
            x = np.array([dense(features, np.array(seen), a) @ step for a in range(actions.count)])
        np.testing.assert_allclose(at_zero, share * (x - x.mean()) / (0.5 * len(x)), atol=1e-6)
        for start in rng.normal(size=(3, len(theta))):
            assert np.abs(moved(start, step)).sum() <= 2.0
    assert fs.theory.improvement(group, algo, theta, seen).attrs["L"] == 2.0


def test_lipschitz_constants_at_the_ends():
    assert fs.theory.improvement(*car(fs.RandomActions(1)), [-0.5, 0.0]).attrs["L"] == 0
    assert fs.theory.improvement(*car(fs.RandomActions(2), fs.Greedy()), [-0.5, 0.0]).attrs["L"] == np.inf


def test_wrong_shapes_are_named():
    group, algo, theta = car(fs.GridActions(3))
    with pytest.raises(ValueError, match=r"theta must have shape \(27,\), got \(26,\)"):
        fs.theory.improvement(group, algo, theta[1:], [-0.5, 0.0])
    with pytest.raises(ValueError, match=r"observation must have shape \(2,\), got \(1,\)"):
        fs.theory.improvement(group, algo, theta, [-0.5])
    with pytest.raises(TypeError, match="is for control worlds and GymFleet"):
        fs.theory.improvement(fs.paper.fleet(1), fs.FedSARSA(), theta, [-0.5])
