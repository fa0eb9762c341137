"""Random fleets and algorithms for the theory's tests, extreme ones among them."""

import numpy as np
from hypothesis import strategies as st

import fedsarsa as fs


def random_kernel(rng, states, actions, sharpness, kind):
    """Rows from near-deterministic (sharpness 1e-3) to nearly uniform (1e2)."""
    shape = (states,) if kind == "shift" else (actions, states)
    rows = rng.dirichlet(np.full(states, sharpness), size=shape) + 1e-12
    rows /= rows.sum(axis=-1, keepdims=True)
    return rows


def random_fleet(rng, agents, states, actions, *, sharpness, scale, discount, apart, kind):
    """Worlds that are mixtures of one nominal world (1 - apart) and one of their own (apart)."""
    kernels = [random_kernel(rng, states, actions, sharpness, kind) for _ in range(agents + 1)]
    rewards = scale * rng.uniform(-1, 1, size=(agents + 1, states, actions))
    worlds = []
    for i in range(agents):
        rows = (1 - apart) * kernels[0] + apart * kernels[i + 1]
        reward = (1 - apart) * rewards[0] + apart * rewards[i + 1]
        kernel = fs.ShiftKernel(rows, actions) if kind == "shift" else rows
        worlds.append(fs.FiniteMDP(kernel, reward, discount))
    return fs.Fleet(worlds)


def random_features(rng, states, actions, kind):
    if kind == "one-hot":
        return fs.OneHot()
    if kind == "modulo":
        return fs.ModuloFeatures(max(1, states // 2), max(1, actions // 2))
    dim = int(rng.integers(1, states * actions + 2))  # one more than pairs: never all visited
    return fs.TabularFeatures(rng.normal(size=(states, actions, dim)), normalise=True)


def random_policy(rng, states, actions, kind, scale):
    if kind == "softmax":
        return fs.Softmax(scale * 10.0 ** rng.uniform(-1, 9))
    if kind == "one action":
        return fs.FixedPolicy(0)
    if kind == "fixed":
        return fs.FixedPolicy(rng.dirichlet(np.ones(actions), size=states))
    ties = ("share", "first")[rng.integers(2)]
    return fs.Greedy(ties) if kind == "greedy" else fs.EpsilonGreedy(0.3, ties)


@st.composite
def settings_of_theory(draw, policies=("softmax", "fixed", "one action", "greedy", "eps-greedy")):
    """(fleet, algorithm, generator): everything that the theory's functions take."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    agents, states, actions = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    scale = 10.0 ** draw(st.sampled_from([-6, -1, 0, 1, 6]))
    fleet = random_fleet(
        rng,
        agents,
        states,
        actions,
        sharpness=10.0 ** draw(st.sampled_from([-3, -1, 0, 1, 2])),
        scale=scale,
        discount=draw(st.sampled_from([0.01, 0.2, 0.9, 0.999])),
        apart=draw(st.sampled_from([0.0, 1e-9, 1e-3, 0.1, 1.0])),
        kind=draw(st.sampled_from(["dense", "shift"])),
    )
    algo = fs.FedSARSA(
        features=random_features(rng, states, actions, draw(st.sampled_from(["one-hot", "modulo", "dense"]))),
        policy=random_policy(rng, states, actions, draw(st.sampled_from(policies)), scale),
        step_size=draw(st.sampled_from([0.1, 1e-4, fs.LinearDecay(0.1, 1e6)])),
        sync_every=draw(st.sampled_from([1, 10, None])),
        radius=draw(st.sampled_from([None, 100 * scale])),
    )
    return fleet, algo, rng
