"""A folder of results: cells of sweeps, claims and figures of a reproduction, rows of a leaderboard.

The folder is only read, and may grow meanwhile.
"""

import csv
import json
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedsarsa.experiments import grid as grids
from fedsarsa.experiments import learning_curves, summary
from fedsarsa.experiments.grid import Cell, Grid
from fedsarsa.experiments.leaderboard import tables
from fedsarsa.experiments.leaderboard.tables import Row
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.store import MANIFEST, Store
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.explore.measurements import RECORDS
from fedsarsa.federation.history import History

CLAIMS = "claims.csv"
OF_CURVES = {summary.RETURN: "return of an episode", summary.REWARD: "reward per step"}


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained cell: what it led to, and the way there.

    Attributes
    ----------
    curve : xarray.Dataset over ``t``
        ``mean`` over runs of the error, or of the return of episodes, and its 95% band ``low`` to ``high``.
    name, mean, margin : str, float, float
        Final error or late return, its mean over runs and the half-width of its 95% interval.
    """

    cell: Cell
    curve: xr.Dataset
    name: str
    mean: float
    margin: float
    failed: int


class SweepResults:
    """The cells of one sweep's folder; each is read when it is new."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[int, tuple[int, Outcome]] = {}

    @cached_property
    def grid(self) -> Grid:
        """The grid that the folder's description gives."""
        known = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        return grids.build(known["settings"], dict(known["axes"]), self.folder, str(self.folder))

    @property
    def axes(self) -> dict[str, list[str]]:
        """The values of every axis, by the axis's short name, as words."""
        values = self.grid.axes.values()
        return {
            name: [grids.label(value) for value in every]
            for name, every in zip(self.grid.names, values, strict=True)
        }

    def settings(self, cell: Cell) -> dict[str, str]:
        """A cell's value on every axis, as words."""
        values = cell.values.values()
        return {name: grids.label(value) for name, value in zip(self.grid.names, values, strict=True)}

    def path(self, cell: Cell) -> Path:
        """Where a cell's history is."""
        return Store(self.folder, lambda _: None).path(cell.number)

    def outcomes(self) -> list[Outcome]:
        """What is there now; files that are not whole are left for later."""
        store = Store(self.folder, lambda _: None)
        for cell in self.grid.cells:
            path = store.path(cell.number)
            try:
                stamp = path.stat().st_mtime_ns
                if self._known.get(cell.number, (None,))[0] != stamp:
                    self._known[cell.number] = stamp, self._outcome(cell, History.load(path), store)
            except (OSError, ValueError):
                self._known.pop(cell.number, None)
        return [self._known[number][1] for number in sorted(self._known)]

    def _outcome(self, cell: Cell, history: History, store: Store) -> Outcome:
        found = summary.outcome(Sweep(self.grid, store))(cell, history)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # no episode, no sound run
            mean, margin = mean_and_margin(found)
            across, band = mean_and_margin(self._runs(cell, history))
        band = band.fillna(0.0)
        curve = xr.Dataset({"mean": across, "low": across - band, "high": across + band})
        failed = int(found.attrs["failed"])
        return Outcome(cell, curve, str(found.name), float(mean), float(margin), failed)

    def _runs(self, cell: Cell, history: History) -> xr.DataArray:
        """Returns or errors over time, (run, t)."""
        if "episodes" in history.data:
            return history.learning_curve(bins=learning_curves.POINTS).mean("agent")
        theta = reference(cell.config, self.folder)
        where = np.full(history.data.sizes["d"], np.nan) if theta is None else theta
        central = history.central.isel(t=slice(None, None, max(1, history.data.sizes["t"] // RECORDS)))
        return ((central - where) ** 2).sum("d", skipna=False)


class Results:
    """A folder of results.

    Parameters
    ----------
    folder : Path
        Of a sweep or a reproduction, as the commands write it; its first sweep may be still to come.

    Raises
    ------
    ValueError
        It holds neither.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sweeps: dict[str, SweepResults] = {}
        if not self.sweeps and "scale" not in _manifest(folder / MANIFEST):
            raise ValueError(
                f"{folder}: expected results of fedsarsa sweep, reproduce or leaderboard, got none of them"
            )

    @property
    def sweeps(self) -> dict[str, SweepResults]:
        """The sweeps that have begun by now, by name."""
        for name, path in _sweeps(self.folder).items():
            if name not in self._sweeps:
                self._sweeps[name] = SweepResults(path)
        return self._sweeps

    def claims(self) -> list[dict[str, str]]:
        """The claims of a reproduction, with verdicts; none if there are none, or not yet."""
        path = self.folder / CLAIMS
        if not path.exists():
            return []
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def figures(self) -> dict[str, Path]:
        """The pictures in the folder, by name."""
        return {path.stem: path for path in sorted(self.folder.glob("*.png"))}

    def stamp(self) -> Any:
        """What differs when the folder has changed."""
        files = [path for one in self.sweeps.values() for path in one.folder.glob("[0-9]*.nc")]
        files += [*self.folder.glob("*.png"), *self.folder.glob(CLAIMS)]
        return set(self.sweeps), {(str(path), path.stat().st_mtime_ns) for path in files if path.exists()}


class Leaderboard:
    """The folder of a leaderboard: the rows of its table, which comes when all of it is measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows()  # a table that cannot be read is known at once

    def rows(self) -> list[Row]:
        """A method on a fleet of a board each; none while there is no table.

        Raises
        ------
        ValueError
            The table is not one of a leaderboard.
        """
        path = self.folder / tables.CSV
        try:
            return tables.from_csv(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None

    def measured(self) -> int:
        """How many cells are measured by now."""
        return len(list(self.folder.glob("[0-9]*.nc")))

    def stamp(self) -> Any:
        """What differs when the folder has changed."""
        path = self.folder / tables.CSV
        return path.stat().st_mtime_ns if path.exists() else self.measured()


AnyResults = Results | Leaderboard


def of_folder(folder: Path) -> AnyResults:
    """The results in a folder, of whatever kind they are.

    Raises
    ------
    ValueError
        It holds none, or a table that cannot be read.
    """
    measured = (folder / tables.CSV).exists() or "rows" in _manifest(folder / MANIFEST)
    return Leaderboard(folder) if measured else Results(folder)


def _manifest(path: Path) -> dict[str, Any]:
    """What the description of a folder says; nothing where there is none."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _sweeps(folder: Path) -> dict[str, Path]:
    """The folders of sweeps: this one, or those of a reproduction."""
    found = {}
    for manifest in [folder / MANIFEST, *sorted(folder.glob(f"cells/*/{MANIFEST}"))]:
        if "axes" in _manifest(manifest):
            found[manifest.parent.name] = manifest.parent
    return found


def measured(outcomes: list[Outcome]) -> str:
    """By what cells are measured; methods and FedSARSA are by different things."""
    return " or ".join(dict.fromkeys(one.name for one in outcomes)) or "outcome"


def over_time(outcomes: list[Outcome]) -> str:
    """What the curves of cells show."""
    names = (OF_CURVES.get(one.name, one.name.removeprefix("final ")) for one in outcomes)
    return " or ".join(dict.fromkeys(names)) or "outcome"


def positive(outcomes: list[Outcome]) -> bool:
    """Whether a logarithmic axis can show all that cells led to, and the way there."""
    return not any(one.mean <= 0 or (one.curve["mean"] <= 0).any() for one in outcomes)
