"""Features of one's own: any function of observations, in every engine that can call it."""

import gymnasium as gym
import numba
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation.training import NoAgentLeftError
from fedsarsa.learning.continuous_features import box_map
from tests.engines.parity import assert_same_training

WEIGHTS = np.random.default_rng(0).normal(size=(4, 6)) / 4


def layer(x):
    """A frozen layer of a network."""
    return np.tanh(x @ WEIGHTS) / 3


@numba.njit
def compiled(x):
    features = np.empty((x.shape[0], 5))
    for n in range(x.shape[0]):
        for i in range(4):
            features[n, i] = np.tanh(x[n, i]) / 3
        features[n, 4] = 0.5
    return features


def carts(agents=3):
    return fs.control.fleet("CartPole", agents, spread=0.3, time_limit=15)


def gyms(agents=3):
    return fs.GymFleet([fs.GymWorld("CartPole-v1", max_episode_steps=15)] * agents, processes=0)


@pytest.mark.parametrize(
    "options", [{}, {"trace_decay": 0.7}, {"target": "expected", "step_per_feature": True}], ids=str
)
def test_compiled_functions_train_alike_in_both_engines(options):
    algo = fs.FedSARSA(compiled, fs.Softmax(0.5), 0.2, sync_every=7, **options)
    state = assert_same_training(algo, carts(), steps=60)
    assert np.abs(state.theta).max() > 0.1


def test_observations_are_not_scaled_and_actions_have_parameters_of_their_own():
    phi = box_map(fs.FunctionFeatures(layer), (-np.inf,) * 4, (np.inf,) * 4, actions=2, joint=False)
    x = np.array([3.0, -40.0, 0.1, 7.0])
    theta = np.random.default_rng(1).normal(size=phi.dim)
    expected = layer(x[None])[0] @ theta.reshape(6, 2)
    np.testing.assert_allclose(phi.values_at(theta, x, np.arange(2.0)), expected)
    assert not phi.outside(x, np.arange(2.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", [layer, compiled])
def test_environments_take_any_function_for_all_agents_at_once(function):
    calls = []

    def counted(x):
        calls.append(len(x))
        return function(x)

    group, settings = gyms(), (fs.EpsilonGreedy(0.2), 0.2, 10)
    history = fs.FedSARSA(counted, *settings).train(group, steps=100, runs=2)
    assert calls.count(6) >= 100  # one call a step for the six environments
    assert (history.data.episodes.sum("bin") > 3).all()
    again = fs.FedSARSA(function, *settings).train(group, steps=100, runs=2)
    np.testing.assert_array_equal(history.local, again.local)
    played = fs.rollouts(group, fs.FedSARSA(function, *settings), history.final[0], episodes=2)
    assert np.isfinite(played.returns).all()


def test_environments_and_control_worlds_learn_the_same():
    """The engine for environments calls the function itself; the reference engine says what must come out."""
    group = carts(2)
    gyms = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in group], group.discount, processes=0)
    algo = fs.FedSARSA(layer, fs.Greedy(ties="first"), 0.2, sync_every=None)
    history = algo.train(gyms, steps=80, runs=1)
    theta, phi = np.zeros((2, 6)), layer
    env = group[1].to_gymnasium()
    # Agent 1 of the fleet, by hand: the greedy policy draws nothing at random.
    from fedsarsa.learning import random

    seed = random.plain_words(0, 0, 1, random.plain_purpose(random.START, random.FIRST_STATE))[0] >> 33
    x = env.reset(seed=seed)[0]
    a = 0
    for _ in range(80):
        onward, reward, terminated, truncated, _ = env.step(a)
        here, ahead = phi(np.array([x], float))[0], phi(np.array([onward], float))[0]
        values = theta @ ahead
        chosen = int(np.argmax(values))
        target = reward + (0.0 if terminated else group.discount * values[chosen])
        theta[a] += 0.2 * (target - here @ theta[a]) * here
        x, a = onward, chosen
        if terminated or truncated:
            x = env.reset()[0]
            a = int(np.argmax(theta @ phi(np.array([x], float))[0]))
    np.testing.assert_allclose(history.local[0, 1].values.reshape(6, 2).T, theta, atol=1e-10)


class Picture:
    """Makes a small world that shows a picture; imported only where Gymnasium is."""

    def __new__(cls):
        import gymnasium as gym

        class Env(gym.Env):
            observation_space = gym.spaces.Box(0, 10, (7, 7, 3), np.uint8)
            action_space = gym.spaces.Discrete(3)

            def reset(self, seed=None, options=None):
                super().reset(seed=seed)
                return self.observation_space.sample(), {}

            def step(self, action):
                return self.observation_space.sample(), float(action == 1), False, False, {}

        return Env()


