"""How fast control worlds train, beside the same algorithm in Python over Gymnasium."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import fedsarsa as fs
from fedsarsa_benchmarks.measuring import Result, at_least, at_most, per_step, seconds

AGENTS, SYNC_EVERY = 16, 1000
SETTINGS = {"CartPole": ("CartPole-v1", [2, 4, 8, 8]), "MountainCar": ("MountainCar-v0", [8, 8])}


def algorithm(bins: list[int], bounds: object = None) -> fs.FedSARSA:
    """Eight tilings, epsilon-greedy."""
    features = fs.TileCoding(8, bins, bounds)  # type: ignore[arg-type]
    return fs.FedSARSA(features, fs.EpsilonGreedy(0.01), 0.3, SYNC_EVERY)


def compiled(name: str, steps: int, runs: int = 4) -> float:
    """Seconds per agent-step of the cpu engine on two threads."""
    fleet, algo = fs.control.fleet(name, AGENTS, spread=0.2), algorithm(SETTINGS[name][1])

    def train(length: int) -> None:
        algo.train(fleet, length, runs, engine="cpu", threads=2, record_every=10**9)

    return per_step(train, steps, AGENTS * runs, 5)


def in_python(name: str, steps: int) -> float:
    """Seconds per agent-step of the plain loop over Gymnasium."""
    from fedsarsa_benchmarks import plain_gymnasium

    low, high = fs.control.WORLDS[name]().bounds
    id_, bins = SETTINGS[name]
    return per_step(lambda length: plain_gymnasium.train(id_, 4, length, low, high, bins), steps, 4, 3)


LAYER = np.random.default_rng(0).normal(size=(4, 16)) / 4


def layer(observations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Features of one's own: a frozen layer of a small network."""
    return np.maximum(observations @ LAYER, 0.0)


def overhead(steps: int, agents: int = AGENTS, own: bool = False) -> float:
    """What training adds to stepping as many carts in turn, as a share of it; resets count for neither.

    With tile coding, or with an ``own`` function for features.
    """
    import gymnasium as gym

    fleet = fs.GymFleet([fs.GymWorld("CartPole-v1")] * agents)
    algo = algorithm(SETTINGS["CartPole"][1], fs.control.CartPole().bounds)
    if own:
        algo = replace(algo, features=fs.FunctionFeatures(layer), step_size=0.1)
    algo.train(fleet, 10, runs=1)
    episodes = 0

    def train() -> None:
        nonlocal episodes
        episodes = int(algo.train(fleet, steps, runs=1).data.episodes.sum())

    carts = [gym.make("CartPole-v1") for _ in range(agents)]

    def begin() -> None:
        for cart in carts:
            cart.reset()

    def play() -> None:
        begin()
        for k in range(8):  # too few for the pole to fall
            for cart in carts:
                cart.step(k % 2)

    begin()
    total = seconds(train, 5)
    loops = max(20, steps // 8)
    reset = seconds(begin, loops) / agents
    step = (seconds(play, loops) / agents - reset) / 8
    return (total - episodes * reset) / (steps * agents * step) - 1


def vector(vectored: bool, steps: int) -> float:
    """Seconds per agent-step of 64 carts of Gymnasium."""
    fleet = fs.GymFleet([fs.GymWorld("CartPole-v1")] * 64, processes=0, vector=vectored)
    algo = algorithm(SETTINGS["CartPole"][1], fs.control.CartPole().bounds)
    return per_step(lambda length: algo.train(fleet, length, runs=1), steps, 64, 3)


def measure(quick: bool = False) -> Iterator[Result]:
    """Every number of the control worlds, in order."""
    scale = 10 if quick else 1
    for name in SETTINGS:
        fast, slow = compiled(name, 50_000 // scale), in_python(name, 2_000 // scale)
        yield Result(f"{name}, plain Python over Gymnasium", f"{slow * 1e9:,.0f} ns per agent-step")
        yield at_most(f"{name}, eight tilings, 2 threads, N = 16", fast * 1e9, " ns per agent-step", 120)
        yield at_least(f"{name}, plain Python / cpu engine", slow / fast, "x", 100)
    alone = compiled("CartPole", 50_000 // scale, runs=1)
    yield Result("CartPole, the same with one run", f"{alone * 1e9:.3g} ns per agent-step")
    for agents in (1, 4):
        share = overhead(20_000 // scale // agents, agents)
        yield Result(f"GymWorld, overhead / stepping the carts, N = {agents}", f"{100 * share:.0f} %")
    share = overhead(5_000 // scale)
    yield at_most("GymWorld, overhead / stepping the carts, N = 16", 100 * share, "%", 30)
    share = overhead(5_000 // scale, own=True)
    yield at_most("GymWorld, the same with a function for features", 100 * share, "%", 30)
    one, many = (vector(vectored, 2_000 // scale) for vectored in (False, True))
    yield Result("GymWorld, 64 carts one by one / as a vector environment", f"{one / many:.2g} x")
