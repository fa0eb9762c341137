"""The results view: curves and outcomes of a sweep's cells, claims with verdicts, and figures."""

import math
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode

import panel as pn
from bokeh.models import ColumnDataSource
from bokeh.models.widgets.tables import DataTable, TableColumn

from fedsarsa._checks import nearest
from fedsarsa.experiments.reproduction.claim import CLASSES
from fedsarsa.explore import page, results_pictures
from fedsarsa.explore.control_values import base_of
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.form import WIDTH
from fedsarsa.explore.results import Outcome, Results, SweepResults, measured, positive
from fedsarsa.explore.results_exports import RESULTS_FILES, Shown
from fedsarsa.explore.results_pictures import AlongPicture, CurvesPicture
from fedsarsa.explore.session import Session

ROW, MOST = 25, 400  # pixels of a row of the table, and of the table at most
SCALES = ("log", "linear")
# Lets the keyboard sort the table and leave it: names of columns are reached by Tab and clicked by Enter, and
# the table does not see Tab, which would go from cell to cell for ever.
REACH_COLUMNS = (
    page.INSIDE
    + """
const reach = again => {
    for (const one of inside(document).filter(one => one.matches(".slick-header-column:not([tabindex])"))) {
        one.tabIndex = 0
        one.addEventListener("keydown", event => {
            if (event.key !== "Enter") return
            one.click()
            one.focus()
        })
        const table = one.getRootNode()
        if (table.leaves) continue
        table.leaves = true
        table.addEventListener("keydown", event => { if (event.key === "Tab") event.stopPropagation() }, true)
    }
    if (again) setTimeout(reach, 500, again - 1)
}
reach(6)
"""
)
LOOK_SECONDS = 2  # between two looks at whether the folder has grown
# Pictures of another scale are made anew: what is below them should not move meanwhile.
ROOM = ":host { min-height: 300px; } @media (max-width: 1121px) { :host { min-height: 612px; } }"
TABLE = """
:host { width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: 4px 8px; border-bottom: 1px solid #ddd; }
@media (max-width: 720px) {  /* a row becomes a block, every cell a line with the name of its column */
  thead { display: none; } table, tbody, tr, td { display: block; }
  tr { padding: 6px 0; border-bottom: 1px solid #bbb; } td { border: none; padding: 1px 4px; }
  td:not(:empty)::before { content: attr(data-name) ": "; color: #555; }
}
.holds { color: #00614d; } .part { color: #7a5200; } .fails { color: #9c1f00; } .open { color: #444; }
"""


