"""Cells of the leaderboard on an engine of the user's choice, which may train many of them side by side."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

import xarray as xr

from fedsarsa import engines
from fedsarsa.algorithm import Prepared, train_prepared, train_together
from fedsarsa.experiments.leaderboard.cells import Cell, Training, methods
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.federation.history import History
from fedsarsa.methods.setting import Setting


def takes(engine: str, cell: Cell, scale: Scale) -> bool:
    """Whether an engine trains the method of a cell; also where the method rejects the cell's worlds."""
    kind: Any = None if cell.entry is None else cell.entry.kind
    if cell.entry is None or getattr(kind, "train", None) is not Setting.train:  # it has a loop of its own
        return False
    try:
        method: Any = next(iter(methods(cell.ground, cell.entry, scale).values()))
        problem = method.problem(cell.ground.fleet, 1, 1, 0)
    except Exception:  # the cell itself says so
        return True
    return engines.ENGINES[engine].refuses(problem) is None


def measured(
    cells: Sequence[Cell], engine: str, scale: Scale, seed: int
) -> Iterator[tuple[Cell, xr.Dataset]]:
    """The numbers of cells that the engine takes, stage by stage; those of a stage are trained together."""
    stages = {cell: cell.stages(scale, seed) for cell in cells}
    answers: dict[Cell, Iterator[History] | None] = dict.fromkeys(cells)
    while answers:
        wanted: dict[Cell, list[Training]] = {}
        for cell, answer in answers.items():
            try:
                wanted[cell] = next(stages[cell]) if answer is None else stages[cell].send(answer)
            except StopIteration as end:
                yield cell, end.value
        ours = [one for cell, own in wanted.items() if not cell.added for one in own]
        outcomes = iter(trained(ours, engine))
        answers = {
            cell: _given(_tried(own, engine) if cell.added else list(islice(outcomes, len(own))))
            for cell, own in wanted.items()
        }


def trained(trainings: Sequence[Training], engine: str) -> list[History | ValueError]:
    """The histories of trainings, or why a method does not take the worlds."""

    def steps(place: int) -> int:
        return trainings[place].steps

    found: dict[int, History | ValueError] = {}
    prepared: dict[int, Prepared] = {}
    for place, one in enumerate(trainings):
        method: Any = one.method
        try:
            prepared[place] = method.prepare(one.fleet, one.steps, one.runs, one.seed)
        except ValueError as error:
            found[place] = error
    alike = groupby(sorted(prepared, key=steps), steps) if engines.ENGINES[engine].together else ()
    for record_every, group in alike:
        places = list(group)
        for at, history in train_together([prepared[one] for one in places], engine, record_every):
            found[places[at]] = history
    for place in prepared.keys() - found.keys():
        found[place] = train_prepared(prepared[place], engine, None, False, steps(place), None)
    return [found[place] for place in range(len(trainings))]


def _tried(trainings: Sequence[Training], engine: str) -> Sequence[History | Exception]:
    """The histories of a user's own method, or its error, which costs its row and not the board."""
    try:
        return trained(trainings, engine)
    except Exception as error:
        return [error]


def _given(outcomes: Iterable[History | Exception]) -> Iterator[History]:
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        yield outcome
