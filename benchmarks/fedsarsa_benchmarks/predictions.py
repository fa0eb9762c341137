"""How far predictions hold beyond the published setting: random fleets, predicted and trained.

A prediction misses where its curve or its floor is off by more than 10% beyond three standard errors of the
mean of the trainings; it misses *silently* without a warning. Where a prediction is exact, chance alone makes
a point of its curve miss with a probability below 1e-6: 10% and three standard errors are over five of them.
"""

import statistics
import time
import warnings
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track

from fedsarsa.theory import predict
from fedsarsa_benchmarks.measuring import Result, at_most
from fedsarsa_benchmarks.random_fleets import Case, random_case

FLEETS, RUNS = 300, 400
FIRST = 90_000  # seeds of the fleets: limits of warnings were set with those below 80 000
TOLERANCE = 0.1
SETTLED = 0.02  # how near the predicted curve must come to the floor for training to show it


@dataclass(frozen=True)
class Outcome:
    """One prediction beside its trainings.

    Attributes
    ----------
    off : float
        Largest relative distance of curve or floor to the mean of trainings beyond three standard errors.
    warned : bool
        Whether the prediction carries a warning, or is refused with one.
    seconds : float
        Time that the prediction took.
    """

    case: Case
    off: float
    warned: bool
    seconds: float

    @property
    def missed(self) -> bool:
        """Whether the prediction is off by more than the tolerance."""
        return self.off > TOLERANCE


def compare(case: Case, runs: int, threads: int | None = None) -> Outcome:
    """Predict a case, train it, and compare."""
    begun = time.perf_counter()
    with warnings.catch_warnings(action="ignore"):
        try:
            prediction = predict(case.fleet, case.algo, case.steps)
        except ValueError:
            return Outcome(case, np.inf, True, time.perf_counter() - begun)
    taken = time.perf_counter() - begun
    record_every = max(1, len(prediction.mse) // 200)
    history = case.algo.train(
        case.fleet, case.steps, runs=runs, seed=case.seed, threads=threads, record_every=record_every
    )
    errors = history.mse(prediction.reference)
    off = _excess(prediction.mse.sel(t=errors.t).values, errors.values)
    if abs(float(prediction.mse[-1]) - prediction.floor) <= SETTLED * prediction.floor:
        last = errors.isel(t=slice(errors.sizes["t"] * 3 // 4, None)).mean("t").values
        off = max(off, _excess(np.array([prediction.floor]), last[:, None]))
    return Outcome(case, off, bool(prediction.warnings), taken)


def _excess(predicted: np.ndarray, errors: np.ndarray) -> float:
    """Largest relative distance of a prediction (n,) to the mean of ``errors`` (runs, n), less 3 errors."""
    mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / len(errors) ** 0.5
    return float(((np.abs(predicted - mean) - 3 * deviation) / mean).max())


def measure(quick: bool = False) -> list[Result]:
    """Silent misses, warnings and time of predictions for random fleets."""
    count, runs = (20, 100) if quick else (FLEETS, RUNS)
    console, outcomes = Console(stderr=True), []
    for seed in track(range(FIRST, FIRST + count), "Random fleets", console=console):
        one = compare(random_case(seed, runs), runs)
        outcomes.append(one)
        # A run that is stopped early has told what it found.
        noted = "warned" if one.warned else "no warning"
        console.print(f"seed {seed}: off by {one.off:.1%}, {noted}, {one.seconds:.2f} s")
    silent = [one for one in outcomes if one.missed and not one.warned]
    for one in silent:
        print(f"silent miss, off by {one.off:.0%}, seed {one.case.seed}: {one.case.description}")
    warned = sum(one.warned for one in outcomes)
    right = sum(one.warned and not one.missed for one in outcomes)
    what = f"predictions of {count} random fleets"
    return [
        at_most(f"{what}: off by 10% without a warning", 100 * len(silent) / count, " %", 1),
        at_most(f"{what}: warned ({right} of them within 10%)", 100 * warned / count, " %", 15),
        at_most(f"{what}: median time", statistics.median(one.seconds for one in outcomes), " s", 1),
    ]
