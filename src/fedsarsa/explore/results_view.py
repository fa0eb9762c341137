"""The results view: curves and outcomes of a sweep's cells, claims with verdicts, and figures."""

from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import panel as pn
from bokeh.models import ColumnDataSource, HoverTool
from bokeh.palettes import Viridis256

from fedsarsa.experiments.reproduction.claim import CLASSES
from fedsarsa.explore import page
from fedsarsa.explore.pictures import blank, finish
from fedsarsa.explore.results import Outcome, Results, SweepResults
from fedsarsa.explore.session import Session

SCALES = ("log", "linear")
LOOK_SECONDS = 2  # between two looks at whether the folder has grown
TABLE = """
:host { width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 8px; border-bottom: 1px solid #ddd; }
.holds { color: #00614d; } .part { color: #7a5200; } .fails { color: #9c1f00; } .open { color: #444; }
"""


class ResultsView:
    """One tab on a folder of results; it follows the folder as it grows."""

    def __init__(self, results: Results, query: str, session: Session) -> None:
        self.results, self.session = results, session
        given = {key: values[0] for key, values in parse_qs(query.removeprefix("?")).items()}
        names = list(results.sweeps)
        sweep = given.get("sweep") if given.get("sweep") in names else names[0]
        self.sweep = pn.widgets.Select(name="sweep", options=names, value=sweep, visible=len(names) > 1)
        self.x = pn.widgets.Select(name="along")
        self.colour = pn.widgets.Select(name="colour by")
        self.filters = pn.Column()
        scale = given.get("scale") if given.get("scale") in SCALES else SCALES[0]
        self.scale = pn.widgets.Select(name="scale", options=list(SCALES), value=scale)
        figures = ["", *results.figures()]
        shown = given.get("figure") if given.get("figure") in figures else ""
        self.figure = pn.widgets.Select(name="figure", options=figures, value=shown, visible=len(figures) > 1)
        self.picture = pn.pane.PNG(None, visible=False, sizing_mode="scale_width", max_width=900)
        self.words = page.text()
        self.pictures = pn.Column(stylesheets=[page.GRID], sizing_mode="stretch_width")
        self.table = pn.pane.HTML("", stylesheets=[TABLE], sizing_mode="stretch_width")
        self.claims = pn.pane.HTML("", stylesheets=[TABLE], sizing_mode="stretch_width")
        self.sweep.param.watch(lambda _: self.choose({}), "value")
        for widget in (self.x, self.colour, self.scale):
            widget.param.watch(lambda _: self.draw(), "value")
        self.figure.param.watch(lambda _: self.show_figure(), "value")
        self.only: dict[str, Any] = {}
        self.seen: Any = None
        self.choosing = False
        controls = pn.Column(
            self.sweep, self.x, self.colour, self.scale, self.filters, self.figure, width=310
        )
        answers = pn.Column(self.pictures, self.table, self.picture, self.claims, sizing_mode="stretch_width")
        self.layout = pn.Column(
            session.head, self.words, page.sides(controls, answers), sizing_mode="stretch_width"
        )
        session.at_first(lambda: self.begin(given))

    @property
    def chosen(self) -> SweepResults:
        """The sweep that is shown."""
        return self.results.sweeps[self.sweep.value]

    def begin(self, given: dict[str, str]) -> None:
        """Show the view of an address, and follow the folder."""
        self.show_figure()
        self.choose(given)
        self.session.every(LOOK_SECONDS, self.look)

    def choose(self, given: dict[str, str]) -> None:
        """Offer the axes of the sweep that is shown."""
        axes = self.chosen.axes
        names = list(axes)
        self.choosing = True
        for widget, key, place in ((self.x, "x", 0), (self.colour, "colour", -1)):
            wanted = given.get(key)
            widget.param.update(options=names, value=wanted if wanted in names else names[place])
        self.only = {
            name: pn.widgets.MultiChoice(
                name=name,
                options=values,
                value=[one for one in given.get(f"only.{name}", "").split("|") if one in values],
                placeholder="all",
                width=280,
            )
            for name, values in axes.items()
        }
        self.filters[:] = list(self.only.values())
        for one in self.only.values():
            one.param.watch(lambda _: self.draw(), "value")
        self.choosing = False
        self.draw()

    def look(self) -> None:
        """Draw again what has changed in the folder."""
        stamp = self.results.stamp()
        if stamp != self.seen:
            self.draw()
            self.figure.options = ["", *self.results.figures()]
            self.figure.visible = len(self.figure.options) > 1

    def draw(self) -> None:
        """Draw the cells that are there and not filtered out."""
        if self.choosing:
            return
        self.seen = self.results.stamp()
        sweep, every = self.chosen, self.chosen.outcomes()
        only = {name: widget.value for name, widget in self.only.items() if widget.value}
        outcomes = [one for one in every if _kept(sweep.settings(one.cell), only)]
        cells = len(sweep.grid.cells)
        said = f"{len(every)} of {cells} cells are trained; {len(outcomes)} are shown."
        self.words.object = page.paragraph(said)
        colours = _shades(sweep.axes[self.colour.value])
        log = self.scale.value == "log"
        self.pictures[:] = [
            pn.pane.Bokeh(one, sizing_mode="stretch_width")
            for one in (
                curves(sweep, outcomes, self.colour.value, colours, log),
                along(sweep, outcomes, self.x.value, self.colour.value, colours, log),
            )
        ]
        self.table.object = table(sweep, outcomes)
        kept = {f"only.{name}": "|".join(values) for name, values in only.items()}
        state = _state(self, kept)
        self.claims.object = claims(self.results.claims(), self.results.figures(), state)
        self.session.address("?" + urlencode(state))

    def show_figure(self) -> None:
        """Show the chosen figure of the folder."""
        path = self.results.figures().get(self.figure.value)
        self.picture.object, self.picture.visible = path, path is not None
        if self.seen is not None:
            self.draw()


