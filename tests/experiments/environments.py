"""Gymnasium environments for tests: ``id = "tests.experiments.environments:Blind-v0"``."""

import gymnasium as gym
import numpy as np


class Blind(gym.Env):
    """Episodes of five steps, without pictures; if it ``breaks``, with them, but no steps while filmed."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    action_space = gym.spaces.Discrete(2)

    def __init__(self, numbers=1, breaks=None, render_mode=None):
        self.observation_space = gym.spaces.Box(0.0, 1.0, (numbers,))
        self.breaks, self.render_mode, self.t = breaks, render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.breaks == "step" and self.render_mode:
            raise KeyError("the cable came off")
        return np.zeros(self.observation_space.shape, np.float32), 1.0, self.t == 5, False, {}

    def render(self):
        return np.zeros((8, 8, 3), np.uint8) if self.breaks == "step" else None


gym.register("Blind-v0", Blind, disable_env_checker=True)
