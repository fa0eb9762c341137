import itertools

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.theory import federated_point, fixed_point
from fedsarsa.theory import fixed_points as module
from fedsarsa.theory.operators import operators
from fedsarsa.theory.roots import end_of_flow, growth
from tests.theory.against_training import three_roots
from tests.theory.random_fleets import random_features, random_fleet, settings_of_theory
from tests.worlds_of_tests import dense


def of_pairs(mdp, policy):
    """The chain of pairs (SA, SA), its stationary distribution and the rewards, written out."""
    states, actions = mdp.states, mdp.actions
    onward = np.vstack([mdp.kernel.matrix(a)[s] for s in range(states) for a in range(actions)])
    chain = np.kron(onward, np.ones((1, actions))) * np.tile(policy.reshape(1, -1), (states * actions, 1))
    eta = by_trees(sum(policy[:, [a]] * mdp.kernel.matrix(a) for a in range(actions)))
    return chain, (eta[:, None] * policy).reshape(-1), mdp.expected_reward.reshape(-1)


def by_trees(chain):
    """Stationary distribution by the Markov chain tree theorem: sums of products, right to rounding."""
    states = range(len(chain))
    weight = np.zeros(len(chain))
    for root in states:
        others = [s for s in states if s != root]
        for heads in itertools.product(states, repeat=len(others)):
            to = dict(zip(others, heads, strict=True))
            if all(reaches(s, root, to) for s in others):
                weight[root] += np.prod([chain[s, t] for s, t in to.items()])
    return weight / weight.sum()


def reaches(state, root, to):
    for _ in to:
        state = to.get(state, state)
    return state == root


def matrix(features, mdp):
    table = features.on(mdp.states, mdp.actions)
    return np.vstack(
        [dense(table, [s], a) for s, a in itertools.product(range(mdp.states), range(mdp.actions))]
    )


def residual(mdp, features, policy, theta):
    """||Phi' D (r + gamma P Q - Q)|| with Q = Phi theta, on the chain of pairs."""
    phi = matrix(features, mdp)
    q = phi @ theta
    pi = policy.probabilities(q.reshape(mdp.states, mdp.actions))
    chain, mu, reward = of_pairs(mdp, np.broadcast_to(pi, (mdp.states, mdp.actions)))
    return phi.T @ (mu * (reward + mdp.discount * chain @ q - q))


def case(seed, kind="dense", agents=1, states=4, actions=3, **changes):
    rng = np.random.default_rng(seed)
    options = {"sharpness": 1.0, "scale": 5.0, "discount": 0.8, "apart": 1.0, "kind": kind} | changes
    return random_fleet(rng, agents, states, actions, **options), rng


@pytest.mark.parametrize("kind", ["dense", "shift"])
@pytest.mark.parametrize("features", ["one-hot", "modulo", "dense"])
@pytest.mark.parametrize(
    "policy", [fs.Softmax(0.5), fs.Softmax(100.0), fs.FixedPolicy(), fs.EpsilonGreedy(1.0)]
)
def test_residual_on_the_chain_of_pairs(kind, features, policy):
    fleet, rng = case(0, kind)
    features = random_features(rng, 4, 3, features)
    theta = fixed_point(fleet[0], features, policy)
    assert np.linalg.norm(residual(fleet[0], features, policy, theta)) <= 1e-10


def test_solves_the_projected_bellman_equation():
    """Q = Pi T Q with the projection written out: weighted least squares over pairs."""
    fleet, rng = case(1)
    features, policy = random_features(rng, 4, 3, "dense"), fs.Softmax(2.0)
    theta = fixed_point(fleet[0], features, policy)
    phi = matrix(features, fleet[0])
    q = phi @ theta
    chain, mu, reward = of_pairs(fleet[0], policy.probabilities(q.reshape(4, 3)))
    target = reward + fleet[0].discount * chain @ q
    root = np.sqrt(mu)[:, None]
    projected = phi @ np.linalg.lstsq(root * phi, root[:, 0] * target, rcond=None)[0]
    np.testing.assert_allclose(q, projected, atol=1e-9)


