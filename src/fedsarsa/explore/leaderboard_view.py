"""The results view of a leaderboard: a dot per method with its interval, and the table behind it."""

import math
from html import escape
from typing import Any
from urllib.parse import parse_qs, urlencode

import panel as pn
from bokeh.models import ColumnDataSource, HoverTool

from fedsarsa.experiments.leaderboard import tables
from fedsarsa.experiments.leaderboard.entries import BLOCKS
from fedsarsa.experiments.leaderboard.tables import Row
from fedsarsa.explore import page
from fedsarsa.explore.downloads import Downloads
from fedsarsa.explore.form import WIDTH
from fedsarsa.explore.pictures import blank, finish
from fedsarsa.explore.results import Leaderboard
from fedsarsa.explore.results_exports import BOARD_FILES
from fedsarsa.explore.results_view import LOOK_SECONDS, TABLE, html_table
from fedsarsa.explore.session import Session

LINE, MARGINS = 26, 150  # pixels of a method's line, and of what is above and below them
COLOURS = dict(zip(BLOCKS, (page.BLUE, page.ORANGE, page.GREEN, page.GREY), strict=True))
MARKERS = dict(zip(BLOCKS, ("circle", "square", "triangle", "diamond"), strict=True))
NAMES = {  # in two lines, as the axis is short in a narrow window
    tables.TO_OWN: "squared error\nto its own target",
    tables.TO_FEDERATED: "squared error\nto the federated point",
    tables.TO_AGENTS: "squared error\nto each agent's fixed point",
}
USUAL = {"control": tables.TO_COMMON, "prediction": tables.TO_AGENTS}  # what is compared at first


class LeaderboardView:
    """One tab on the folder of a leaderboard; it follows the folder as it changes."""

    def __init__(self, board: Leaderboard, query: str, session: Session) -> None:
        self.board, self.session = board, session
        given = {key: values[0] for key, values in parse_qs(query.removeprefix("?")).items()}
        self.rows = board.rows()
        self.task = pn.widgets.Select(name="board", options=_boards(self.rows), width=WIDTH)
        self.fleet = pn.widgets.Select(name="fleet", width=WIDTH)
        self.number = pn.widgets.Select(name="compare", width=WIDTH)
        self.blocks = pn.widgets.MultiChoice(
            name="only what", options=list(BLOCKS), placeholder="all", width=WIDTH
        )
        self.words = page.text()
        self.pictures = pn.Column(sizing_mode="stretch_width")
        self.table = pn.pane.HTML("", stylesheets=[TABLE], sizing_mode="stretch_width")
        self.seen, self.choosing = board.stamp(), False
        self.task.value = given.get("board") if given.get("board") in self.task.options else self.task.value
        self.blocks.value = [one for one in given.get("methods", "").split("|") if one in BLOCKS]
        self.task.param.watch(lambda _: session.at_once(lambda: self.choose({})), "value")
        for widget in (self.fleet, self.number, self.blocks):
            widget.param.watch(lambda _: session.at_once(self.draw), "value")
        self.downloads = Downloads("leaderboard", BOARD_FILES, copies=False)
        controls = pn.Column(
            self.task, self.fleet, self.number, self.blocks, self.downloads.layout, width=310
        )
        answers = pn.Column(self.pictures, self.table, sizing_mode="stretch_width")
        self.layout = page.whole(session.head, self.words, page.sides(controls, answers))
        session.at_first(lambda: self.begin(given))

    def begin(self, given: dict[str, str]) -> None:
        """Show the view of an address, and follow the folder."""
        self.choose(given)
        self.session.every(LOOK_SECONDS, self.look)

    def look(self) -> None:
        """Draw again what has changed in the folder."""
        if self.board.stamp() != self.seen:
            self.seen = self.board.stamp()
            try:
                self.rows = self.board.rows()
            except ValueError as wrong:
                self.words.object = page.paragraph("", wrong=str(wrong))
                return
            self.choosing, self.task.options = True, _boards(self.rows)
            self.choosing = False
            self.choose({"fleet": self.fleet.value, "compare": self.number.value})

    def choose(self, given: dict[str, str]) -> None:
        """Offer the fleets and numbers of the board that is shown."""
        task = self.task.value
        if self.choosing:
            return
        if task is None:
            self.pictures[:], self.table.object = [], ""
            said = f"{self.board.measured()} cells are measured. The table comes when all are."
            self.words.object = page.paragraph(said)
            return
        fleets = list(dict.fromkeys(row.fleet for row in self.rows if row.board == task))
        numbers = list(tables.columns(task))
        self.choosing = True
        for widget, options, wanted, usual in (
            (self.fleet, fleets, given.get("fleet"), fleets[0]),
            (self.number, numbers, given.get("compare"), USUAL.get(task, numbers[0])),
        ):
            widget.param.update(options=options, value=wanted if wanted in options else usual)
        self.choosing = False
        self.draw()

    def draw(self) -> None:
        """Draw the methods that are not filtered out."""
        if self.choosing:
            return
        rows = [row for row in self.rows if (row.board, row.fleet) == (self.task.value, self.fleet.value)]
        kept = [row for row in rows if not self.blocks.value or row.block in self.blocks.value]
        self.words.object = page.paragraph(sentence(rows))
        self.pictures[:] = [pn.pane.Bokeh(picture(kept, self.number.value), sizing_mode="stretch_width")]
        self.table.object = table(kept)
        if any(row.numbers for row in kept):
            self.downloads.offer(kept, {})
        known = {"board": self.task.value, "fleet": self.fleet.value, "compare": self.number.value}
        known |= {"methods": "|".join(self.blocks.value)} if self.blocks.value else {}
        self.session.address("?" + urlencode(known))


