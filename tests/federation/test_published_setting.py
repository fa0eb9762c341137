"""The published temperature and step size are for the paper's worlds; elsewhere training says so, once."""

import logging

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import published_setting


class Endless(gym.Env):
    """Its episodes end when they do."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), 1.0, False, False, {}


TILES = fs.TileCoding(2, 2)
CARTS = fs.control.fleet("CartPole", 2)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(published_setting, "_said", set())


def said(caplog, algo, fleet, times=1):
    caplog.clear()
    with caplog.at_level(logging.WARNING, "fedsarsa"):
        for _ in range(times):
            algo.train(fleet, steps=10, runs=1)
    return [record.getMessage() for record in caplog.records]


def test_carts_get_better_numbers_once(caplog):
    temperature, step_size = said(caplog, fs.FedSARSA(TILES), CARTS, times=2)
    assert "temperature 100 of the policy is the published one" in temperature
    assert "may reach 100: try a temperature of 1" in temperature
    assert "try a step size of 0.3" in step_size


def test_chosen_numbers_are_not_remarked_on(caplog):
    assert said(caplog, fs.FedSARSA(TILES, fs.Softmax(1.0), 0.3), CARTS) == []
    assert said(caplog, fs.FedSARSA(TILES, fs.EpsilonGreedy(0.1), fs.LinearDecay(0.1, 100.0)), CARTS) == []


@pytest.mark.parametrize("level", [0.0, 0.5, 2.0])
def test_the_papers_worlds_are_what_they_are_for(caplog, level):
    fleet = fs.paper.fleet(3, level, level, scheme="symmetric", states=20, actions=5)
    assert said(caplog, fs.FedSARSA(), fleet) == []


def test_finite_worlds_of_another_size(caplog):
    world = fs.FiniteMDP(np.full((2, 3, 3), 1 / 3), [0.0, 0.1, 0.2], discount=0.9)
    messages = said(caplog, fs.FedSARSA(fs.OneHot()), [world])
    assert "may reach 2: try a temperature of 0.02" in messages[0]
    assert "over 10 steps" in messages[1]
    assert "try a step size of 0.08" in messages[1]


def test_environments_do_not_say_how_large_rewards_are(caplog):
    (temperature, _) = said(caplog, fs.FedSARSA(TILES), fs.GymFleet([fs.GymWorld("MountainCar-v0")]))
    assert temperature.endswith(
        "may reach 100 times the size of a reward: try a temperature of the size of a reward"
    )


def test_the_time_limit_of_environments_is_their_horizon(caplog):
    """Without discounting, values reach as far as episodes."""
    tiles = fs.TileCoding(2, 2, bounds=(-3.0, 3.0))
    fleet = fs.GymFleet.make("CartPole-v1", 2, discount=1.0, max_episode_steps=150)
    (temperature, step_size) = said(caplog, fs.FedSARSA(tiles), fleet)
    assert "may reach 150 times the size of a reward: try a temperature of 1.5 times" in temperature
    assert "over 150 steps" in step_size
    limit = {"name": "TimeLimit", "max_episode_steps": 40}
    inner = fs.GymFleet([fs.GymWorld(fs.control.CartPole().to_gymnasium, wrappers=[limit])], discount=1.0)
    assert inner[0].time_limit == 40
    endless = fs.GymFleet([fs.GymWorld(Endless)], discount=1.0)
    assert said(caplog, fs.FedSARSA(fs.TileCoding(2, 2)), endless) == []


def test_discount_has_no_default():
    with pytest.raises(TypeError, match="discount"):
        fs.FiniteMDP(np.full((2, 3, 3), 1 / 3), np.zeros(3))