@pytest.mark.parametrize("kind", ["dense", "shift"])
def test_tabular_with_a_fixed_policy_is_the_exact_value(kind):
    fleet, rng = case(2, kind)
    pi = rng.dirichlet(np.ones(3), size=4)
    chain, _, reward = of_pairs(fleet[0], pi)
    exact = np.linalg.solve(np.eye(12) - fleet[0].discount * chain, reward)
    np.testing.assert_allclose(fixed_point(fleet[0], fs.OneHot(), fs.FixedPolicy(pi)), exact, atol=1e-11)


def test_one_action_leaves_the_others_at_zero():
    fleet, _ = case(3)
    theta = fixed_point(fleet[0], fs.OneHot(), fs.FixedPolicy(2)).reshape(4, 3)
    P, r = fleet[0].kernel.matrix(2), fleet[0].expected_reward[:, 2]
    np.testing.assert_allclose(theta[:, 2], np.linalg.solve(np.eye(4) - 0.8 * P, r), atol=1e-11)
    assert not theta[:, :2].any()


def cold(seed):
    """A policy so cold that iterating it cycles."""
    rng = np.random.default_rng(seed)
    states, actions = int(rng.integers(2, 7)), int(rng.integers(2, 5))
    kernel = rng.dirichlet(np.full(states, 10.0 ** rng.uniform(-1, 1)), (actions, states))
    mdp = fs.FiniteMDP(kernel, 10 * rng.random((states, actions)), rng.choice([0.2, 0.9, 0.99]))
    dim = int(rng.integers(1, states * actions + 1))
    features = fs.TabularFeatures(rng.normal(size=(states, actions, dim)), normalise=True)
    return mdp, features, fs.Softmax(10.0 ** rng.uniform(-2, -0.5))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:temperature:UserWarning", "ignore:the fixed point repels:UserWarning")
def test_cold_policies_need_every_method(monkeypatch):
    succeeded = set()

    def counting(name, method):
        def counted(self, *arguments):
            if done := method(self, *arguments):
                succeeded.add(name)
            return done

        counted.__name__ = name
        return counted

    for name in ("plain", "anderson", "newton", "restarts"):
        monkeypatch.setattr(module._Search, name, counting(name, getattr(module._Search, name)))
    for seed in (*range(30), 70, 141, 235):
        mdp, features, policy = cold(seed)
        theta = fixed_point(mdp, features, policy)
        assert np.linalg.norm(residual(mdp, features, policy, theta)) <= 1e-9
    assert succeeded == {"plain", "anderson", "newton", "restarts"}


def test_greedy_without_a_fixed_point_says_what_was_tried():
    rng = np.random.default_rng(158)
    mdp = fs.FiniteMDP(rng.dirichlet(np.ones(3), (2, 3)), rng.random((3, 2)), 0.9)
    features = fs.TabularFeatures(rng.normal(size=(3, 2, 2)), normalise=True)
    with pytest.raises(
        ValueError,
        match=r"no fixed point found for Greedy\(\): 60 solutions .* 20 random parameters, left a residual "
        r"of 0\.\d+, expected at most .*; policies that jump may have no fixed point",
    ):
        fixed_point(mdp, features, fs.Greedy())
    # Indeed: none of the eight deterministic policies is greedy for its own solution.
    table = features.on(3, 2)
    for choice in itertools.product(range(2), repeat=3):
        pi = np.eye(2)[list(choice)]
        values = table.values(operators(mdp, table, pi).solve())
        assert (values.argmax(axis=1) != choice).any()


