"""The boards as rows: means over runs with 95% intervals, gaps, floats sent; for terminal, CSV and report.

Which rows of a block lead is decided by paired differences, as `behind` says.
"""

import csv
import io
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import xarray as xr
from rich.table import Table

from fedsarsa.experiments.leaderboard.cells import AGENTS, FEDERATED, OWN, Cell
from fedsarsa.experiments.leaderboard.entries import BEST_COMMON, COMPARISON, CONTROL, OPTIMUM
from fedsarsa.experiments.statistics import LEVEL, Estimate, known, mean_and_margin

CSV = "leaderboard.csv"
UNKNOWN = known(math.nan)
ROUNDING = 1e-6  # shares of a number that make no difference
BEHIND = "behind the best"
MEAN, WORST, GAP, TO_COMMON, _ = RETURNS = (
    "mean return",
    "worst agent",
    "gap to own optimum",
    "gap to best common",
    BEHIND,
)
TO_OWN, TO_FEDERATED, TO_AGENTS, _ = DISTANCES = (
    "to its own target",
    "to the federated point",
    "to each agent's",
    BEHIND,
)
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Row:
    """A method on a fleet of a board: its numbers by name, or why it rejected the worlds, or its error."""

    board: str
    fleet: str
    block: str
    label: str
    numbers: dict[str, Estimate] = field(default_factory=dict)
    sent: float = math.nan
    period: float = math.nan
    samples: int = 0
    step_size: float = math.nan
    temperature: float = math.nan
    failed: int = 0
    refused: str = ""
    error: str = ""
    note: str = ""

    @property
    def reason(self) -> str:
        """Why there are no numbers; empty where there are."""
        if self.error:
            return f"failed: {self.error}"
        return f"rejected: {self.refused}" if self.refused else ""

    @property
    def leads(self) -> bool:
        """Whether the row cannot be told from the best one of its block; never one for comparison."""
        return self.numbers.get(BEHIND, UNKNOWN).low <= 0


def rows(cells: Sequence[Cell], found: Sequence[xr.Dataset]) -> list[Row]:
    """All rows, board by board and fleet by fleet; the yardsticks of control stand last in each fleet."""
    measured = list(zip(cells, found, strict=True))
    result: list[Row] = []
    for start, sticks in ((cell, data) for cell, data in measured if cell.entry is None):
        place = (start.board, start.ground.name)
        ours = {
            cell: data for cell, data in measured if cell.entry and (cell.board, cell.ground.name) == place
        }
        off = _all_behind(ours)
        result += [_row(cell, data, sticks, off.get(cell, UNKNOWN)) for cell, data in ours.items()]
        if start.board == CONTROL:
            for label, name in ((BEST_COMMON, "best_common"), (OPTIMUM, "optimal_return")):
                exact = sticks[name].expand_dims("run")
                numbers = _returns(exact, sticks)
                note = _found(sticks) if label == BEST_COMMON else ""
                result.append(Row(CONTROL, start.ground.name, COMPARISON, label, numbers, note=note))
    order = {block: place for place, block in enumerate(dict.fromkeys(row.block for row in result))}
    places = {(row.board, row.fleet): place for place, row in reversed(list(enumerate(result)))}
    return sorted(result, key=lambda row: (places[row.board, row.fleet], order[row.block]))


def _found(sticks: xr.Dataset) -> str:
    starts, gap = int(sticks.attrs["starts"]), float(sticks.attrs["stationarity_gap"])
    return f"found from {starts} start{'s' if starts > 1 else ''}, stationarity gap {gap:.2g}"


def _all_behind(measured: Mapping[Cell, xr.Dataset]) -> dict[Cell, Estimate]:
    """How far every cell of a fleet is behind the best of its block, but for those for comparison."""
    blocks: dict[str, dict[Cell, xr.DataArray]] = {}
    for cell, data in measured.items():
        if cell.entry is not None and cell.entry.block != COMPARISON and data.data_vars:
            lost = -data["discounted_return"].mean("agent") if cell.board == CONTROL else data[AGENTS]
            blocks.setdefault(cell.entry.block, {})[cell] = lost
    return {cell: one for block in blocks.values() for cell, one in behind(block).items()}


def behind(lost: Mapping[K, xr.DataArray]) -> dict[K, Estimate]:
    """How far the methods of a block are behind the best one, from what each lost in every run.

    The best method has lost least on average. The others are compared with it run by run, as the runs of all
    methods have the same random numbers: an interval is Student's for the mean of these paired differences.
    Of m methods, each interval is at the level 1 - 0.05 / (m - 1) (Bonferroni). A method leads if its
    interval reaches 0. So the method that loses least in expectation, with the settings that were chosen, is
    among those that lead with a probability of at least 95%, whichever was best by chance, if the
    differences are near enough to normal.

    A mean difference within rounding counts as 0. Runs in which either method failed are left out; where
    fewer than two remain, the interval is all numbers. A method that failed in every run does not lead.
    """
    means = {key: float(values.mean()) for key, values in lost.items()}
    sound = {key: lost[key] for key, mean in means.items() if not math.isnan(mean)}
    if not sound:
        return {}
    best = min(sound, key=lambda key: means[key])
    level = 1 - (1 - LEVEL) / max(1, len(sound) - 1)
    found = {}
    for key, values in sound.items():
        mean, margin = (float(x) for x in mean_and_margin(values - sound[best], level))
        if abs(mean) <= ROUNDING * abs(means[best]):
            found[key] = known(0.0)
        elif math.isnan(margin):
            found[key] = Estimate(means[key] - means[best], -math.inf, math.inf)
        else:
            found[key] = Estimate(mean, mean - margin, mean + margin)
    return found


