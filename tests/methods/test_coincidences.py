"""Methods that are the same in some setting are the same there, step by step."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.learning.random import plain_uniform, plain_words
from tests.contexts import context_of

AGENTS, S, A = 4, 6, 3
FLEET = fs.paper.fleet(AGENTS, eps_p=0.5, eps_r=1.0, seed=5, states=S, actions=A, discount=0.7)
rng = np.random.default_rng(7)
KERNEL = rng.dirichlet(np.ones(S), size=(A, S))
REWARDS = rng.uniform(size=(AGENTS, S, A))
ONE_KERNEL = fs.Fleet([fs.FiniteMDP(KERNEL, reward, discount=0.7) for reward in REWARDS])
MEAN_REWARD = fs.FiniteMDP(KERNEL, REWARDS.mean(axis=0), discount=0.7)
PI = fs.FixedPolicy(np.random.default_rng(1).dirichlet(np.ones(A), size=S))
FEATURES = fs.methods.state_features(np.random.default_rng(0).normal(size=(S, 3)), A, normalise=True)
TRAINING = {"steps": 60, "runs": 2, "seed": 3}
m = fs.methods


def finals(*methods, fleet=FLEET):
    return [method.train(fleet, **TRAINING).final.values for method in methods]


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_fed_td_with_server_step_1_is_fedsarsa_bit_for_bit(engine):
    settings = {"step_size": 0.2, "sync_every": 5, "radius": 0.9}
    one = m.FedTD(FEATURES, PI, **settings).train(FLEET, **TRAINING, engine=engine)
    two = fs.FedSARSA(FEATURES, PI, **settings).train(FLEET, **TRAINING, engine=engine)
    for name in ("central", "final", "local", "drift"):
        np.testing.assert_array_equal(one.data[name], two.data[name])


def test_the_rule_of_the_servers_step_is_the_mean_at_1():
    step = fs.FedSARSA(FEATURES, PI, 0.2, 5, server=fs.servers.ServerStep(1.0, radius=0.9))
    mean = fs.FedSARSA(FEATURES, PI, 0.2, 5, radius=0.9)
    one, two = (algo.train(FLEET, **TRAINING).central for algo in (step, mean))
    np.testing.assert_allclose(one, two, rtol=0, atol=1e-14)


W = np.array([[0.5, 0.3, 0.2, 0], [0.3, 0.7, 0, 0], [0.2, 0, 0.4, 0.4], [0, 0, 0.4, 0.6]])


@pytest.mark.parametrize("graph", ["complete", "ring", "star", W], ids=["complete", "ring", "star", "array"])
def test_the_average_on_any_graph_is_one_agent_on_the_mean_reward(graph):
    method = m.ConsensusTD(FEATURES, PI, 0.2, graph=graph, shared=True)
    history = method.train(ONE_KERNEL, **TRAINING)
    alone = m.FedTD(FEATURES, PI, 0.2, sync_every=1).train(fs.Fleet([MEAN_REWARD]), **TRAINING)
    np.testing.assert_allclose(history.central, alone.central, rtol=0, atol=1e-14)
    assert history.personal.isel(t=-1).std("agent").max() > 1e-3  # rewards differ, and agents do


def test_disagreement_contracts_by_the_second_singular_value():
    start = np.random.default_rng(2).normal(size=(AGENTS, 3))
    rule, theta = fs.servers.Consensus("ring"), start[None]
    for _ in range(9):  # no agent learns
        theta = rule.combine(theta, theta, context_of(theta))
    np.testing.assert_allclose(theta[0], np.linalg.matrix_power(rule.matrix(AGENTS), 9) @ start, atol=1e-15)
    second = np.linalg.svd(rule.matrix(AGENTS), compute_uv=False)[1]
    apart = np.linalg.norm(theta[0] - start.mean(axis=0))
    assert apart <= second**9 * np.linalg.norm(start - start.mean(axis=0)) * (1 + 1e-12)


def test_edges_to_agents_that_are_missing_lead_back():
    rule = fs.servers.Consensus("complete")
    before = np.random.default_rng(2).normal(size=(1, 4, 3))
    present = np.array([[True, True, False, True]])
    after = rule.combine(before, before + 1.0, context_of(before, present))
    np.testing.assert_array_equal(after[0, 2], before[0, 2])
    np.testing.assert_allclose(after.mean(axis=1), before.mean(axis=1) + 0.75)


def test_with_one_step_per_round_all_that_average_coincide():
    """K = 1: control variates vanish in the mean, and first directions are the only ones."""
    plain, hsa, sacc = finals(
        *(kind(FEATURES, PI, 0.2, sync_every=1) for kind in (m.FedTD, m.FedHSA, m.DisSACC))
    )
    np.testing.assert_allclose(hsa, plain, rtol=0, atol=1e-13)
    np.testing.assert_allclose(sacc, plain, rtol=0, atol=1e-13)
    (scaffold,) = finals(m.SCAFFLSA(FEATURES, PI, 0.2, sync_every=1))
    np.testing.assert_allclose(scaffold, plain, rtol=0, atol=1e-13)
    # FedHSA takes the mean there, which is what its own rule gives.
    first = fs.FedSARSA(FEATURES, PI, 0.2, 1, server=fs.servers.FirstDirections(radius=0.3))
    bounded = m.FedHSA(FEATURES, PI, 0.2, sync_every=1, radius=0.3)
    assert isinstance(bounded.server(), fs.servers.Mean)
    one, two = (method.train(FLEET, **TRAINING) for method in (first, bounded))
    np.testing.assert_allclose(two.central, one.central, rtol=0, atol=1e-13)
    assert float(one.drift.max()) < 1e-25 < 1e-6 < float(two.drift.min())


@pytest.mark.parametrize("settings", [{"sync_every": 2}, {"step_size": [0.2, 0.1, 0.2, 0.2]}])
def test_first_directions_count_with_more_steps_or_step_sizes_of_their_own(settings):
    method = m.FedHSA(FEATURES, PI, **{"step_size": 0.2, "sync_every": 1} | settings)
    plain = fs.FedSARSA(FEATURES, PI, method.step_size, method.sync_every)
    assert isinstance(method.server(), fs.servers.FirstDirections)
    one, two = (each.train(FLEET, **TRAINING).final.values for each in (method, plain))
    assert np.abs(one - two).max() > 1e-3


ALIKE = [
    m.FedTD(FEATURES, PI, 0.2, sync_every=1),
    m.FedTD(FEATURES, PI, 0.2, sync_every=5),
    m.NStepTD(FEATURES, PI, 0.2, sync_every=5, n=1),
    m.SCAFFLSA(FEATURES, PI, 0.2, sync_every=5),
    m.FedHSA(FEATURES, PI, 0.2, sync_every=5),
    m.DisSACC(FEATURES, PI, 0.2, sync_every=1),
    m.PFLSA(FEATURES, PI, 0.2),
    m.OneShotTD(FEATURES, PI, 0.2),
    m.ConsensusTD(FEATURES, PI, 0.2, graph="complete"),
]


@pytest.mark.parametrize("graph", ["complete", "ring", "star", W], ids=["complete", "ring", "star", "array"])
def test_agents_with_one_chain_and_equal_rewards_are_one_agent_by_any_method(graph):
    equal, alone = fs.Fleet([MEAN_REWARD] * AGENTS), fs.Fleet([MEAN_REWARD])
    history = m.ConsensusTD(FEATURES, PI, 0.2, graph=graph, shared=True).train(equal, **TRAINING)
    for one in finals(*ALIKE, fleet=alone):
        for agent in range(AGENTS):
            np.testing.assert_allclose(history.personal[:, -1, agent], one, rtol=0, atol=1e-13)
    assert np.abs(one).max() > 0.1


def test_control_variates_sum_to_zero():
    rule, rng = fs.servers.ControlVariates(), np.random.default_rng(4)
    shift, after = np.zeros((2, 5, 3)), rng.normal(size=(2, 5, 3))
    context = context_of(after, step_sums=np.full(5, 0.3), shift=shift)
    for _ in range(3):
        rule.combine(after[:, 0], after, context)
    np.testing.assert_allclose(context.shift.sum(axis=1), 0, atol=1e-13)
    assert np.abs(context.shift).min() > 1e-3


def test_agents_alone_are_those_who_share_nothing_and_those_who_are_averaged_once():
    alone = m.PFLSA(FEATURES, PI, 0.2, own=1.0).train(FLEET, **TRAINING)
    once = m.OneShotTD(FEATURES, PI, 0.2).train(FLEET, **TRAINING)
    np.testing.assert_allclose(alone.local, once.local, rtol=0, atol=1e-14)
    np.testing.assert_allclose(alone.final, once.final, rtol=0, atol=1e-14)


def test_errors_of_agents_averaged_once_are_a_line_in_1_over_n():
    """E ||mean of n agents - point||^2 = ||bias||^2 + variance / n in one world, at every step.

    With n = 1 it is an identity. Four standard errors for the others are 2 false alarms in 10 000.
    """
    fleet, runs = fs.Fleet([FLEET[0]] * 8), 400
    method = m.OneShotTD(FEATURES, PI, 0.2)
    point = method.target(fleet)
    off = method.train(fleet, steps=40, runs=runs, seed=2, theta0=point + 3.0).local.values - point
    means = {n: off.reshape(runs, 8 // n, n, -1).mean(axis=2).reshape(-1, off.shape[2]) for n in (1, 2, 4, 8)}
    bias, variance = (off.mean(axis=(0, 1)) ** 2).sum(), off.var(axis=(0, 1)).sum()
    assert 0.2 * variance < bias < 5 * variance  # neither is all of it
    for n, each in means.items():
        error = (each**2).sum(axis=1)
        assert abs(error.mean() - (bias + variance / n)) < 4 * error.std() / np.sqrt(len(error))


def test_n_steps_ahead_are_one_step_where_n_is_1():
    one = m.NStepTD(FEATURES, PI, 0.2, sync_every=5, n=1)
    ahead, plain = finals(one, m.FedTD(FEATURES, PI, 0.2, sync_every=5))
    np.testing.assert_array_equal(ahead, plain)  # no window, the same step


def test_own_actions_weigh_one_off_policy():
    settings = {"sync_every": 5, "n": 3}
    table = fs.ModuloFeatures(S, 1)
    off = m.NStepTD(table, PI, 0.1, behaviour=PI, **settings)
    ours, theirs = finals(off, m.NStepTD(table, PI, 0.1, **settings))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13)


# ---- anchors: one agent, as in the papers before federations ----


def test_projected_td_of_one_agent_is_fed_td_with_a_radius():
    """Bhandari, Russo and Singal 2018: theta <- proj(theta + alpha g), at every step."""
    world, radius, alpha, steps = FLEET[0], 0.3, 0.2, 40
    history = m.FedTD(FEATURES, PI, alpha, sync_every=1, radius=radius).train(
        fs.Fleet([world]), steps=steps, runs=1, seed=3
    )
    acting = fs.FedSARSA(fs.OneHot(), PI, 0.1, sync_every=None)
    seen = pairs_of(acting, fs.Fleet([world]), steps)
    theta = np.zeros(3)
    phi = FEATURES.table[:, 0]
    norms = []
    for k in range(steps):
        s, a, s_next = seen[k][0], seen[k][1], seen[k + 1][0]
        reward = world.expected_reward[s, a]
        theta = theta + alpha * phi[s] * (reward + world.discount * phi[s_next] @ theta - phi[s] @ theta)
        theta *= min(1.0, radius / np.linalg.norm(theta))
        norms.append(np.linalg.norm(theta))
        np.testing.assert_allclose(history.central[0, k + 1], theta, atol=1e-12)
    assert np.isclose(norms, radius).any()


def test_projected_sarsa_of_one_agent_is_fedsarsa_with_a_radius():
    """Zou, Xu and Liang 2019: the same with a policy that moves, at every step.

    Actions are drawn from it: those that its masses and the step's random number give, one by one.
    """
    world, radius, alpha, steps = FLEET[0], 0.5, 0.3, 100
    fleet = fs.Fleet([world])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(0.5), alpha, sync_every=1, radius=radius)
    history, seen = algo.train(fleet, steps=steps, runs=1, seed=3), pairs_of(algo, fleet, steps)
    theta, norms, uniformly = np.zeros((S, A)), [], []
    for k in range(steps):
        s, a = seen[k]
        s_next, a_next = seen[k + 1]
        uniform = plain_uniform(plain_words(3, 0, 0, k)[1])
        sums = np.cumsum(np.exp(theta[s_next] / 0.5))
        assert a_next == np.searchsorted(sums, uniform * sums[-1], side="right")
        uniformly.append(a_next == int(uniform * A))
        theta[s, a] += alpha * (
            world.expected_reward[s, a] + world.discount * theta[s_next, a_next] - theta[s, a]
        )
        theta *= min(1.0, radius / np.linalg.norm(theta))
        norms.append(np.linalg.norm(theta))
        np.testing.assert_allclose(history.central[0, k + 1], theta.ravel(), atol=1e-12)
    assert np.isclose(norms, radius).any()
    assert np.mean(uniformly) < 0.95  # what takes all actions alike takes others


def pairs_of(algo, fleet, steps):
    """The pairs that agent 0 of a training with seed 3 goes through, one more than steps."""
    from fedsarsa import engines
    from fedsarsa.federation.state import first_state

    problem = algo.problem(fleet, steps + 1, 1, 3)
    state, engine = first_state(problem, np.zeros(problem.features.dim)), engines.build("cpu", problem, 1)
    engine.start(state)
    seen = [(int(state.states[0, 0]), int(state.actions[0, 0]))]
    for _ in range(steps):
        engine.advance(state, 1)
        seen.append((int(state.states[0, 0]), int(state.actions[0, 0])))
    return seen