def test_with_ties_to_the_first_class_it_is_td_of_that_class():
    """From 0 with rewards that are not negative no other class is ever better."""
    mdp = fs.paper.nominal(3, states=20, actions=10)
    first = np.arange(10) % 5 == 0
    found = fixed_point(mdp, fs.ModuloFeatures(5, 5), fs.Greedy(ties="first"))
    td = fixed_point(mdp, fs.ModuloFeatures(5, 5), fs.FixedPolicy(first / first.sum()))
    np.testing.assert_allclose(found, td, rtol=0, atol=1e-12)
    assert (found.reshape(5, 5)[:, 0] > 0).all()


def test_greedy_with_a_fixed_point():
    fleet, _ = case(5)
    theta = fixed_point(fleet[0], fs.OneHot(), fs.Greedy())
    assert np.linalg.norm(residual(fleet[0], fs.OneHot(), fs.Greedy(), theta)) <= 1e-10


def test_chains_with_two_recurrent_classes():
    mdp = fs.FiniteMDP(np.eye(2)[None], np.ones(2), 0.2)
    with pytest.raises(ValueError, match=r"one recurrent class, got 2 \(\{0\}; \{1\}\)"):
        fixed_point(mdp, fs.OneHot(), fs.Softmax(1.0))


@pytest.mark.parametrize("policy", [fs.Softmax(1.0), fs.FixedPolicy(1)])
@pytest.mark.parametrize("features", ["one-hot", "modulo", "dense"])
def test_federated_point_is_the_root_of_the_mean(policy, features):
    fleet, rng = case(6, agents=3)
    fleet = fs.Fleet([*fleet, fleet[0]])  # a world that is two agents'
    features = random_features(rng, 4, 3, features)
    theta = federated_point(fleet, features, policy)
    mean = np.mean([residual(mdp, features, policy, theta) for mdp in fleet], axis=0)
    assert np.linalg.norm(mean) <= 1e-10
    weights = [0.1, 0.2, 0.3, 0.4]
    theta = federated_point(fleet, features, policy, weights)
    mean = sum(w * residual(mdp, features, policy, theta) for w, mdp in zip(weights, fleet, strict=True))
    assert np.linalg.norm(mean) <= 1e-10


def test_federated_point_of_equal_worlds_is_their_fixed_point():
    fleet, rng = case(7)
    features = random_features(rng, 4, 3, "dense")
    alone = fixed_point(fleet[0], features, fs.Softmax(3.0))
    together = federated_point(fs.Fleet([fleet[0]] * 5), features, fs.Softmax(3.0))
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_federated_point_is_not_that_of_the_central_mdp():
    fleet, _ = case(8, agents=2, sharpness=0.2)
    apart = federated_point(fleet, fs.OneHot(), fs.Softmax(1.0)) - fixed_point(
        fleet.central(), fs.OneHot(), fs.Softmax(1.0)
    )
    assert np.linalg.norm(apart) > 1e-3


def test_weights_are_checked():
    fleet, _ = case(9, agents=2)
    with pytest.raises(ValueError, match=r"weights must have shape \(2,\), got \(3,\)"):
        federated_point(fleet, fs.OneHot(), fs.Softmax(1.0), [0.2, 0.3, 0.5])
    with pytest.raises(ValueError, match="weights must sum to one"):
        federated_point(fleet, fs.OneHot(), fs.Softmax(1.0), [0.2, 0.3])


@pytest.mark.filterwarnings("ignore:temperature:UserWarning", "ignore:the fixed point repels:UserWarning")
@settings(max_examples=200, deadline=None)
@given(settings_of_theory(policies=("softmax", "fixed", "one action")))
def test_residuals_in_extreme_worlds(drawn):
    fleet, algo, _ = drawn
    theta = fixed_point(fleet[0], algo.features, algo.policy)
    scale = fleet[0].reward_cap + 2 * np.linalg.norm(theta)
    found = np.linalg.norm(residual(fleet[0], algo.features, algo.policy, theta))
    assert found <= 1e-10 * min(1, fleet[0].reward_cap) + 1e-13 * scale


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-12, 1e-6, 1e6, 1e12]))
def test_rewards_only_set_the_unit(seed, unit):
    """Rewards and temperature in another unit: the parameter in that unit."""
    fleet, rng = case(seed)
    scaled = fs.FiniteMDP(fleet[0].transition, unit * fleet[0].reward, fleet[0].discount)
    features = random_features(rng, 4, 3, "dense")
    theta = fixed_point(fleet[0], features, fs.Softmax(5.0))
    again = fixed_point(scaled, features, fs.Softmax(5.0 * unit))
    np.testing.assert_allclose(again / unit, theta, rtol=1e-5, atol=1e-5 * np.abs(theta).max())


