"""Federated Q-learning: what agents see, where it rests, how the two averages differ, and one agent alone."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from tests.contexts import context_of

m = fs.methods
S, A, G = 4, 2, 0.7
rng = np.random.default_rng(11)
FLEET = fs.Fleet(
    [
        fs.FiniteMDP(rng.dirichlet(np.full(S, 0.5), size=(A, S)), rng.uniform(size=(S, A)), discount=G)
        for _ in range(3)
    ]
)
PI = fs.FixedPolicy(rng.dirichlet(np.ones(A), size=S))
EACH = [fs.FixedPolicy(p) for p in ([0.8, 0.2], [0.5, 0.5], [0.1, 0.9])]


def walk(problem, steps, start=0.0):
    """The pairs (steps + 1, N) of the only run, and parameters (steps + 1, N, d)."""
    state = first_state(problem, np.full(problem.features.dim, start))
    engine = engines.build("cpu", problem, 1)
    engine.start(state)
    pairs, theta = [(state.states[0].copy(), state.actions[0].copy())], [state.theta[0].copy()]
    for _ in range(steps):
        engine.advance(state, 1)
        pairs.append((state.states[0].copy(), state.actions[0].copy()))
        theta.append(state.theta[0].copy())
    return np.array(pairs), np.array(theta)


def test_agents_go_through_the_states_of_fedsarsa_with_that_policy():
    learning = m.FedQ(PI, 0.2, sync_every=5).problem(FLEET, 50, 1, 3)
    fixed = fs.FedSARSA(fs.OneHot(), PI, 0.2, sync_every=5).problem(FLEET, 50, 1, 3)
    (ours, theta), (theirs, other) = walk(learning, 50), walk(fixed, 50)
    np.testing.assert_array_equal(ours, theirs)
    assert np.abs(theta - other).max() > 0.01


@pytest.mark.parametrize("averaging", ["equal", "importance"])
def test_long_run_mean_is_the_optimal_q_of_the_worlds_mixed_by_visits(averaging):
    # Begun at the mean world's Q, 0.3 away. The bias, of the order of the step size, is 0.003 at most.
    # Standard errors of the mean over runs are 0.0012 at most: the limit is four of them beyond, which is 3
    # false alarms in 10 000 for eight entries.
    method = m.FedQ(EACH, 0.005, sync_every=20, averaging=averaging)
    elsewhere, target = fs.theory.optimal_values(FLEET.central()).ravel(), method.target(FLEET)
    history = method.train(FLEET, steps=60_000, runs=8, seed=2, record_every=10, theta0=elsewhere)
    late = history.central.sel(t=slice(20_000, None)).mean("t")
    assert late.std("run").max() / np.sqrt(8) < 0.0015
    error = np.abs(late.mean("run").values - target).max()
    assert error < 0.008
    assert np.abs(target - elsewhere).max() > 0.2


def test_importance_averaging_is_its_one_round_identity():
    K, eta, N = 40, 0.1, len(FLEET)
    start = np.random.default_rng(6).normal(size=S * A)
    alone = m.FedQ(EACH, eta, sync_every=10 * K).problem(FLEET, 10 * K, 1, 3)
    pairs, theta = walk(alone, K, start)
    top, weights = N * start, np.zeros(S * A)
    for i in range(N):
        visits = np.zeros(S * A, int)
        for t in range(K):
            s, a, s_next = pairs[t, 0, i], pairs[t, 1, i], pairs[t + 1, 0, i]
            j = int(s) * A + int(a)
            y = FLEET[i].expected_reward[s, a] + G * theta[t, i].reshape(S, A)[s_next].max()
            visits[j] += 1
            top[j] += eta * (1 - eta) ** -visits[j] * y
        weights += (1 - eta) ** -visits.astype(float)
    method = m.FedQ(EACH, eta, K, averaging="importance")
    history = method.train(FLEET, steps=K, runs=1, seed=3, theta0=start)
    np.testing.assert_allclose(history.final[0], top / weights, rtol=1e-12)


def test_importance_weights():
    rule = fs.servers.ImportanceMean()
    after = np.random.default_rng(0).normal(size=(1, 3, 2))
    log = -np.log1p(-0.2)

    def combined(visits, present=None):
        left = log * np.array(visits, float)[None]
        return rule.combine(np.array([[7.0, 8.0]]), after, context_of(after, present, left=left))[0]

    np.testing.assert_allclose(combined([[4, 4]] * 3), after[0].mean(axis=0), rtol=1e-15)
    heavy = 0.8**-5
    expected = (heavy * after[0, 0] + after[0, 1] + after[0, 2]) / (heavy + 2)
    np.testing.assert_allclose(combined([[5, 5], [0, 0], [0, 0]]), expected, rtol=1e-14)
    np.testing.assert_array_equal(
        combined([[9000, 9000], [0, 0], [0, 0]]), after[0, 0]
    )  # (1-eta)^-n overflows
    np.testing.assert_array_equal(combined([[0, 0]] * 3), [7.0, 8.0])  # nobody was there
    one = np.array([[False, True, False]])
    np.testing.assert_array_equal(combined([[3, 3]] * 3, one), after[0, 1])


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_synchronous_q_learning_is_qavg_where_kernels_are_deterministic(engine):
    """The paper form of QAvg: bit for bit."""
    rng, N, E, eta = np.random.default_rng(5), 3, 4, 0.3
    successors = rng.integers(S, size=(N, S, A))
    rewards = rng.uniform(size=(N, S, A))
    worlds = [
        fs.FiniteMDP(np.moveaxis(np.eye(S)[to], 1, 0), r, discount=G)
        for to, r in zip(successors, rewards, strict=True)
    ]
    history = m.FedSynQ(eta, sync_every=E).train(fs.Fleet(worlds), steps=8 * E, runs=1, engine=engine)
    planned = m.QAvg(eta, sync_every=E).train(fs.Fleet(worlds), steps=8 * E, runs=1, theta0=np.zeros(S * A))
    np.testing.assert_array_equal(history.central, planned.central)
    np.testing.assert_array_equal(history.local, planned.local)


def test_synchronous_q_learning_tends_to_the_mean_worlds_optimum():
    # The bias of step size 0.01 is 0.002 at most, and the standard error of the mean over times and runs
    # 0.0006: five of them beyond are 3 false alarms in a million for eight entries. Twelve other seeds were
    # off by 0.0017 to 0.0026.
    history = m.FedSynQ(0.01, sync_every=5).train(FLEET, steps=6000, runs=4, seed=1, record_every=10)
    late = history.central.sel(t=slice(2000, None)).mean(["t", "run"]).values
    np.testing.assert_allclose(late, m.FedSynQ().target(FLEET), rtol=0, atol=0.005)


@pytest.mark.parametrize(
    "method",
    [m.FedQ(EACH, 0.9, sync_every=3), m.FedQ(EACH, 0.9, 3, "importance"), m.FedSynQ(1.0, sync_every=3)],
    ids=["equal", "importance", "synchronous"],
)
def test_values_never_pass_the_largest_return(method):
    """Qu and Wierman 2020: |Q| <= R / (1 - discount), after averages too."""
    history = method.train(FLEET, steps=3000, runs=4, seed=1)
    most = max(world.expected_reward.max() for world in FLEET) / (1 - G)
    assert 0.5 * most < float(np.abs(history.central).max()) <= most * (1 + 1e-12)


def test_one_agent_is_asynchronous_q_learning_whatever_the_average():
    """Qu and Wierman 2020, with their step sizes h / (t + t0)."""
    h, t0 = 150.0, 600.0
    steps = fs.LinearDecay(4 / h, t0 - 1)
    np.testing.assert_allclose(steps.at(np.array([0, 7])), [h / t0, h / (7 + t0)], rtol=1e-15)
    alone = fs.Fleet([FLEET[0]])
    uniform = fs.FixedPolicy()
    equal, importance = (m.FedQ(uniform, steps, 10, averaging=one) for one in ("equal", "importance"))
    ours, theirs = (method.train(alone, steps=20_000, runs=4, seed=2) for method in (equal, importance))
    np.testing.assert_allclose(ours.final, theirs.final, rtol=1e-12)
    optimum = fs.theory.optimal_values(FLEET[0]).ravel()
    np.testing.assert_allclose(equal.target(alone), optimum, rtol=1e-9)
    # The standard deviation of an entry is 0.016, its bias 0.001: 0.08 is five away, which is 2 false alarms
    # in 100 000 for the eight entries of four runs.
    assert np.abs(ours.final - optimum).max() < 0.08


@pytest.mark.slow
def test_claims_of_woo_joshi_and_chi():
    """Both averages converge though every agent covers one action only, importance sooner; alike at K = 1.

    Errors are means over 10 runs.
    """
    actions, discount = 20, 0.9
    fleet = fs.two_state.fleet(actions, discount=discount)
    each = [fs.FixedPolicy(k) for k in fs.two_state.behaviour(actions)]
    optimum = fs.theory.optimal_values(fleet[0]).ravel()
    start = np.random.default_rng(1).uniform(0, 1 / (1 - discount), size=2 * actions)

    def errors(averaging, step_size, every, last=20_000):
        method = m.FedQ(each, step_size, every, averaging)
        np.testing.assert_allclose(method.target(fleet), optimum, rtol=1e-9)
        history = method.train(
            fleet, steps=last, runs=10, seed=3, theta0=start, record_every=max(1, 1000 // every)
        )
        error = (1 - discount) * np.abs(history.central - optimum).max("d")
        return error.mean("run").sel(t=[0, 2000, last]).values

    equal, importance = errors("equal", 0.2, 50), errors("importance", 0.05, 50)
    assert importance[1] < equal[1] < 0.7 * equal[0]
    assert importance[2] < equal[2] < 0.2 * equal[0]
    np.testing.assert_allclose(errors("equal", 0.05, 1, 2000), errors("importance", 0.05, 1, 2000), rtol=0.1)
