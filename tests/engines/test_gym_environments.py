"""Environments in processes, and what they share: randomness, failures, the time of a step."""

import os
import random
import threading
import time

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.engines import gym_environments


class Ring(gym.Env):
    """Episodes of five steps, reward 1, always the same observation."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault=None):
        self.fault, self.t = fault, 0

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.array([0.5]), {}

    def step(self, action):
        self.t += 1
        return np.array([0.5]), 1.0, self.t == 5, False, {}


def train(worlds, processes):
    algo = fs.FedSARSA(fs.TileCoding(1, 2), fs.FixedPolicy(0), 1.0, 10)
    return algo.train(fs.GymFleet(worlds, 0.5, processes=processes), 40, runs=1)


class Common(Ring):
    """Rewards from the random states that all of a process share."""

    def step(self, action):
        seen, _, *rest = super().step(action)
        return seen, np.random.random() if self.fault else random.random(), *rest  # noqa: NPY002


@pytest.mark.parametrize("of_numpy", [True, False])
def test_processes_have_random_states_of_their_own(of_numpy):
    totals = []
    for seed in (0, 0, 1):
        np.random.seed(seed)  # noqa: NPY002
        totals += train([fs.GymWorld(Common, fault=of_numpy)] * 2, 2).data.returns.sum("bin").values.tolist()
    again = totals.pop(1)
    assert totals[0] == again  # a seed of NumPy's own decides all of them
    assert len({total for run in totals for total in run}) == 4


class Locked:
    """A number that cannot be pickled."""

    def __init__(self):
        self.lock = threading.Lock()

    def __len__(self):
        return 1

    def __array__(self, *arguments, **options):
        return np.array([0.5])


class Unsendable(Ring):
    def step(self, action):
        seen, *rest = super().step(action)
        return Locked() if self.fault else seen, *rest


def test_an_answer_that_cannot_be_sent_stops_its_agent_alone():
    worlds = [fs.GymWorld(Unsendable, fault=fault) for fault in (True, False, False)]
    with pytest.warns(RuntimeWarning, match="(?s)agent 0 of run 0 stopped at step 0.*cannot pickle"):
        history = train(worlds, 1)
    assert history.data.stopped_at.values.tolist() == [[0, -1, -1]]


class Dying(Ring):
    def step(self, action):
        if self.fault:
            os._exit(3)
        return super().step(action)


def test_who_shares_a_process_that_died_is_told_so():
    worlds = [fs.GymWorld(Dying, fault=fault) for fault in (True, False, False, False)]
    with pytest.warns(RuntimeWarning, match="stopped at step 0"):
        history = train(worlds, 2)
    assert history.data.stopped_at.values.tolist() == [[0, 0, -1, -1]]
    for report in history.settings["stopped"]:
        assert report["why"] == (
            "the environment's process ended with exit code 3; any of the 2 environments in it may have done "
            "that: Dying(fault=True), Dying(fault=False)"
        )


class Unmade(Ring):
    """It is made once, in the test's process, and never again."""

    def __init__(self):
        if os.getpid() != HERE:
            os._exit(4)
        super().__init__()


HERE = os.getpid()


def test_a_process_that_dies_in_a_constructor_is_named():
    with pytest.raises(RuntimeError, match=r"made \(Unmade\):\n.*process ended with exit code 4"):
        train([fs.GymWorld(Unmade)], 1)


class Stubborn(Ring):
    """It never closes as it should."""

    def close(self):
        raise OSError("viewer already closed")


@pytest.mark.parametrize("processes", [None, 0])
def test_environments_that_do_not_close_are_timed_and_trained_in(processes):
    with pytest.warns(RuntimeWarning, match="did not close: OSError"):
        history = train([fs.GymWorld(Stubborn)] * 2, processes)
    assert float(history.final.max()) == 1.0  # the last step ended an episode, at reward 1


class Slow(Ring):
    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


@pytest.mark.parametrize("makers", [(Ring, Slow, Slow), (lambda: Ring(), lambda: Slow())])
def test_every_kind_of_environment_is_timed(makers):
    slow = gym_environments.stepper([fs.GymWorld(make) for make in makers], None, cores=2)
    assert isinstance(slow, gym_environments.Processes)
    slow.close()


def test_agents_do_not_share_an_environment():
    env = Ring()
    for make in (lambda: env, lambda: gym.wrappers.TimeLimit(env, 9)):
        with pytest.raises(ValueError, match=r"one environment for several agents from <lambda>"):
            train([fs.GymWorld(make)] * 2, 0)
    train([fs.GymWorld(lambda: env)], 0)
