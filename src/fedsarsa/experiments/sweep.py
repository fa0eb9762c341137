"""Sweeps: every cell of a grid is trained once and kept in a file of its own.

Cells share the cores, the largest first. What is done is never done again: a sweep that was interrupted,
killed or cut off trains the cells that are missing, those begun from their checkpoints.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeVar

import xarray as xr

from fedsarsa import _files, algorithm, engines
from fedsarsa._interrupts import Interrupted, held_interrupt
from fedsarsa.algorithm import FedSARSA, Prepared
from fedsarsa.engines.compiled import available_cores
from fedsarsa.experiments import store
from fedsarsa.experiments.grid import Cell, Grid, label
from fedsarsa.experiments.store import Store
from fedsarsa.federation.history import History
from fedsarsa.federation.training import NoAgentLeftError
from fedsarsa.methods.setting import Setting

AGENTS = 20_000  # whose worlds are made at a time, where cells are trained side by side
MARK = "cell"  # the attribute of a history that says which cell it is of

PREPARES = FedSARSA, Setting  # algorithms whose steps an engine takes, unlike those that plan

T = TypeVar("T")
Labelled = TypeVar("Labelled", xr.DataArray, xr.Dataset)


class Report(Protocol):
    """Told of progress."""

    def __call__(self, *, steps: int = 0, cells: int = 0) -> None:
        """``steps`` more agent-steps and ``cells`` more cells are done."""


def silent(*, steps: int = 0, cells: int = 0) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Sweep:
    """A grid of cells, and where their histories are kept."""

    grid: Grid
    store: Store

    def history(self, cell: Cell) -> History | None:
        """The history of a cell, or None if it has not been trained."""

        def load(path: Path) -> History:
            history = History.load(path)
            if history.data.attrs.get(MARK) != cell.digest():
                raise ValueError(f"{path}: expected the history of {cell}, got that of another cell")
            return history

        return self.store.get(cell.number, load)


@contextmanager
def opened(grid: Grid, folder: Path, say: Callable[[str], None] = lambda _: None) -> Iterator[Sweep]:
    """A sweep whose cells are, or will be, in ``folder``; ``say`` reports damaged files."""
    with store.opened(folder, grid.identity(), say) as kept:
        yield Sweep(grid, kept)


def run(
    sweep: Sweep,
    measure: Callable[[Cell, History], T],
    threads: int | None = None,
    report: Report = silent,
) -> list[T]:
    """Train the cells that are not stored yet; what ``measure`` says of every cell, in their order.

    Raises
    ------
    Interrupted
        Ctrl-C: what was done is stored.
    """
    cells = sweep.grid.cells
    threads = threads or cells[0].config.training.threads or available_cores()
    # Those that share a GPU take turns.
    shared = any(engines.entry_of(cell.config.training.engine).gpus for cell in cells)
    workers = 1 if shared else min(threads, len(cells))

    def work(cell: Cell) -> T:
        if pressed.is_set():
            raise Interrupted("interrupted")
        history = sweep.history(cell) or train(sweep, cell, threads // workers, report)
        report(cells=1)
        return measure(cell, history)

    with held_interrupt() as pressed, ThreadPoolExecutor(workers) as pool:
        train_together(sweep, report)
        order = sorted(cells, key=lambda cell: -cell.work)
        futures = {cell.number: pool.submit(work, cell) for cell in order}
        done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
        failed = [future for future in done if future.exception() is not None]
        if failed:
            pressed.set()  # the others stop at their next stretch
            errors = [error for future in failed if (error := future.exception()) is not None]
            raise next((error for error in errors if not isinstance(error, Interrupted)), errors[0])
    return [futures[cell.number].result() for cell in cells]


def train_together(sweep: Sweep, report: Report) -> None:
    """Train and store the cells that an engine trains side by side, such as all that fit into a GPU at once.

    Those that have begun resume alone.
    """
    waiting = [
        cell
        for cell in sweep.grid.cells
        if engines.entry_of(cell.config.training.engine).together is not None
        and isinstance(cell.algorithm, PREPARES)
        and not sweep.store.checkpoint(cell.number).exists()
        and sweep.history(cell) is None
    ]
    for (engine, record_every, precision), group in groupby(sorted(waiting, key=_common), _common):
        for cells in _portions(list(group)):
            prepared = []
            for cell in cells:
                with _naming(cell):
                    prepared.append(_prepared(cell, cell.config.fleet.build(sweep.grid.folder)))
            trained = algorithm.train_together(
                prepared,
                engine,
                record_every,
                [sweep.store.checkpoint(cell.number) for cell in cells],
                precision,
                lambda steps: report(steps=steps),
            )
            for place, history in trained:
                keep(sweep, cells[place], history)


def _common(cell: Cell) -> tuple[str, int, str]:
    training = cell.config.training
    return training.engine, training.record_every, training.precision


def _portions(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """Cells whose worlds fit into this computer's memory, portion by portion."""
    portion: list[Cell] = []
    for cell in cells:
        if sum(one.agents for one in portion) + cell.agents > AGENTS and portion:
            yield portion
            portion = []
        portion.append(cell)
    yield portion


