"""A progress bar for long trainings: steps done, agent-steps per second, time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fedsarsa.federation.problem import Problem

# Whether to show a bar, or a function to call with the number of steps done.
Progress = bool | Callable[[int], None]


@contextmanager
def reporting(problem: Problem, done: int, progress: Progress) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of steps done; its bar is on standard error."""
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=16),
        TextColumn("{task.percentage:.0f}%"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    begun, first = time.perf_counter(), done
    with Progress(*columns, console=Console(stderr=True)) as bar:
        title = f"{problem.agents} agents x {problem.runs} runs"
        task = bar.add_task(title, total=problem.steps, completed=done, speed="")

        def report(t: int) -> None:
            elapsed = time.perf_counter() - begun
            rate = (t - first) * problem.agents * problem.runs / elapsed
            bar.update(task, completed=t, speed=f"{rate:.2g} steps/s")

        yield report
