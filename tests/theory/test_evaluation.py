import itertools

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory.evaluation import optimal_return, returns
from fedsarsa.theory.stationary import long_run_distribution
from tests.worlds_of_tests import fleet, world


def by_simulation(mdp, policy, steps, horizon, rng):
    """Monte Carlo return and average reward, written without the package's linear algebra."""
    transition, reward = mdp.transition, mdp.expected_reward
    s = rng.choice(mdp.states, p=mdp.initial, size=steps)
    total, last = np.zeros(steps), 0.0
    for t in range(horizon):
        a = (policy[s].cumsum(axis=1) > rng.random((steps, 1))).argmax(axis=1)
        total += mdp.discount**t * reward[s, a]
        last = reward[s, a]
        s = (transition[a, s].cumsum(axis=1) > rng.random((steps, 1))).argmax(axis=1)
    return total, last


def test_returns_against_simulation():
    rng = np.random.default_rng(0)
    mdp = world(rng, states=4, actions=2, reward_axes=3)
    policy = rng.dirichlet(np.ones(2), size=4)
    discounted, average = returns(mdp, policy)
    total, last = by_simulation(mdp, policy, 20_000, 60, rng)
    # Four standard errors: by chance once in ten thousand times.
    assert abs(total.mean() - discounted) < 4 * total.std() / np.sqrt(len(total))
    assert abs(last.mean() - average) < 4 * last.std() / np.sqrt(len(last))


@pytest.mark.parametrize("kind", ["dense", "shift"])
def test_optimum_against_all_policies(kind):
    mdp = world(np.random.default_rng(1), states=4, actions=3, kind=kind)
    every = itertools.product(range(3), repeat=4)
    best = max(returns(mdp, np.eye(3)[list(choice)])[0] for choice in every)
    assert optimal_return(mdp) == pytest.approx(best, abs=1e-10)


def test_a_fleet_is_evaluated_agent_by_agent():
    group = fleet(2, agents=4)
    repeated = fs.Fleet([*group, group[1]])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(0.5))
    theta = np.random.default_rng(0).normal(size=15)
    result = fs.evaluate(repeated, algo, theta)
    assert result.sizes == {"agent": 5}
    assert (result.gap >= 0).all()
    np.testing.assert_allclose(result.gap, result.optimal_return - result.discounted_return)
    policy = algo.policy.probabilities(theta.reshape(5, 3))
    for agent, mdp in enumerate(repeated):
        discounted, average = returns(mdp, policy)
        assert result.discounted_return[agent] == pytest.approx(discounted)
        assert result.average_reward[agent] == pytest.approx(average)


def test_one_parameter_per_agent():
    group = fleet(3, agents=2)
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy())
    theta = np.random.default_rng(0).normal(size=(2, 15))
    both = fs.evaluate(group, algo, theta)
    for agent in range(2):
        alone = fs.evaluate(group[agent : agent + 1], algo, theta[agent])
        assert both.isel(agent=agent).discounted_return == pytest.approx(float(alone.discounted_return[0]))
    with pytest.raises(ValueError, match=r"theta must have shape \(15,\) or \(2, 15\), got \(3, 15\)"):
        fs.evaluate(group, algo, np.zeros((3, 15)))


def test_optimal_values_have_no_gap():
    mdp = world(np.random.default_rng(4))
    values = np.zeros(5)
    for _ in range(500):
        q = mdp.expected_reward + mdp.discount * mdp.kernel.expect(values)
        values = q.max(axis=1)
    result = fs.evaluate([mdp], fs.FedSARSA(fs.OneHot(), fs.Greedy()), q.ravel())
    assert float(result.gap[0]) < 1e-10


def test_small_rewards_are_still_optimised():
    mdp = world(np.random.default_rng(1), states=4, actions=3)
    tiny = fs.FiniteMDP(mdp.transition, mdp.reward * 1e-12, mdp.discount)
    assert optimal_return(tiny) == pytest.approx(1e-12 * optimal_return(mdp), rel=1e-9)


def test_long_run_of_a_chain_with_two_fates():
    # 0 moves to the absorbing 1 with probability 0.25, to the pair {2, 3} with 0.75.
    chain = np.array([[0, 0.25, 0.75, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]])
    start = np.array([0.8, 0.2, 0, 0])
    np.testing.assert_allclose(long_run_distribution(chain, start), [0, 0.4, 0.3, 0.3])


def test_policies_of_runs_and_agents():
    group = fleet(5, agents=3)
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(3), size=(2, 3, 5))
    of_all = fs.theory.returns_of(group, tables)
    assert of_all.sizes == {"run": 2, "agent": 3}
    for run, agent in itertools.product(range(2), range(3)):
        here = of_all.isel(run=run, agent=agent)
        assert float(here.discounted_return) == returns(group[agent], tables[run, agent])[0]
        assert float(here.gap) == float(here.optimal_return) - float(here.discounted_return)
    common = fs.theory.returns_of(group, tables[:, :1])
    np.testing.assert_array_equal(
        common.discounted_return[1], fs.theory.returns_of(group, tables[1, 0]).discounted_return
    )


def test_policies_that_do_not_fit():
    group = fleet(5, agents=3)
    with pytest.raises(ValueError, match=r"policies must have shape \(5, 3\), .* got \(2, 5, 3\)"):
        fs.theory.returns_of(group, np.full((2, 5, 3), 1 / 3))
    with pytest.raises(ValueError, match="policies must sum to one"):
        fs.theory.returns_of(group, np.ones((5, 3)))


def test_greedy_returns_are_those_of_the_best_actions():
    fleet = fs.paper.fleet(3, 0.5, 0.5, states=10, actions=10)
    theta = np.random.default_rng(0).normal(size=25)
    softmax, greedy = fs.FedSARSA(), fs.FedSARSA(policy=fs.Greedy())
    one, two = fs.evaluate(fleet, softmax, theta, greedy=True), fs.evaluate(fleet, greedy, theta)
    assert one.equals(two)
    assert not one.equals(fs.evaluate(fleet, softmax, theta))
