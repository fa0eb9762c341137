"""A sweep in a few numbers per cell: a table to read and a CSV file for programs."""

import csv
import io
import itertools
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Column, Table

from fedsarsa import _files
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config, finite
from fedsarsa.experiments.grid import Cell, label
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.sweep import Sweep
from fedsarsa.federation.history import History
from fedsarsa.methods import ControlMethod
from fedsarsa.theory import returns_of
from fedsarsa.worlds.fleet import Fleet

ERROR, RETURN, REWARD = "final error", "late return", "late reward"
TO_TARGET, EXACT = "error to target", "exact return"  # of methods
LATE = {"return": RETURN, "reward_per_step": REWARD}  # by the name that a history gives
MEANING = {
    ERROR: "final error: squared distance of the central parameter to agent 0's fixed point",
    TO_TARGET: "error to target: squared distance of the central parameter to the method's own target, to "
    "which its mean path converges (the mean of targets, where every agent has one)",
    EXACT: "exact return: mean over agents of the learned policy's exact discounted return, as the method "
    "has no target",
    RETURN: "late return: mean return of the training episodes that ended in the last tenth of the steps, "
    "over agents and runs; of the last ones that ended, where none did then",
    REWARD: "late reward: mean reward per step in the last tenth of the steps, over agents and runs, as no "
    "episode has ended",
}
JUMPING = {"greedy", "epsilon-greedy"}  # kinds of policies


def outcome(sweep: Sweep) -> Callable[[Cell, History], xr.DataArray]:
    """What a training led to, (run,): see `outcome_of`."""
    return lambda cell, history: outcome_of(history, cell.config, sweep.grid.folder)


def outcome_of(history: History, config: Config, folder: Path) -> xr.DataArray:
    """What a training led to, (run,): its late return where there are episodes, else its final error.

    Of methods it is the error to their own target, or for control without one the exact return. Named by
    which it is. Failed runs are NaN, as are errors where there is no reference.
    """
    if "episodes" in history.data:
        late = history.late_return()
        found = late.mean("agent").where(history.failed_at < 0).rename(LATE[str(late.name)])
    else:
        theta, method = reference(config, folder), config.algorithm.build(folder)
        if theta is None and isinstance(method, ControlMethod):
            found = _exact_return(history, method, finite(config.fleet.build(folder)))
        else:
            where = math.nan if theta is None else theta
            with np.errstate(over="ignore", invalid="ignore"):  # of runs that diverge
                error = ((history.final - where) ** 2).sum("d", skipna=False)
            found = error.rename(ERROR if isinstance(method, FedSARSA) else TO_TARGET)
    return found.assign_attrs(failed=int((history.failed_at >= 0).sum()))


def _exact_return(history: History, method: ControlMethod, fleet: Fleet) -> xr.DataArray:
    """The exact return of the policies that a method has learned, mean over agents, (run,)."""
    sound = (history.failed_at < 0).values
    found = xr.full_like(history.final.isel(d=0, drop=True), math.nan).rename(EXACT)
    if sound.any():
        policies = method.policies(history)[sound]
        each = policies if policies.ndim == 4 else policies[:, None]
        returns = returns_of(fleet, each).discounted_return
        found[sound] = returns.mean("agent")
    return found


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


def meanings(configs: Sequence[Config], outcomes: Sequence[xr.DataArray]) -> list[str]:
    """What these outcomes are, a sentence for each kind, with what holds for some of them alone."""
    found = []
    for name, meaning in MEANING.items():
        own = [(config, one) for config, one in zip(configs, outcomes, strict=True) if one.name == name]
        jumps = name == ERROR and any(config.algorithm.policy.kind in JUMPING for config, _ in own)
        missing = any(one.isnull().sum() > one.attrs["failed"] for _, one in own)
        average = ", of policies that jump to the average of a long run" * jumps
        found += [f"{meaning}{average}{'; nan where there is none' * missing}"] if own else []
    return found


def table(rows: Sequence[Sequence[str]], meanings: Sequence[str]) -> Table:
    """The rows as a table for the terminal, and below it what its numbers are."""
    names, *content = rows
    result = Table(*(Column(name, justify="right") for name in names), caption="\n".join(meanings))
    for row in content:
        result.add_row(*row)
    return result


def records(sweep: Sweep, outcomes: Sequence[xr.DataArray]) -> list[dict[str, Any]]:
    """A row per cell for programs: values, mean outcome and 95% margin in full precision, failed runs, file.

    Settings that are tables or lists are written as JSON.
    """
    found = []
    for cell, one in zip(sweep.grid.cells, outcomes, strict=True):
        mean, margin = (float(x) for x in mean_and_margin(one))
        name = str(one.name).replace(" ", "_")
        values = dict(zip(sweep.grid.names, cell.values.values(), strict=True))
        plain = {
            key.replace(".", "_"): json.dumps(value) if isinstance(value, dict | list) else value
            for key, value in values.items()
        }
        results = {name: mean, f"{name}_margin": margin, "failed_runs": one.attrs["failed"]}
        found.append(plain | results | {"file": sweep.store.path(cell.number).name})
    return found


def write(records: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Write the records to ``summary.csv`` in ``folder``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for one in records for key in one)))
    writer.writeheader()
    writer.writerows(records)
    path = folder / "summary.csv"
    _files.write_text(text.getvalue(), path)
    return path
