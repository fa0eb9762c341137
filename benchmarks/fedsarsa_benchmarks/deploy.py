"""What real federations cost beyond learning: our part of a Flower round beside Flower's, and Ray's."""

import io
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.experiments import grid
from fedsarsa.experiments import sweep as sweeps
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks.measuring import Result, at_least, at_most, median_seconds, seconds

SWEEP = """
[fleet]
agents = {agents}
[training]
steps = 200_000
runs = 10
record_every = 100
[sweep]
training.seed = {seeds}
"""


def measure(quick: bool = False) -> Iterator[Result]:
    """Flower on loopback with three agents; Ray with two actors, and a sweep on it."""
    if find_spec("flwr"):
        yield from _flower(4 if quick else 10)
    if find_spec("ray"):
        with _two_cores():
            yield _ray_round(20 if quick else 200)
            yield _ray_sweep(20 if quick else 100)


def _flower(rounds: int) -> Iterator[Result]:
    """Rounds of the demo; the first one, in which processes warm up, is left out."""
    from fedsarsa.deploy import demo, ledger

    with tempfile.TemporaryDirectory(prefix="fedsarsa-") as folder:
        home = Path(folder) / "home"
        with redirect_stdout(io.StringIO()):
            demo.run(rounds, home)
        lines = [line for line in ledger.read(home / "server") if line["round"] > 1]
    own = statistics.median(line["server_seconds"] + line["bridge_seconds"] for line in lines)
    whole = statistics.median(line["seconds"] for line in lines)
    what = "Flower, 3 agents: our part of a round (bridge, agent, server, polling)"
    yield at_most(what, 1e3 * own, " ms", 50)
    yield Result("Flower, 3 agents: Flower's part of a round", f"{1e3 * (whole - own):,.0f} ms")


@contextmanager
def _two_cores() -> Iterator[None]:
    """A Ray of two cores on this machine."""
    from fedsarsa._ray import connect, ray

    connect("local", cores=2)
    try:
        yield
    finally:
        ray.shutdown()


def _ray_round(rounds: int) -> Result:
    """A round of 64 agents on two actors, less the time that one actor's agents need by themselves."""
    every, fleet, algo = 1000, fs.paper.fleet(64), fs.FedSARSA(sync_every=1000)
    steps = rounds * every
    alone = algo.problem(fleet[:32], steps, runs=1, seed=0)
    both = algo.problem(fleet, steps, runs=1, seed=0)

    def per_round(name: str, problem: Problem, threads: int) -> float:
        state = first_state(problem, np.zeros(25))
        with closing(engines.build(name, problem, threads)) as engine:
            engine.start(state)
            engine.advance(state, every)  # compiled and awake
            return median_seconds(lambda: engine.advance(state, every), repeats=rounds - 1)

    over = per_round("ray", both, 2) - per_round("cpu", alone, 1)
    return at_most("Ray, 2 actors, 64 agents, K = 1000: a round beyond its compute", 1e3 * over, " ms", 10)


def _ray_sweep(cells: int) -> Result:
    """Cells on two cores of a Ray, beside the time that the cells need one after another."""
    from fedsarsa.experiments import cluster

    with tempfile.TemporaryDirectory(prefix="fedsarsa-") as folder:
        path = Path(folder) / "sweep.toml"
        path.write_text(SWEEP.format(agents=20, seeds=[0, 1]))
        cell = grid.load(path).cells[0]
        one = seconds(lambda: cluster._train(cell, Path(folder), fs.__version__), repeats=3)
        with sweeps.opened(grid.load(path), Path(folder) / "warm") as work:
            cluster.train(work, "local")  # workers are awake
        path.write_text(SWEEP.format(agents=20, seeds=list(range(cells))))
        with sweeps.opened(grid.load(path), Path(folder) / "out") as work:
            begun = time.perf_counter()
            cluster.train(work, "local")
            took = time.perf_counter() - begun
    what = f"Ray, sweep of {cells} cells: share of two cores at work, once workers are awake"
    return at_least(what, 100 * cells * one / (2 * took), " %", 90)
