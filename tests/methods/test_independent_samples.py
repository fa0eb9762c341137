"""Samples of stationary distributions, drawn apart: on average, trainings follow the mean path."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.methods.policy_evaluation import each_operators
from fedsarsa.theory.stationary import stationary_distribution

S, A, AGENTS, ALPHA, K, RUNS = 6, 4, 3, 0.2, 5, 2000
FLEET = fs.paper.fleet(AGENTS, eps_p=0.5, eps_r=0.5, seed=3, states=S, actions=A, discount=0.6)
PI = fs.FixedPolicy(np.random.default_rng(1).dirichlet(np.ones(A), size=S))
FEATURES = fs.ModuloFeatures(3, 1)
m = fs.methods


def mean_path(method, rounds):
    """The mean of the agents' parameters after every round without noise, (rounds, d)."""
    each = each_operators(method, FLEET)
    theta, seen = np.zeros(each[0].dim), []
    for _ in range(rounds):
        ends = []
        for one in each:
            own = theta.copy()
            for _ in range(K):
                own = own + ALPHA * (one.A @ own + one.b)
            ends.append(own)
        theta = np.mean(ends, axis=0)
        seen.append(theta)
    return np.array(seen)


def distances(history, expected):
    """By how many standard errors means over runs are off, (rounds, d)."""
    records = history.central.values[:, 1:]
    return np.abs(records.mean(axis=0) - expected) / (records.std(axis=0) / np.sqrt(len(records)))


def test_the_mean_over_runs_is_the_mean_path():
    kinds = (m.FedTD(FEATURES, PI, ALPHA, sync_every=K, independent=one) for one in (True, False))
    independent, chain = kinds
    expected = mean_path(independent, 12)
    # 36 comparisons, each off by 4.5 standard errors in 7 of a million: 1 false alarm in 4000.
    assert distances(independent.train(FLEET, 12 * K, RUNS), expected).max() < 4.5
    assert distances(chain.train(FLEET, 12 * K, RUNS), expected).max() > 10  # chains begin elsewhere


def test_states_are_those_of_the_stationary_distribution():
    """A step size of 1 on a table, and rewards that number the states, tell which were seen."""
    chain = np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=4)
    world = fs.FiniteMDP(chain[None], np.arange(1.0, 5.0), discount=0.5, initial=[1, 0, 0, 0])
    method = m.OneShotTD(fs.ModuloFeatures(4, 1), fs.FixedPolicy(0), 1.0, independent=True)
    seen = method.train(fs.Fleet([world]), steps=1, runs=20_000).final.values > 0
    assert (seen.sum(axis=1) == 1).all()
    share = stationary_distribution(chain)
    # Four comparisons at 4.5 standard errors: 3 false alarms in 100 000.
    assert (np.abs(seen.mean(axis=0) - share) < 4.5 * np.sqrt(share * (1 - share) / 20_000)).all()


@pytest.mark.parametrize("graph", ["ring", "star", "complete"])
def test_agents_who_watch_the_same_samples_average_to_one_on_the_mean_reward(graph):
    fleet = fs.paper.fleet(4, eps_p=0.0, eps_r=0.8, seed=3, states=S, actions=A, discount=0.6)
    method = m.ConsensusTD(FEATURES, PI, ALPHA, graph=graph, shared=True, independent=True)
    alone = m.FedTD(FEATURES, PI, ALPHA, sync_every=1, independent=True)
    one = alone.train(fs.Fleet([fleet.central()]), 50, 3)
    np.testing.assert_allclose(method.train(fleet, 50, 3).central, one.central, rtol=0, atol=1e-12)


def test_what_takes_a_chain_is_refused():
    with pytest.raises(ValueError, match=r"independent must be False.* got True with n = 3; FedTD takes"):
        m.NStepTD(FEATURES, PI, ALPHA, n=3, independent=True)
    with pytest.raises(TypeError, match="independent must be True or False, got 1"):
        m.FedTD(FEATURES, PI, ALPHA, independent=1)
    problem = m.FedTD(FEATURES, PI, ALPHA, independent=True).problem(FLEET, 10, 1, 0)
    with pytest.raises(ValueError, match="engine must be cpu or reference"):
        engines.build("ray", problem)
