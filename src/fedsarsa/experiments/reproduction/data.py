"""All trainings and predictions behind the paper's figures and claims, as one labelled dataset."""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedsarsa import _files, theory
from fedsarsa._version import __version__
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments import store, sweep
from fedsarsa.experiments.grid import Cell, Grid
from fedsarsa.experiments.predictions import Predictions
from fedsarsa.experiments.progress_bars import sweep_bar
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.reproduction import further, settings
from fedsarsa.experiments.reproduction.panels import figures
from fedsarsa.experiments.reproduction.settings import Scale
from fedsarsa.experiments.statistics import floor
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.federation.history import History
from fedsarsa.worlds import paper

PREDICTED = ("sarsa", "td", "tabular", "period", "symmetric")
PERSONAL = 1.0  # level of heterogeneity at which personalisation and returns are looked at
DERIVED = ("personalisation", "returns", "agents")  # parts that look at trainings of the sweep sarsa


def compute(
    out: Path,
    scale: Scale,
    seed: int,
    parts: Collection[str],
    pool: ProcessPoolExecutor,
    say: Callable[[str], None],
) -> dict[str, xr.Dataset]:
    """Train and predict what ``parts`` need and is not in ``out`` yet.

    A part is a sweep of ``settings.sweeps``, with ``error`` (..., run, t) to the reference, ``final``
    (..., run, d), ``final_error`` (..., run), ``late`` (..., run, d), the mean parameter over the last
    quarter, and, where there is one, ``predicted`` (..., t); or one of ``DERIVED``.
    """
    algo = FedSARSA()
    nominal = theory.fixed_point(paper.nominal(seed), algo.features, algo.policy)
    grids = settings.sweeps(scale, seed, float(np.linalg.norm(nominal)))
    derived = set(DERIVED) & set(parts)
    wanted = [name for name in grids if name in parts or (name == "sarsa" and derived)]
    found: dict[str, xr.Dataset] = {}
    with ExitStack() as stack:
        sweeps: dict[str, Sweep] = {}
        coming: dict[str, Predictions] = {}
        for name in wanted:
            sweeps[name] = stack.enter_context(sweep.opened(grids[name], out / "cells" / name, say))
        for name in (name for name in wanted if name in PREDICTED):
            kept = store.opened(out / "predictions" / name, grids[name].identity(), say)
            shown = predicted_cells(name, grids[name], scale)
            coming[name] = Predictions(pool, stack.enter_context(kept), shown, grids[name].folder)
        report = stack.enter_context(sweep_bar(*sweeps.values()))
        measured = {name: sweep.run(work, _measure, report=report) for name, work in sweeps.items()}
        for name, work in sweeps.items():
            found[name] = _dataset(work.grid, measured[name], coming.get(name))
    if "agents" in derived:
        found["agents"] = further.every_agent(found["sarsa"], nominal, scale.team, seed).to_dataset(
            name="error"
        )
    if derived - {"agents"}:
        fleet = paper.fleet(scale.team, PERSONAL, PERSONAL, seed)
        trained = found["sarsa"]["final"].sel(eps_p=PERSONAL, eps_r=PERSONAL, agents=scale.team).values
        found["personalisation"] = further.personalisation(fleet, trained, seed).to_dataset(name="error")
        found["returns"] = further.returns(fleet, trained[0]).to_dataset(name="discounted_return")
    return found


def _measure(cell: Cell, history: History) -> xr.Dataset:
    theta = reference(cell.config, Path())
    assert theta is not None  # the published worlds have fixed points
    distance = ((history.final - theta) ** 2).sum("d", skipna=False)
    measured = {
        "error": history.mse(theta),
        "final": history.final,
        "final_error": distance,
        "late": floor(history.central),
    }
    if "averaged" in history.data:
        measured["averaged"] = ((history.averaged - theta) ** 2).sum("d", skipna=False)
    return xr.Dataset(measured)


def _dataset(grid: Grid, measured: list[xr.Dataset], coming: Predictions | None) -> xr.Dataset:
    result = sweep.arrange(grid, measured)
    if coming is None:
        return result
    return result.merge(sweep.arrange(grid, coming.beside([one["error"] for one in measured])))


def predicted_cells(name: str, grid: Grid, scale: Scale) -> list[Cell]:
    """The cells whose prediction some figure shows."""
    if name in ("tabular", "period", "symmetric"):
        return grid.cells
    panels = [panel for figure in figures(scale).values() for panel in figure.panels if panel.source == name]

    def shown(cell: Cell) -> bool:
        values: dict[str, Any] = dict(zip(grid.names, cell.values.values(), strict=True))
        # Beside the symmetric fleets: the largest, both heterogeneities at the same level.
        largest = values["agents"] == scale.sizes[-1] and values["eps_p"] == values.get("eps_r")
        return largest or any(panel.held.items() <= values.items() for panel in panels)

    return [cell for cell in grid.cells if shown(cell)]


def write(data: Mapping[str, xr.Dataset], scale: Scale, seed: int, path: Path) -> None:
    """Write the datasets as groups of one netCDF file, atomically."""
    about = {
        "fedsarsa_version": __version__,
        "seed": str(seed),
        "scale": repr(scale),
        "error": "squared distance of the central parameter to the reference",
        "predicted": "mean of error, from theory",
        "late": "mean of the central parameter over the last quarter of the steps",
        "eps_p": "level of kernel heterogeneity; of both where there is no eps_r",
        "radius": "of the projection; NaN: none",
    }
    tree = xr.DataTree.from_dict({name: part.drop_encoding() for name, part in data.items()})
    tree.attrs.update(about)
    # Made in memory: HDF5 crashes where a disk is full.
    _files.write(_files.sealed(bytes(tree.to_netcdf(engine="h5netcdf"))), path)
