"""Training in Gymnasium environments: learning, episodes, processes."""

import signal

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.engines import gym_environments
from tests.engines.corridors import MADE, Corridor, algorithm, every_environment_is_closed  # noqa: F401


def test_termination_and_truncation_have_different_fixed_points():
    # A step is worth 1 if it ends the world, 1 / (1 - discount) if it only ends the episode.
    values = []
    for terminates in (True, False):
        fleet = fs.GymFleet([fs.GymWorld(Corridor, terminates=terminates)] * 2, discount=0.5)
        history = algorithm().train(fleet, 400, runs=1)
        values.append(float(history.final.max()))
        assert int(history.data.episodes.sum()) == 800
    assert values == pytest.approx([1.0, 2.0], abs=1e-6)


class Walk(gym.Env):
    """Places in a fixed order, the first one twice; the end is a termination or a truncation."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(1)
    places, rewards = (0, 1, 0, 2, 3), (1.0, -2.0, 4.0, 8.0)

    def __init__(self, terminates):
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.places[0], {}

    def step(self, action):
        self.t += 1
        over = self.t == len(self.rewards)
        ends = over and self.terminates, over and not self.terminates
        return self.places[self.t], self.rewards[self.t - 1], *ends, {}


def slow_sarsa(terminates, trace_decay, traces, discount=0.9, step_size=0.3, episodes=2):
    """The values of the places after some walks."""
    values = [0.0] * 4
    for _ in range(episodes):
        trace = [0.0] * 4
        for t, reward in enumerate(Walk.rewards):
            here, ahead = Walk.places[t], Walk.places[t + 1]
            over = terminates and t + 1 == len(Walk.rewards)
            error = reward + (0.0 if over else discount * values[ahead]) - values[here]
            trace = [discount * trace_decay * one for one in trace]
            trace[here] = 1.0 if traces == "replacing" else trace[here] + 1.0
            values = [value + step_size * error * one for value, one in zip(values, trace, strict=True)]
    return values


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize("traces", ["accumulating", "replacing"])
@pytest.mark.parametrize("trace_decay", [0.5, 1.0])
def test_traces_end_with_the_episode(trace_decay, traces, terminates):
    fleet = fs.GymFleet([fs.GymWorld(Walk, terminates=terminates)], discount=0.9, processes=0)
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(), 0.3, None, trace_decay=trace_decay, traces=traces)
    history = algo.train(fleet, 8, runs=1)
    assert history.data.episodes.sum() == 2
    expected = slow_sarsa(terminates, trace_decay, traces)
    np.testing.assert_allclose(history.final[0, :4], expected, rtol=0, atol=1e-12)


def test_seeds_depend_on_seed_run_and_agent():
    fleet = fs.GymFleet([fs.GymWorld(Corridor)] * 2, processes=0)
    algorithm().train(fleet, 3, runs=2, seed=1)
    algorithm().train(fleet, 3, runs=2, seed=1)
    algorithm().train(fleet, 3, runs=1, seed=2)
    seeds = [env.first_seed for env in MADE[2:]]  # one showed its spaces, one its reward
    assert seeds[:4] == seeds[4:8]
    assert len(set(seeds[:4])) == 4
    assert not set(seeds[8:]) & set(seeds[:4])


def cart(**options):
    return fs.control.CartPole(**options).to_gymnasium()


BOUNDS = fs.control.CartPole().bounds


def test_processes_give_the_same_training():
    algo = fs.FedSARSA(fs.TileCoding(4, 3, bounds=BOUNDS), fs.EpsilonGreedy(0.1), 0.2, 20, trace_decay=0.5)
    worlds = [fs.GymWorld(cart, length=length) for length in (0.4, 0.5, 0.6)]
    here, there = (algo.train(fs.GymFleet(worlds, processes=processes), 300, runs=2) for processes in (0, 2))
    assert there.data.equals(here.data)
    assert here.data.episodes.sum() > 10


def test_slow_environments_get_processes(monkeypatch):
    import time

    class Slow(Corridor):
        def step(self, action):
            time.sleep(0.001)
            return super().step(action)

    slow = gym_environments.stepper([fs.GymWorld(Slow)] * 4, None, cores=2)
    assert isinstance(slow, gym_environments.Processes)
    assert len(slow.children) == 2
    slow.close()
    quick = gym_environments.stepper([fs.GymWorld(Corridor)] * 4, None, cores=2)
    assert isinstance(quick, gym_environments.InProcess)
    quick.close()


def test_one_hot_features_of_discrete_observations():
    fleet = fs.GymFleet([fs.GymWorld("FrozenLake-v1", is_slippery=False)] * 2, discount=0.9)
    history = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.3), 0.3, 10, initial_value=0.5).train(
        fleet, 3000, runs=1
    )
    late = (
        history.data.returns.isel(bin=slice(100, None)).sum()
        / history.data.episodes.isel(bin=slice(100, None)).sum()
    )
    assert late > 0.2  # a random walk reaches the goal in about 1 of 70 episodes


class Target(gym.Env):
    """One step an episode: the nearer the action is to 0.5, the better."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), -abs(float(action[0]) - 0.5), True, False, {}


