"""How fast training is: ratios measured in one run, beside a plain NumPy loop of the same algorithm."""

import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial

import numpy as np

import fedsarsa as fs
from fedsarsa.engines import build
from fedsarsa.federation.state import first_state
from fedsarsa_benchmarks import plain_numpy
from fedsarsa_benchmarks.measuring import Result, at_least, at_most, per_step, seconds


def cost(fleet: fs.Fleet, steps: int, runs: int, threads: int = 2, features: object = None) -> float:
    """Nanoseconds per agent-step of the cpu engine in the published setting."""
    algo = fs.FedSARSA(features=features) if features is not None else fs.FedSARSA()  # type: ignore[arg-type]

    def train(length: int) -> object:
        return algo.train(fleet, length, runs, engine="cpu", threads=threads)

    return per_step(train, steps, runs * len(fleet)) * 1e9


def advance_cost(agents: int, runs: int, repeats: int = 400) -> float:
    """Nanoseconds per agent-step of the cpu engine's rounds alone, on one thread, in the published setting.

    Short spans are timed often, and the shortest counts: that is steady on machines that others use, too.
    What a call costs beside its rounds is the same for two lengths, and is subtracted.
    """
    problem = fs.FedSARSA().problem(fs.paper.fleet(agents), 10**9, runs, 0)
    engine, state = build("cpu", problem, 1), first_state(problem, np.zeros(problem.features.dim))
    engine.start(state)
    long = max(3, 3000 // (agents * runs)) * 10
    engine.advance(state, long)
    little, much = (seconds(partial(engine.advance, state, length), repeats) for length in (10, long))
    return (much - little) / ((long - 10) * agents * runs) * 1e9


def callback_cost(steps: int, record_every: int = 10, repeats: int = 15) -> float:
    """What a callback that does nothing adds to a training's processor time, with K = 10 and ten runs."""
    fleet, algo, times = fs.paper.fleet(20), fs.FedSARSA(), ([], [])  # type: ignore[var-annotated]
    for _ in range(repeats):  # in turn: what disturbs the one disturbs the other
        for callback, taken in zip((None, lambda _: None), times, strict=True):
            begun = time.process_time()
            algo.train(fleet, steps, 10, threads=2, record_every=record_every, callback=callback)
            taken.append(time.process_time() - begun)
    without, told = map(min, times)
    return float(told / without - 1)


def measure(quick: bool = False) -> Iterator[Result]:
    """Every number of the foundation, in order."""
    scale = 10 if quick else 1
    fleet = fs.paper.fleet(20)

    loop = per_step(partial(plain_numpy.train, fleet), 200 // scale, len(fleet), repeats=3) * 1e9
    both = cost(fleet, 20_000 // scale, 20)
    one = cost(fleet, 20_000 // scale, 20, threads=1)
    yield Result("plain NumPy loop", f"{loop:,.0f} ns per agent-step")
    yield Result("cpu engine, 2 threads", f"{both:,.1f} ns per agent-step")
    yield at_least("plain loop / cpu engine, N = 20, twenty runs", loop / both, "x", 2500)
    yield at_least("one thread / two threads", one / both, "x", 1.7)
    rounds = advance_cost(20, 20)
    yield at_most("rounds alone, one thread, N = 20, twenty runs", rounds, " ns per agent-step", 25)
    for runs in (10, 1):
        alone = advance_cost(1, runs) / rounds
        yield at_most(f"cost at N = 1 with {runs} run(s) / N = 20 with twenty", alone, "x", 2)

    worlds = fs.paper.fleet(100)
    large = fs.Fleet(worlds[i % 100] for i in range(10_000))
    yield at_most("cost at N = 10 000 (100 worlds) / N = 20", cost(large, 400 // scale, 2) / both, "x", 1.5)
    ten = cost(fleet, 20_000 // scale, 10)
    thousand = cost(fleet, 400 // scale, 1000)
    yield at_most("cost of 1000 federations / 10 federations", thousand / ten, "x", 1.2)

    table = np.random.default_rng(0).normal(size=(100, 100, 25))
    dense = cost(fleet, 400 // scale, 20, threads=1, features=fs.TabularFeatures(table, normalise=True))
    yield at_most("dense features, d = 25, one thread", dense / 1000, " us per agent-step", 2)

    share = callback_cost(200_000 // scale)
    yield at_most("a callback that does nothing, a record every 100 steps", 100 * share, " %", 1)
    share = callback_cost(20_000 // scale, record_every=1)
    yield at_most("the same with a record every 10 steps", 100 * share, " %", 1)

    begun = time.perf_counter()
    _child("fs.FedSARSA().train(fs.paper.fleet(20), steps=10, runs=1)")
    yield at_most("a second process, import to first round", time.perf_counter() - begun, " s", 3)
    yield at_most("memory, sweep of 36 cells x 78 agents", _child(SWEEP), " GiB", 1)
    yield at_most("memory, 100 000 agents that share 100 worlds", _child(CROWD), " GiB", 1)


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