class ResultsView:
    """One tab on a folder of results; it follows the folder as it grows."""

    def __init__(self, results: Results, query: str, session: Session) -> None:
        self.results, self.session = results, session
        given = {key: values[0] for key, values in parse_qs(query.removeprefix("?")).items()}
        names = list(results.sweeps)
        sweep = given.get("sweep") if given.get("sweep") in names else next(iter(names), None)
        self.sweep = pn.widgets.Select(
            name="sweep", options=names, value=sweep, visible=len(names) > 1, width=WIDTH
        )
        self.x = pn.widgets.Select(name="along", width=WIDTH)
        self.colour = pn.widgets.Select(name="colour by", width=WIDTH)
        self.filters = pn.Column()
        self.scale = pn.widgets.Select(name="scale", options=list(SCALES), width=WIDTH)
        figures = ["", *results.figures()]
        shown = given.get("figure") if given.get("figure") in figures else ""
        self.figure = pn.widgets.Select(
            name="figure", options=figures, value=shown, visible=len(figures) > 1, width=WIDTH
        )
        self.picture = pn.pane.PNG(
            None, visible=False, sizing_mode="scale_width", max_width=900, css_classes=["as-it-is"]
        )
        self.words = page.text()
        self.pictures = pn.Column(stylesheets=[page.GRID, ROOM], sizing_mode="stretch_width")
        self.rows = ColumnDataSource({})
        self.cells = DataTable(
            source=self.rows,
            selectable="checkbox",
            index_position=None,
            autosize_mode="none",  # a table that is wider than the window is moved within its frame
            stylesheets=[":host { max-width: 100%; }"],
            sizing_mode="stretch_width",
        )
        self.compared = [int(one) for one in given.get("cells", "").split("|") if one.isdecimal()]
        self.difference = pn.pane.HTML("", stylesheets=[TABLE], sizing_mode="stretch_width")
        self.claims = pn.pane.HTML("", stylesheets=[TABLE], sizing_mode="stretch_width")
        self.sweep.param.watch(lambda _: self.choose({}), "value")
        for widget in (self.x, self.colour, self.scale):
            widget.param.watch(lambda _: self.change(), "value")
        self.figure.param.watch(lambda _: self.show_figure(), "value")
        self.rows.selected.on_change("indices", lambda _attr, _old, _new: session.at_once(self.compare))
        self.drawn: tuple[str, bool] | None = None  # the sweep and the scale that the pictures are of
        self.errors: tuple[str, ...] = ()  # what is wrong with the address
        self.only: dict[str, Any] = {}
        self.seen: Any = None
        self.choosing = False
        self.downloads = Downloads("results", RESULTS_FILES)
        controls = pn.Column(
            self.sweep,
            self.x,
            self.colour,
            self.scale,
            self.filters,
            self.figure,
            self.downloads.layout,
            width=310,
        )
        cells = pn.pane.Bokeh(self.cells, sizing_mode="stretch_width")
        self.listed = pn.widgets.IntInput(value=0, visible=False)
        self.listed.jscallback(value=REACH_COLUMNS)
        answers = pn.Column(
            self.pictures,
            cells,
            self.listed,
            self.difference,
            self.picture,
            self.claims,
            sizing_mode="stretch_width",
        )
        self.layout = page.whole(session.head, self.words, page.sides(controls, answers))
        session.at_first(lambda: self.begin(given))

    @property
    def chosen(self) -> SweepResults:
        """The sweep that is shown."""
        return self.results.sweeps[self.sweep.value]

    def begin(self, given: dict[str, str]) -> None:
        """Show the view of an address, and follow the folder."""
        self.show_figure()
        if self.sweep.value is not None:
            self.choose(given)
        else:
            self.draw()
        self.session.every(LOOK_SECONDS, self.look)

    def choose(self, given: dict[str, str]) -> None:
        """Offer the axes of the sweep that is shown."""
        axes = self.chosen.axes
        names = list(axes)
        self.choosing = True
        sweeps, figures = list(self.results.sweeps), list(self.results.figures())
        self.errors = wrong_keys(given, sweeps, axes, figures, len(self.chosen.grid.cells))
        self.scale.options = list(SCALES)
        self.scale.value = given["scale"] if given.get("scale") in SCALES else SCALES[0]
        for widget, key, place in ((self.x, "x", 0), (self.colour, "colour", -1)):
            wanted = given.get(key)
            widget.param.update(options=names, value=wanted if wanted in names else names[place])
        self.only = {
            name: pn.widgets.MultiChoice(
                name=name,
                options=values,
                value=[one for one in given.get(f"only.{name}", "").split("|") if one in values],
                placeholder="all",
                width=WIDTH,
            )
            for name, values in axes.items()
        }
        self.filters[:] = list(self.only.values())
        for one in self.only.values():
            one.param.watch(lambda _: self.change(), "value")
        self.choosing = False
        self.draw()

    def look(self) -> None:
        """Draw again what has changed in the folder."""
        stamp = self.results.stamp()
        if stamp != self.seen:
            names = list(self.results.sweeps)
            self.sweep.param.update(
                options=names, value=self.sweep.value or next(iter(names), None), visible=len(names) > 1
            )
            self.draw()
            self.figure.options = ["", *self.results.figures()]
            self.figure.visible = len(self.figure.options) > 1

    def change(self) -> None:
        """Draw what was chosen; what was wrong with the address is past."""
        if not self.choosing:
            self.errors = ()
            self.session.at_once(self.draw)

    def draw(self) -> None:
        """Draw the cells that are there and not filtered out."""
        if self.choosing:
            return
        self.seen = self.results.stamp()
        if self.sweep.value is None:
            self.claims.object = claims(self.results.claims(), self.results.figures(), {})
            self.words.object = page.paragraph("No sweep has begun yet.")
            return
        sweep, every = self.chosen, self.chosen.outcomes()
        only = {name: widget.value for name, widget in self.only.items() if widget.value}
        outcomes = [one for one in every if _kept(sweep.settings(one.cell), only)]
        cells = len(sweep.grid.cells)
        said = f"{len(every)} of {cells} cells are trained; {len(outcomes)} are shown."
        self.words.object = page.paragraph(said, wrong="; ".join(self.errors))
        compared = [one for one in outcomes if one.cell.number in self.compared]
        drawn = compared if len(compared) > 1 else outcomes
        looks = results_pictures.looks(sweep, drawn, self.colour.value, drawn is compared)
        self._offer_scales(positive(drawn))
        log = self.scale.value == "log"
        if self.drawn != (self.sweep.value, log):  # another axis is another figure
            self.drawn = self.sweep.value, log
            self.curves, self.along = CurvesPicture(log), AlongPicture(log)
            figures = (self.curves.figure, self.along.figure)
            self.pictures[:] = [pn.pane.Bokeh(one, sizing_mode="stretch_width") for one in figures]
        self.curves.show(sweep, drawn, looks)
        self.along.show(sweep, drawn, self.x.value, looks)
        if drawn:
            content = base_of(drawn[0].cell.config).content
            self.downloads.refresh(content)
            self.downloads.offer(Shown(sweep, drawn, table(sweep, drawn), looks, log), content)
        self.difference.object = difference(sweep, compared)
        self._list(sweep, outcomes)
        kept = {f"only.{name}": "|".join(values) for name, values in only.items()}
        kept |= {"cells": "|".join(str(one.cell.number) for one in compared)} if compared else {}
        state = _state(self, kept)
        self.claims.object = claims(self.results.claims(), self.results.figures(), state)
        self.session.address("?" + urlencode(state))

    def _offer_scales(self, log: bool) -> None:
        """Offer the scales that can show the numbers."""
        self.choosing = True
        options = list(SCALES) if log else list(SCALES[1:])
        kept = self.scale.value if self.scale.value in options else options[0]
        self.scale.param.update(options=options, value=kept)
        self.choosing = False

    def compare(self) -> None:
        """Draw the cells that are chosen in the table alone, where they are two or more."""
        if not self.choosing:
            self.compared = [self.rows.data["cell"][place] for place in self.rows.selected.indices]
            self.errors = ()
            self.draw()

    def _list(self, sweep: SweepResults, outcomes: list[Outcome]) -> None:
        """Put the cells into the table; those that are compared stay chosen."""
        data = table(sweep, outcomes)
        if data == self.rows.data:  # the browser may have chosen others meanwhile
            return
        self.choosing = True
        if list(data) != list(self.rows.data):
            self.cells.columns = [
                TableColumn(
                    field=name, title=name, width=24 + 8 * max(len(str(one)) for one in (name, *column))
                )
                for name, column in data.items()
                if name != "cell"
            ]
        self.rows.data = data
        self.rows.selected.indices = [place for place, one in enumerate(data["cell"]) if one in self.compared]
        self.listed.value = (self.listed.value or 0) + 1
        self.cells.height = min(ROW * (len(outcomes) + 2), MOST)
        self.choosing = False

    def show_figure(self) -> None:
        """Show the chosen figure of the folder."""
        path = self.results.figures().get(self.figure.value)
        self.picture.object, self.picture.visible = path, path is not None
        if self.seen is not None:
            self.draw()


