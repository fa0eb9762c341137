"""Controls as widgets, each with the error that it caused below it."""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import panel as pn

from fedsarsa.explore.control_values import Base, Values, parsed, places, with_given, written
from fedsarsa.explore.controls import Control, Place, shown
from fedsarsa.explore.page import ERROR, INSIDE, SLIDER

# Names the handles of sliders for those who do not see the label beside them, once they are drawn.
NAME_HANDLES = (
    INSIDE
    + """
const words = root => [...root.children]
    .filter(one => !["STYLE", "LINK"].includes(one.tagName)).map(one => one.textContent).join("")
const label = handle => {
    const slider = handle.getRootNode(), title = slider.querySelector(".bk-slider-title")
    const beside = [...slider.host.parentNode.children].find(one => one.shadowRoot && one !== slider.host)
    return (title && title.textContent) || words(beside.shadowRoot)
}
const name = again => {
    const handles = inside(document).filter(one => one.matches(".noUi-handle:not([aria-label])"))
    for (const one of handles) one.setAttribute("aria-label", label(one).replace(/:[^:]*$/, ""))
    if (again) setTimeout(name, 500, again - 1)
}
name(6)
"""
)
Changed = Callable[[bool], None]  # gets whether the hand still moves
WIDTH = 280  # pixels of a control
LARGEST = 2**53  # number that a browser holds


class Form:
    """Groups of controls, and the values they have.

    Parameters
    ----------
    base : Base
        What the controls change.
    groups : mapping
        Title -> controls.
    values : dict
        A value for every control that is there at first.
    changed : function
        Called when a value has changed, with whether it is still being dragged.
    """

    def __init__(
        self, base: Base, groups: Mapping[str, tuple[Control, ...]], values: Values, changed: Changed
    ) -> None:
        there = base.available([one for controls in groups.values() for one in controls])
        self.groups = {
            title: tuple(one for one in controls if one in there) for title, controls in groups.items()
        }
        self.values, self.changed = dict(values), changed
        self.controls = tuple(one for controls in self.groups.values() for one in controls)
        self._known: dict[Place, Any] = places(self.controls, values)  # also of controls that have gone
        self._widgets: dict[str, dict[str, Any]] = {}
        self._shows: dict[str, tuple[Control, Any]] = {}  # of what control and value a key's widget is
        self._errors: dict[str, str] = {}
        self._columns = {title: pn.Column(sizing_mode="stretch_width") for title in self.groups}
        for title in self.groups:
            self._fill(title)
        cards = [
            pn.Card(
                column, title=title, sizing_mode="stretch_width", css_classes=["group"], margin=(0, 0, 8, 0)
            )
            for title, column in self._columns.items()
            if len(column)
        ]
        self._filled = pn.widgets.IntInput(value=0, visible=False)
        self._filled.jscallback(value=NAME_HANDLES)
        self.layout = pn.Column(*cards, self._filled, width=WIDTH + 30, css_classes=["form"])

    def name_handles(self) -> None:
        """Name the handles of sliders; to be called when the page is in the browser, or has new ones."""
        self._filled.value = (self._filled.value or 0) + 1

    def show_errors(self, errors: Mapping[str, str]) -> None:
        """Show every error below its control, and no others."""
        if self._errors == errors:
            return
        self._errors = dict(errors)
        for title in self.groups:
            self._columns[title][:] = self._rows(title)

    def set(self, values: Mapping[str, Any]) -> None:
        """Give some controls other values, and say so once."""
        self._arrange(values)
        for title in self.groups:
            self._fill(title)
        self.name_handles()
        self.changed(False)

    def _arrange(self, given: Mapping[str, Any]) -> None:
        """Take values; controls that come back with them have their numbers of before."""
        self._known |= places(self.controls, self.values)
        self.values = with_given(self.controls, self._known, self.values, dict(given))

    def _fill(self, title: str) -> None:
        """Make the widgets of the controls that are there now; those that stay keep theirs, and the focus."""
        before, self._widgets[title] = self._widgets.get(title, {}), {}
        for one in shown(self.groups[title], self.values):
            shows = one, self.values[one.key]
            if one.key in before and self._shows[one.key] == shows:
                self._widgets[title][one.key] = before[one.key]
                continue
            self._shows[one.key] = shows
            made = self._widgets[title][one.key] = widget(*shows)
            moves = dragging(made)
            made.param.watch(lambda event, one=one, moves=moves: self._take(one, event.new, moves), "value")
            if moves:
                made.param.watch(lambda event, one=one: self._take(one, event.new, False), "value_throttled")
        self._columns[title][:] = self._rows(title)

    def _rows(self, title: str) -> list[Any]:
        """The widgets of a group, each with the error that it caused below it."""
        rows = []
        for key, made in self._widgets[title].items():
            rows.append(made)
            if self._errors.get(key):
                said = escape(self._errors[key])
                rows.append(pn.pane.HTML(said, width=WIDTH, stylesheets=[ERROR], margin=(0, 5)))
        return rows

    def _take(self, control: Control, value: Any, moving: bool) -> None:
        if value is None:
            return
        if isinstance(value, str) and not control.options:
            value = parsed(value)
        elif control.range is not None and isinstance(control.default, float):
            value = round(float(value), 10)  # 0.15000000000000002
        if self.values.get(control.key) == value and moving:
            return
        self._shows[control.key] = control, value
        if control.chooses_kind:
            self._arrange({control.key: value})
            for title in self.groups:
                self._fill(title)
            self.name_handles()
        else:
            self.values[control.key] = value
        self.changed(moving)


def dragging(made: Any) -> bool:
    """Whether a widget is a slider, which speaks while it moves and when it is released."""
    return "value_throttled" in made.param


def widget(control: Control, value: Any) -> Any:
    """The widget of a control; values beyond a slider's ends move its ends."""
    common = {"name": control.label, "width": WIDTH, "margin": (4, 5)}
    kinds = {type(one) for one in (*control.options, *(control.range or ())) if not isinstance(one, str)}
    number = type(value) in kinds | {int} and abs(value) < LARGEST  # others wait for their error
    if isinstance(control.default, bool):
        return pn.widgets.Checkbox(value=bool(value), **common)
    if control.range is not None:
        start, end, step = control.range
        value = value if number else control.default
        common |= {"stylesheets": [SLIDER]}
        common |= {"start": min(start, value), "end": max(end, value), "step": step, "value": value}
        if isinstance(control.default, float):
            return pn.widgets.FloatSlider(format="0[.]0[00000]", **common)
        return pn.widgets.IntSlider(**common)
    if control.options and not all(isinstance(one, str) for one in control.options):
        options = list(control.options)
        if value not in options and number:
            options.insert(sum(1 for one in options if not isinstance(one, str) and one < value), value)
        value = value if value in options else control.default
        named = {one if isinstance(one, str) else f"{one:,}".replace(",", " "): one for one in options}
        return pn.widgets.DiscreteSlider(options=named, value=value, stylesheets=[SLIDER], **common)
    if control.options:
        value = value if value in control.options else control.default
        return pn.widgets.Select(options=list(control.options), value=value, **common)
    return pn.widgets.TextInput(value=written(value), **common)
