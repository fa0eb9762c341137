"""FedSARSA over Gymnasium as one would write it in an afternoon: the loop that users compare with."""

from collections.abc import Sequence

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray


def train(
    name: str,
    agents: int,
    steps: int,
    low: Sequence[float],
    high: Sequence[float],
    bins: Sequence[int],
    tilings: int = 8,
    eps: float = 0.01,
    step_size: float = 0.3,
    discount: float = 0.99,
    sync_every: int = 1000,
) -> NDArray[np.float64]:
    """Tile coding and epsilon-greedy actions with NumPy; returns the central parameter (d, A)."""
    rng = np.random.default_rng(0)
    environments = [gym.make(name) for _ in range(agents)]
    actions = int(environments[0].action_space.n)  # type: ignore[attr-defined]
    lows, scale = np.array(low), np.array(bins) / (np.array(high) - np.array(low))
    offsets = np.outer(np.arange(tilings), 2 * np.arange(len(bins)) + 1) % tilings / tilings
    counts = np.array(bins) + 1
    strides = np.concatenate([np.cumprod(counts[::-1])[-2::-1], [1]])
    first = np.arange(tilings) * int(np.prod(counts))
    weight = 1 / np.sqrt(tilings)

    def tiles(observation: NDArray[np.float32]) -> NDArray[np.int64]:
        scaled = np.clip((observation - lows) * scale, 0, bins)
        return np.asarray(first + np.floor(scaled + offsets).astype(int) @ strides)

    def choose(values: NDArray[np.float64]) -> int:
        if rng.random() < eps:
            return int(rng.integers(actions))
        return int(rng.choice(np.flatnonzero(values == values.max())))

    theta = np.zeros((agents, tilings * int(np.prod(counts)), actions))
    active = [tiles(env.reset(seed=i)[0]) for i, env in enumerate(environments)]
    held = [choose(weight * theta[i, active[i]].sum(axis=0)) for i in range(agents)]
    for t in range(steps):
        for i, env in enumerate(environments):
            seen, reward, terminated, truncated, _ = env.step(held[i])
            target, onward, action = float(reward), tiles(seen), 0
            if not terminated:
                values = weight * theta[i, onward].sum(axis=0)
                action = choose(values)
                target += discount * values[action]
            error = target - weight * theta[i, active[i], held[i]].sum()
            theta[i, active[i], held[i]] += step_size * error * weight
            if terminated or truncated:
                onward = tiles(env.reset()[0])
                action = choose(weight * theta[i, onward].sum(axis=0))
            active[i], held[i] = onward, action
        if (t + 1) % sync_every == 0:
            theta[:] = theta.mean(axis=0)
    for env in environments:
        env.close()
    return np.asarray(theta.mean(axis=0))
