"""A sweep in a few numbers per cell: a table to read and a CSV file to go on with."""

import csv
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import xarray as xr
from rich.table import Table

from fedsarsa import _files
from fedsarsa.experiments.grid import Cell, label
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.federation.history import History


def final_error(sweep: Sweep) -> Callable[[Cell, History], xr.DataArray]:
    """Squared distance of the final central parameter to the reference, (run,); NaN where there is none."""

    def measure(cell: Cell, history: History) -> xr.DataArray:
        theta = reference(cell.config, sweep.grid.folder)
        where = math.nan if theta is None else theta
        error: xr.DataArray = ((history.final - where) ** 2).sum("d", skipna=False)
        return error.assign_attrs(failed=int((history.failed_at >= 0).sum()))

    return measure


def rows(sweep: Sweep, errors: Sequence[xr.DataArray]) -> tuple[list[str], list[list[str]]]:
    """Column names, and a row per cell: its values, mean final error with 95% margin, failed runs, file."""
    names = [*sweep.grid.names, "final error", "95% +-", "failed runs", "file"]
    table = []
    for cell, error in zip(sweep.grid.cells, errors, strict=True):
        mean, margin = (float(x) for x in mean_and_margin(error))
        values = [label(value) for value in cell.values.values()]
        failed, file = error.attrs["failed"], sweep.store.path(cell.number)
        table.append([*values, f"{mean:.6g}", f"{margin:.2g}", str(failed), file.name])
    return names, table


def table(sweep: Sweep, errors: Sequence[xr.DataArray]) -> Table:
    """The rows as a table for the terminal."""
    names, content = rows(sweep, errors)
    result = Table(
        caption="final error: squared distance of the central parameter to where agent 0 would settle alone "
        "(its fixed point; a long run's average for policies that jump), nan where that is nowhere"
    )
    for name in names:
        result.add_column(name, justify="right")
    for row in content:
        result.add_row(*row)
    return result


def write(sweep: Sweep, errors: Sequence[xr.DataArray]) -> Path:
    """Write the rows to ``summary.csv`` in the sweep's folder."""
    names, content = rows(sweep, errors)
    text = io.StringIO()
    csv.writer(text).writerows([names, *content])
    path = sweep.store.folder / "summary.csv"
    _files.write_text(text.getvalue(), path)
    return path
