"""The pictures of the federation view: each a figure and the numbers it shows."""

from typing import Any

import numpy as np
from bokeh.models import (
    BasicTicker,
    BasicTickFormatter,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    PrintfTickFormatter,
    Range1d,
)
from bokeh.models.annotations import Title, Whisker
from bokeh.plotting import figure

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.explore.measurements import FALLING, RISING, SETTLED, Bars, Trained
from fedsarsa.explore.page import BLUE, GREEN, GREY, ORANGE, RED, SKY
from fedsarsa.explore.theory_answers import Gains, Points, Predicted, plane

HEIGHT = 300
STEPS, AGENT = "steps per agent", "agent"  # what is along many axes
# Why something is missing; these lines have the room of a narrow window.
NO_POINT = "There is no parameter to measure an error to."
NOT_SETTLED = "Trained: not split before the error has settled."
UNKNOWN_TREND = "Trained: not split, as these runs are too few to tell."
NO_FIXED_POINTS = "Theory knows no fixed points here."
NOT_COMPARED = "Agents alone are trained for FedSARSA only."
TO_AGENT = "to agent 0's fixed point"  # labels have the room of an axis in a narrow window


def blank(title: str, x: str, y: str, height: int = HEIGHT, **options: Any) -> Any:
    """An empty figure with names for its axes."""
    drawn = figure(
        title=title,
        x_axis_label=x,
        y_axis_label=y,
        height=height,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_drag=None,
        active_scroll=None,
        toolbar_inner=True,
        frame_align=False,
        **options,
    )
    below: Any = drawn.below[0]
    if x == STEPS:
        below.update(formatter=BasicTickFormatter(use_scientific=False))
        below.ticker.desired_num_ticks = 5  # a million has seven digits
    elif x == AGENT:
        below.ticker = BasicTicker(min_interval=1, num_minor_ticks=0)
    drawn.toolbar.logo = None
    drawn.toolbar.autohide = True
    return drawn


def blank_log(title: str, x: str, y: str) -> Any:
    """An empty figure with a logarithmic axis, whose limits and ticks `limit` moves."""
    drawn = blank(title, x, y, y_axis_type="log", y_range=Range1d(start=0.1, end=100))
    drawn.left[0].update(ticker=FixedTicker(ticks=[]), formatter=PrintfTickFormatter(format="%g"))
    return drawn


def finish(drawn: Any, columns: int = 3) -> None:
    """A small legend below the axis; a click on its entries hides them."""
    legend = drawn.legend[0]
    legend.update(
        orientation="horizontal",
        ncols=columns,
        click_policy="hide",
        label_text_font_size="11px",
        border_line_color=None,
        spacing=8,
        padding=0,
        margin=0,
    )
    drawn.add_layout(legend, "below")


def limit(drawn: Any, heights: Floats) -> None:
    """Limits and ticks of a logarithmic axis by the heights of lines; others may reach down to zero.

    The ticker stays: another one would be a new part of the page, which takes forty milliseconds.
    """
    seen = heights[np.isfinite(heights) & (heights > 0)]
    if len(seen) == 0:
        return
    low, high = float(seen.min()) / 1.6, float(seen.max()) * 1.4
    drawn.y_range.update(start=low, end=high)
    digits = (1,) if high > 1000 * low else (1, 2, 5) if high > 10 * low else range(1, 10)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
    drawn.left[0].ticker.ticks = [tick for tick in ticks if low <= tick <= high]


def note(drawn: Any) -> Title:
    """A line below a figure's title for the reason why something is missing."""
    line = Title(text="", visible=False, text_font_style="italic", text_font_size="12px", text_color=GREY)
    drawn.add_layout(line, "above")
    return line


def explain(line: Title, why: str) -> None:
    """Say why something is missing, or nothing where it is not."""
    line.update(text=why, visible=bool(why))


def empty(source: ColumnDataSource) -> None:
    """Take all numbers away; where there are none, browsers need not draw anew."""
    if any(len(column) for column in source.data.values()):
        source.data = {name: [] for name in source.data}


