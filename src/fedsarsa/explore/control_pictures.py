"""The pictures of the control view: each a figure and the numbers it shows."""

from typing import Any

import numpy as np
import xarray as xr
from bokeh.models import ColumnDataSource, HoverTool, LinearColorMapper, Range1d
from bokeh.models.annotations import ColorBar, Whisker
from bokeh.palettes import Viridis256

from fedsarsa._checks import Floats
from fedsarsa.explore.control_measurements import Episode, Learned
from fedsarsa.explore.drawn_worlds import columns, film, look_of
from fedsarsa.explore.page import BLUE, GREY, NEUTRAL, ORANGE
from fedsarsa.explore.pictures import AGENT, STEPS, blank, finish

LABELS = {"return": "return of an episode", "reward_per_step": "reward per step (no episode has ended)"}
# Moves the lines of a seat to the picture that the player is at; nothing of it goes back to the server.
SHOW_FRAME = """
const last = film.data.xs.length - 1
const frame = Math.min(cb_obj.value, last)
if (frame >= 0) {
  drawn.setv({data: {xs: film.data.xs[frame], ys: film.data.ys[frame]}}, {sync: false})
}
"""


def _limit(drawn: Any, heights: Floats) -> None:
    """Limits by the heights of lines and marks: bands of few runs may reach far beyond."""
    seen = heights[np.isfinite(heights)]
    if len(seen):
        room = 0.1 * np.ptp(seen) or 0.1 * abs(seen[0]) or 1.0
        drawn.y_range.update(start=float(seen.min() - room), end=float(seen.max() + room))


class LearningPicture:
    """The fleet's mean return with its band over runs, and every agent's own in the background."""

    def __init__(self) -> None:
        self.agents = ColumnDataSource({"xs": [], "ys": []})
        self.mean = ColumnDataSource({"t": [], "mean": [], "low": [], "high": []})
        self.figure = blank("Learning curves", STEPS, LABELS["return"], y_range=Range1d())
        self.figure.varea("t", "low", "high", source=self.mean, color=BLUE, alpha=0.25)
        line = self.figure.line(
            "t", "mean", source=self.mean, color=BLUE, width=2, legend_label="fleet, with 95% band"
        )
        self.figure.multi_line(
            "xs", "ys", source=self.agents, color=GREY, alpha=0.5, width=0.7, legend_label="agents"
        )
        tips = [("step", "@t"), ("mean", "@mean{0.0}"), ("95%", "@low{0.0} to @high{0.0}")]
        self.figure.add_tools(HoverTool(renderers=[line], tooltips=tips, mode="vline"))
        finish(self.figure)

    def show(self, learned: Learned) -> None:
        """Draw a training."""
        curves = learned.curves
        own = curves["agents"].transpose("agent", "t").values
        self.figure.tags = [learned.history.final.sizes["run"]]  # how many runs are drawn
        self.figure.left[0].axis_label = LABELS[curves.attrs["of"]]
        self.mean.data = {name: curves[name].values for name in ("t", "mean", "low", "high")}
        self.agents.data = {"xs": [curves["t"].values] * len(own), "ys": list(own)}
        _limit(self.figure, own)


