"""Timing, and numbers beside what they should be."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

REPEATS = 5


@dataclass(frozen=True)
class Result:
    """One measured number, and what it should be."""

    what: str
    measured: str
    wanted: str = ""
    met: bool = True


def at_least(what: str, value: float, unit: str, wanted: float) -> Result:
    """A number that should be large."""
    return Result(what, f"{value:,.4g}{unit}", f"at least {wanted:,.4g}{unit}", value >= wanted)


def at_most(what: str, value: float, unit: str, wanted: float) -> Result:
    """A number that should be small."""
    return Result(what, f"{value:,.4g}{unit}", f"at most {wanted:,.4g}{unit}", value <= wanted)


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest of several timings: the one least disturbed by other programs."""
    return min(_timings(work, repeats))


def per_step(train: Callable[[int], object], steps: int, agents: int, repeats: int = REPEATS) -> float:
    """Seconds per agent-step beyond the first steps: two lengths are timed and subtracted.

    Tables and threads are not part of a step; records are.
    """
    short = max(10, steps // 100 * 10)
    train(short)
    long, little = (seconds(partial(train, length), repeats) for length in (steps, short))
    return (long - little) / ((steps - short) * agents)


def median_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The median of several timings, for work whose time varies by itself."""
    return statistics.median(_timings(work, repeats))


def _timings(work: Callable[[], object], repeats: int) -> list[float]:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return times