class ErrorPicture:
    """The error's mean over runs with its band, and the predicted curve."""

    def __init__(self) -> None:
        self.measured = ColumnDataSource({"t": [], "error": [], "low": [], "high": []})
        self.predicted = ColumnDataSource({"t": [], "error": []})
        self.figure = blank_log("Error of the central parameter", STEPS, TO_AGENT)
        self.figure.varea("t", "low", "high", source=self.measured, color=BLUE, alpha=0.25)
        line = self.figure.line(
            "t", "error", source=self.measured, color=BLUE, width=2, legend_label="trained, with 95% band"
        )
        self.figure.line(
            "t", "error", source=self.predicted, color="black", dash=[6, 4], legend_label="predicted"
        )
        tips = [("step", "@t"), ("error", "@error{0.000a}"), ("95%", "@low{0.000a} to @high{0.000a}")]
        self.figure.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline"))
        finish(self.figure)
        self.note = note(self.figure)

    def show(self, trained: Trained) -> None:
        """Draw a training."""
        curves = trained.curves
        columns = {name: curves[name].values for name in ("error", "low", "high")}
        self.figure.tags = [trained.parameters.sizes["run"]]  # how many runs are drawn
        ours = isinstance(trained.algo, FedSARSA)
        self.figure.left[0].axis_label = TO_AGENT if ours else "to what the method aims at"
        explain(self.note, "" if trained.point is not None else NO_POINT)
        self.measured.data = {"t": curves["t"].values, **columns}
        self._limit()

    def clear(self) -> None:
        """Draw nothing."""
        empty(self.measured)
        empty(self.predicted)

    def predict(self, predicted: Predicted | None) -> None:
        """Draw what was predicted, or nothing."""
        if predicted is None:
            empty(self.predicted)
        else:
            self.predicted.data = {"t": predicted.mse["t"].values, "error": predicted.mse.values}
        self._limit()

    def _limit(self) -> None:
        """Limits by the lines: a band may reach down to zero, at minus infinity."""
        limit(self.figure, np.concatenate([one.data["error"] for one in (self.measured, self.predicted)]))


class FloorPicture:
    """Where the error ends, split into bias and noise."""

    def __init__(self) -> None:
        rows = ["predicted", "trained"]
        self.source = ColumnDataSource({"row": rows, "bias": [0.0, 0.0], "noise": [0.0, 0.0]})
        self.figure = blank("The floor: bias and noise", "error", "", y_range=rows)
        self.figure.x_range.start = 0
        self.figure.hbar_stack(
            ["bias", "noise"],
            y="row",
            height=0.5,
            source=self.source,
            color=[RED, SKY],
            legend_label=["bias: worlds differ, steps are not small", "noise"],
        )
        self.figure.add_tools(HoverTool(tooltips=[("bias", "@bias{0.000a}"), ("noise", "@noise{0.000a}")]))
        finish(self.figure)
        self.note = note(self.figure)

    def show(self, trained: Trained | None, predicted: Predicted | None) -> None:
        """Draw the parts that are known."""
        known = trained is not None and trained.point is not None and trained.trend == SETTLED
        measured = trained.floor() if trained is not None and known else {"bias": 0.0, "noise": 0.0}
        explain(self.note, "" if trained is None or known else _unsplit(trained))
        expected = (0.0, 0.0) if predicted is None else (predicted.bias, predicted.floor - predicted.bias)
        self.source.data = {
            "row": ["predicted", "trained"],
            "bias": [expected[0], measured["bias"]],
            "noise": [expected[1], measured["noise"]],
        }


def _unsplit(trained: Trained) -> str:
    """Why the error of a training is not split."""
    if trained.point is None:
        return NO_POINT
    return NOT_SETTLED if trained.trend in (FALLING, RISING) else UNKNOWN_TREND


