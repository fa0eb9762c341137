"""One command: measure what is missing of the leaderboard, and write tables, figures and the report."""

import hashlib
import inspect
import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

import xarray as xr

from fedsarsa import _files, _netcdf, engines
from fedsarsa._blas import single_threaded
from fedsarsa._version import __version__
from fedsarsa.engines.compiled import available_cores
from fedsarsa.experiments import store
from fedsarsa.experiments.leaderboard import cells as measuring
from fedsarsa.experiments.leaderboard import entries as rows
from fedsarsa.experiments.leaderboard import figures, fleets, report, tables, together
from fedsarsa.experiments.leaderboard.cells import Cell
from fedsarsa.experiments.leaderboard.entries import BOARDS
from fedsarsa.experiments.leaderboard.fleets import Ground
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.experiments.progress_bars import counting_bar
from fedsarsa.experiments.store import Store
from fedsarsa.experiments.workers import processes
from fedsarsa.methods import SCAFFLSA, FedTD

REPORT = "report.html"
AUTO = "auto"


@dataclass(frozen=True)
class Outcome:
    """What a leaderboard wrote, and the rows it measured."""

    written: list[Path]
    rows: list[tables.Row]


def leaderboard(
    out: Path,
    scale: Scale,
    seed: int,
    names: Sequence[str] = (),
    add: Sequence[str] = (),
    say: Callable[[str], None] = print,
    engine: str = AUTO,
) -> Outcome:
    """Measure all methods on the fleets of these ``names``, or on all; ``add`` are methods as module:Method.

    What ``out`` already holds of the same scale, seed and ``engine`` is not measured again. Methods that the
    engine does not take are trained as without one, which is said.
    """
    begun = time.perf_counter()
    engines.working(engines.resolve(engine))
    grounds = fleets.grounds(names, seed)
    own = rows.all_added(add)
    # Those of the user's own come last, so that the numbers of the others stay.
    every = measuring.cells(grounds, rows.entries) + measuring.cells(
        grounds, lambda board: [entry for entry in own if entry.kind.task == board], yardsticks=False
    )
    every = [Cell(number, cell.board, cell.ground, cell.entry) for number, cell in enumerate(every)]
    with store.opened(out, _identity(grounds, scale, seed, engine), say) as kept:
        found = _measured(every, kept, scale, seed, engine)
        table = tables.rows(every, found)
        _files.write_text(tables.to_csv(table), out / tables.CSV)
        pictures = figures.write(table, out)
        seconds = time.perf_counter() - begun
        _files.write_text(report.page(table, grounds, pictures, scale, seed, seconds), out / REPORT)
    return Outcome([out / REPORT, out / tables.CSV, *pictures.values()], table)


@single_threaded  # there is a process for every core
def measured(board: str, name: str, label: str | None, added: str, scale: Scale, seed: int) -> xr.Dataset:
    """One cell, in a process of its own, from the names of its parts."""
    ground = fleets.grounds([name], seed)[0]
    known = [rows.added(added)] if added else rows.ENTRIES
    entry = next((one for one in known if one.label == label and one.kind.task == board), None)
    return Cell(0, board, ground, entry).measured(scale, seed)


def compiled(with_options: bool) -> None:
    """Compile, or find compiled, what methods train by: the plain step, or steps and rules with options."""
    method = SCAFFLSA() if with_options else FedTD()
    method.train(fleets.grounds(["two-state"], 0)[0].fleet, steps=1, runs=1, threads=1)


def _measured(every: Sequence[Cell], kept: Store, scale: Scale, seed: int, engine: str) -> list[xr.Dataset]:
    """The cells in their order: stored ones, and the others as processes finish them, or the engine does."""
    found = {cell.number: kept.get(_key(cell), _loader(cell)) for cell in every}
    missing = [cell for cell in every if found[cell.number] is None]
    done = len(every) - len(missing)
    here = [] if engine == AUTO else [cell for cell in missing if together.takes(engine, cell, scale)]
    apart = [cell for cell in missing if cell not in here]
    labels = dict.fromkeys(cell.entry.label for cell in apart if cell.entry is not None)
    if labels and engine != AUTO:
        kept.say(
            f"engine {engine!r} does not take these methods, which train without it: {'; '.join(labels)}"
        )

    def keep(cell: Cell, data: xr.Dataset) -> None:
        data.attrs["mark"] = _mark(cell)
        if "error" not in data.attrs:  # the same command tries again what failed
            _netcdf.write(data, kept.path(_key(cell)))
        found[cell.number] = data
        report_one()

    with counting_bar(len(every), done) as report_one, processes(available_cores()) as pool:
        if apart:  # or every process would compile the same kernels
            list(pool.map(compiled, (False, True)))
        futures = {}
        for cell in apart:
            label = None if cell.entry is None else cell.entry.label
            future = pool.submit(measured, cell.board, cell.ground.name, label, cell.added, scale, seed)
            futures[future] = cell
        for cell, data in together.measured(here, engine, scale, seed):
            keep(cell, data)
        for future in as_completed(futures):
            keep(futures[future], future.result())
    return [one for one in found.values() if one is not None]


def _loader(cell: Cell) -> Callable[[Path], xr.Dataset | None]:
    def load(path: Path) -> xr.Dataset | None:
        data = _netcdf.read(path, measuring.KIND, ("mark",))
        if data.attrs["mark"] != _mark(cell):
            if cell.added:  # its module has changed
                return None
            raise ValueError(f"{path}: expected {cell.label}, as it is now, got {data.attrs.get('cell')}")
        return data

    return load


def _key(cell: Cell) -> int | str:
    """What a cell is kept by; a user's own method by its name, so that others can come and go."""
    if not cell.added:
        return cell.number
    return f"added-{hashlib.sha256(cell.label.encode()).hexdigest()[:16]}"


def _mark(cell: Cell) -> str:
    """What distinguishes a cell from others; that of a method of the user's own changes with its file."""
    if cell.entry is None or not cell.added:
        return cell.label
    source = Path(inspect.getfile(cell.entry.kind)).read_bytes()
    return f"{cell.label}, {cell.added}, {hashlib.sha256(source).hexdigest()}"


def _identity(grounds: Sequence[Ground], scale: Scale, seed: int, engine: str) -> dict[str, object]:
    """All that decides the results of the package's own rows, as JSON can hold it."""
    content = {
        "fedsarsa": __version__,
        "seed": seed,
        "scale": asdict(scale),
        "fleets": {ground.name: ground.fleet.identity() for ground in grounds},
        "rows": [[board, entry.label] for board in BOARDS for entry in rows.entries(board)],
    }
    content |= {} if engine == AUTO else {"engine": engine}
    plain: dict[str, object] = json.loads(json.dumps(content))
    return plain
