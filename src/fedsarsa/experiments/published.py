"""The published setting (Section ``sec:apx-exp``): one heterogeneous cell, all six fleet sizes."""

import time
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from fedsarsa import theory
from fedsarsa.experiments import plots
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.federation.fedsarsa import FedSARSA
from fedsarsa.worlds import paper

SIZES = (1, 2, 5, 10, 20, 40)
TAIL = 0.25  # the last part of a curve, whose mean is called its floor


@dataclass(frozen=True)
class Row:
    """What one fleet size gave: measured heterogeneity, error floor with its 95% margin, speed."""

    agents: int
    eps_p: float
    eps_r: float
    floor: float
    margin: float
    seconds: float
    nanoseconds: float


def reproduce(
    out: Path,
    eps: float = 0.1,
    steps: int = 20_000,
    runs: int = 10,
    seed: int = 0,
    progress: bool = True,
) -> list[Row]:
    """Train every fleet size at one level of heterogeneity; write the figure and the histories.

    Errors are against the exact fixed point of agent 0, the paper's agent 1.
    """
    algo = FedSARSA()
    errors: dict[str, xr.DataArray] = {}
    rows = []
    algo.train(paper.fleet(1), steps=1, runs=1)  # so that compiling is not counted below
    for agents in SIZES:
        fleet = paper.fleet(agents, eps, eps, seed)
        begun = time.perf_counter()
        history = algo.train(fleet, steps, runs, seed, progress=progress)
        seconds = time.perf_counter() - begun
        history.save(out / f"agents-{agents}.nc")
        error = history.mse(theory.fixed_point(fleet[0], algo.features, algo.policy))
        errors[f"N = {agents}"] = error
        tail = error.sel(t=slice((1 - TAIL) * steps, None)).mean("t")
        floor, margin = mean_and_margin(tail)
        rows.append(
            Row(
                agents=agents,
                eps_p=fleet.eps_p,
                eps_r=fleet.eps_r,
                floor=float(floor),
                margin=float(margin),
                seconds=seconds,
                nanoseconds=seconds / (agents * steps * runs) * 1e9,
            )
        )
    title = rf"FedSARSA, $\epsilon_p = \epsilon_r = {eps:g}$, mean of {runs} runs with 95% bands"
    plots.save(plots.error_curves(errors, title), out, "published")
    return rows
