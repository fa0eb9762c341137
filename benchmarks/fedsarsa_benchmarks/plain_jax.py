"""What a user would write in JAX: the published setting with vmap over runs and agents, and scan over rounds.

It draws by cumulative sums and random numbers of JAX, in float32, and returns central parameters alone.
"""

from functools import partial
from typing import Any

import numpy as np

import fedsarsa as fs

CLASSES, TEMPERATURE, DISCOUNT, SIZE, EVERY = 5, 100.0, 0.2, 0.01, 10


def trainer(fleet: fs.Fleet, runs: int, rounds: int) -> Any:
    """A function of no arguments that trains ``runs`` federations for ``rounds`` rounds, and waits."""
    import jax
    import jax.numpy as jnp

    worlds = [world.kernel.rows for world in fleet]
    cumulative = jnp.asarray(np.cumsum(np.stack(worlds), axis=-1), jnp.float32)
    rewards = jnp.asarray(np.stack([world.reward for world in fleet]), jnp.float32)
    agents, states = len(fleet), fleet.states

    def step(carry: Any, key: Any, world: Any) -> Any:
        s, a, theta = carry
        move, choose, pick = jax.random.uniform(key, (3,))
        drawn = jnp.searchsorted(cumulative[world, s], move)
        s_next = (jnp.minimum(drawn, states - 1) + a) % states
        values = theta[s_next % CLASSES]
        sums = jnp.cumsum(jax.nn.softmax(values / TEMPERATURE))
        group = jnp.minimum(jnp.sum(sums <= choose * sums[-1]), CLASSES - 1)
        a_next = group + CLASSES * jnp.int32(pick * (fleet.actions // CLASSES))
        error = rewards[world, s] + DISCOUNT * values[group] - theta[s % CLASSES, a % CLASSES]
        return (s_next, a_next, theta.at[s % CLASSES, a % CLASSES].add(SIZE * error))

    def local_steps(key: Any, world: Any, s: Any, a: Any, theta: Any) -> Any:
        keys = jax.random.split(key, EVERY)
        return jax.lax.scan(lambda carry, one: (step(carry, one, world), None), (s, a, theta), keys)[0]

    over_agents = jax.vmap(local_steps, in_axes=(0, 0, 0, 0, None))
    over_runs = jax.vmap(over_agents, in_axes=(0, None, 0, 0, 0))

    def a_round(carry: Any, key: Any) -> Any:
        s, a, central = carry
        keys = jax.random.split(key, (runs, agents))
        s, a, theta = over_runs(keys, jnp.arange(agents), s, a, central)
        central = theta.mean(axis=1)
        return (s, a, central), central

    @partial(jax.jit, static_argnums=1)
    def train(key: Any, rounds: int) -> Any:
        nothing = jnp.zeros((runs, agents), jnp.int32)
        start = (nothing, nothing, jnp.zeros((runs, CLASSES, CLASSES)))
        return jax.lax.scan(a_round, start, jax.random.split(key, rounds))[1][-1]

    return lambda: train(jax.random.key(0), rounds).block_until_ready()