class LatePicture:
    """What every agent earns at the end of the training."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({"agent": [], "mean": [], "low": [], "high": []})
        self.figure = blank("The last tenth of the training", AGENT, LABELS["return"], y_range=Range1d())
        marks = self.figure.scatter("agent", "mean", source=self.source, color=BLUE, size=9)
        self.figure.add_layout(
            Whisker(base="agent", lower="low", upper="high", source=self.source, level="overlay")
        )
        tips = [("agent", "@agent"), ("mean", "@mean{0.0}"), ("95%", "@low{0.0} to @high{0.0}")]
        self.figure.add_tools(HoverTool(renderers=[marks], tooltips=tips))

    def show(self, learned: Learned) -> None:
        """Draw a training."""
        late = learned.late
        self.figure.left[0].axis_label = LABELS[learned.curves.attrs["of"]]
        values = {name: late[name].values for name in ("mean", "low", "high")}
        self.source.data = {"agent": np.arange(len(learned.fleet)), **values}
        _limit(self.figure, late.to_array().values)


class ValuePicture:
    """The values of states over two of the numbers that agents see."""

    def __init__(self) -> None:
        self.source = ColumnDataSource({name: [] for name in ("image", "x", "y", "dw", "dh")})
        self.mapper = LinearColorMapper(palette=Viridis256, low=0.0, high=1.0)
        self.figure = blank("Value of the best action, first run", "", "", css_classes=["as-it-is"])
        drawn = self.figure.image(
            "image", x="x", y="y", dw="dw", dh="dh", source=self.source, color_mapper=self.mapper
        )
        for axis in (self.figure.x_range, self.figure.y_range):
            axis.range_padding = 0
        bar = ColorBar(color_mapper=self.mapper, width=10)
        self.figure.add_layout(bar, "right")
        self._neutral(bar)
        self.figure.add_tools(HoverTool(renderers=[drawn], tooltips=[("value", "@image{0.00}")]))

    def _neutral(self, bar: ColorBar) -> None:
        """Let the page's ground through: in the dark, colours that are read stay as they are."""
        self.figure.update(background_fill_color=None, border_fill_color=None)
        self.figure.title.text_color = NEUTRAL
        bar.update(background_fill_color=None, major_label_text_color=NEUTRAL)
        for axis in (*self.figure.below, *self.figure.left):
            parts = ("axis_line", "major_tick_line", "minor_tick_line", "axis_label_text", "major_label_text")
            axis.update(**{f"{part}_color": NEUTRAL for part in parts})

    def show(self, values: xr.DataArray, across: str, up: str, whose: str = "") -> None:
        """Draw values (up, across); ``whose``, where every agent has its own."""
        self.figure.title.text = f"Value of the best action{whose}, first run"
        x, y = values["across"].values, values["up"].values
        low, high = float(values.min()), float(values.max())
        self.mapper.update(low=low, high=high if high > low else low + 1.0)
        self.figure.below[0].axis_label, self.figure.left[0].axis_label = across, up
        sides = {"x": [x[0]], "y": [y[0]], "dw": [np.ptp(x)], "dh": [np.ptp(y)]}
        self.source.data = {"image": [values.values], **sides}


class WorldPicture:
    """One agent's world, in which a player moves what moves."""

    def __init__(self, player: Any) -> None:
        self.still = ColumnDataSource({"xs": [], "ys": []})
        self.drawn = ColumnDataSource({"xs": [], "ys": []})
        self.film = ColumnDataSource({"xs": [], "ys": []})
        self.figure = blank("", "", "", height=230, match_aspect=True)
        self.figure.update(visible=False, toolbar_location=None)
        for axis in (*self.figure.below, *self.figure.left):
            axis.visible = False
        for side in self.figure.center:
            side.visible = False
        self.figure.multi_line("xs", "ys", source=self.still, color=GREY, line_width=2)
        self.figure.multi_line("xs", "ys", source=self.drawn, color=ORANGE, line_width=5, line_cap="round")
        player.jscallback(args={"film": self.film, "drawn": self.drawn}, value=SHOW_FRAME)

    def show(self, episode: Episode | None, stride: int) -> None:
        """Draw the first picture of an episode and hold the others ready, or hide."""
        self.figure.visible = episode is not None
        if episode is None:
            return
        world = episode.world
        states = episode.states[::stride]
        if (len(episode.states) - 1) % stride:
            states = np.vstack([states, episode.states[-1:]])  # how it ended
        self.figure.title.text = f"agent {episode.agent}: return {episode.total:.0f}"
        self.still.data = columns(look_of(type(world)).still(world))
        self.film.data = film(world, states)
        self.drawn.data = columns(look_of(type(world)).moving(world, states[0]))
