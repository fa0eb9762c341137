"""QAvg, SoftPAvg and ProjPAvg: exact targets, the released programs' rules, and Jin et al.'s numbers."""

import signal

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.methods import ProjPAvg, QAvg, SoftPAvg
from fedsarsa.theory.common_policy import mean_return, stationarity_gap, values_and_visits
from fedsarsa.worlds import random_mdps
from tests.worlds_of_tests import fleet as random_fleet

FLEET = fs.random_mdps.fleet(seed=1)
MIXED = fs.Fleet([*FLEET, FLEET[2], FLEET[2]])  # a world that three agents share


@pytest.mark.parametrize(
    "method",
    [
        QAvg(0.5, sync_every=4),
        QAvg([0.5, 0.2, 0.3, 0.5, 0.5], sync_every=2),
        QAvg(0.3, sync_every=4, form="released", decay=1.0),
        QAvg(0.3, sync_every=2, form="released"),
        QAvg(1.0, sync_every=1),
        QAvg(0.9, sync_every=None),
        QAvg(0.3, sync_every=None, form="released"),
    ],
)
def test_tables_end_at_the_target(method):
    history = method.train(FLEET, steps=480, runs=2)
    np.testing.assert_allclose(history.final, [method.target(FLEET)] * 2, atol=1e-9)


def test_agents_of_one_world_count_as_many():
    method = QAvg(0.5, sync_every=4)
    history = method.train(MIXED, steps=400, runs=1)
    np.testing.assert_allclose(history.final[0], method.target(MIXED), atol=1e-9)
    assert np.abs(method.target(MIXED) - method.target(FLEET)).max() > 1e-3


def test_constant_steps_leave_an_error_of_their_order():
    exact = fs.theory.optimal_values(FLEET.central()).ravel()
    off = [np.abs(QAvg(step, sync_every=2).target(FLEET) - exact).max() for step in (0.1, 0.05, 0.025)]
    np.testing.assert_allclose(np.divide(off[:-1], off[1:]), 2, rtol=0.15)
    for vanishing in (QAvg(0.04, sync_every=1), QAvg(fs.LinearDecay(0.2, 3)), QAvg(0.04, form="released")):
        np.testing.assert_array_equal(vanishing.target(FLEET), exact)


def test_the_theorems_step_size_counts_as_one_at_first():
    """2 / ((1 - g) (t + E)) is 5 at first with g = 0.9 and E = 4; clipped, tables stay within r / (1 - g)."""
    step = fs.LinearDecay(2 * (1 - 0.9), 4 - 1)
    np.testing.assert_allclose(step.at(np.arange(3)), [2 / (0.1 * (t + 4)) for t in range(3)])
    history = QAvg(step, sync_every=4).train(FLEET, steps=80, runs=2)
    assert float(abs(history.central).max()) <= 10
    # The first round is one of full backups, from the start that the run drew.
    tables = np.random.default_rng([0, 1]).random((5, 5))
    each = np.array([tables] * 5)
    for _ in range(4):
        pairs = zip(FLEET, each, strict=True)
        each = [w.reward + 0.9 * np.einsum("ast,t->sa", w.transition, q.max(axis=1)) for w, q in pairs]
    np.testing.assert_allclose(history.central[1, 1], np.mean(each, axis=0).ravel(), atol=1e-13)


def test_the_released_form_with_tiny_steps_is_value_iteration_in_the_mean_world():
    history = QAvg(1e-15, sync_every=3, form="released").train(FLEET, steps=30, runs=1)
    tables = history.central.values[0, 0].reshape(5, 5)
    central = FLEET.central()
    for _ in range(10):
        tables = central.expected_reward + 0.9 * central.kernel.expect(tables.max(axis=1))
    np.testing.assert_allclose(history.final[0], tables.ravel(), atol=1e-12)


def released(worlds, table, step, decay, every, steps, local, policy):
    """The rule of the released programs, written out: after a round that gained little, steps shrink."""
    gained = []
    for number in range(steps // every):
        if number > 2 and gained[-1] - gained[-2] < 1e-3 * gained[-2]:
            step *= decay
        values = [values_and_visits(world, policy(table))[0] for world in worlds]
        returns = [w.initial @ (policy(table) * q).sum(axis=1) for w, q in zip(worlds, values, strict=True)]
        gained.append(np.mean(returns))
        table = np.mean([local(world, table, step) for world in worlds], axis=0)
    return table


def greedy(table):
    return np.eye(5)[table.argmax(axis=1)]


def softmax(table):
    return np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)


