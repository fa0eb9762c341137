"""FedSARSA as one would write it in an afternoon: the loop that users compare with."""

import numpy as np
from numpy.typing import NDArray

import fedsarsa as fs


def train(fleet: fs.Fleet, steps: int, sync_every: int = 10, step_size: float = 0.01) -> NDArray[np.float64]:
    """The published setting with NumPy's own generator; returns the central parameter (d,)."""
    rng = np.random.default_rng(0)
    states, actions, discount = fleet.states, fleet.actions, fleet.discount
    phi = np.zeros((states, actions, 25))
    for s in range(states):
        for a in range(actions):
            phi[s, a, (s % 5) * 5 + a % 5] = 1.0
    kernels = [world.kernel.matrix(0) for world in fleet]
    rewards = [world.reward for world in fleet]

    def policy(theta: NDArray[np.float64], s: int) -> NDArray[np.float64]:
        logits = phi[s] @ theta / 100.0
        weights = np.exp(logits - logits.max())
        return np.asarray(weights / weights.sum())

    theta = np.zeros((len(fleet), 25))
    state = rng.integers(states, size=len(fleet))
    action = [rng.choice(actions, p=policy(theta[i], state[i])) for i in range(len(fleet))]
    for t in range(steps):
        for i in range(len(fleet)):
            s, a = state[i], action[i]
            s_next = rng.choice(states, p=np.roll(kernels[i][s], a))
            a_next = rng.choice(actions, p=policy(theta[i], s_next))
            error = rewards[i][s] + discount * phi[s_next, a_next] @ theta[i] - phi[s, a] @ theta[i]
            theta[i] += step_size * error * phi[s, a]
            state[i], action[i] = s_next, a_next
        if (t + 1) % sync_every == 0:
            theta[:] = theta.mean(axis=0)
    return np.asarray(theta.mean(axis=0))