def table(sweep: SweepResults, outcomes: list[Outcome]) -> dict[str, list[Any]]:
    """A row per cell, as columns; numbers stay numbers, by which browsers sort."""
    name = measured(outcomes)
    settings = [sweep.settings(one.cell) for one in outcomes]
    return {
        "cell": [one.cell.number for one in outcomes],
        **{axis: [_number(one[axis]) for one in settings] for axis in sweep.axes},
        name: [float(f"{one.mean:.4g}") for one in outcomes],
        "95% ±": [float(f"{one.margin:.2g}") for one in outcomes],
        "failed runs": [one.failed for one in outcomes],
    }


def difference(sweep: SweepResults, outcomes: list[Outcome]) -> str:
    """What cells that are compared led to, beside the first of them; nothing for fewer than two.

    The interval of a difference is that of two means of runs that have nothing in common.
    """
    if len(outcomes) < 2:
        return ""
    first, rows = outcomes[0], []
    names = results_pictures.names(sweep, outcomes)
    for one in outcomes:
        apart, margin = one.mean - first.mean, math.hypot(one.margin, first.margin)
        told = "" if one is first else f"{apart:+.3g} ± {margin:.2g}"
        rows.append([escape(names[one.cell.number]), f"{one.mean:.4g} ± {one.margin:.2g}", told])
    return "<h3>Compared</h3>" + html_table(["cell", first.name, "less the first"], rows)


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
    names = [escape(name) for name in heads]
    body = "".join(
        "<tr>"
        + "".join(f'<td data-name="{name}">{cell}</td>' for name, cell in zip(names, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def wrong_keys(
    given: dict[str, str], sweeps: list[str], axes: dict[str, list[str]], figures: list[str], cells: int
) -> tuple[str, ...]:
    """What is wrong with the keys of an address: their names, and values that are not there."""
    names = list(axes)
    known = {"sweep": sweeps, "x": names, "colour": names, "scale": list(SCALES), "figure": figures}
    known |= {f"only.{name}": values for name, values in axes.items()}
    known["cells"] = [str(number) for number in range(cells)]
    said = []
    for key, text in given.items():
        if key not in known:
            valid = ", ".join(sorted(known))
            said.append(f"address: {key}: unknown key{nearest(key, sorted(known))}; valid: {valid}")
            continue
        every = text.split("|") if key == "cells" or key.startswith("only.") else [text]
        options = f"0 to {cells - 1}" if key == "cells" else " or ".join(known[key]) or "none"
        said += [f"address: {key}: expected {options}, got {one!r}" for one in every if one not in known[key]]
    return tuple(said)


def _number(text: str) -> Any:
    """A number for what is one in words."""
    try:
        return float(text) if "." in text or "e" in text else int(text)
    except ValueError:
        return text


def _kept(settings: dict[str, str], only: dict[str, list[str]]) -> bool:
    return all(settings[name] in values for name, values in only.items())


def _state(view: ResultsView, more: dict[str, str]) -> dict[str, str]:
    """What the address of a view holds."""
    known = {"sweep": view.sweep.value, "x": view.x.value, "colour": view.colour.value}
    known |= {"scale": view.scale.value} | ({"figure": view.figure.value} if view.figure.value else {})
    return known | more
