"""Small random worlds for tests, and their features."""

import numpy as np

import fedsarsa as fs


def kernel_of(kind, rng, states, actions, sparse=False):
    """A random kernel, ``dense`` or ``shift``; ``sparse`` ones have many zeros."""
    shape = (states, states) if kind == "shift" else (actions, states, states)
    rows = rng.random(shape)
    if sparse:
        rows = np.where(rng.random(shape) < 0.5, 0.0, rows)
        rows[..., 0] += 0.1
    rows /= rows.sum(axis=-1, keepdims=True)
    return fs.ShiftKernel(rows, actions) if kind == "shift" else rows


def world(rng, states=5, actions=3, kind="dense", reward_axes=2, discount=0.6, sparse=False):
    shape = (states, actions, states)[:reward_axes]
    return fs.FiniteMDP(kernel_of(kind, rng, states, actions, sparse), rng.normal(size=shape), discount)


def fleet(seed=0, agents=3, **options):
    rng = np.random.default_rng(seed)
    return fs.Fleet(world(rng, **options) for _ in range(agents))


def every_kind(registry, *known):
    """Features for tests over a registry: ``known`` ones, and with their defaults those of any other kind."""
    return [*known, *(kind() for kind in registry.values() if not any(type(one) is kind for one in known))]


def dense_features(seed, states, actions, dim):
    table = np.random.default_rng(seed).normal(size=(states, actions, dim))
    return fs.TabularFeatures(table, normalise=True)


def dense(features, inputs, action):
    """phi(x, a), (d,); in a finite world x is the state's number."""
    phi = np.zeros(features.dim)
    index, value = features.active(inputs, action)
    phi[index] = value
    return phi
