"""How fast training on a GPU is, beside the processors of the same machine and beside JAX on the same GPU."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa._numba import SIMULATED
from fedsarsa.engines.compiled import available_cores, span_of
from fedsarsa.experiments import sweep as sweeps
from fedsarsa.experiments.reproduction import settings
from fedsarsa.federation.problem import PRECISIONS, Problem
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks import plain_jax
from fedsarsa_benchmarks.measuring import Result, at_least, at_most, seconds

STEPS = 20_000
LEVELS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
SIZES = (1, 2, 5, 10, 20, 40)
RUNS = 64_000  # of twenty agents: as many as a GPU can keep busy
SHORT = 1000  # steps of these
COMPARED = 2500  # runs of twenty agents: 1e9 agent-steps
AGENTS, CARS = 1_000_000, 100_000
WANTED = {"float64": (30.0, 4e10), "float32": (15.0, 8e10)}  # ms of the sweep, agent-steps a second
# Of an agent-step of the published setting in float64: docs/gpu.md.
INSTRUCTIONS = 310
SCHEDULERS = 4  # of a multiprocessor; each issues an instruction of a warp a cycle
START = """
import time, fedsarsa as fs
begun = time.perf_counter()
fs.FedSARSA().train(fs.paper.fleet(20), 1000, runs=10, engine="cuda")
print(time.perf_counter() - begun)
"""
STALLS = "ncu --set full fedsarsa bench --gpu --quick"


class Launch(NamedTuple):
    """A kernel that ran: threads and shared memory of its blocks, its seconds, and bytes of arrays then."""

    kernel: Any
    threads: int
    shared: int
    seconds: float
    memory: int


@contextmanager
def noted() -> Iterator[list[Launch]]:
    """The kernels launched in this context."""
    from numba import cuda

    from fedsarsa.engines import cuda_device

    device: Any = cuda
    kind: Any = cuda_device.DeviceKernel
    launches: list[Launch] = []
    launch = kind.launch

    def timed(self: Any, blocks: int, threads: int, shared: int, *arguments: Any) -> None:
        begun, ended = device.event(), device.event()
        begun.record()
        launch(self, blocks, threads, shared, *arguments)
        ended.record()
        ended.synchronize()
        taken = begun.elapsed_time(ended) / 1e3
        launches.append(Launch(self, threads, shared, taken, cuda_device.own_memory()))

    kind.launch = timed
    try:
        yield launches
    finally:
        kind.launch = launch


def total(launches: Sequence[Launch]) -> float:
    """The seconds of all kernels."""
    return sum(one.seconds for one in launches)


def paper_sweep(steps: int) -> Iterator[Result]:
    """The paper's sweep, all cells side by side on the GPU, and one after another on the processors."""
    from fedsarsa.engines.cuda_batch import Batch

    problems = [
        fs.FedSARSA().problem(fs.paper.fleet(agents, eps_p=p, eps_r=r, seed=0), steps, 10, 0)
        for agents in SIZES
        for p, r in itertools.product(LEVELS, LEVELS)
    ]
    work = sum(problem.agents * problem.runs for problem in problems) * steps
    what = f"the paper's sweep, {work:.2g} agent-steps, "
    for precision, (limit, _) in WANTED.items():
        own = [replace(problem, precision=precision) for problem in problems]
        batch, found = Batch(own), []
        for _ in range(3):
            states = [first_state(problem, np.zeros(batch.dim)) for problem in own]
            batch.start(states)
            begun = time.perf_counter()
            with noted() as launches:
                batch.train(states, span_of(own[0], 0, steps))
            found.append((total(launches), time.perf_counter() - begun))
        kernel, wall = min(found)
        yield at_most(f"{what}{precision}: kernel", kernel * 1e3, " ms", limit * steps / STEPS)
        yield Result(f"{what}{precision}: with transfers", f"{wall * 1e3:,.4g} ms")
    begun = time.perf_counter()
    for problem in problems:
        on_processors(problem)
    wall = time.perf_counter() - begun
    yield Result(f"{what}cpu engine, {available_cores()} cores", f"{wall * 1e3:,.4g} ms")


def on_processors(problem: Problem) -> None:
    """Train by the cpu engine, without a history."""
    with closing(engines.build("cpu", problem)) as engine:
        state = first_state(problem, np.zeros(problem.features.dim))
        engine.start(state)
        engine.advance(state, problem.steps)


