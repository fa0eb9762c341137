"""A control world as a Gymnasium environment; this file alone of the control worlds needs Gymnasium."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.worlds._gymnasium import gymnasium as gym
from fedsarsa.worlds.control.world import OBSERVATION, STATE, ControlWorld, pack


class ControlEnvironment(gym.Env[Floats, Any]):
    """The physics of ``world`` behind Gymnasium's interface; Gymnasium's own environment draws it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, world: ControlWorld, render_mode: str | None = None) -> None:
        if render_mode not in {None, "rgb_array"}:
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        if render_mode is not None and world.gymnasium_id is None:
            raise ValueError(f"render_mode must be None for {world.label}, which has no picture")
        self.world = world
        self.render_mode = render_mode
        low, high = (np.array(side) for side in world.space)
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float64)
        if world.action_count is None:
            assert world.action_bounds is not None
            self.action_space = gym.spaces.Box(*world.action_bounds, shape=(1,), dtype=np.float64)
        else:
            self.action_space = gym.spaces.Discrete(world.action_count)
        self.physics = pack([world])[0]
        self.state = np.zeros(STATE)
        self.elapsed = 0
        self.canvas: Any = None
        self.last_action: float | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, Any]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self.world.reset(self.physics, self.state, *self.np_random.random(4).tolist())
        self.elapsed, self.last_action = 0, None
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """One step; the episode is truncated at the world's time limit."""
        if not self.action_space.contains(action):
            raise ValueError(f"action must be in {self.action_space}, got {action!r}")
        self.last_action = float(np.asarray(action).reshape(-1)[0])
        draw = float(self.np_random.random())
        reward, terminated = self.world.step(self.physics, self.state, self.last_action, draw)
        self.elapsed += 1
        truncated = self.elapsed >= self.world.time_limit and not terminated
        return self._seen(), float(reward), bool(terminated), truncated, {}

    def _seen(self) -> Floats:
        seen = np.zeros(OBSERVATION)
        self.world.observe(self.physics, self.state, seen)
        return seen[: self.observation_space.shape[0]]  # type: ignore[index]

    def render(self) -> NDArray[np.uint8] | None:
        """A picture of the present state, (height, width, 3)."""
        if self.render_mode is None:
            return None
        if self.canvas is None:
            assert self.world.gymnasium_id is not None
            self.canvas = gym.make(self.world.gymnasium_id, render_mode="rgb_array").unwrapped
            self.canvas.reset()
            self.world.paint(self.canvas)
        self.canvas.state = self.state[: self.world.state_size].copy()
        return self.world.draw(self.canvas, self.last_action)

    def close(self) -> None:
        """Free what draws."""
        if self.canvas is not None:
            self.canvas.close()
            self.canvas = None
