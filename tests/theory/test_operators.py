import itertools
from fractions import Fraction

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory.action_classes import classes, dynamics
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.operators import average, operators
from fedsarsa.theory.stationary import recurrent_classes, stationary_distribution
from tests.theory.random_fleets import random_features, random_fleet
from tests.worlds_of_tests import dense


def small(seed=0, kind="dense", states=4, actions=3, agents=1, discount=0.7, sharpness=1.0):
    rng = np.random.default_rng(seed)
    fleet = random_fleet(
        rng, agents, states, actions, sharpness=sharpness, scale=2.0, discount=discount, apart=1.0, kind=kind
    )
    return fleet, rng.dirichlet(np.ones(actions), size=states), rng


def vectors(table, states, actions):
    return np.array([[dense(table, [s], a) for a in range(actions)] for s in range(states)])


def by_enumeration(mdp, phi, policy):
    """Two-step distribution, A-bar, b-bar and Phi, pair by pair, from the power of the chain."""
    chain = sum(policy[:, [a]] * mdp.kernel.matrix(a) for a in range(mdp.actions))
    eta, dim = np.linalg.matrix_power(chain, 512)[0], phi.shape[2]
    joint = np.zeros((mdp.states, mdp.actions, mdp.states, mdp.actions))
    A, b, Phi = np.zeros((dim, dim)), np.zeros(dim), np.zeros((dim, dim))
    for s, a in itertools.product(range(mdp.states), range(mdp.actions)):
        weight = eta[s] * policy[s, a]
        b += weight * phi[s, a] * mdp.expected_reward[s, a]
        Phi += weight * np.outer(phi[s, a], phi[s, a])
        for t, u in itertools.product(range(mdp.states), range(mdp.actions)):
            joint[s, a, t, u] = weight * mdp.kernel.matrix(a)[s, t] * policy[t, u]
            A += joint[s, a, t, u] * np.outer(phi[s, a], mdp.discount * phi[t, u] - phi[s, a])
    return joint, A, b, Phi


@pytest.mark.parametrize("kind", ["dense", "shift"])
@pytest.mark.parametrize("features", ["one-hot", "modulo", "dense"])
def test_against_enumeration(kind, features):
    fleet, policy, rng = small(kind=kind)
    table = random_features(rng, 4, 3, features).on(4, 3)
    here = operators(fleet[0], table, policy)
    joint, A, b, Phi = by_enumeration(fleet[0], vectors(table, 4, 3), policy)
    np.testing.assert_allclose(here.mu, joint.sum(axis=(2, 3)), atol=1e-13)
    np.testing.assert_allclose(here.mu, joint.sum(axis=(0, 1)), atol=1e-13)
    np.testing.assert_allclose(here.A, A, atol=1e-13)
    np.testing.assert_allclose(here.b, b, atol=1e-13)
    np.testing.assert_allclose(here.Phi, Phi, atol=1e-13)
    assert here.lam == pytest.approx(np.linalg.eigvalsh(Phi)[-here.rank], abs=1e-13)
    theta = rng.normal(size=table.dim)
    np.testing.assert_allclose(here.semi_gradient(theta), A @ theta + b, atol=1e-13)


def test_shift_and_written_out_kernels_agree():
    fleet, policy, rng = small(kind="shift", states=6, actions=4)
    written = fs.FiniteMDP(fleet[0].transition, fleet[0].reward, fleet[0].discount)
    for features in ("one-hot", "modulo", "dense"):
        table = random_features(rng, 6, 4, features).on(6, 4)
        one, other = (operators(mdp, table, policy) for mdp in (fleet[0], written))
        for name in ("eta", "mu", "A", "b", "Phi"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-14)


@pytest.mark.parametrize("features", ["one-hot", "modulo", "dense"])
def test_solution_and_average(features):
    fleet, policy, rng = small(agents=3)
    table = random_features(rng, 4, 3, features).on(4, 3)
    each = [operators(mdp, table, policy) for mdp in fleet]
    share = np.array([0.5, 0.2, 0.3])
    mean = average(each, share)
    np.testing.assert_allclose(mean.A, np.einsum("i,ide->de", share, [one.A for one in each]), atol=1e-14)
    for one in (*each, mean):
        assert np.linalg.norm(one.semi_gradient(one.solve())) < 1e-12


