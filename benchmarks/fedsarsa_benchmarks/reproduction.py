"""How long the paper takes: the whole reproduction, a first look, and what a sweep adds to bare trainings."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import fedsarsa as fs
from fedsarsa.experiments import grid, sweep
from fedsarsa_benchmarks.measuring import Result, at_most, seconds

SIZES = [1, 2, 5, 10, 20, 40]
POLL = 0.5  # seconds between two looks at memory


def measure(quick: bool = False) -> Iterator[Result]:
    """Time and memory of ``fedsarsa reproduce``, and the overhead of sweeps."""
    yield _overhead(1 if quick else 3)
    for name, options, limit in (("a first look", ["--quick"], 10.0), ("the whole reproduction", [], 60.0)):
        if options or not quick:
            taken, memory = _reproduce(options)
            yield at_most(f"{name}, figures and report", taken, " s", limit)
            yield at_most(f"memory of all its processes, {name}", memory, " GiB", 2)


def _overhead(repeats: int) -> Result:
    """A sweep over fleet sizes against the same trainings, one after the other, on fleets built before."""
    axes = {"fleet.agents": SIZES, "training.seed": [0, 1, 2]}
    cells = grid.build({"training": {"record_every": 10}}, axes, Path(), "benchmark")
    algo = fs.FedSARSA()
    fleets = {agents: fs.paper.fleet(agents) for agents in SIZES}

    def bare() -> None:
        for cell in cells.cells:
            algo.train(fleets[cell.config.fleet.agents], seed=cell.config.training.seed, record_every=10)

    def swept() -> None:
        with TemporaryDirectory() as folder, sweep.opened(cells, Path(folder)) as work:
            sweep.run(work, lambda _, history: history.final)

    bare()
    taken, alone = seconds(swept, repeats), seconds(bare, repeats)
    what = "a sweep of 18 cells, fleets and files included / its bare trainings"
    return at_most(what, taken / alone, "", 1.1)


def _reproduce(options: list[str]) -> tuple[float, float]:
    """Seconds, and the largest memory of all processes together in GiB (Linux)."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fedsarsa", "reproduce", *options, "--out", folder]
        quiet = subprocess.DEVNULL
        begun, largest = time.perf_counter(), 0.0
        with subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True) as child:
            while child.poll() is None:
                largest = max(largest, _memory(child.pid))
                time.sleep(POLL)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with exit code {child.returncode}")
        return time.perf_counter() - begun, largest


def _memory(session: int) -> float:
    """Memory of all processes of a session in GiB, what they share counted once."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(place.name)) == session:
                lines = (place / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:  # it ended meanwhile
            continue
    return total / 2**20
