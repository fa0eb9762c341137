"""The pictures of cells of a sweep: their curves, and what they led to along one axis."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import ColumnDataSource, FactorRange, HoverTool
from bokeh.models.annotations import Legend, LegendItem
from bokeh.palettes import Viridis256

from fedsarsa.explore import page
from fedsarsa.explore.pictures import STEPS, blank, finish
from fedsarsa.explore.results import Outcome, SweepResults, measured, over_time

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


class CurvesPicture:
    """A curve per cell; its settings appear where the pointer is.

    New cells become lines of the same figure, which keeps what one has zoomed to.
    """

    def __init__(self, log: bool) -> None:
        self.figure = blank("Cells over time", STEPS, "", y_axis_type="log" if log else "linear")
        self.hover = HoverTool(line_policy="nearest")
        self.figure.add_tools(self.hover)
        self.cells: dict[int, tuple[Any, Any]] = {}  # band and line
        self.drawn: list[int] = []
        self.labels: dict[str, list[Any]] = {}  # lines by the entry of the legend
        self.legend = Legend()
        self.figure.add_layout(self.legend)
        finish(self.figure)

    def show(self, sweep: SweepResults, outcomes: list[Outcome], looks: Looks) -> None:
        """Draw cells, the longest first: others lie over them."""
        for one in outcomes:
            words = ", ".join(f"{key} = {value}" for key, value in sweep.settings(one.cell).items())
            times = one.curve["t"].values
            data = {key: one.curve[key].values for key in ("mean", "low", "high")}
            self._draw(one.cell.number, {"t": times, **data, "cell": [words] * len(times)}, looks)
        ordered = sorted(outcomes, key=lambda one: -float(one.curve["t"][-1]))
        drawn = [one.cell.number for one in ordered]
        name = over_time(outcomes)
        tips = [("", "@cell"), ("step", "@t"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]
        self.figure.left[0].axis_label = name
        lines = {one.cell.number: self.cells[one.cell.number][1] for one in outcomes}
        labels: dict[str, list[Any]] = {}
        for number, line in lines.items():
            labels.setdefault(looks[number].label, []).append(line)
        if drawn != self.drawn:
            self.drawn = drawn
            self.figure.renderers = [part for number in drawn for part in self.cells[number]]
        self.hover.update(renderers=list(lines.values()), tooltips=tips)
        if labels != self.labels:
            self.labels = labels
            self.legend.items = [
                LegendItem(label=value(name), renderers=every) for name, every in labels.items()
            ]
            self.legend.ncols = 1 if max(map(len, labels), default=0) > LONG else 3

    def _draw(self, number: int, data: dict[str, Any], looks: Looks) -> None:
        """Draw a cell, or draw it anew."""
        colour = looks[number].colour
        if number not in self.cells:
            source = ColumnDataSource(data)
            band = self.figure.varea("t", "low", "high", source=source, color=colour, alpha=0.15)
            line = self.figure.line("t", "mean", source=source, width=2, color=colour, name=data["cell"][0])
            self.cells[number], self.drawn = (band, line), []
            return
        band, line = self.cells[number]
        if not np.array_equal(line.data_source.data["mean"], data["mean"], equal_nan=True):
            line.data_source.data = data
        if line.glyph.line_color != colour:
            line.glyph.line_color = band.glyph.fill_color = colour


class AlongPicture:
    """What cells led to, along one axis; cells of different colours stand beside each other."""

    def __init__(self, log: bool) -> None:
        self.log = log
        columns = ("x", "mean", "low", "high", "colour", "cell")
        self.source = ColumnDataSource({key: [] for key in columns})
        self.figure = blank("", "", "", x_range=FactorRange(), y_axis_type="log" if log else "linear")
        self.figure.segment("x", "low", "x", "high", source=self.source, color="colour", line_width=2)
        marks = self.figure.scatter("x", "mean", source=self.source, color="colour", size=10)
        self.hover = HoverTool(renderers=[marks])
        self.figure.add_tools(self.hover)

    def show(self, sweep: SweepResults, outcomes: list[Outcome], x: str, looks: Looks) -> None:
        """Draw cells."""
        name = measured(outcomes)
        rows: dict[str, list[Any]] = {key: [] for key in self.source.data}
        for one in outcomes:
            settings = sweep.settings(one.cell)
            margin = 0.0 if np.isnan(one.margin) else one.margin
            low = one.mean - margin
            low = max(low, one.mean / 100) if self.log else low  # zero cannot be drawn on a logarithmic axis
            words = ", ".join(f"{key} = {value}" for key, value in settings.items())
            look = looks[one.cell.number]
            beside = look.place if look.axis != x else 0.0
            new = ((settings[x], beside), one.mean, low, one.mean + margin, look.colour, words)
            for key, cell in zip(rows, new, strict=True):
                rows[key].append(cell)
        self.figure.title.text = f"{name}, with 95% interval"
        self.figure.below[0].axis_label, self.figure.left[0].axis_label = x, name
        self.figure.x_range.factors = sweep.axes[x]
        self.source.data = rows
        self.hover.tooltips = [("", "@cell"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]


def _shades(values: list[str]) -> dict[str, str]:
    """A colour per value, in order of lightness."""
    places = np.linspace(0, page.SHADES - 1, len(values)).astype(int)
    return {value: Viridis256[place] for value, place in zip(values, places, strict=True)}