def curves(sweep: SweepResults, outcomes: list[Outcome], by: str, colours: dict[str, str], log: bool) -> Any:
    """A curve per cell; its settings appear where the pointer is."""
    name = outcomes[0].name if outcomes else "error"
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
        drawn.varea("t", "low", "high", source=source, color=colours[settings[by]], alpha=0.15)
        style = {"color": colours[settings[by]], "legend_label": f"{by} = {settings[by]}"}
        lines.append(drawn.line("t", "mean", source=source, width=2, name=words, **style))
    tips = [("", "@cell"), ("step", "@t"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]
    drawn.add_tools(HoverTool(renderers=lines, tooltips=tips, line_policy="nearest"))
    if lines:
        finish(drawn)
    return drawn


def along(
    sweep: SweepResults, outcomes: list[Outcome], x: str, by: str, colours: dict[str, str], log: bool
) -> Any:
    """What cells led to, along one axis; cells of different colours stand beside each other."""
    name = outcomes[0].name if outcomes else "final error"
    drawn = blank(
        f"{name}, with 95% interval", x, name, x_range=sweep.axes[x], y_axis_type="log" if log else "linear"
    )
    rows: dict[str, list[Any]] = {key: [] for key in ("x", "mean", "low", "high", "colour", "cell")}
    places = dict(zip(colours, np.linspace(-0.25, 0.25, len(colours)).tolist(), strict=True))
    for one in outcomes:
        settings = sweep.settings(one.cell)
        margin = 0.0 if np.isnan(one.margin) else one.margin
        low = one.mean - margin
        low = max(low, one.mean / 100) if log else low  # zero cannot be drawn on a logarithmic axis
        words = ", ".join(f"{key} = {value}" for key, value in settings.items())
        beside = places[settings[by]] if by != x else 0.0
        new = ((settings[x], beside), one.mean, low, one.mean + margin, colours[settings[by]], words)
        for key, value in zip(rows, new, strict=True):
            rows[key].append(value)
    source = ColumnDataSource(rows)
    drawn.segment("x", "low", "x", "high", source=source, color="colour", line_width=2)
    marks = drawn.scatter("x", "mean", source=source, color="colour", size=10)
    tips = [("", "@cell"), (name, "@mean{0.000a} (@low{0.000a} to @high{0.000a})")]
    drawn.add_tools(HoverTool(renderers=[marks], tooltips=tips))
    return drawn


def table(sweep: SweepResults, outcomes: list[Outcome]) -> str:
    """A row per cell."""
    name = outcomes[0].name if outcomes else "outcome"
    heads = [*sweep.axes, name, "95% ±", "failed runs"]
    rows = [
        [*sweep.settings(one.cell).values(), f"{one.mean:.4g}", f"{one.margin:.2g}", str(one.failed)]
        for one in outcomes
    ]
    return html_table(heads, [[escape(cell) for cell in row] for row in rows])


def claims(rows: list[dict[str, str]], figures: dict[str, Any], state: dict[str, str]) -> str:
    """Claims with verdicts; figures are links to themselves in this view, whose ``state`` they keep."""
    if not rows:
        return ""
    made = []
    for row in rows:
        interval = f" [{float(row['low']):.3g}, {float(row['high']):.3g}]" if row["low"] else ""
        figure, link = escape(row["figure"]), escape(urlencode(state | {"figure": row["figure"]}))
        made.append(
            [
                f"{escape(row['claim'])}<br><small>{escape(row['where'])}</small>",
                escape(row["quantity"]),
                f"{float(row['value']):.3g}{interval}",
                f'<span class="{CLASSES.get(row["verdict"], "open")}">{escape(row["verdict"])}</span>',
                f'<a href="results?{link}">{figure}</a>' if row["figure"] in figures else "",
            ]
        )
    return "<h3>Claims</h3>" + html_table(["claim", "tested by", "measured", "verdict", "figure"], made)


def html_table(heads: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shades(values: list[str]) -> dict[str, str]:
    """A colour per value, in order of lightness."""
    places = np.linspace(0, 220, len(values)).astype(int)
    return {value: Viridis256[place] for value, place in zip(values, places, strict=True)}


def _kept(settings: dict[str, str], only: dict[str, list[str]]) -> bool:
    return all(settings[name] in values for name, values in only.items())


def _state(view: ResultsView, more: dict[str, str]) -> dict[str, str]:
    """What the address of a view holds."""
    known = {"sweep": view.sweep.value, "x": view.x.value, "colour": view.colour.value}
    known |= {"scale": view.scale.value} | ({"figure": view.figure.value} if view.figure.value else {})
    return known | more
