"""The smallest Gymnasium environment, and what can go wrong in it."""

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs

MADE, CLOSED = [], []


class Corridor(gym.Env):
    """One state, one step an episode, reward 1; it ends by termination or by truncation."""

    def __init__(
        self, terminates=True, fails_at=None, observation=0.0, reward=1.0, wrong_at=None, no_reset_after=None
    ):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.action_space = gym.spaces.Discrete(1)
        self.terminates, self.fails_at, self.wrong_at = terminates, fails_at, wrong_at
        self.observation, self.reward, self.no_reset_after = observation, reward, no_reset_after
        self.t = 0
        MADE.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.t == self.no_reset_after:
            raise OSError("the motor is stuck")
        self.first_seed = seed if seed is not None else self.first_seed
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == self.fails_at:
            raise OSError("the cable came off")
        wrong = self.t == self.wrong_at
        observation = np.full(1, self.observation if wrong else 0.0, np.float32)
        return observation, self.reward if wrong else 1.0, self.terminates, not self.terminates, {}

    def close(self):
        CLOSED.append(self)


@pytest.fixture(autouse=True)
def every_environment_is_closed():
    MADE.clear()
    CLOSED.clear()
    yield
    assert len(CLOSED) == len(MADE)


def algorithm(**options):
    return fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 0.1, 10, **options)
