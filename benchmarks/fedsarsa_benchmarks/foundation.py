"""How fast training is: ratios measured in one run, beside a plain NumPy loop of the same algorithm."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

import fedsarsa as fs
from fedsarsa_benchmarks import plain_numpy

REPEATS = 5


@dataclass(frozen=True)
class Result:
    """One measured number, and what it should be."""

    what: str
    measured: str
    wanted: str
    met: bool


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of several timings: the one least disturbed by other programs."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def cost(fleet: fs.Fleet, steps: int, runs: int, threads: int = 2, features: object = None) -> float:
    """Nanoseconds per agent-step of the cpu engine in the published setting, beyond the first steps.

    Two lengths are timed and subtracted: tables and threads are not part of a step; records are.
    """
    algo = fs.FedSARSA(features=features) if features is not None else fs.FedSARSA()  # type: ignore[arg-type]

    def run(length: int) -> Callable[[], object]:
        return lambda: algo.train(fleet, length, runs, engine="cpu", threads=threads)

    short = max(10, steps // 100 * 10)
    run(short)()
    return (seconds(run(steps)) - seconds(run(short))) / ((steps - short) * runs * len(fleet)) * 1e9


def measure(quick: bool = False) -> list[Result]:
    """Every number of the foundation, in order."""
    scale = 10 if quick else 1
    fleet = fs.paper.fleet(20)
    results = []

    def compare(what: str, value: float, unit: str, wanted: float, least: bool) -> None:
        sign, met = ("at least", value >= wanted) if least else ("at most", value <= wanted)
        results.append(Result(what, f"{value:,.4g}{unit}", f"{sign} {wanted:,.4g}{unit}", met))

    loop_steps = 200 // scale
    long, short = (seconds(partial(plain_numpy.train, fleet, n), 3) for n in (loop_steps, 10))
    loop = (long - short) / ((loop_steps - 10) * len(fleet)) * 1e9
    both = cost(fleet, 20_000 // scale, 20)
    one = cost(fleet, 20_000 // scale, 20, threads=1)
    results.append(Result("plain NumPy loop", f"{loop:,.0f} ns per agent-step", "", True))
    results.append(Result("cpu engine, 2 threads", f"{both:,.1f} ns per agent-step", "", True))
    compare("plain loop / cpu engine, N = 20, twenty runs", loop / both, "x", 2500, least=True)
    compare("one thread / two threads", one / both, "x", 1.7, least=True)

    worlds = fs.paper.fleet(100)
    large = fs.Fleet(worlds[i % 100] for i in range(10_000))
    compare(
        "cost at N = 10 000 (100 worlds) / N = 20", cost(large, 400 // scale, 2) / both, "x", 1.5, least=False
    )
    ten = cost(fleet, 20_000 // scale, 10)
    thousand = cost(fleet, 400 // scale, 1000)
    compare("cost of 1000 federations / 10 federations", thousand / ten, "x", 1.2, least=False)

    table = np.random.default_rng(0).normal(size=(100, 100, 25))
    dense = cost(fleet, 400 // scale, 20, threads=1, features=fs.TabularFeatures(table, normalise=True))
    compare("dense features, d = 25, one thread", dense / 1000, " us per agent-step", 2, least=False)

    begun = time.perf_counter()
    _child("fs.FedSARSA().train(fs.paper.fleet(20), steps=10, runs=1)")
    compare("a second process, import to first round", time.perf_counter() - begun, " s", 3, least=False)
    compare("memory, sweep of 36 cells x 78 agents", _child(SWEEP), " GiB", 1, least=False)
    compare("memory, 100 000 agents that share 100 worlds", _child(CROWD), " GiB", 1, least=False)
    return results


SWEEP = """
levels, sizes = (0, .1, .2, .5, 1, 2), (1, 2, 5, 10, 20, 40)
fleets = [fs.paper.fleet(n, p, r) for p in levels for r in levels for n in sizes]
for fleet in fleets:  # all worlds stay in memory; a sweep's histories go to disk
    fs.FedSARSA().train(fleet)
"""
CROWD = """
worlds = fs.paper.fleet(100)
crowd = fs.Fleet(worlds[i % 100] for i in range(100_000))
fs.FedSARSA().train(crowd, steps=20, runs=1)
"""


def _child(code: str) -> float:
    """Run code in a process of its own; its largest resident memory in GiB."""
    ends = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    program = f"import fedsarsa as fs\n{code}\n{ends}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def report(console: Console, quick: bool = False) -> None:
    """Measure and print."""
    table = Table("what", "measured", "wanted", "met", title="fedsarsa bench")
    with console.status("measuring; keep the machine quiet"):
        results = measure(quick)
    for result in results:
        mark = ("yes" if result.met else "no") if result.wanted else ""
        table.add_row(result.what, result.measured, result.wanted, mark)
    console.print(table)
