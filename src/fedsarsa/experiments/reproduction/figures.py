"""All figures by name: those of the paper, then those that go further."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from fedsarsa import _checks
from fedsarsa.experiments import plots
from fedsarsa.experiments.reproduction import further_figures, panels
from fedsarsa.experiments.reproduction.panels import FigureOfPaper
from fedsarsa.experiments.reproduction.settings import Scale

NAMES = {"agents": "N = {}", "eps_p": r"$\epsilon_p$ = {:g}", "eps_r": r"$\epsilon_r$ = {:g}"}


@dataclass(frozen=True)
class Drawing:
    """A figure: what it shows, the parts of the data it needs, and the functions that make it."""

    title: str
    text: str
    needs: tuple[str, ...]
    draw: Callable[[Mapping[str, xr.Dataset]], Figure]
    code: tuple[Callable[..., object], ...]


def drawings(scale: Scale) -> dict[str, Drawing]:
    """Every figure that ``scale`` trains for."""
    found = {}
    for name, figure in panels.figures(scale).items():
        found[name] = Drawing(
            title=f"{figure.title} ({figure.label})",
            text=f"Mean over runs with 95% bands{_dashed(name)}. {figure.note}".strip(),
            needs=tuple(sorted({panel.source for panel in figure.panels})),
            draw=partial(draw_panels, figure),
            code=(panels.figures, draw_panels),
        )
    for name, (draw, needs) in further_figures.FIGURES.items():
        title, _, text = (inspect.getdoc(draw) or "").partition("\n\n")
        found[name] = Drawing(title.rstrip("."), text, needs, draw, (draw,))
    return found


def _dashed(name: str) -> str:
    """What is said of predictions, which need a smooth policy."""
    return "" if name == "ql" else "; dashed: predicted before training"


def draw_panels(figure: FigureOfPaper, data: Mapping[str, xr.Dataset]) -> Figure:
    """All panels of a figure; each entry of ``data`` holds ``error`` and maybe ``predicted`` of a grid."""
    canvas, axes = plots.panels(f"{figure.title}  ({figure.label})", len(figure.panels))
    along, source = figure.panels[0].along, figure.panels[0].source
    values = data[source][along].values.tolist()
    colours = dict(zip(values, plots.shades(len(values)), strict=True))
    predicted = data[source].get("predicted")
    for panel, place in zip(figure.panels, axes, strict=True):
        for value, error in panel.curves(data[source]["error"]):
            plots.band(place, error, "t", color=colours[value])
        if predicted is not None:
            for _, curve in panel.curves(predicted):
                place.plot(curve["t"], curve, **plots.PREDICTED)
        plots.decorate(place, panel.title)
        place.margins(x=0)
    plots.finish(axes, plots.STEPS, plots.ERROR)
    extra = [(f"mean of {data[source].sizes['run']} runs", {"color": "grey"}), ("95% band", plots.BAND)]
    if predicted is not None:
        extra.append(("predicted", plots.PREDICTED))
    entries = [(NAMES[along].format(value), colours[value]) for value in values]
    plots.legend(canvas, entries, extra)
    return canvas


def chosen(scale: Scale, names: Sequence[str]) -> dict[str, Drawing]:
    """The figures of these names, all of them if there are none."""
    known = drawings(scale)
    wanted = [_checks.choice("figure", name, known) for name in names]
    return {name: known[name] for name in wanted or known}


def save(name: str, drawing: Drawing, data: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Draw a figure and write it to ``folder`` under this name."""
    plots.save(drawing.draw(data), folder, name)
