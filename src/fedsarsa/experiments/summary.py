"""A sweep in a few numbers per cell: a table to read and a CSV file to go on with."""

import csv
import io
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import xarray as xr
from rich.table import Column, Table

from fedsarsa import _files
from fedsarsa.experiments.grid import Cell, label
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.federation.history import History

ERROR, RETURN = "final error", "late return"
MEANING = {
    ERROR: "final error: squared distance of the central parameter to where agent 0 would settle alone "
    "(its fixed point; a long run's average for policies that jump), nan where that is nowhere",
    RETURN: "late return: mean return of the training episodes that ended in the last tenth of the steps, "
    "over agents and runs",
}


def outcome(sweep: Sweep) -> Callable[[Cell, History], xr.DataArray]:
    """What a training led to, (run,): its late return where there are episodes, else its final error.

    Named by which of the two it is. Failed runs are NaN, as are errors where there is no reference.
    """

    def measure(cell: Cell, history: History) -> xr.DataArray:
        if "episodes" in history.data:
            found = history.late_return().mean("agent").where(history.failed_at < 0).rename(RETURN)
        else:
            theta = reference(cell.config, sweep.grid.folder)
            where = math.nan if theta is None else theta
            found = ((history.final - where) ** 2).sum("d", skipna=False).rename(ERROR)
        return found.assign_attrs(failed=int((history.failed_at >= 0).sum()))

    return measure


def rows(sweep: Sweep, outcomes: Sequence[xr.DataArray]) -> list[list[str]]:
    """The names of columns, then a row per cell: values, mean outcome with 95% margin, failed runs, file."""
    measured = [name for name in MEANING if any(one.name == name for one in outcomes)]
    columns = [column for name in measured for column in (name, "95% +-")]
    names = [*sweep.grid.names, *columns, "failed runs", "file"]
    table = [names]
    for cell, found in zip(sweep.grid.cells, outcomes, strict=True):
        mean, margin = (float(x) for x in mean_and_margin(found))
        numbers = [(f"{mean:.6g}", f"{margin:.2g}") if found.name == name else ("", "") for name in measured]
        values = [label(value) for value in cell.values.values()]
        failed, file = found.attrs["failed"], sweep.store.path(cell.number)
        table.append([*values, *itertools.chain(*numbers), str(failed), file.name])
    return table


def table(rows: Sequence[Sequence[str]]) -> Table:
    """The rows as a table for the terminal."""
    names, *content = rows
    caption = "\n".join(meaning for name, meaning in MEANING.items() if name in names)
    result = Table(*(Column(name, justify="right") for name in names), caption=caption)
    for row in content:
        result.add_row(*row)
    return result


def write(rows: Sequence[Sequence[str]], folder: Path) -> Path:
    """Write the rows to ``summary.csv`` in ``folder``."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = folder / "summary.csv"
    _files.write_text(text.getvalue(), path)
    return path