def many_agents(runs: int) -> Iterator[Result]:
    """Agent-steps a second of ``runs`` federations of twenty agents, K = 10; kernels alone on the GPU."""
    algo, fleet = fs.FedSARSA(), fs.paper.fleet(20)

    def rate(runs: int, precision: str) -> tuple[float, Sequence[Launch]]:
        train = partial(algo.train, fleet, SHORT, runs, engine="cuda", record_every=50, precision=precision)
        train()
        with noted() as launches:
            train()
        return runs * 20 * SHORT / total(launches), launches

    for precision in PRECISIONS:
        measured, launches = rate(runs, precision)
        yield at_least(f"{runs * 20:,} agents, {precision}", measured, " steps/s", WANTED[precision][1])
        if precision == PRECISIONS[0]:
            yield from facts(launches, measured)
    few = max(1, runs // 10)
    known = {f"cuda, {precision}": rate(few, precision)[0] for precision in PRECISIONS}
    problem = algo.problem(fleet, SHORT, few, 0)
    on_processors(replace(problem, steps=10))
    known[f"cpu engine, {available_cores()} cores"] = (
        few * 20 * SHORT / seconds(partial(on_processors, problem), 3)
    )
    if find_spec("jax") is not None:
        train = plain_jax.trainer(fleet, few, SHORT // 10)
        train()
        known["JAX, float32"] = few * 20 * SHORT / seconds(train, 3)
    yield from [Result(f"{few * 20:,} agents, {name}", f"{one:,.4g} steps/s") for name, one in known.items()]
    if "JAX, float32" in known:
        over = known["cuda, float64"] / known["JAX, float32"]
        yield at_least("cuda, float64, over JAX", over, " x", 8)


def runs_that_differ(runs: int) -> Result:
    """In how many runs of the published setting, with twenty agents, parameters are not those of the cpu."""
    algo, fleet = fs.FedSARSA(), fs.paper.fleet(20, eps_p=0.5, eps_r=0.5)
    one, other = (
        algo.train(fleet, STEPS, runs, engine=engine, record_every=STEPS).final.values
        for engine in ("cuda", "cpu")
    )
    differ = int((one != other).any(axis=1).sum())
    return Result(
        f"{20 * runs * STEPS:.2g} agent-steps, runs with other numbers than cpu", f"{differ} of {runs}"
    )


def facts(launches: Sequence[Launch], rate: float) -> list[Result]:
    """What a multiprocessor runs of the slowest kernel at a time, and the share of its limit that this is."""
    if SIMULATED:
        return []
    from numba import cuda

    from fedsarsa.engines.cuda_device import limits
    from fedsarsa.engines.cuda_layout import WARP, at_once

    one, device = max(launches, key=lambda launch: launch.seconds), cuda.get_current_device()
    known = one.kernel.kernel.attributes
    registers, spilled = known.num_regs, known.local_size_bytes
    shared = known.shared_size_bytes + one.shared
    warps = at_once(limits(), shared, registers, one.threads) * -(-one.threads // WARP)
    slots = device.MULTIPROCESSOR_COUNT * SCHEDULERS * device.CLOCK_RATE * 1e3
    most = limits().threads // WARP
    return [
        Result("its kernel: registers and local memory of a thread", f"{registers}, {spilled} bytes"),
        Result("its kernel: threads and shared memory of a block", f"{one.threads}, {shared:,} bytes"),
        Result(
            "its kernel: warps at a time (theoretical occupancy)", f"{warps} of {most}, {warps / most:.0%}"
        ),
        Result(
            f"its kernel: share of the instructions that can be issued, {INSTRUCTIONS} an agent-step",
            f"{rate * INSTRUCTIONS / WARP / slots:.0%}",
        ),
        Result("its kernel: what it waits for", STALLS),
    ]


def reproduction(scale: settings.Scale) -> Result:
    """All sweeps of ``fedsarsa reproduce``, worlds and files included."""
    grids = settings.sweeps(scale, 0, 1.0, "cuda")
    work = sum(cell.work for one in grids.values() for cell in one.cells)
    with TemporaryDirectory() as folder:
        begun = time.perf_counter()
        for name, one in grids.items():
            with sweeps.opened(one, Path(folder) / name) as opened:
                sweeps.run(opened, lambda *_: None)
        wall = time.perf_counter() - begun
    return at_most(f"sweeps of reproduce, {work:.2g} agent-steps, wall", wall, " s", 1.0)


def one_federation(agents: int, steps: int) -> Iterator[Result]:
    """One federation of agents in a hundred worlds, K = 10: its time, and the memory of its arrays."""
    fleet = fs.Fleet(list(fs.paper.fleet(100, eps_p=0.1, eps_r=0.1)) * (agents // 100))
    train = partial(fs.FedSARSA().train, fleet, runs=1, engine="cuda", record_every=10)
    with noted() as launches:
        train(20)
    begun = time.perf_counter()
    train(steps)
    wall, memory = time.perf_counter() - begun, max(one.memory for one in launches)
    yield at_most(f"{agents:,} agents, K = 10, wall", wall, " s", 2.0)
    yield at_most(f"{agents:,} agents, d = 25, memory of arrays", memory / 2**30, " GiB", 4.0)


def cars(agents: int, steps: int) -> Result:
    """Mountain cars with eight tilings, K = 1000, kernels alone."""
    algo = fs.FedSARSA(fs.TileCoding(8, 8), fs.EpsilonGreedy(0.01), 0.3, sync_every=1000)
    train = partial(algo.train, fs.control.fleet("MountainCar", agents), runs=1, engine="cuda")
    train(steps // 2)
    with noted() as launches:
        train(steps)
    return at_least(
        f"{agents:,} mountain cars, eight tilings, K = 1000",
        agents * steps / total(launches),
        " steps/s",
        5e9,
    )


def measure(quick: bool = False) -> Iterator[Result]:
    """Every number of the GPU, in order; one line that says why, where there is none."""
    missing = engines.ENGINES["cuda"].missing
    if missing is not None:
        yield Result("GPU", missing)
        return
    scale = 10 if quick else 1
    for _ in range(2):  # the first process compiles
        first = subprocess.run([sys.executable, "-c", START], capture_output=True, check=True, text=True)
    yield at_most("first result in a second process", float(first.stdout), " s", 5.0)
    yield from paper_sweep(STEPS // scale)
    yield from many_agents(RUNS // scale)
    yield from one_federation(AGENTS // scale, STEPS // scale)
    yield cars(CARS // scale, 2 * SHORT)
    yield runs_that_differ(COMPARED // scale)
    yield reproduction(settings.QUICK if quick else settings.FULL)
