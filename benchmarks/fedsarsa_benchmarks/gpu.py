"""How fast training on a GPU is, beside the processors of the same machine and beside JAX on the same GPU."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.engines.compiled import span_of
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks import plain_jax
from fedsarsa_benchmarks.measuring import Result, at_least, at_most, seconds

STEPS = 20_000
LEVELS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
SIZES = (1, 2, 5, 10, 20, 40)
WANTED = {"float64": (30.0, 4e10), "float32": (15.0, 8e10)}  # ms of the sweep, agent-steps a second
START = """
import time, fedsarsa as fs
begun = time.perf_counter()
fs.FedSARSA().train(fs.paper.fleet(20), 1000, runs=10, engine="cuda")
print(time.perf_counter() - begun)
"""


@contextmanager
def kernel_times() -> Iterator[list[float]]:
    """The seconds that each kernel launched in this context takes on the GPU."""
    from numba import cuda

    from fedsarsa.engines.cuda_device import DeviceKernel

    device: Any = cuda
    kind: Any = DeviceKernel
    times: list[float] = []
    launch = kind.launch

    def timed(self: Any, *arguments: Any) -> None:
        begun, ended = device.event(), device.event()
        begun.record()
        launch(self, *arguments)
        ended.record()
        ended.synchronize()
        times.append(device.event_elapsed_time(begun, ended) / 1e3)

    kind.launch = timed
    try:
        yield times
    finally:
        kind.launch = launch


def sweep(precision: str, steps: int) -> tuple[float, float, int]:
    """Kernel and wall seconds of the paper's sweep, all cells side by side, and its agent-steps."""
    from fedsarsa.engines.cuda_batch import Batch

    problems = [
        replace(
            fs.FedSARSA().problem(fs.paper.fleet(agents, eps_p=p, eps_r=r, seed=0), steps, 10, 0),
            precision=precision,
        )
        for agents in SIZES
        for p, r in itertools.product(LEVELS, LEVELS)
    ]
    batch = Batch(problems)
    found = []
    for _ in range(3):
        states = [first_state(problem, np.zeros(batch.dim)) for problem in problems]
        batch.start(states)
        begun = time.perf_counter()
        with kernel_times() as times:
            batch.train(states, span_of(problems[0], 0, steps))
        found.append((sum(times), time.perf_counter() - begun))
    kernel, wall = min(found)
    return kernel, wall, sum(problem.agents * problem.runs for problem in problems) * steps


def saturated(precision: str, runs: int, steps: int) -> float:
    """Agent-steps a second of kernels alone, twenty agents a run, K = 10."""
    algo, fleet = fs.FedSARSA(), fs.paper.fleet(20)
    train = partial(algo.train, fleet, steps, runs, engine="cuda", record_every=50, precision=precision)
    train()
    with kernel_times() as times:
        train()
    return runs * 20 * steps / sum(times)


def cars(agents: int, steps: int) -> float:
    """Agent-steps a second of mountain cars with eight tilings, K = 1000, kernels alone."""
    algo = fs.FedSARSA(fs.TileCoding(8, 8), fs.EpsilonGreedy(0.01), 0.3, sync_every=1000)
    train = partial(algo.train, fs.control.fleet("MountainCar", agents), runs=1, engine="cuda")
    train(1000)
    with kernel_times() as times:
        train(steps)
    return agents * steps / sum(times)


def measure(quick: bool = False) -> list[Result]:
    """Every number of the GPU, in order; one line that says why, where there is none."""
    missing = engines.ENGINES["cuda"].missing
    if missing is not None:
        return [Result("GPU", missing)]
    scale = 10 if quick else 1
    steps, runs, results = STEPS // scale, 64_000 // scale, []
    for precision, (limit, rate) in WANTED.items():
        kernel, wall, work = sweep(precision, steps)
        what = f"the paper's sweep, {work:.2g} agent-steps, {precision}: "
        results += [
            at_most(what + "kernel", kernel * 1e3, " ms", limit / scale),
            Result(what + "with transfers", f"{wall * 1e3:,.4g} ms"),
            at_least(
                f"{runs * 20:,} agents, {precision}", saturated(precision, runs, 1000), " steps/s", rate
            ),
        ]
    if find_spec("jax") is not None:
        train = plain_jax.trainer(fs.paper.fleet(20), runs // 10, 100)
        train()
        jax = runs // 10 * 20 * 1000 / seconds(train, 3)
        results.append(Result(f"JAX, {runs * 2:,} agents, float32", f"{jax:,.4g} steps/s"))
        results.append(
            at_least("cuda, float64, over JAX", saturated("float64", runs // 10, 1000) / jax, " x", 8)
        )
    one = fs.Fleet(list(fs.paper.fleet(100, eps_p=0.1, eps_r=0.1)) * (10_000 // scale))
    begun = time.perf_counter()
    fs.FedSARSA().train(one, steps, runs=1, engine="cuda", record_every=10)
    results.append(at_most(f"{len(one):,} agents, K = 10, wall", time.perf_counter() - begun, " s", 2.0))
    cars_rate = cars(20_000 // scale, 2000)
    results.append(at_least("mountain cars, eight tilings", cars_rate, " steps/s", 5e9))
    begin = float(subprocess.run([sys.executable, "-c", START], capture_output=True, check=True).stdout)
    results.append(at_most("first result in a second process", begin, " s", 5.0))
    return results