class DriftPicture:
    """How far agents move apart within a round."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({"t": [], "drift": []})
        self.figure = blank_log("Drift within a round", STEPS, "squared distance to the mean")
        line = self.figure.line("t", "drift", source=self.source, color=BLUE, width=2)
        tips = [("step", "@t"), ("drift", "@drift{0.000a}")]
        self.figure.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline"))

    def show(self, trained: Trained) -> None:
        """Draw the drift of a training."""
        drift = trained.curves["drift"]
        drift = drift.where(drift > 0)
        self.source.data = {"t": drift["t"].values, "drift": drift.values}
        limit(self.figure, drift.values)


class PointsPicture:
    """Where parameters settle, in the plane in which their points differ most."""

    def __init__(self) -> None:
        self.figure = blank(
            "Where parameters settle", "first principal axis", "second principal axis", match_aspect=True
        )
        kinds = {
            "agents": ("each agent alone", "circle", GREY, 7),
            "agent 0": ("agent 0 alone", "circle", ORANGE, 11),
            "runs": ("trained, per run", "x", BLUE, 9),
            "federated": ("federated point", "diamond", BLUE, 11),
            "central": ("central MDP", "square", GREEN, 18),  # around the federated point
        }
        self.sources = {}
        for name, (label, marker, colour, size) in kinds.items():
            self.sources[name] = ColumnDataSource({"x": [], "y": [], "name": []})
            self.figure.scatter(
                "x",
                "y",
                source=self.sources[name],
                marker=marker,
                color=colour,
                size=size,
                line_width=2 if marker in ("x", "square") else 1,
                fill_alpha=0.0 if marker == "square" else 0.75,
                legend_label=label,
            )
        self.figure.add_tools(HoverTool(tooltips="@name"))
        finish(self.figure)
        self.note = note(self.figure)

    def show(self, points: Points | None, finals: Floats) -> None:
        """Draw the points and the final parameters (run, d), or nothing."""
        if points is None:
            for source in self.sources.values():
                empty(source)
            return
        flat, runs = plane(points, finals)
        places = {
            "agents": (flat.own[1:], [f"agent {agent}" for agent in range(1, len(flat.own))]),
            "agent 0": (flat.own[:1], ["agent 0"]),
            "runs": (runs, [f"run {run}" for run in range(len(runs))]),
            "federated": (flat.federated[None], ["federated point"]),
            "central": (flat.central[None], ["fixed point of the central MDP"]),
        }
        for name, (where, names) in places.items():
            self.sources[name].data = {"x": where[:, 0], "y": where[:, 1], "name": names}


class GainsPicture:
    """Who gains by federating: errors to the agent's own fixed point, alone and together."""

    def __init__(self) -> None:
        self.figure = blank(
            "Who gains by federating",
            AGENT,
            "error to its own fixed point",
            y_range=Range1d(start=0, end=1),
        )
        self.sources, self.predicted = {}, {}
        for name, colour, place in (("alone", ORANGE, -0.2), ("together", BLUE, 0.2)):
            source = ColumnDataSource({"agent": [], "mean": [], "low": [], "high": []})
            marks = ColumnDataSource({"agent": [], "error": []})
            shifted = {"source": source, "width": 0.38, "color": colour}
            self.figure.vbar("agent", top="mean", legend_label=f"{name}, trained", **shifted)
            self.figure.add_layout(
                Whisker(base="agent", lower="low", upper="high", source=source, level="overlay")
            )
            self.figure.scatter(
                "agent",
                "error",
                source=marks,
                marker="dash",
                size=11,
                line_width=2,
                color="black",
                legend_label="predicted",
            )
            self.sources[name], self.predicted[name] = (source, place), (marks, place)
        self.figure.add_tools(
            HoverTool(tooltips=[("error", "@mean{0.000a}"), ("95%", "@low{0.000a} to @high{0.000a}")])
        )
        finish(self.figure)
        self.note = note(self.figure)
        entries = self.figure.legend[0].items
        self.entry = next(one for one in entries if one.label.value == "predicted")

    def show(self, alone: Bars | None, together: Bars | None) -> None:
        """Draw what was measured, or nothing."""
        for name, bars in (("alone", alone), ("together", together)):
            source, place = self.sources[name]
            if bars is None:
                empty(source)
            else:
                source.data = {"agent": np.arange(len(bars.mean)) + place, **bars._asdict()}
        if alone is not None and together is not None:
            tallest = np.maximum(alone.mean, together.mean).max()
            whiskers = np.maximum(alone.high, together.high).max()  # of two runs they may be very long
            self.figure.y_range.end = 1.05 * min(whiskers, 2 * tallest)

    def predict(self, gains: Gains | None, silent: bool = False) -> None:
        """Mark what was predicted, or nothing; where theory is ``silent``, the legend does not name it."""
        if gains is not None or silent:
            self.entry.visible = not silent
        for name, (marks, place) in self.predicted.items():
            if gains is None:
                empty(marks)
            else:
                errors = getattr(gains, name)
                marks.data = {"agent": np.arange(len(errors)) + place, "error": errors}


class ReturnsPicture:
    """Every agent's exact return by what it learned, beside its optimum."""

    def __init__(self) -> None:
        names = ("agent", "left", "right", "together", "alone", "optimal")
        self.source = ColumnDataSource({name: [] for name in names})
        self.figure = blank("What the policies are worth, exactly", AGENT, "discounted return")
        for name, x, marker, colour, size in (
            ("optimal", "agent", "dash", GREEN, 14),
            ("alone", "left", "triangle", ORANGE, 8),
            ("together", "right", "circle", BLUE, 8),
        ):
            self.figure.scatter(
                x,
                name,
                source=self.source,
                marker=marker,
                color=colour,
                size=size,
                line_width=2,
                legend_label=name,
            )
        tips = [
            ("agent", "@agent"),
            *((name, f"@{name}{{0.0000}}") for name in ("optimal", "together", "alone")),
        ]
        self.figure.add_tools(HoverTool(tooltips=tips))
        finish(self.figure)
        self.note = note(self.figure)

    def show(self, returns: Any) -> None:
        """Draw a dataset of returns over ``agent``, or nothing."""
        if returns is None:
            empty(self.source)
            return
        agents = returns["agent"].values
        columns = {name: returns[name].values for name in ("together", "alone", "optimal")}
        self.source.data = {"agent": agents, "left": agents - 0.15, "right": agents + 0.15, **columns}
