"""What the views share: the frame of the page, its style, and colours that everybody can tell apart."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

import panel as pn
from bokeh.layouts import column

# Near Okabe and Ito's; dark enough on white, and light enough when the dark turns them over.
BLUE, SKY, ORANGE, GREEN, RED, GREY = "#0072B2", "#3F8FC8", "#B87A00", "#2E9E62", "#D55E00", "#3A3A3A"
NEUTRAL = "#7A7A7A"  # told from both grounds, for what stays as it is in the dark
SHADES = 151  # of Viridis, from the dark end, that can be told from white

GROUNDS = "#ffffff", "#1a1a1a"  # in the light and in the dark
SAME_SETTINGS = {"federation", "plan"}  # views of finite worlds

STYLE = """
html { background: %s; }
@media (prefers-color-scheme: dark) { html { background: %s; } }
body { margin: 0; padding: 0 12px 24px; max-width: 1500px; }
body { font: 15px/1.45 system-ui, sans-serif; color: #222; }
"""
STYLE %= GROUNDS
# In the dark all is turned over, hues kept, but for pictures whose colours are read or whose ground is white.
DARK = """
@media (prefers-color-scheme: dark) {
  :host > :not(.mixed, .as-it-is) { filter: invert(0.9) hue-rotate(180deg); }
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
PINNED = """
:host { display: grid !important; gap: 12px 16px; width: 100%; align-items: start;
        grid-template: "controls first second" auto "controls rest rest" 1fr / 310px 1fr 1fr; }
:host > * { min-width: 0; margin: 0 !important; }
:host > .controls { grid-area: controls; }
:host > .rest { grid-area: rest; }
:host > .first { grid-area: first; }
:host > .second { grid-area: second; }
:host > .first, :host > .second { position: sticky !important; top: 0; z-index: 2; background: #fff;
                                  width: auto !important; }
:host > .rest { position: sticky !important; top: 312px; }
:host(.stale) > :not(.controls) { opacity: 0.25; }
@media (max-width: 1100px) {
  :host { grid-template: "controls first" auto "controls second" auto "controls rest" 1fr / 310px 1fr; }
  :host > .second, :host > .rest { position: static !important; }
}
@media (max-width: 720px) {
  :host { grid-template: "first" auto "controls" auto "second" auto "rest" auto / 100%; }
  :host(.two) { grid-template: "first" auto "second" auto "controls" auto / 100%; }
}
"""
LOW = "@media (max-width: 720px) { :host { height: 230px !important; } }"  # leaves room for controls
CORNER = """
:host { position: fixed !important; right: 12px; bottom: 12px; width: min(420px, calc(100% - 24px));
        z-index: 9; padding: 8px; background: #fff; border: 1px solid #bbb; border-radius: 4px; }
"""
# Handles are as well seen as lines of pictures; usual ones are nearly of the ground's colour.
SLIDER = f"""
.noUi-handle {{
  background: {BLUE} !important; border-color: {BLUE} !important; box-shadow: none !important;
}}
"""
ERROR = ":host { color: #9c1f00; font-size: 0.85rem; overflow-wrap: anywhere; }"

# All parts of the page, also of what is closed to CSS from outside.
INSIDE = """
const inside = root => [...root.querySelectorAll("*")]
    .flatMap(one => [one, ...(one.shadowRoot ? inside(one.shadowRoot) : [])])
"""


class Busy:
    """What is computed and how far it is, with a button that stops it, and then starts it again.

    What was stopped can be put away.

    It lies over a corner of the window: nothing else moves when it comes and goes.
    """

    def __init__(self, stop: Callable[[], None], again: Callable[[], None]) -> None:
        self._do = {"Stop": stop, "Start again": again}
        self._words = pn.pane.HTML("", margin=(0, 5))
        self._bar = pn.indicators.Progress(value=-1, max=100, height=14, sizing_mode="stretch_width")
        self._button = pn.widgets.Button(name="Stop", width=100)
        self._button.on_click(lambda _: self._do[self._button.name]())
        self._close = pn.widgets.Button(name="Close", width=70, visible=False)
        self._close.on_click(lambda _: self.hide())
        self.layout = pn.Column(
            self._words,
            pn.Row(self._bar, self._button, self._close, sizing_mode="stretch_width"),
            stylesheets=[CORNER],
            visible=False,
        )

    def show(self, words: str, share: float | None = None) -> None:
        """Say what is computed and what share of it is done, where that is known."""
        self._say(words, "Stop")
        self._close.visible = False
        self._bar.param.update(value=-1 if share is None else round(100 * share), active=True, visible=True)

    def stopped(self) -> None:
        """Say that it was stopped."""
        self._say("Stopped.", "Start again")
        self._bar.visible, self._close.visible = False, True

    def hide(self) -> None:
        """Nothing is under way."""
        self.layout.visible = False

    def _say(self, words: str, button: str) -> None:
        self._words.object, self._button.name, self.layout.visible = escape(words), button, True


def navigation(views: Iterable[str], current: str, query: str, own: str = "") -> str:
    """Links to all views; those between views of the same settings keep them, without the view's ``own``."""
    links = []
    for name in views:
        here = " aria-current=page" if name == current else ""
        kept = query + own if name == current else query if {name, current} <= SAME_SETTINGS else ""
        kept = escape(kept)
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
    together = column(*pictures, stylesheets=[GRID, DARK], sizing_mode="stretch_width")
    together.css_classes = ["mixed"]
    return pn.pane.Bokeh(together, sizing_mode="stretch_width", margin=0)


def whole(*parts: Any) -> pn.Column:
    """A page: its parts one below the other."""
    return pn.Column(*parts, stylesheets=[DARK], sizing_mode="stretch_width")


def pinned(controls: Any, pictures: tuple[Any, Any], rest: Any = None) -> pn.Column:
    """Controls, and two pictures that stay in sight while the controls are moved, with others below.

    In a narrow window the first one alone stays, above the controls; without others, the second one is
    between them.
    """
    pictures[0].stylesheets = [LOW]
    for drawn, name in zip(pictures, ("first", "second"), strict=True):
        drawn.css_classes = [name]
    controls.css_classes = ["controls"]
    parts = [controls, *(pn.pane.Bokeh(drawn, sizing_mode="stretch_width") for drawn in pictures)]
    if rest is not None:
        rest.css_classes = ["rest", "mixed"]
        parts.append(rest)
    classes = ["mixed"] if rest is not None else ["mixed", "two"]
    return pn.Column(*parts, stylesheets=[PINNED, DARK], css_classes=classes, sizing_mode="stretch_width")


def stale(answers: pn.Column, yes: bool) -> None:
    """Show pictures of `pinned` pale, as they are of other settings than those on the controls, or not."""
    classes = [one for one in answers.css_classes if one != "stale"]
    answers.css_classes = [*classes, "stale"] if yes else classes


def sides(left: Any, right: Any) -> pn.Column:
    """Controls and what they change; one above the other where the window is narrow."""
    right.css_classes = ["answers", "mixed"]
    right.stylesheets = [DARK]
    return pn.Column(
        left, right, stylesheets=[SIDES, DARK], css_classes=["mixed"], sizing_mode="stretch_width"
    )
