"""What the views share: the frame of the page, its style, and colours that everybody can tell apart."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import panel as pn
from bokeh.layouts import column

# Okabe and Ito's colours.
BLUE, SKY, ORANGE, GREEN, RED, GREY = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00", "#666666"

SAME_SETTINGS = {"federation", "plan"}  # views of finite worlds

STYLE = """
html { background: #fff; }
body { margin: 0; padding: 0 12px 24px; max-width: 1500px; }
body { font: 15px/1.45 system-ui, sans-serif; color: #222; }
/* Pictures are drawn in the page's own colours: in the dark all of it is turned over, hues kept. */
@media (prefers-color-scheme: dark) {
  html { background: #fff; filter: invert(0.9) hue-rotate(180deg); }
}
"""
FRAME = """
:host { width: 100%; }
nav { display: flex; flex-wrap: wrap; gap: 4px 18px; align-items: baseline; padding: 10px 0 6px; }
nav b { font-size: 1.15rem; } nav a { color: #00538a; } nav a[aria-current] { color: #222; font-weight: 600; }
nav a[aria-current] { text-decoration: none; border-bottom: 2px solid #0072B2; }
"""
SENTENCE = """
:host { width: 100%; }
p { margin: 4px 0 8px; font-size: 1.05rem; max-width: 75rem; min-height: 3.1em; }
.note { color: #7a5200; } .wrong { color: #9c1f00; }
"""
GRID = """
:host { display: grid !important; gap: 12px;
        grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); }
.scroll-button { display: none; }
"""
SIDES = """
:host { display: flex !important; flex-flow: row wrap; gap: 16px; width: 100%; align-items: flex-start; }
:host > .answers { flex: 1 1 340px !important; width: auto !important; min-width: 0; }
"""
STALE = {"opacity": "0.25", "filter": "grayscale(1)"}  # pictures of other settings than those on the controls
ERROR = ":host { color: #9c1f00; font-size: 0.85rem; overflow-wrap: anywhere; }"


class Busy:
    """How far a computation is, and a button that stops it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._bar = pn.indicators.Progress(value=0, max=100, sizing_mode="stretch_width")
        self._stop = pn.widgets.Button(name="Stop", width=80)
        self._stop.on_click(lambda _: stop())
        self.layout = pn.Row(self._bar, self._stop, visible=False, sizing_mode="stretch_width")

    def show(self, share: float) -> None:
        """Say what share is done."""
        self._bar.value, self.layout.visible = round(100 * share), True

    def hide(self) -> None:
        """Nothing is under way."""
        self.layout.visible = False


def navigation(views: Iterable[str], current: str, query: str) -> str:
    """Links to all views; those between views of the same settings keep them."""
    links = []
    for name in views:
        here = " aria-current=page" if name == current else ""
        kept = escape(query) if name == current or {name, current} <= SAME_SETTINGS else ""
        links.append(f'<a href="{name}{kept}"{here}>{name.capitalize()}</a>')
    return f"<nav><b>fedsarsa explore</b>{''.join(links)}</nav>"


def frame() -> pn.pane.HTML:
    """A place for the head of a page."""
    return pn.pane.HTML("", stylesheets=[FRAME], margin=0, sizing_mode="stretch_width")


def text(sizing_mode: str = "stretch_width") -> pn.pane.HTML:
    """A place for sentences."""
    return pn.pane.HTML("<p></p>", stylesheets=[SENTENCE], margin=0, sizing_mode=sizing_mode)


def paragraph(words: str, notes: tuple[str, ...] = (), wrong: str = "") -> str:
    """Sentences, warnings and an error as HTML."""
    rest = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    rest += f'<p class="wrong" role="alert">{escape(wrong)}</p>' if wrong else ""
    return f"<p>{escape(words)}</p>{rest}" if words or not rest else rest


def grid(*pictures: Any) -> pn.pane.Bokeh:
    """Pictures side by side, as many as there is room for."""
    together = column(*pictures, stylesheets=[GRID], sizing_mode="stretch_width")
    return pn.pane.Bokeh(together, sizing_mode="stretch_width", margin=0)


def sides(left: Any, right: Any) -> pn.Column:
    """Controls and what they change; one above the other where the window is narrow."""
    right.css_classes = ["answers"]
    return pn.Column(left, right, stylesheets=[SIDES], sizing_mode="stretch_width")