def _row(cell: Cell, data: xr.Dataset, sticks: xr.Dataset, off: Estimate) -> Row:
    assert cell.entry is not None
    place = (cell.board, cell.ground.name, cell.entry.block, cell.entry.label)
    if "refused" in data.attrs:
        return Row(*place, refused=str(data.attrs["refused"]))
    if "error" in data.attrs:
        return Row(*place, error=str(data.attrs["error"]))
    if cell.board == CONTROL:
        numbers = _returns(data["discounted_return"], sticks)
    else:
        names = zip((TO_OWN, TO_FEDERATED, TO_AGENTS), (OWN, FEDERATED, AGENTS), strict=True)
        numbers = {name: _estimate(data[variable]) for name, variable in names}
    numbers[BEHIND] = off
    told = data.attrs
    return Row(
        *place,
        numbers,
        sent=float(told["sent"]),
        period=float(told["period"]),
        samples=int(told["samples"]),
        step_size=float(told["step_size"]),
        temperature=float(told["temperature"]),
        failed=int(told["failed"]),
        note=str(told["note"]),
    )


def _returns(returns: xr.DataArray, sticks: xr.Dataset) -> dict[str, Estimate]:
    """Of returns (run, agent): mean, worst agent, mean gaps to agents' optima and the best common policy."""
    mean = returns.mean("agent", skipna=False)
    each = {
        MEAN: mean,
        WORST: returns.min("agent", skipna=False),
        GAP: float(sticks["optimal_return"].mean()) - mean,
        TO_COMMON: float(sticks["best_common"].mean()) - mean,
    }
    return {name: _estimate(values) for name, values in each.items()}


def _estimate(values: xr.DataArray) -> Estimate:
    """The mean over runs that did not fail; exact where there is one run."""
    if bool(values.isnull().all()):
        return UNKNOWN
    if values.sizes["run"] == 1:
        return known(float(values.mean()))
    mean, margin = (float(x) for x in mean_and_margin(values))
    return Estimate(mean, mean - margin, mean + margin)


def columns(board: str) -> tuple[str, ...]:
    """The names of a board's numbers."""
    return RETURNS if board == CONTROL else DISTANCES


def shown(estimate: Estimate | None) -> str:
    """A number with the half-width of its interval."""
    if estimate is None or math.isnan(estimate.value):
        return "-"
    margin = estimate.high - estimate.value
    exact = not margin > ROUNDING * abs(estimate.value)
    return f"{estimate.value:.4g}" if exact else f"{estimate.value:.4g} ± {margin:.2g}"


def count(number: float) -> str:
    """Floats sent, or a dash where nothing is counted."""
    return "-" if math.isnan(number) else f"{number:,.0f}"


def _number(value: str) -> float:
    return float(value) if value else math.nan


# What a row holds beside its places and its numbers: heads of columns, and how they are read.
PLACES = ("board", "fleet", "block", "method")
REST: dict[str, tuple[str, Callable[[str], Any]]] = {
    "sent": ("floats sent", _number),
    "period": ("steps per exchange", _number),
    "samples": ("samples", int),
    "step_size": ("step size", _number),
    "temperature": ("temperature", _number),
    "failed": ("failed runs", int),
    "refused": ("refused", str),
    "error": ("error", str),
    "note": ("note", str),
}


def to_csv(rows: Sequence[Row]) -> str:
    """Every number with its interval."""
    text = io.StringIO()
    names = tuple(dict.fromkeys((*RETURNS, *DISTANCES)))
    heads = [head for name in names for head in (name, f"{name}, low", f"{name}, high")]
    writer = csv.writer(text)
    writer.writerow([*PLACES, *heads, *(head for head, _ in REST.values())])
    for row in rows:
        each = [row.numbers.get(name, UNKNOWN) for name in names]
        numbers = [f"{x:.10g}" for one in each for x in (one.value, one.low, one.high)]
        known = [*numbers, *(getattr(row, name) for name in REST)]
        places = [row.board, row.fleet, row.block, row.label]
        writer.writerow([*places, *("" if str(one) == "nan" else one for one in known)])
    return text.getvalue()


def from_csv(text: str) -> list[Row]:
    """The rows that `to_csv` wrote.

    Raises
    ------
    ValueError
        The text is another table.
    """
    found = []
    try:
        for line in csv.DictReader(io.StringIO(text)):
            ends = {name: (name, f"{name}, low", f"{name}, high") for name in columns(line["board"])}
            empty = line["refused"] or line["error"]
            parts = {name: [_number(line[head]) for head in heads] for name, heads in ends.items()}
            numbers = {} if empty else {name: Estimate(*three) for name, three in parts.items()}
            rest = {name: read(line[head]) for name, (head, read) in REST.items()}
            board, fleet, block, label = (line[place] for place in PLACES)
            found.append(Row(board, fleet, block, label, numbers, **rest))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"expected a table that fedsarsa leaderboard wrote, got: {error!r}") from None
    return found


def table(rows: Sequence[Row], board: str, fleet: str) -> Table:
    """One fleet of a board, for the terminal."""
    names = columns(board)
    result = Table("method", *names, "floats sent", title=f"{board}: {fleet}", title_justify="left")
    block = ""
    for row in rows:
        if row.board != board or row.fleet != fleet:
            continue
        if row.block != block:
            block = row.block
            result.add_section()
            result.add_row(f"[{block}]", *[""] * (len(names) + 1))
        numbers = [row.reason] if row.reason else [shown(row.numbers.get(name)) for name in names]
        result.add_row(row.label, *numbers, *([] if row.reason else [count(row.sent)]))
    return result
