"""Progress bars over the cells and the agent-steps of a sweep, and over cells alone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedsarsa.experiments.sweep import Report, Sweep


@contextmanager
def sweep_bar(*sweeps: Sweep) -> Iterator[Report]:
    """What to report of progress; a bar on standard error shows it, with the time left."""
    cells = [(sweep, cell) for sweep in sweeps for cell in sweep.grid.cells]
    stored = sum(cell.work for sweep, cell in cells if sweep.store.path(cell.number).exists())
    columns = (
        TextColumn("{task.fields[finished]} of {task.fields[cells]} cells"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:.0f}% of steps"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    lock = threading.Lock()
    finished = 0
    with Progress(*columns, console=Console(stderr=True)) as bar:
        total = sum(cell.work for _, cell in cells)
        task = bar.add_task("", total=total, completed=stored, cells=len(cells), finished=0)

        def report(*, steps: int = 0, cells: int = 0) -> None:
            nonlocal finished
            with lock:
                finished += cells
                bar.update(task, advance=steps, finished=finished)

        yield report


@contextmanager
def counting_bar(cells: int, done: int) -> Iterator[Callable[[], None]]:
    """What to call when another cell is done; a bar on standard error counts them, with the time left."""
    columns = (MofNCompleteColumn(), TextColumn("cells"), BarColumn(bar_width=16), TimeRemainingColumn())
    with Progress(*columns, TextColumn("left"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=cells, completed=done)
        yield lambda: bar.advance(task)