@pytest.mark.slow
def test_roots_that_attract_are_preferred(monkeypatch):
    """A world with three roots: plain solutions from the middle one stay there, training leaves it."""
    mdp, features, policy = three_roots()
    attracting = fixed_point(mdp, features, policy)
    field = module._Search([mdp], np.ones(1), features.on(2, 2), policy).field
    other = end_of_flow(field, np.array([2.3, 3.1]), 1e-10)
    assert np.linalg.norm(other - attracting) > 1
    # Between two roots that attract there is one that repels, on the boundary of their basins.
    low, high = attracting, other
    for _ in range(60):
        middle = (low + high) / 2
        near = np.linalg.norm(end_of_flow(field, middle, 1e-10) - attracting) < 1e-6
        low, high = (middle, high) if near else (low, middle)
    repelling = scipy.optimize.root(lambda x: field(x)[0], middle, jac=lambda x: field(x)[1]).x
    assert growth(field(repelling)[1]) > 0

    def start_there(self):
        self.at(repelling)
        return True

    monkeypatch.setattr(module._Search, "plain", start_there)
    found = fixed_point(mdp, features, policy)
    assert growth(field(found)[1]) == 0
    assert min(np.linalg.norm(found - one) for one in (attracting, other)) < 1e-8
    monkeypatch.setattr(module, "end_of_flow", lambda *_: None)
    with pytest.warns(
        UserWarning, match=r"the fixed point repels: small deviations grow at a rate of 0\.\d+"
    ):
        np.testing.assert_allclose(fixed_point(mdp, features, policy), repelling)


def test_flows_leave_points_that_repel():
    """x' = x - x^3 beside a fast direction: an implicit step longer than the rate at 0 would turn round."""

    def field(theta):
        x, y = theta
        return np.array([x - x**3, -100 * y]), np.diag([1 - 3 * x**2, -100.0])

    np.testing.assert_allclose(end_of_flow(field, np.array([1e-3, 0.5]), 1e-10), [1, 0], atol=1e-9)
    np.testing.assert_allclose(end_of_flow(field, np.array([-1e-9, 0.5]), 1e-10), [-1, 0], atol=1e-9)


@pytest.mark.parametrize(("gap", "digits"), [(1e-11, 4), (1e-13, 2)])
def test_discounts_next_to_one_say_how_many_digits_are_right(gap, digits):
    rng = np.random.default_rng(0)
    mdp = fs.FiniteMDP(rng.dirichlet(np.ones(4), size=(2, 4)), rng.random((4, 2)), 1 - gap)
    with pytest.warns(UserWarning, match=f"of 1: about {digits} digits"):
        fixed_point(mdp, fs.OneHot(), fs.FixedPolicy("uniform"))


def test_temperatures_that_leave_actions_out_say_so():
    rng = np.random.default_rng(0)
    mdp = fs.FiniteMDP(rng.dirichlet(np.ones(4), size=(2, 4)), rng.random((4, 2)), 0.9)
    fixed_point(mdp, fs.OneHot(), fs.Softmax(0.0015))  # the last temperature that is exact: no warning
    with pytest.warns(UserWarning, match=r"temperature 0\.0005 is so low that \d+ state-action pairs"):
        fixed_point(mdp, fs.OneHot(), fs.Softmax(0.0005))
