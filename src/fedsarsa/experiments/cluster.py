"""The cells of a sweep as tasks of a Ray cluster.

A cell is a task on one core; what it gives comes back here and is stored here, whole. A worker that is
killed costs the cell it was at, which Ray gives to another. Cells whose engine uses a GPU ask for one each;
with other engines the GPUs of a cluster stay free for others.
"""

from pathlib import Path
from typing import Any

import xarray as xr

from fedsarsa import engines
from fedsarsa._interrupts import Interrupted, held_interrupt
from fedsarsa._ray import RETRIES, check_version, connect, ray, reason
from fedsarsa._version import __version__
from fedsarsa.experiments.grid import Cell
from fedsarsa.experiments.sweep import Report, Sweep, keep, silent
from fedsarsa.federation.history import History

LOOK = 0.5  # seconds between two looks at Ctrl-C


def train(sweep: Sweep, address: str, report: Report = silent) -> None:
    """Train the cells that are not stored yet on the cluster at ``address`` ("local": one started here).

    Raises
    ------
    Interrupted
        Ctrl-C: what was done is stored.
    """
    missing = [cell for cell in sweep.grid.cells if sweep.history(cell) is None]
    for cell in missing:
        engine = cell.config.training.engine
        if engines.entry_of(engine).cluster:
            raise ValueError(
                f"cell with {cell}: training.engine must be for one core with --ray, got {engine!r}"
            )
    connect(address)
    cluster: Any = ray
    for cell in missing:
        engine = cell.config.training.engine
        if engines.entry_of(engine).gpus > cluster.cluster_resources().get("GPU", 0):
            raise ValueError(f"cell with {cell}: engine {engine!r} needs a GPU, and the cluster has none")
    report(cells=len(sweep.grid.cells) - len(missing))
    task: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(_train)
    folder = sweep.grid.folder.absolute()
    with held_interrupt() as pressed:
        order = sorted(missing, key=lambda cell: -cell.work)
        calls: dict[Any, Cell] = {
            task.options(num_gpus=engines.entry_of(cell.config.training.engine).gpus).remote(
                cell, folder, __version__
            ): cell
            for cell in order
        }
        try:
            while calls and not pressed.is_set():
                for call in ray.wait(list(calls), timeout=LOOK)[0]:
                    cell = calls.pop(call)
                    _store(sweep, cell, call)
                    report(steps=cell.work, cells=1)
        finally:
            for call in calls:
                ray.cancel(call, force=True)
    if pressed.is_set():
        raise Interrupted("interrupted")


def _train(cell: Cell, folder: Path, version: str) -> xr.Dataset:
    """One cell, on the machine where a worker is; worlds in files must be there too."""
    check_version(version)
    settings = cell.config.training.model_dump(exclude={"threads"})
    fleet: Any = cell.config.fleet.build(folder)
    return cell.algorithm.train(fleet, **settings, threads=1).data


def _store(sweep: Sweep, cell: Cell, call: Any) -> None:
    try:
        data: xr.Dataset = ray.get(call)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        why = reason(error)
        if isinstance(cause, ray.exceptions.RaySystemError) or "No module named 'fedsarsa" in why:
            raise ValueError(
                f"cell with {cell}: no worker can begin it ({why}); "
                f"expected fedsarsa {__version__} on every machine of the cluster"
            ) from None
        if isinstance(cause, ValueError | TypeError | OSError | ImportError | MemoryError):
            raise ValueError(f"cell with {cell}: {cell.config.in_toml(str(cause))}") from None
        raise
    except ray.exceptions.WorkerCrashedError as error:
        raise ValueError(
            f"cell with {cell}: its worker died, and again when begun anew (up to {RETRIES} times): "
            f"{reason(error)}"
        ) from None
    except ray.exceptions.RayError as error:
        raise ValueError(f"cell with {cell}: the cluster failed: {reason(error)}") from None
    keep(sweep, cell, History(data))