def values_of_states(world, table, step):
    values = table.max(axis=1)
    for _ in range(3):
        values = (1 - step) * values + step * (world.reward + 0.9 * world.kernel.expect(values)).max(axis=1)
    return world.reward + 0.9 * world.kernel.expect(values)


def logits(world, table, step):
    for _ in range(3):
        values, _ = values_and_visits(world, softmax(table))
        mean = (softmax(table) * values).sum(axis=1, keepdims=True)
        table = table + step * (values - mean) / 0.1
    return table


def distributions(world, table, step):
    for _ in range(3):
        values, visits = values_and_visits(world, table)
        wanted = table + step * visits[:, None] * values
        for row in range(5):  # by bisection of the level that is taken from all
            low, high = wanted[row].min() - 1, wanted[row].max()
            for _ in range(100):
                level = (low + high) / 2
                over = np.maximum(wanted[row] - level, 0).sum() > 1
                low, high = (level, high) if over else (low, level)
            wanted[row] = np.maximum(wanted[row] - low, 0)
        table = wanted
    return table


@pytest.mark.parametrize(
    ("method", "step", "decay", "local", "policy"),
    [
        (QAvg(0.1, 3, form="released", decay=0.7), 0.1, 0.7, values_of_states, greedy),
        (SoftPAvg(0.05, 3, decay=0.7), 0.05, 0.7, logits, softmax),
        (ProjPAvg(0.01, 3, decay=0.7), 0.01, 0.7, distributions, lambda table: table),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_the_released_rules(method, step, decay, local, policy):
    history = method.train(FLEET, steps=36, runs=3, seed=4)
    start = history.central.values[2, 0].reshape(5, 5)
    expected = released(list(FLEET), start, step, decay, 3, 36, local, policy)
    np.testing.assert_allclose(history.final[2], expected.ravel(), atol=1e-10)
    np.testing.assert_allclose(method.policies(history)[2], policy(expected), atol=1e-10)


def test_soft_p_avg_rests_where_no_action_has_a_mean_advantage():
    history = SoftPAvg(1.0, sync_every=1, decay=1.0).train(FLEET, steps=600, runs=1)
    policy = SoftPAvg().policies(history)[0]
    each = [values_and_visits(world, policy)[0] for world in FLEET]
    advantage = np.mean([q - (policy * q).sum(axis=1, keepdims=True) for q in each], axis=0)
    assert advantage.max() < 1e-3
    assert np.abs(advantage[policy > 0.01]).max() < 1e-3


def test_proj_p_avg_rests_near_stationary_points_of_the_mean_return():
    """A mean of projections is not the projection of a mean: constant steps leave an error of their order."""
    best = fs.theory.best_common_policy(FLEET)
    off = []
    for step in (0.1, 0.05):
        method = ProjPAvg(step, sync_every=1, decay=1.0)
        history = method.train(FLEET, steps=200, runs=1, theta0=best.policy.ravel())
        off.append(best.mean_return - mean_return(FLEET, method.policies(history)[0])[0])
    assert 0 < off[1] < 1e-3
    assert off[0] / off[1] == pytest.approx(2, rel=0.05)
    alone = ProjPAvg(5.0, sync_every=1, decay=1.0).train(FLEET[:1], steps=200, runs=1)
    assert stationarity_gap(FLEET[:1], alone.final.values[0].reshape(5, 5)) < 1e-9


def test_the_best_common_policy_beats_that_of_the_mean_world():
    policy = QAvg().policy_of(QAvg(sync_every=1).target(FLEET).reshape(5, 5))
    best = fs.theory.best_common_policy(FLEET, starts=3)
    assert best.mean_return > mean_return(FLEET, policy)[0] + 0.05


def test_plans_go_on_from_their_checkpoint(tmp_path):
    method = QAvg(0.2, sync_every=3, form="released")
    whole = method.train(FLEET, steps=40, runs=2)
    path = tmp_path / "checkpoint.nc"

    def stop(t):
        if t >= 17:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        method.train(FLEET, steps=40, runs=2, progress=stop, checkpoint=path)
    with pytest.raises(ValueError, match="expected a checkpoint of this training"):
        QAvg(0.2, sync_every=3, form="released", decay=0.9).train(FLEET, steps=40, runs=2, checkpoint=path)
    resumed = method.train(FLEET, steps=40, runs=2, checkpoint=path)
    for name in ("central", "final", "local", "drift"):
        np.testing.assert_array_equal(resumed.data[name], whole.data[name])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: QAvg(1.5), "step_size must be at most 1, beyond which a backup is overshot, got 1.5"),
        (lambda: QAvg(form="released "), "form must be one of paper, released"),
        (lambda: QAvg(decay=0.0), r"decay must be a number in \(0, 1\], got 0.0"),
        (lambda: SoftPAvg(decay=2.0), r"decay must be a number in \(0, 1\], got 2.0"),
        (lambda: QAvg().train(FLEET, steps=4, engine="cpu"), "engine must be 'auto', as QAvg plans"),
        (lambda: ProjPAvg().train(FLEET, steps=4, theta0=np.ones(25)), "theta0 must sum to one"),
        (lambda: QAvg().train(FLEET, steps=4, theta0=np.ones(24)), r"theta0 must have shape \(25,\)"),
        (lambda: QAvg().train(fs.control.fleet("CartPole", 2), steps=4), "fleet must have finite worlds"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_start_of_ones_own():
    group = random_fleet(0, agents=3)
    history = QAvg(0.5, 2).train(group, steps=4, runs=2, theta0=np.full(15, 7.0))
    np.testing.assert_allclose(history.central[:, 0], 7.0, rtol=1e-15)


# Jin, Peng, Yang, Wang and Zhang (2022), Table 1 (QAvg, E = 4): the value of its policy in the centre world.
KAPPAS = (0.0, 0.2, 0.4, 0.6, 0.8)
RANDOM_MDPS, RANDOM_ERROR = np.array([35.42, 35.23, 34.80, 34.14, 33.29]), 0.05
CLIFFS, CLIFFS_ERROR = np.array([133.97, 133.97, 133.97, 133.96, 133.65]), np.array([0, 0, 0, 0.005, 0.03])


def optimal_policies(kernels, rewards, discount):
    """Greedy policies of many MDPs (M, S, A, S) at once, by policy iteration."""
    many, states = np.arange(len(kernels))[:, None], np.arange(kernels.shape[1])
    best = np.broadcast_to(rewards.argmax(axis=2), (len(kernels), len(states)))
    for _ in range(30):
        left = np.eye(len(states)) - discount * kernels[many, states, best]
        values = np.linalg.solve(left, rewards[many, states, best][..., None])
        ahead = rewards + discount * (kernels @ values[:, None])[..., 0]
        better = np.where(ahead.max(axis=2) > ahead[many, states, best] + 1e-9, ahead.argmax(axis=2), best)
        if (better == best).all():
            return best
        best = better
    raise AssertionError("policy iteration did not end")


def values_under(kernels, rewards, discount, best):
    many, states = np.arange(len(kernels))[:, None], np.arange(kernels.shape[1])
    left = np.eye(len(states)) - discount * kernels[many, states, best]
    return np.linalg.solve(left, rewards[many, states, best][..., None])[..., 0]


SEEDS = 16_000  # as many as the paper's


def in_the_centre(kernels, rewards, kappa):
    """Returns of the mean worlds' optimal policies in the centre, (n,), for kernels (n, N, S, A, S)."""
    agents = (1 - kappa) * kernels[:, :1] + kappa * kernels
    best = optimal_policies(agents.mean(axis=1), rewards, 0.9)
    return values_under(kernels[:, 0], rewards, 0.9, best).mean(axis=1)


def extreme_kernels(fleets, states=5, actions=5, agents=5):
    """The kernels and rewards of many fleets with kappa 1 at once, drawn as ``fs.random_mdps`` draws them."""
    rng = np.random.default_rng(4)
    rewards, shape = rng.random((fleets, states, actions)), (fleets, states, actions, states)
    reached = random_mdps._support(rng, shape, random_mdps.HALF)
    others = [random_mdps._on(~reached, rng) for _ in range(agents - 1)]
    return np.stack([random_mdps._on(reached, rng), *others], axis=1), rewards


@pytest.mark.slow
def test_table_1_random_mdps_in_closed_form():
    """QAvg ends at the optimum of the mean world. The paper's numbers are ten times (return - 5).

    Two standard errors, ours and the paper's; of the numbers, and of what kappa takes away. One seed in 20
    is beyond them in one comparison, and at most one in 4 in one of five. The limit is as narrow as that
    because the seed is fixed; with it, the numbers are off by 0.8 errors at most.
    """
    kernels, rewards = extreme_kernels(SEEDS)
    found = np.array([10 * (in_the_centre(kernels, rewards, kappa) - 5) for kappa in KAPPAS])
    error = np.hypot(found.std(axis=1) / np.sqrt(SEEDS), RANDOM_ERROR)
    assert (np.abs(found.mean(axis=1) - RANDOM_MDPS) < 2 * error).all()
    assert error.max() < 0.08
    lost = found[0] - found[1:]
    error = np.hypot(lost.std(axis=1) / np.sqrt(SEEDS), np.sqrt(2) * RANDOM_ERROR)
    assert (np.abs(lost.mean(axis=1) - (RANDOM_MDPS[0] - RANDOM_MDPS[1:])) < 2 * error).all()


def test_closed_forms_of_random_mdps_are_those_of_qavg():
    extreme, group = (fs.random_mdps.fleet(kappa=kappa, seed=7) for kappa in (1.0, 0.4))
    kernels = np.array([world.transition.transpose(1, 0, 2) for world in extreme])
    policy = QAvg().policy_of(QAvg(form="released").target(group).reshape(5, 5))
    ours = fs.theory.returns_of(group, policy).discounted_return[0]
    found = in_the_centre(kernels[None], extreme[0].reward[None], 0.4)
    np.testing.assert_allclose(found, [ours], rtol=1e-12)


@pytest.fixture(scope="module")
def cliffs():
    """Winds, the optimal policy of each, and the return of each of those policies in each wind."""
    winds = np.linspace(0, 1, 401)
    worlds = [fs.windy_cliffs.world(wind) for wind in winds]
    kernels = np.array([world.transition for world in worlds]).transpose(0, 2, 1, 3)
    rewards = np.repeat(worlds[0].expected_reward[None], len(worlds), axis=0)
    best = optimal_policies(kernels, rewards, 0.95)
    policies, which = np.unique(best, axis=0, return_inverse=True)
    repeated = [np.repeat(policy[None], len(worlds), axis=0) for policy in policies]
    returns = np.array([values_under(kernels, rewards, 0.95, policy)[:, 0] for policy in repeated])
    return winds, which.ravel(), returns


def returns_in(cliffs, means, winds):
    """Returns in ``winds`` of the optimal policies of the ``means``, by interpolation between 401 winds."""
    grid, which, returns = cliffs
    chosen = which[np.rint(means * (len(grid) - 1)).astype(int)]
    result = np.empty(np.shape(winds))
    for number, values in enumerate(returns):
        mine = chosen == number
        result[mine] = np.interp(winds[mine], grid, values)
    return result


def test_table_1_windy_cliffs_in_closed_form(cliffs):
    """The mean of worlds is the world of the mean wind. 16 000 fleets, as many as the paper's."""
    others = np.random.default_rng(0).random((16_000, 4))
    for kappa, paper, printed in zip(KAPPAS, CLIFFS, CLIFFS_ERROR, strict=True):
        mean = 0.5 + kappa * (others - 0.5).sum(axis=1) / 5
        found = returns_in(cliffs, mean, np.full(16_000, 0.5))
        error = np.hypot(printed, found.std() / np.sqrt(16_000))
        # Two standard errors, and what two printed digits leave open. The first three are exact; one seed in
        # 10 is beyond the limit in one of the others. The seed is fixed: off by 1.8 errors at most.
        assert abs(found.mean() - paper) < 2 * error + 0.005


def test_figure_2_windy_cliffs_in_closed_form(cliffs):
    """QAvg's 129.55 +- 0.17: the mean return of five agents under the optimum of the mean wind.

    One seed in 20 is beyond two standard errors. The seed is fixed: off by 0.1 of them.
    """
    winds = np.random.default_rng(1).random((16_000, 5))
    mean = winds.mean(axis=1)
    found = np.mean([returns_in(cliffs, mean, wind) for wind in winds.T], axis=0)
    error = np.hypot(0.17, found.std() / np.sqrt(16_000))
    assert error < 0.25
    assert abs(found.mean() - 129.55) < 2 * error
    group = fs.windy_cliffs.fleet(seed=3)
    own = np.array([3 * world.transition[0, 15, 11] for world in group])
    method = QAvg(0.001, sync_every=4, form="released", decay=0.1)
    policy = method.policies(method.train(group, steps=640, runs=1))[0]
    trained = fs.theory.returns_of(group, policy).discounted_return
    np.testing.assert_allclose(trained, [returns_in(cliffs, own.mean(), wind) for wind in own], rtol=1e-4)
