"""The pictures of cells of a sweep: their curves, and what they led to along one axis."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.palettes import Viridis256

from fedsarsa.explore import page
from fedsarsa.explore.pictures import blank, finish
from fedsarsa.explore.results import Outcome, SweepResults, measured

LONG = 20  # letters of an entry of the legend that has a line of its own


@dataclass(frozen=True)
class Look:
    """How a cell is drawn: its colour, what that says, and its place beside those alike on ``axis``."""

    colour: str
    label: str
    place: float
    axis: str


Looks = dict[int, Look]


def names(sweep: SweepResults, outcomes: list[Outcome]) -> dict[int, str]:
    """Cells by the settings in which they differ."""
    settings = {one.cell.number: sweep.settings(one.cell) for one in outcomes}
    varied = [name for name in sweep.axes if len({one[name] for one in settings.values()}) > 1]
    return {
        cell: ", ".join(f"{name} = {one[name]}" for name in varied) or f"cell {cell}"
        for cell, one in settings.items()
    }


def looks(sweep: SweepResults, outcomes: list[Outcome], by: str, compared: bool) -> Looks:
    """Looks of cells by number: those of one value on an axis are alike; compared ones all differ."""
    labels = {one.cell.number: f"{by} = {sweep.settings(one.cell)[by]}" for one in outcomes}
    every = [f"{by} = {value}" for value in sweep.axes[by]]
    if compared:
        labels = names(sweep, outcomes)
        every = list(labels.values())
    colours, places = _shades(every), np.linspace(-0.25, 0.25, len(every)).tolist()
    axis = "" if compared else by
    return {
        cell: Look(colours[label], label, places[every.index(label)], axis) for cell, label in labels.items()
    }


def curves(sweep: SweepResults, outcomes: list[Outcome], looks: Looks, log: bool) -> Any:
    """A curve per cell; its settings appear where the pointer is."""
    name = measured(outcomes)
    drawn = blank(
        "Cells over time",
        "steps per agent",
        name.removeprefix("final "),
        y_axis_type="log" if log else "linear",
    )
    lines = []
    for one in outcomes:
        settings = sweep.settings(one.cell)
        words = ", ".join(f"{key} = {value}" for key, value in settings.items())
        times = one.curve["t"].values
        columns = {key: one.curve[key].values for key in ("mean", "low", "high")}
        source = ColumnDataSource({"t": times, **columns, "cell": [words] * len(times)})
        drawn.varea("t", "low", "high", source=source, color=looks[one.cell.number].colour, alpha=0.15)
        style = {"color": looks[one.cell.number].colour, "legend_label": looks[one.cell.number].label}
        lines.append(drawn.line("t", "mean", source=source, width=2, name=words, **style))
    tips = [("", "@cell"), ("step", "@t"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="nearest"))
    if lines:
        finish(drawn, columns=1 if max(len(one.label) for one in looks.values()) > LONG else 3)
    return drawn


def along(sweep: SweepResults, outcomes: list[Outcome], x: str, looks: Looks, log: bool) -> Any:
    """What cells led to, along one axis; cells of different colours stand beside each other."""
    name = measured(outcomes)
    drawn = blank(
        f"{name}, with 95% interval", x, name, x_range=sweep.axes[x], y_axis_type="log" if log else "linear"
    )
    rows: dict[str, list[Any]] = {key: [] for key in ("x", "mean", "low", "high", "colour", "cell")}
    for one in outcomes:
        settings = sweep.settings(one.cell)
        margin = 0.0 if np.isnan(one.margin) else one.margin
        low = one.mean - margin
        low = max(low, one.mean / 100) if log else low  # zero cannot be drawn on a logarithmic axis
        words = ", ".join(f"{key} = {value}" for key, value in settings.items())
        look = looks[one.cell.number]
        beside = look.place if look.axis != x else 0.0
        new = ((settings[x], beside), one.mean, low, one.mean + margin, look.colour, words)
        for key, value in zip(rows, new, strict=True):
            rows[key].append(value)
    source = ColumnDataSource(rows)
    drawn.segment("x", "low", "x", "high", source=source, color="colour", line_width=2)
    marks = drawn.scatter("x", "mean", source=source, color="colour", size=10)
    tips = [("", "@cell"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]
    drawn.add_tools(HoverTool(renderers=[marks], tooltips=tips))
    return drawn


def _shades(values: list[str]) -> dict[str, str]:
    """A colour per value, in order of lightness."""
    places = np.linspace(0, page.SHADES - 1, len(values)).astype(int)
    return {value: Viridis256[place] for value, place in zip(values, places, strict=True)}