def test_continuous_actions_are_learned():
    fleet = fs.GymFleet([fs.GymWorld(Target)] * 2, processes=0)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy("uniform"), 1.0, 1, actions=fs.GridActions(5))
    history = algo.train(fleet, 60, runs=1)
    # Every action was tried: its value is its reward, at the one tile that is seen.
    np.testing.assert_allclose(history.final[0, :5], [-1.5, -1.0, -0.5, 0.0, -0.5], atol=1e-6)
    assert (fs.rollouts(fleet, algo, history.final[0], 3).mean_return == 0).all()
    algo = fs.FedSARSA(fs.TileCoding(8, 8), fs.EpsilonGreedy(0.2), 0.2, 10, actions=fs.RandomActions(32))
    history = algo.train(fleet, 2000, runs=1)
    # The nearest of 32 draws is 0.03 away in the mean; without choice it would be 0.625.
    assert (fs.rollouts(fleet, algo, history.final[0], 50).mean_return > -0.1).all()


def test_engines_and_worlds_must_fit():
    with pytest.raises(ValueError, match=r"engine 'cpu' does not train a GymFleet, got .*; use gym"):
        algorithm().train(fs.GymFleet([fs.GymWorld(Corridor)]), 10, engine="cpu")
    with pytest.raises(ValueError, match="engine 'ray' does not train a GymFleet"):
        algorithm().train(fs.GymFleet([fs.GymWorld(Corridor)]), 10, engine="ray")
    with pytest.raises(ValueError, match="engine 'gym' does not train a ControlFleet"):
        algorithm().train(fs.control.fleet("CartPole", 1), 10, engine="gym")
    with pytest.raises(ValueError, match=r"observations \[1, 3\] have no bounds"):
        algorithm().train(fs.GymFleet([fs.GymWorld("CartPole-v1")]), 10)


class Changing(gym.Env):
    """The reward is the action, which it halves in place afterwards."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = float(action[0])
        action *= 0.5
        return np.zeros(1, np.float32), reward, True, False, {}


@pytest.mark.parametrize("processes", [0, 1])
def test_environments_may_change_the_action_they_get(processes):
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy(1), 0.5, 10, actions=fs.GridActions(2))
    fleet = fs.GymFleet([fs.GymWorld(Changing)], 0.5, processes=processes)
    history = algo.train(fleet, 20, runs=1)
    assert float(history.data.returns.sum()) == 20.0
    assert (fs.rollouts(fleet, algo, history.final[0], episodes=5).returns == 1.0).all()


def test_environments_that_are_slow_can_be_interrupted(tmp_path):
    """A look at the keyboard comes after the first step, whatever a step costs."""

    class Pressed(Corridor):
        def step(self, action):
            if self.t == 0 and pressing:
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    path, pressing = tmp_path / "checkpoint.nc", []
    fleet = fs.GymFleet([fs.GymWorld(Pressed)], 0.5, processes=0)
    pressing.append(True)
    with pytest.raises(KeyboardInterrupt, match="interrupted after 1 of 5000 steps"):
        algorithm().train(fleet, 5000, runs=1, checkpoint=path)
    assert path.exists()