def test_unvisited_features_stay_zero_and_are_counted():
    fleet, _, rng = small(states=4, actions=3)
    only = fs.FixedPolicy(1).table(4, 3)
    here = operators(fleet[0], fs.OneHot().on(4, 3), only)
    assert here.rank == 4
    assert here.lam == pytest.approx(here.mu[:, 1].min())
    assert here.visited.reshape(4, 3)[:, 1].all()
    assert not here.solve().reshape(4, 3)[:, [0, 2]].any()
    # The same with vectors that mix coordinates: what is not visited is a subspace.
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    turned = operators(fleet[0], fs.TabularFeatures(turn.reshape(4, 3, 12), normalise=True).on(4, 3), only)
    assert turned.rank == 4
    assert turned.lam == pytest.approx(here.lam)
    np.testing.assert_allclose(turned.solve(), turn.T @ here.solve(), atol=1e-12)


def test_stationary_distribution_is_right_where_it_is_tiny():
    """Against exact fractions: a chain that leaves its two halves once in 1e13 steps."""
    e = Fraction(1, 10**13)
    chain = [[1 - e, e, 0, 0], [0, 0, 1, 0], [0, 3 * e, 0, 1 - 3 * e], [e, 0, 1 - e, 0]]
    # eta by hand, from the balance of each state up to a factor.
    eta = stationary_distribution(np.array(chain, dtype=float))
    flow = eta @ np.array(chain, dtype=float)
    np.testing.assert_allclose(flow, eta, rtol=1e-12)
    x3 = Fraction(1)  # eta_3
    x0 = x3 * e / e  # eta_0 e = eta_3 e
    x2 = x3 / (1 - 3 * e)  # eta_3 = eta_2 (1 - 3e)
    x1 = x0 * e + x2 * 3 * e
    total = x0 + x1 + x2 + x3
    np.testing.assert_allclose(eta, [float(x / total) for x in (x0, x1, x2, x3)], rtol=1e-12)


def test_recurrent_classes_are_named():
    chain = np.array([[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 1, 0, 0], [0.5, 0, 0, 0.5]])
    assert [sorted(states) for states in recurrent_classes(chain)] == [[0], [1, 2]]
    with pytest.raises(ValueError, match=r"one recurrent class, got 2 \(\{0\}; \{1, 2\}\)"):
        stationary_distribution(chain)


def test_policy_of_the_wrong_shape():
    fleet, policy, _ = small()
    with pytest.raises(ValueError, match=r"policy must have shape \(4, 3\), got \(3, 4\)"):
        operators(fleet[0], fs.OneHot().on(4, 3), policy.T)


@pytest.mark.parametrize("features", ["one-hot", "modulo", "dense"])
@pytest.mark.parametrize(
    "policy", [fs.Softmax(0.5), fs.Softmax(5.0), fs.FixedPolicy(), fs.EpsilonGreedy(0.5)]
)
def test_jacobian_against_differences(features, policy):
    fleet, _, rng = small(kind="shift")
    table = random_features(rng, 4, 3, features).on(4, 3)
    theta = rng.normal(size=table.dim)

    def mean_path(x):
        return operators(fleet[0], table, policy.probabilities(table.values(x))).semi_gradient(x)

    step = 1e-6
    numeric = [(mean_path(theta + e) - mean_path(theta - e)) / (2 * step) for e in step * np.eye(table.dim)]
    kinds = classes(table, policy, 4, 3)
    here = linearise(dynamics(fleet[0], kinds), kinds.at(theta))
    np.testing.assert_allclose(here.J, np.transpose(numeric), atol=1e-7)


def test_one_hot_features_of_a_large_world():
    """d = 10000: neither (S, A, d) nor (d, d) arrays are needed for a solution."""
    mdp = fs.paper.nominal()
    here = operators(mdp, fs.OneHot().on(100, 100), np.full((100, 100), 0.01))
    theta = here.solve()
    values = mdp.expected_reward + mdp.discount * mdp.kernel.expect(theta.reshape(100, 100).mean(axis=1))
    np.testing.assert_allclose(theta.reshape(100, 100), values, atol=1e-12)
