"""Predicted error curves of many cells, in processes of their own, stored like the cells themselves."""

import warnings
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import numpy as np
import xarray as xr

from fedsarsa import _netcdf, theory
from fedsarsa.experiments.config import finite
from fedsarsa.experiments.grid import Cell
from fedsarsa.experiments.method_sections import ours
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.store import Store

KIND = "prediction"


def predict(cell: Cell, folder: Path, path: Path) -> xr.Dataset:
    """Store at ``path`` what to expect of a cell.

    ``predicted`` (t,) is the error at the times that its training records, ``predicted_final`` the last.
    """
    config = cell.config
    fleet = finite(config.fleet.build(folder))
    with warnings.catch_warnings(action="ignore"):  # the reader of a figure sees how good a prediction is
        prediction = theory.predict(
            fleet, ours(cell.algorithm, "a prediction"), config.training.steps, reference(config, folder)
        )
    times = slice(None, None, config.training.record_every)
    final = prediction.mse.isel(t=-1, drop=True)
    found = xr.Dataset({"predicted": prediction.mse.isel(t=times), "predicted_final": final})
    _netcdf.write(found.assign_attrs(fedsarsa_file=KIND), path)
    return found


class Predictions:
    """Predictions under way for the cells of one grid."""

    def __init__(self, pool: ProcessPoolExecutor, store: Store, cells: Iterable[Cell], folder: Path) -> None:
        self.stored: dict[int, xr.Dataset] = {}
        self.coming: dict[int, Future[xr.Dataset]] = {}
        for cell in sorted(cells, key=lambda cell: -cell.work):
            known = store.get(cell.number, lambda path: _netcdf.read(path, KIND, ("predicted",)))
            if known is not None:
                self.stored[cell.number] = known
            else:
                self.coming[cell.number] = pool.submit(predict, cell, folder, store.path(cell.number))

    def beside(self, errors: list[xr.DataArray]) -> list[xr.Dataset]:
        """The prediction for every cell, NaN for cells without one; ``errors`` (run, t) give the times."""
        results = []
        for number, error in enumerate(errors):
            if number in self.coming:
                found = self.coming[number].result()
            elif number in self.stored:
                found = self.stored[number].drop_attrs()
            else:
                nothing = xr.full_like(error.isel(run=0, drop=True), np.nan)
                found = xr.Dataset({"predicted": nothing, "predicted_final": nothing.isel(t=-1, drop=True)})
            results.append(found)
        return results