@pytest.mark.parametrize(
    "features", [fs.RandomFourier(40), lambda x: np.maximum(x[:, :20] / 10 - 0.5, 0)], ids=["built-in", "own"]
)
def test_a_picture_of_147_numbers(features):
    group = fs.GymFleet([fs.GymWorld(Picture)] * 2, discount=0.5, processes=0)
    algo = fs.FedSARSA(features, fs.EpsilonGreedy(0.3), 0.1, 10)
    history = algo.train(group, steps=300, runs=1)
    values = algo.problem(group, 1, 1, 0).features.values_at(
        history.final[0].values, np.full(147, 9.0), np.arange(3.0)
    )
    assert values.argmax() == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[0], r"features of shape \(2, size\), got \(4,\)"),
        (lambda x: x.sum(), r"got \(\)"),
        (lambda x: x[:1], r"got \(1, 4\)"),
    ],
)
def test_functions_that_are_not_of_rows(function, message):
    with pytest.raises(ValueError, match=message):
        fs.FedSARSA(function, fs.Softmax(1.0)).train(carts(), 10)


def test_functions_that_fail_say_with_what_they_were_called():
    with pytest.raises(ValueError, match="matmul") as caught:
        fs.FedSARSA(lambda x: x @ np.ones((3, 2)), fs.Softmax(1.0)).train(carts(), 10)
    assert "array of shape (2, 4)" in caught.value.__notes__[0]


def test_features_that_are_not_finite_stop_the_agent():
    algo = fs.FedSARSA(lambda x: np.log(x[:, :1]), fs.Softmax(1.0), sync_every=10)
    with (
        np.errstate(all="ignore"),
        pytest.warns(RuntimeWarning, match="features are not finite at observation"),
        pytest.raises(NoAgentLeftError, match="features are not finite") as stop,
    ):
        algo.train(gyms(), 30, runs=1)
    assert (stop.value.history.data.stopped_at >= 0).all()


class Unsound(gym.Env):
    """Shows NaN in step ``breaks``, or at the beginning of its second episode, of ten steps."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, breaks=None, starts=True):
        self.breaks, self.starts, self.t = breaks, starts, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0.5 if self.starts or self.t == 0 else np.nan]), {}

    def step(self, action):
        self.t += 1
        seen = np.nan if self.t == self.breaks else self.np_random.uniform()
        return np.array([seen]), 1.0, self.t % 10 == 0, False, {}


@pytest.mark.parametrize(("options", "step"), [({"breaks": 7}, 6), ({"starts": False}, 10)])
def test_functions_see_finite_observations_only(options, step):
    """A function that rejects NaN, as scikit-learn's do, would end the training of all agents."""

    def strict(x):
        if not np.isfinite(x).all():
            raise ValueError("Input X contains NaN.")
        return np.hstack([x, 1 - x]) / 2

    worlds = [fs.GymWorld(Unsound), fs.GymWorld(Unsound, **options), fs.GymWorld(Unsound)]
    algo = fs.FedSARSA(strict, fs.EpsilonGreedy(0.1), 0.1, 5)
    with pytest.warns(RuntimeWarning, match=rf"agent 1 of run 0 stopped at step {step}: .*got \[nan\]"):
        history = algo.train(fs.GymFleet(worlds, processes=0), 40, runs=1)
    assert history.data.stopped_at.values.tolist() == [[-1, step, -1]]
    assert history.data.steps.sum("bin").values.tolist() == [[40, step, 40]]


def test_functions_see_large_observations():
    """Squares of such numbers overflow; the numbers are finite."""

    class Large(Unsound):
        observation_space = gym.spaces.Box(0.0, 1e200, (1,), np.float64)

        def step(self, action):
            return np.array([1e200]), *super().step(action)[1:]

    seen = []

    def features(x):
        seen.append(x.max())
        return np.hstack([x / 1e200, 1 - x / 1e200]) / 2

    algo = fs.FedSARSA(features, fs.EpsilonGreedy(0.1), 0.1, 5)
    history = algo.train(fs.GymFleet([fs.GymWorld(Large)] * 2, processes=0), 20, runs=1)
    assert max(seen) == 1e200
    assert history.data.steps.sum("bin").values.tolist() == [[20, 20]]


def test_only_compiled_functions_enter_compiled_engines():
    with pytest.raises(ValueError, match=r"layer must be a function compiled by numba\.njit"):
        fs.FedSARSA(layer, fs.Softmax(1.0)).train(carts(), 10)


def test_other_limits_of_functions():
    with pytest.raises(ValueError, match="actions must be GridActions with features of your own"):
        fs.FedSARSA(layer, actions=fs.RandomActions(3)).train(fs.control.fleet("Pendulum", 2), 10)
    with pytest.raises(ValueError, match="initial_value must be 0 with features of your own"):
        fs.FedSARSA(compiled, initial_value=1.0).train(carts(), 10)
    with pytest.raises(TypeError, match="features must be OneHot"):
        fs.FedSARSA(fs.OneHot)
    with pytest.raises(TypeError, match="function must map observations"):
        fs.FunctionFeatures(3)


def test_checkpoints_know_a_function_by_its_values():
    group = gyms()
    algo, other = (fs.FedSARSA(lambda x, s=s: layer(x) * s, fs.Softmax(1.0)) for s in (1.0, 0.5))
    from fedsarsa.federation import checkpoint

    marks = [
        checkpoint.fingerprint(one.problem(group, 10, 1, 0), "gym", np.zeros(12), 1)
        for one in (algo, fs.FedSARSA(lambda x: layer(x), fs.Softmax(1.0)), other)
    ]
    assert marks[0] == marks[1] != marks[2]
