"""Frequencies of states and actions against their exact probabilities.

Many agents share one world and start in one state: the first action and the first step are independent
draws. Seeds are fixed; with fresh seeds each test would fail by chance once in ten thousand times.
"""

import numpy as np
import pytest
from scipy import stats

import fedsarsa as fs
from fedsarsa.engines.fast_path import FastPathEngine
from fedsarsa.federation.state import first_state
from fedsarsa.learning.features import FINITE
from fedsarsa.learning.policies import improvement
from tests.worlds_of_tests import dense_features, every_kind, kernel_of

AGENTS = 40_000
LEVEL = 1e-4
STATES, ACTIONS, FIRST = 6, 5, 2
POLICIES = [
    fs.Softmax(0.7),
    fs.Softmax(0.004),
    fs.Greedy(),
    fs.EpsilonGreedy(0.3),
    fs.Greedy(ties="first"),
    fs.EpsilonGreedy(0.3, ties="first"),
    fs.FixedPolicy("uniform"),
    fs.FixedPolicy([0.0, 0.1, 0.2, 0.3, 0.4]),
]
FEATURES = every_kind(FINITE, fs.OneHot(), fs.ModuloFeatures(3, 2), dense_features(1, STATES, ACTIONS, 3))


def chi_square(counts, probabilities):
    """p-value of the counts; cells of probability zero must be empty."""
    possible = probabilities > 0
    assert (counts[~possible] == 0).all()
    if possible.sum() == 1:
        return 1.0
    expected = probabilities[possible] / probabilities[possible].sum() * counts.sum()
    return stats.chisquare(counts[possible], expected).pvalue


@pytest.mark.parametrize("kind", ["dense", "shift"])
@pytest.mark.parametrize("features", FEATURES, ids=repr)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_first_action_and_first_step(policy, features, kind):
    rng = np.random.default_rng(0)
    kernel = kernel_of(kind, rng, STATES, ACTIONS, sparse=True)
    mdp = fs.FiniteMDP(kernel, np.zeros(STATES), 0.5, initial=np.eye(STATES)[FIRST])
    algo = fs.FedSARSA(features, policy, 1e-9, sync_every=1)
    problem = algo.problem(fs.Fleet([mdp] * AGENTS), 1, 1, seed=11)
    # Multiples of 0.25: greedy policies meet ties.
    theta = np.round(rng.normal(size=problem.features.dim) * 4) / 4
    state = first_state(problem, theta)
    engine = FastPathEngine(problem)
    engine.start(state)
    table = improvement(policy, problem.features, theta)

    assert (state.states == FIRST).all()
    first = np.bincount(state.actions[0], minlength=ACTIONS)
    assert chi_square(first, table[FIRST]) > LEVEL

    engine.advance(state, 1)
    joint = np.zeros((ACTIONS, STATES, ACTIONS))
    again = first_state(problem, theta)
    engine.start(again)
    np.add.at(joint, (again.actions[0], state.states[0], state.actions[0]), 1)
    exact = table[FIRST][:, None, None] * mdp.transition[:, FIRST, :, None] * table[None]
    # One chi-square over next states given the first action, one over next actions given the state.
    assert chi_square(joint.sum(axis=2).ravel(), exact.sum(axis=2).ravel()) > LEVEL
    assert chi_square(joint.sum(axis=0).ravel(), exact.sum(axis=0).ravel()) > LEVEL


def test_first_states_follow_the_initial_distribution():
    initial = np.array([0.5, 0.0, 0.25, 0.125, 0.125])
    mdp = fs.FiniteMDP(np.full((1, 5, 5), 0.2), np.zeros(5), 0.5, initial)
    problem = fs.FedSARSA(fs.OneHot()).problem(fs.Fleet([mdp] * AGENTS), 1, 1, seed=1)
    state = first_state(problem, np.zeros(5))
    FastPathEngine(problem).start(state)
    assert chi_square(np.bincount(state.states[0], minlength=5), initial) > LEVEL


@pytest.mark.slow
def test_a_long_trajectory_visits_states_as_its_stationary_distribution_says():
    # The published world under its softmax policy, one agent, thinned to nearly independent visits.
    mdp = fs.paper.nominal()
    algo = fs.FedSARSA(step_size=1e-12, sync_every=20)
    problem = algo.problem(fs.Fleet([mdp] * 2000), 2000, 1, seed=3)
    state = first_state(problem, np.zeros(25))
    engine = FastPathEngine(problem)
    engine.start(state)
    counts = np.zeros(100)
    for _ in range(50):
        engine.advance(state, 20)
        counts += np.bincount(state.states[0], minlength=100)
    policy = np.full((100, 100), 0.01)
    chain = mdp.kernel.under(policy)
    exact = np.linalg.matrix_power(chain, 200)[0]
    assert chi_square(counts, exact) > LEVEL


def test_actions_drawn_anew_do_not_depend_on_the_carried_ones():
    # The state counts the executed action: s' = s + a.
    mdp = fs.FiniteMDP(fs.ShiftKernel(np.eye(ACTIONS), ACTIONS), np.zeros(ACTIONS), 0.5, np.eye(ACTIONS)[0])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 1e-9, sync_every=1, redraw_actions=True)
    problem = algo.problem(fs.Fleet([mdp] * AGENTS), 1, 1, seed=3)
    theta = np.random.default_rng(1).normal(size=problem.features.dim)
    state, engine = first_state(problem, theta), FastPathEngine(problem)
    engine.start(state)
    carried = state.actions[0].astype(int)
    engine.advance(state, 1)
    table = np.zeros((ACTIONS, ACTIONS))
    np.add.at(table, (carried, state.states[0]), 1)
    assert stats.chi2_contingency(table).pvalue > LEVEL
    probabilities = algo.policy.probabilities(problem.features.values(theta))[0]
    assert chi_square(table.sum(axis=0), probabilities) > LEVEL