def _boards(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.board for row in rows))


def sentence(rows: list[Row]) -> str:
    """Who leads on a fleet, block by block; methods that cannot be told from the best lead together."""
    said = []
    for block in BLOCKS:
        names = [row.label for row in rows if row.leads and row.block == block]
        if names:
            said.append(f"{block.capitalize()}: {'; '.join(names)}.")
    refused = sum(1 for row in rows if row.refused)
    if refused:
        said.append(f"{refused} of {len(rows)} methods reject these worlds.")
    return (
        "Within reach of the best, by what methods know. " + " ".join(said)
        if said
        else "No method was measured here."
    )


def picture(rows: list[Row], number: str) -> Any:
    """A line per method, in the order of the table; its settings appear where the pointer is."""
    measured = [row for row in rows if row.numbers and not math.isnan(row.numbers[number].value)]
    height = MARGINS + LINE * max(1, len(measured))
    labels = [row.label for row in reversed(measured)]
    name = NAMES.get(number, number)
    drawn = blank("With 95% intervals", name, "", y_range=labels, height=height)
    columns: dict[str, list[Any]] = {
        "method": [row.label for row in measured],
        "value": [row.numbers[number].value for row in measured],
        "low": [row.numbers[number].low for row in measured],
        "high": [row.numbers[number].high for row in measured],
        "block": [row.block for row in measured],
        "step": [f"{row.step_size:g}" for row in measured],
        "temperature": [f"{row.temperature:g}" for row in measured],
        "sent": [tables.count(row.sent) for row in measured],
    }
    marks = []
    for block in dict.fromkeys(columns["block"]):
        kept = [place for place, one in enumerate(columns["block"]) if one == block]
        source = ColumnDataSource({key: [values[k] for k in kept] for key, values in columns.items()})
        style = {"source": source, "color": COLOURS[block], "line_width": 2}
        drawn.segment("low", "method", "high", "method", **style)
        marks.append(
            drawn.scatter("value", "method", size=10, marker=MARKERS[block], legend_label=block, **style)
        )
    tips = [
        ("", "@method"),
        (number, "@value{0.000a} (@low{0.000a} to @high{0.000a})"),
        ("", "@block"),
        ("step size", "@step"),
        ("temperature", "@temperature"),
        ("floats sent", "@sent"),
    ]
    drawn.add_tools(HoverTool(renderers=marks, tooltips=tips))
    if marks:
        finish(drawn, columns=2)
    return drawn


def table(rows: list[Row]) -> str:
    """All numbers of a fleet; rows that lead are in bold type, and rejected methods say why."""
    if not rows:
        return ""
    names = tables.columns(rows[0].board)
    made = []
    for row in rows:
        label = escape(row.label)
        numbers = [escape(tables.shown(row.numbers.get(name))) for name in names]
        first = f"<b>{label}</b>" if row.leads else label
        why = f"<br><small>{escape(row.reason)}</small>" if row.reason else ""
        made.append([first + why, escape(row.block), *numbers, tables.count(row.sent)])
    return html_table(["method", "what it does", *names, "floats sent"], made)
