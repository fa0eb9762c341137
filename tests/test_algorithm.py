"""Options beyond Algorithm 1: traces, expected SARSA, optimistic values, and where they are not offered."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from tests.worlds_of_tests import dense
from tests.worlds_of_tests import fleet as finite_fleet

CART = fs.control.fleet("CartPole", 2, spread=0.1)


def train(**options):
    return fs.FedSARSA(fs.TileCoding(4, 3), fs.Softmax(0.5), 0.2, 10, **options).train(CART, 200, runs=1)


def test_without_traces_their_kind_changes_nothing():
    assert train(traces="replacing").data.equals(train().data)
    assert not train(trace_decay=0.5).data.equals(train().data)
    assert not train(trace_decay=0.9, traces="replacing").data.equals(train(trace_decay=0.9).data)


def test_a_finite_training_is_what_it_was_before_there_were_options():
    group = finite_fleet(3, agents=3)
    plain = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1).train(group, 100, runs=1)
    spelled = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1, trace_decay=0.0, initial_value=0.0)
    np.testing.assert_array_equal(spelled.train(group, 100, runs=1).central, plain.central)


def test_traces_against_a_slow_forward_view():
    # Within an episode, TD(lambda) with accumulating traces and a step size near 0 sums up the
    # lambda-returns of the forward view (Sutton and Barto, section 12.1).
    decay, discount, alpha = 0.7, 0.9, 1e-9
    world = fs.control.CartPole(start=0.0, time_limit=1000)
    group = fs.control.ControlFleet([world], discount)
    algo = fs.FedSARSA(fs.TileCoding(3, 3), fs.FixedPolicy(1), alpha, None, trace_decay=decay)
    problem = algo.problem(group, 1, 1, 0)
    theta0 = np.random.default_rng(0).normal(size=problem.features.dim)
    env = world.to_gymnasium()
    seen, _ = env.reset(seed=0)
    vectors, rewards, over = [dense(problem.features, seen, 1)], [], False
    while not over:
        seen, reward, over, _, _ = env.step(1)
        vectors.append(dense(problem.features, seen, 1))
        rewards.append(reward)
    steps = len(rewards)
    values = np.array([phi @ theta0 for phi in vectors])
    values[-1] = 0.0  # terminated
    expected = np.zeros_like(theta0)
    for t in range(steps):
        returns = [
            sum(discount**k * rewards[t + k] for k in range(n)) + discount**n * values[t + n]
            for n in range(1, steps - t + 1)
        ]
        weights = [(1 - decay) * decay ** (n - 1) for n in range(1, steps - t)] + [decay ** (steps - t - 1)]
        expected += (np.dot(weights, returns) - values[t]) * vectors[t]
    trained = algo.train(group, steps, runs=1, theta0=theta0)
    assert int(trained.data.episodes.sum()) == 1
    np.testing.assert_allclose((trained.final[0] - theta0) / alpha, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["sampled", "expected", "max"])
def test_the_target_of_a_step(target):
    # One tile covers the world: Q(s, a) = theta_a, so that one step shows the target.
    pi, values, discount = np.array([0.2, 0.3, 0.5]), np.array([1.3, 2.0, 4.1]), 0.5
    group = fs.control.ControlFleet([fs.control.MountainCar()], discount)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy(pi), 1.0, None, target=target)
    history = algo.train(group, 1, runs=50, theta0=np.concatenate([values, np.zeros(9)]))
    targets = set()
    for final in history.final.values[:, :3]:
        (changed,) = np.flatnonzero(final != values)
        targets.add(round(float(final[changed]), 12))
    ahead = {"sampled": values, "expected": [float(pi @ values)], "max": [4.1]}[target]
    assert targets == {round(-1 + discount * value, 12) for value in ahead}


@pytest.mark.parametrize("features", [fs.TileCoding(4, 3), fs.FourierBasis(1), fs.RBF(2)], ids=repr)
def test_initial_values(features):
    algo = fs.FedSARSA(features, fs.Greedy(), 1e-12, 5, initial_value=30.0)
    history = algo.train(CART, 5, runs=1)
    phi = algo.problem(CART, 1, 1, 0).features
    for x in np.random.default_rng(0).uniform(*CART.bounds, (10, 4)):
        assert dense(phi, x, 1) @ history.central.values[0, 0] == pytest.approx(30.0)


def test_initial_values_in_finite_worlds():
    group = finite_fleet(0)
    history = fs.FedSARSA(fs.OneHot(), initial_value=2.0).train(group, 10, runs=1)
    assert (history.central[0, 0] == 2.0).all()
    features = fs.TabularFeatures(np.ones((5, 3, 1)) * 0.5)
    with pytest.raises(ValueError, match="initial_value must be 0 with TabularFeatures"):
        fs.FedSARSA(features, initial_value=2.0).train(group, 10)


def test_step_sizes_per_feature():
    one = fs.FedSARSA(fs.TileCoding(4, 3), fs.FixedPolicy(0), 0.4, 10, step_per_feature=True)
    two = fs.FedSARSA(fs.TileCoding(4, 3), fs.FixedPolicy(0), 0.1, 10)
    assert one.train(CART, 50, runs=1).data.equals(two.train(CART, 50, runs=1).data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": fs.GridActions(3)}, "actions must be None in finite worlds"),
        ({"features": fs.TileCoding()}, "features must be OneHot, ModuloFeatures or TabularFeatures"),
    ],
)
def test_finite_worlds_say_what_they_do_not_offer(options, message):
    with pytest.raises(ValueError, match=message):
        fs.FedSARSA(**({"features": fs.OneHot()} | options)).train(finite_fleet(0), 10)


@pytest.mark.parametrize(
    ("group", "options", "message"),
    [
        (CART, {"features": fs.OneHot()}, "features must be TileCoding, FourierBasis, RBF"),
        (CART, {"actions": fs.GridActions(3)}, "actions must be None where worlds have 2 actions"),
        (fs.control.fleet("Pendulum", 1), {}, "actions must be GridActions or RandomActions"),
        (CART, {"policy": fs.FixedPolicy(np.full((3, 2), 0.5))}, "pi must not depend on states"),
        (CART, {"policy": fs.FixedPolicy(2)}, "pi must be an action below 2, got 2"),
        (CART, {"trace_decay": 1.5}, "trace_decay must be a number in"),
        (CART, {"traces": "dutch"}, "traces must be one of accumulating, replacing"),
        (CART, {"target": "mean"}, "target must be one of expected, max, sampled"),
        (
            CART,
            {"behaviour": fs.Softmax(1.0)},
            "behaviour must be a FixedPolicy, or a list with one per agent",
        ),
        (
            CART,
            {"behaviour": [fs.FixedPolicy(0)] * 7},
            r"behaviour must be one or one per agent \(\d\), got 7",
        ),
        (CART, {"behaviour": fs.FixedPolicy(2)}, "pi must be an action below 2, got 2"),
    ],
)
def test_episodic_worlds_name_mistakes(group, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.FedSARSA(**({"features": fs.TileCoding(2, 2)} | options)).train(group, 10)


def test_records_that_would_fill_the_memory_are_refused():
    algo = fs.FedSARSA(fs.TileCoding(8, 8), sync_every=1)
    with pytest.raises(ValueError, match=r"record_every must leave at most 4 GiB of records, .* got"):
        algo.train(CART, 1_000_000)


def test_parameters_that_do_not_fit_into_memory_are_refused():
    group = fs.control.fleet("Acrobot", 16)
    with pytest.raises(
        ValueError, match=r"runs must leave .* got 100000: 100000 x 16 agents x 12754584 param"
    ):
        fs.FedSARSA(fs.TileCoding(8, 8), fs.Greedy(), sync_every=None).train(group, 10, runs=100_000)


def test_observations_outside_are_counted():
    narrow = fs.TileCoding(2, 2, bounds=((-0.01,) * 4, (0.01,) * 4))
    history = fs.FedSARSA(narrow, fs.Softmax(1.0)).train(CART, 100, runs=1)
    wide = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0)).train(CART, 100, runs=1)
    assert (history.data.clipped > 50).all()
    assert (wide.data.clipped == 0).all()


def test_candidates_approach_the_softmax_over_all_actions():
    # With Q(x, u) linear in u, the softmax density over [-2, 2] has a mean in closed form.
    group = fs.control.fleet("Pendulum", 1, time_limit=50)
    theta = np.zeros(2 * 1)
    means = []
    for seed in range(2):
        algo = fs.FedSARSA(
            fs.FourierBasis((0, 0, 0, 1)), fs.Softmax(0.25), 1e-300, None, actions=fs.RandomActions(200)
        )
        theta[1] = -1.0  # Q = -cos(pi (u + 2) / 4) / sqrt(2): grows with u
        problem = algo.problem(group, 400, 1, seed)
        state = first_state(problem, theta)
        engine = engines.build("cpu", problem, 1)
        engine.start(state)
        for _ in range(400):
            engine.advance(state, 1)
            means.append(float(state.episodes.numbers[0, 0]))
    grid = np.linspace(-2, 2, 4001)
    density = np.exp(-np.cos(np.pi * (grid + 2) / 4) / np.sqrt(2) / 0.25)
    expected = float((grid * density).sum() / density.sum())
    assert np.mean(means) == pytest.approx(expected, abs=4 * np.std(means) / np.sqrt(len(means)))


def test_never_averaging_has_a_name():
    with pytest.raises(
        TypeError, match="sync_every must be an integer, or None to never average, got 'never'"
    ):
        fs.FedSARSA(sync_every="never")
