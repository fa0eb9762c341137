"""Where methods rest when every step is the mean step, by their own server rules, beside `target`."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation.servers import Context
from fedsarsa.methods.policy_evaluation import each_operators

AGENTS, S, A = 4, 6, 3
rng = np.random.default_rng(5)
FLEET = fs.Fleet(
    [
        fs.FiniteMDP(rng.dirichlet(np.ones(S), size=(A, S)), rng.uniform(size=(S, A)), discount=0.7)
        for _ in range(AGENTS)
    ]
)
PI = fs.FixedPolicy(np.random.default_rng(1).dirichlet(np.ones(A), size=S))
FEATURES = fs.methods.state_features(np.linalg.qr(rng.normal(size=(S, 3)))[0], A)
ALPHA, ALPHAS = 0.8, [0.8, 0.5, 0.3, 0.7]
m = fs.methods


def mean_path(method, rounds, alpha=ALPHA):
    """The agents' parameters (N, d) after rounds of mean steps, and the server rule's of ``method``."""
    each = each_operators(method, FLEET)
    A_each, b_each = np.array([one.A for one in each]), np.array([one.b for one in each])
    algo = method.algorithm()
    rule, K, dim = algo.rule, algo.sync_every, len(b_each[0])
    memory = rule.memory(1, AGENTS, dim)
    theta, shift = np.zeros((1, AGENTS, dim)), np.zeros((1, AGENTS, dim))
    alpha = np.resize(alpha, AGENTS)
    before = theta.copy() if rule.personal else theta[:, 0]

    def direction(at):
        return np.einsum("ijk,rik->rij", A_each, at) + b_each

    for t in range(rounds):
        if rule.opens:
            shift = rule.opening(direction(theta))
        left = np.zeros_like(theta)
        for _ in range(K):
            if rule.leaves == "direction":
                left += direction(theta)
            else:
                theta = theta + alpha[:, None] * (direction(theta) + shift)
        context = Context(t * K, K, alpha * K, left, shift, memory)
        before = rule.combine(before, theta, context)
        shift = context.shift
        theta = before if rule.personal else np.repeat(before[:, None], AGENTS, axis=1)
    return theta[0]


EACH_OWN = [
    m.FedTD(FEATURES, PI, ALPHAS, sync_every=1),
    m.FedTD(FEATURES, PI, ALPHAS, sync_every=10),
    m.FedTD(FEATURES, PI, ALPHAS, sync_every=10, server_step=0.5),
    m.NStepTD(FEATURES, PI, ALPHAS, sync_every=10, n=1),
    *(
        kind(FEATURES, PI, ALPHAS, sync_every=K)
        for kind in (m.SCAFFLSA, m.FedHSA, m.DisSACC)
        for K in (1, 10)
    ),
    m.ConsensusTD(FEATURES, PI, ALPHAS, graph="ring"),
    *(m.PFLSA(FEATURES, PI, ALPHAS, sync_every=K) for K in (1, 10)),
]


@pytest.mark.parametrize("method", EACH_OWN, ids=repr)
def test_methods_rest_at_their_targets_with_a_step_size_per_agent(method):
    target = np.broadcast_to(method.target(FLEET), (AGENTS, 3))
    np.testing.assert_allclose(mean_path(method, 6000, ALPHAS), target, rtol=0, atol=1e-12)
    alike = replace(method, step_size=ALPHA).target(FLEET)
    stays = isinstance(method, m.FedHSA | m.PFLSA)  # whose targets do not depend on step sizes
    assert (np.abs(method.target(FLEET) - alike).max() < 1e-12) == stays


def rounds_for(K):
    return {1: 1000, 10: 300, 100: 500}[K]


@pytest.mark.parametrize("K", [1, 10, 100])
@pytest.mark.parametrize("kind", [m.SCAFFLSA, m.FedHSA, m.DisSACC])
def test_corrected_methods_rest_at_the_federated_point(kind, K):
    method = kind(FEATURES, PI, ALPHA, sync_every=K)
    point = fs.theory.federated_point(FLEET, FEATURES, PI)
    np.testing.assert_allclose(method.target(FLEET), point, atol=1e-13)
    rounds = 700 if kind is m.DisSACC else rounds_for(K)  # one step per round, whatever K is
    rest = mean_path(method, rounds)
    np.testing.assert_allclose(rest, np.tile(point, (AGENTS, 1)), rtol=0, atol=1e-12)
    if K > 1:  # plain averaging is elsewhere
        plain = m.FedTD(FEATURES, PI, ALPHA, sync_every=K).target(FLEET)
        assert np.abs(plain - point).max() > 1e-3


@pytest.mark.parametrize("K", [1, 10, 100])
@pytest.mark.parametrize("server_step", [1.0, 0.5])
def test_plain_averaging_rests_at_the_round_limit_whatever_the_servers_step(K, server_step):
    method = m.FedTD(FEATURES, PI, ALPHA, sync_every=K, server_step=server_step)
    rest = mean_path(method, rounds_for(K) * 2)
    np.testing.assert_allclose(rest[0], method.target(FLEET), rtol=0, atol=1e-12)


@pytest.mark.parametrize("K", [1, 10, 100])
@pytest.mark.parametrize("own", [None, 0.1, 1.0])
def test_pf_lsa_rests_at_every_agents_own_point(own, K):
    method = m.PFLSA(FEATURES, PI, ALPHA, own=own, sync_every=K)
    points = [fs.theory.fixed_point(world, FEATURES, PI) for world in FLEET]
    np.testing.assert_allclose(method.target(FLEET), points, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mean_path(method, max(8000 // K, 500)), points, rtol=0, atol=1e-12)


@pytest.mark.parametrize("graph", ["complete", "ring", "star"])
def test_consensus_rests_where_it_says(graph):
    method = m.ConsensusTD(FEATURES, PI, ALPHA, graph=graph)
    np.testing.assert_allclose(mean_path(method, 2000), method.target(FLEET), rtol=0, atol=1e-12)
    slower = m.ConsensusTD(FEATURES, PI, fs.LinearDecay(1.0, 10.0), graph=graph)
    near = m.ConsensusTD(FEATURES, PI, 1e-6, graph=graph)
    np.testing.assert_allclose(near.target(FLEET), slower.target(FLEET), atol=1e-4)


def test_one_shot_rests_at_the_mean_of_the_fixed_points():
    points = [fs.theory.fixed_point(world, FEATURES, PI) for world in FLEET]
    target = m.OneShotTD(FEATURES, PI, ALPHA).target(FLEET)
    np.testing.assert_allclose(target, np.mean(points, axis=0), atol=1e-12)


def n_step_operators(world, n, acting, phi=FEATURES.table[:, 0]):
    """A and b of states, by sums over all paths of n transitions under ``acting``, with ratios."""
    pi, mu = PI.table(S, A), acting.table(S, A)
    P, r, g = np.array([world.kernel.matrix(a) for a in range(A)]), world.expected_reward, world.discount
    chain = np.einsum("sa,ast->st", mu, P)
    eta = np.linalg.matrix_power(chain, 4000)[0]
    A_n, b_n = np.zeros((3, 3)), np.zeros(3)

    def go(first, s, weight, depth):
        """All errors from ``depth`` on, with the probability of the path and its ratios in ``weight``."""
        if depth == n:
            return
        for a in range(A):
            ratio = pi[s, a] / mu[s, a]
            each = weight * mu[s, a] * ratio
            b_n[:] += phi[first] * each * r[s, a]
            A_n[:] += np.outer(phi[first], each * (g * P[a, s] @ phi - phi[s]))
            for s_next in range(S):
                go(first, s_next, each * P[a, s, s_next] * g, depth + 1)

    for s in range(S):
        go(s, s, eta[s], 0)
    return A_n, b_n


@pytest.mark.parametrize("n", [1, 2, 3])
def test_n_step_operators_are_the_sum_over_all_paths(n):
    method = m.NStepTD(FEATURES, PI, ALPHA, sync_every=5, n=n)
    found = method._ahead(FLEET)
    for world, (A_n, b_n) in zip(FLEET, found, strict=True):
        expected = n_step_operators(world, n, PI)
        np.testing.assert_allclose(A_n, expected[0], atol=1e-12)
        np.testing.assert_allclose(b_n, expected[1], atol=1e-12)


OTHERS = [fs.FixedPolicy(np.random.default_rng(20 + k).dirichlet(np.ones(A), size=S)) for k in range(AGENTS)]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("behaviour", [PI, OTHERS[0], OTHERS], ids=["the policy", "another", "their own"])
def test_off_policy_operators_are_the_sum_over_all_paths(behaviour, n):
    """Paths begin where the behaviour of each agent is seen, and count by its ratios."""
    method = m.NStepTD(fs.ModuloFeatures(3, 1), PI, 0.3, sync_every=5, n=n, behaviour=behaviour)
    acting = behaviour if isinstance(behaviour, list) else [behaviour] * AGENTS
    phi = np.eye(3)[np.arange(S) % 3]
    expected = [n_step_operators(world, n, one, phi) for world, one in zip(FLEET, acting, strict=True)]
    for (A_n, b_n), found in zip(expected, method._behind(FLEET), strict=True):
        np.testing.assert_allclose(found[0], A_n, atol=1e-12)
        np.testing.assert_allclose(found[1], b_n, atol=1e-12)
    theta = np.zeros(3)
    for _ in range(3000):
        ends = []
        for A_n, b_n in expected:
            own = theta
            for _ in range(5):
                own = own + 0.3 * (A_n @ own + b_n)
            ends.append(own)
        theta = np.mean(ends, axis=0)
    np.testing.assert_allclose(method.target(FLEET), theta, rtol=0, atol=1e-12)


def test_one_step_ahead_is_fed_td():
    settings = (FEATURES, PI, ALPHA)
    one = m.NStepTD(*settings, sync_every=5, n=1).target(FLEET)
    np.testing.assert_allclose(one, m.FedTD(*settings, sync_every=5).target(FLEET), atol=1e-12)


@pytest.mark.parametrize("n", [1, 3])
def test_off_policy_td_finds_the_policys_values_whoever_acts(n):
    world = FLEET[0]
    rng = np.random.default_rng(3)
    others = [fs.FixedPolicy(rng.dirichlet(np.ones(A), size=S)) for _ in range(2)]
    method = m.NStepTD(fs.ModuloFeatures(S, 1), PI, 0.1, sync_every=10, n=n, behaviour=others)
    table = PI.table(S, A)
    chain, reward = world.kernel.under(table), (table * world.expected_reward).sum(axis=1)
    values = np.linalg.solve(np.eye(S) - world.discount * chain, reward)
    np.testing.assert_allclose(method.target(fs.Fleet([world, world])), values, rtol=1e-12)
