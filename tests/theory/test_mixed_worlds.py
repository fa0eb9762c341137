import numpy as np
import pytest

import fedsarsa as fs
from tests.worlds_of_tests import fleet


def test_equal_weights_are_the_central_world():
    group = fleet(0, agents=3, reward_axes=3)
    repeated = fs.Fleet([*group, group[1]])
    mixed, central = fs.theory.mixture(repeated, np.full((4, 5, 3), 0.25)), repeated.central()
    np.testing.assert_allclose(mixed.transition, central.transition, atol=1e-15)
    np.testing.assert_allclose(mixed.expected_reward, central.expected_reward, atol=1e-15)
    np.testing.assert_allclose(mixed.initial, central.initial, atol=1e-15)


def test_q_learning_rests_at_the_mixture_by_visits():
    """sum_i mu_i (T_i Q - Q) = 0 pair by pair, with mu_i from powers of the chains."""
    group = fleet(1, agents=3)
    rng = np.random.default_rng(0)
    behaviour = [fs.FixedPolicy(rng.dirichlet(np.ones(3), size=5)) for _ in range(3)]
    best = fs.theory.optimal_values(fs.theory.mixture(group, fs.theory.visit_shares(group, behaviour)))
    moved = np.zeros((5, 3))
    for mdp, policy in zip(group, behaviour, strict=True):
        chain = np.einsum("sa,ast->st", policy.pi, mdp.transition)
        visits = np.linalg.matrix_power(chain, 1000)[0][:, None] * policy.pi
        ahead = np.einsum("ast,t->sa", mdp.transition, best.max(axis=1))
        moved += visits * (mdp.reward + mdp.discount * ahead - best)
    np.testing.assert_allclose(moved, 0, atol=1e-13)


def test_agents_that_each_cover_a_part():
    group = fleet(2, agents=3)
    shares = fs.theory.visit_shares(group, [fs.FixedPolicy(a) for a in range(3)])
    np.testing.assert_array_equal(shares, np.broadcast_to(np.eye(3)[:, None], (3, 5, 3)))


def test_coverage_is_within_its_bounds():
    """Woo, Joshi and Chi (2023): 1 <= C_het <= min(N, 1 / mu_avg)."""
    group, rng = fleet(1, agents=3), np.random.default_rng(0)
    each = [fs.FixedPolicy(rng.dirichlet(np.ones(3), size=5)) for _ in range(3)]
    some = fs.theory.coverage(group, each)
    assert 0 < some.mu_min < some.mu_avg < 1 / 15
    assert 1 < some.C_het < min(3, 1 / some.mu_avg)
    parts = fs.theory.coverage(group, [fs.FixedPolicy(a) for a in range(3)])
    assert parts.mu_min == 0
    assert parts.C_het == pytest.approx(3)
    alike = fs.theory.coverage(fs.Fleet([group[0]] * 3), each[0])
    assert alike.mu_min == pytest.approx(alike.mu_avg)
    assert alike.C_het == pytest.approx(1)


def test_pairs_that_nobody_visits_have_no_shares():
    group = fleet(2, agents=2)
    with pytest.raises(ValueError, match=r"some agent visit every pair .* got none at \[0, 2\]"):
        fs.theory.visit_shares(group, [fs.FixedPolicy(0), fs.FixedPolicy(1)])
    with pytest.raises(ValueError, match=r"behaviour must be one or one per agent \(2\), got 3"):
        fs.theory.visit_shares(group, [fs.FixedPolicy()] * 3)
    with pytest.raises(TypeError, match=r"behaviour must be a FixedPolicy, .* got None"):
        fs.theory.visit_shares(group, None)


def test_weights_that_are_no_weights():
    group = fleet(2, agents=2)
    with pytest.raises(ValueError, match=r"weights must have shape \(2, 5, 3\), got \(5, 3\)"):
        fs.theory.mixture(group, np.ones((5, 3)))
    with pytest.raises(ValueError, match=r"weights must sum to one along its last axis, got 2"):
        fs.theory.mixture(group, np.ones((2, 5, 3)))


def test_mean_value_and_value_of_the_mean_world():
    """Jin et al. (2022) take the mean of the agents' values to be at least the mean world's; it is not."""
    stay, swap = np.eye(2), np.eye(2)[::-1]
    pair = fs.Fleet([fs.FiniteMDP([kernel], [0, 1], 0.9, [1, 0]) for kernel in (stay, swap)])
    one = np.ones((2, 1))
    # From state 0: never a reward, or one at every odd step, 0.9 / (1 - 0.81).
    np.testing.assert_allclose(fs.theory.returns_of(pair, one).discounted_return, [0, 0.9 / 0.19])
    assert fs.theory.returns_of(pair, one).discounted_return.mean() == pytest.approx(2.368, abs=5e-4)
    # The mean world tosses a coin at every step: 0.9 / (2 (1 - 0.9)).
    assert fs.theory.returns_of([pair.central()], one).discounted_return.item() == pytest.approx(4.5)