def _prepared(cell: Cell, fleet: Any) -> Prepared:
    training = cell.config.training
    assert isinstance(cell.algorithm, PREPARES)
    return cell.algorithm.prepare(fleet, training.steps, training.runs, training.seed)


@contextmanager
def _naming(cell: Cell) -> Iterator[None]:
    """Have errors name the cell, and keys as configurations call them."""
    try:
        yield
    except (ValueError, TypeError, NoAgentLeftError) as error:
        raise ValueError(f"cell with {cell}: {cell.config.in_toml(str(error))}") from error


def train(sweep: Sweep, cell: Cell, threads: int, report: Report) -> History:
    """Train one cell, from its checkpoint if there is one, and store its history."""
    settings = cell.config
    checkpoint = sweep.store.checkpoint(cell.number)
    sweep.store.set_aside_if_damaged(checkpoint)
    done = 0
    with _naming(cell):
        fleet: Any = settings.fleet.build(sweep.grid.folder)

        def progress(t: int) -> None:
            nonlocal done
            report(steps=(t - done) * len(fleet) * settings.training.runs)
            done = t

        training = settings.training
        if isinstance(cell.algorithm, PREPARES):
            history = algorithm.train_prepared(
                _prepared(cell, fleet),
                training.engine,
                threads,
                progress,
                training.record_every,
                checkpoint,
                precision=training.precision,
                extendable=False,  # the end is kept as a history
            )
        else:
            history = cell.algorithm.train(
                fleet,
                **training.model_dump(exclude={"threads"}),
                threads=threads,
                progress=progress,
                checkpoint=checkpoint,
            )
    keep(sweep, cell, history)
    return history


def keep(sweep: Sweep, cell: Cell, history: History) -> None:
    """Store the history of a trained cell, as soon as there is room for it."""
    history.data.attrs[MARK] = cell.digest()
    path = sweep.store.path(cell.number)
    _files.write_patiently(lambda: history.save(path), sweep.store.say)
    sweep.store.checkpoint(cell.number).unlink(missing_ok=True)


def arrange(grid: Grid, results: Sequence[Labelled]) -> Labelled:
    """One array or dataset per cell, laid out along the grid's axes.

    Where cells differ in length (t, d), the missing entries are NaN.
    """
    stack = list(results)
    for name, options in reversed(list(zip(grid.names, grid.axes.values(), strict=True))):
        values = [label(value) if isinstance(value, dict | list) else value for value in options]
        groups = [stack[i : i + len(values)] for i in range(0, len(stack), len(values))]
        along: Any = xr.DataArray(values, dims=name, name=name)
        stack = [xr.concat(group, along, join="outer") for group in groups]
    return stack[0]
