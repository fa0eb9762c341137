"""Plans, cells of a sweep and leaderboards as files that other programs read."""

from dataclasses import dataclass
from typing import Any

from fedsarsa.experiments.leaderboard import tables
from fedsarsa.explore import exports
from fedsarsa.explore.plans import Planned
from fedsarsa.explore.results import Outcome, SweepResults, over_time


@dataclass(frozen=True, eq=False)
class Shown:
    """Cells that are drawn: their table, and how each looks, colour and label by number."""

    sweep: SweepResults
    outcomes: list[Outcome]
    table: dict[str, list[Any]]
    looks: dict[int, Any]
    log: bool


def choices_csv(plan: Planned) -> bytes:
    """What every number of agents can reach: least error, bias, steps to the target (inf: never)."""
    columns = {name: plan.choices[name].values for name in ("agents", "least_error", "bias", "steps")}
    return exports.csv_columns(columns).encode()


def cells_csv(shown: Shown) -> bytes:
    """A row per cell: its settings and what it led to."""
    return exports.csv_columns(shown.table).encode()


def curves_csv(shown: Shown) -> bytes:
    """A row per cell and time: the mean over runs and its 95% band."""
    rows: dict[str, list[Any]] = {name: [] for name in ("cell", "t", "mean", "low", "high")}
    for one in shown.outcomes:
        times = one.curve["t"].values.tolist()
        rows["cell"] += [one.cell.number] * len(times)
        rows["t"] += times
        for name in ("mean", "low", "high"):
            rows[name] += one.curve[name].values.tolist()
    return exports.csv_columns(rows).encode()


def curves_picture(shown: Shown, kind: str) -> bytes:
    """The curves with their bands as a figure for print, ``kind`` png or svg."""
    from fedsarsa.experiments import plots  # Matplotlib, which the first page need not wait for

    figure, [axes] = plots.panels(shown.sweep.folder.name, 1)
    entries = {}
    for one in shown.outcomes:
        look, times = shown.looks[one.cell.number], one.curve["t"]
        axes.plot(times, one.curve["mean"], color=look.colour, linewidth=1.3)
        axes.fill_between(
            times, one.curve["low"], one.curve["high"], color=look.colour, alpha=0.25, linewidth=0
        )
        entries[look.label] = look.colour
    axes.set_yscale("log" if shown.log else "linear")
    axes.set_xlabel(plots.STEPS)
    axes.set_ylabel(over_time(shown.outcomes))
    axes.grid(alpha=0.3, linewidth=0.5)
    plots.legend(figure, entries)
    return exports.saved(figure, kind)


def history(shown: Shown) -> bytes:
    """The file of the first cell that is shown, as ``fs.History.load`` reads it."""
    return shown.sweep.path(shown.outcomes[0].cell).read_bytes()


def board_picture(rows: list[tables.Row], kind: str) -> bytes:
    """The rows of one board as the figure that the command draws."""
    from fedsarsa.experiments.leaderboard import figures

    return exports.saved(figures.figure([row for row in rows if row.numbers], rows[0].board), kind)


PLAN_FILES: exports.Files = {"choices": ("choices.csv", lambda plan, _: choices_csv(plan))}
RESULTS_FILES: exports.Files = {
    "PNG": ("png", lambda shown, _: curves_picture(shown, "png")),
    "SVG": ("svg", lambda shown, _: curves_picture(shown, "svg")),
    "table CSV": ("table.csv", lambda shown, _: cells_csv(shown)),
    "curves CSV": ("curves.csv", lambda shown, _: curves_csv(shown)),
    "netCDF": ("nc", lambda shown, _: history(shown)),
}
BOARD_FILES: exports.Files = {
    "PNG": ("png", lambda rows, _: board_picture(rows, "png")),
    "SVG": ("svg", lambda rows, _: board_picture(rows, "svg")),
    "CSV": ("csv", lambda rows, _: tables.to_csv(rows).encode()),
}
