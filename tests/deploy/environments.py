"""A Gymnasium environment for tests: ``id = "tests.deploy.environments:Motor-v0"``."""

from pathlib import Path

import gymnasium as gym
import numpy as np


class Motor(gym.Env):
    """Counts its steps, ten to an episode; it fails, and cannot be made, while the file ``broken`` exists."""

    made = closed = 0

    def __init__(self, width=1.0, broken="no such file"):
        self.observation_space = gym.spaces.Box(0.0, width, (1,))
        self.action_space = gym.spaces.Discrete(2)
        self.broken, self.count, self.total = Path(broken), 0, 0
        if self.broken.exists():
            raise RuntimeError("the port is taken")
        Motor.made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        if self.broken.exists():
            raise OSError("the cable came off")
        self.count += 1
        self.total += 1
        return np.full(1, self.count / 20, np.float32), 1.0 + action, False, self.count == 10, {}

    def close(self):
        Motor.closed += 1


gym.register("Motor-v0", Motor)
