"""Training against results that can be written down."""

import numpy as np
import pytest

import fedsarsa as fs


def test_two_state_chain_by_hand():
    # One action; 0 -> 1 with probability p, 1 -> 0 with probability q; reward 1 in state 1. The values
    # solve V0 = g ((1-p) V0 + p V1), V1 = 1 + g (q V0 + (1-q) V1).
    p, q, g = 0.3, 0.4, 0.5
    chain = np.array([[[1 - p, p], [q, 1 - q]]])
    mdp = fs.FiniteMDP(chain, [0.0, 1.0], g)
    determinant = (1 - g * (1 - p)) * (1 - g * (1 - q)) - g * g * p * q
    values = np.array([g * p, 1 - g * (1 - p)]) / determinant
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), fs.LinearDecay(0.4, 40.0), sync_every=10)
    history = algo.train([mdp] * 10, 40_000, runs=10)
    error = np.abs(history.averaged - values).max()
    assert error < 0.01
    np.testing.assert_allclose(fs.theory.fixed_point(mdp, fs.OneHot(), fs.FixedPolicy(0)), values)


@pytest.mark.slow
def test_tabular_td_reaches_the_exact_values():
    rng = np.random.default_rng(0)
    states, actions, g = 4, 3, 0.6
    transition = rng.dirichlet(np.ones(states), size=(actions, states))
    reward = rng.random((states, actions))
    policy = 0.5 / actions + 0.5 * rng.dirichlet(np.ones(actions), size=states)
    mdp = fs.FiniteMDP(transition, reward, g)
    # q = r + g P_pi q on pairs, solved as one linear system written out over pairs.
    pairs = states * actions
    ahead = np.einsum("ast,tb->satb", transition, policy).reshape(pairs, pairs)
    exact = np.linalg.solve(np.eye(pairs) - g * ahead, reward.ravel())
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(policy), fs.LinearDecay(0.05, 400.0), sync_every=10)
    history = algo.train([mdp] * 20, 100_000, runs=4)
    assert np.abs(history.averaged - exact).max() < 0.02


def test_agents_with_one_random_stream_are_one_agent(monkeypatch):
    # Identical agents that share their randomness stay identical: their average is any one of them.
    from fedsarsa.engines import reference

    plain = reference.random.plain_words
    monkeypatch.setattr(reference.random, "plain_words", lambda seed, run, agent, t: plain(seed, run, 0, t))
    mdp = fs.paper.nominal(states=20, actions=10)
    algo = fs.FedSARSA(fs.ModuloFeatures(5, 5), fs.Softmax(1.0), 0.1, sync_every=1)
    many = algo.train([mdp] * 4, 200, runs=2, engine="reference")
    one = algo.train([mdp], 200, runs=2, engine="reference")
    np.testing.assert_allclose(many.central, one.central, atol=1e-12)
    np.testing.assert_allclose(many.drift[:, 1:], 0, atol=1e-24)


def test_synchronising_a_single_agent_changes_nothing():
    mdp = fs.paper.nominal(states=20, actions=10)
    often = fs.FedSARSA(sync_every=1).train([mdp], 300, runs=3)
    never = fs.FedSARSA(sync_every=None).train([mdp], 300, runs=3)
    np.testing.assert_array_equal(often.final, never.final)


def test_constant_rewards_have_constant_values():
    transition = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 5))
    mdp = fs.FiniteMDP(transition, np.full(5, 2.0), 0.75)
    history = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), 0.5).train([mdp], 5_000, runs=1)
    np.testing.assert_allclose(history.final, 2.0 / (1 - 0.75), rtol=1e-9)
