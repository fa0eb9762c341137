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
from fedsarsa.experiments.paper_labels import in_print
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
        dashed = "" if name == "ql" else "; dashed: predicted before training"  # which needs a smooth policy
        found[name] = Drawing(
            title=f"{in_print(figure.label)}: {figure.title}",
            text=f"Mean over runs with 95% bands{dashed}. {figure.note}".strip(),
            needs=tuple(sorted({panel.source for panel in figure.panels})),
            draw=partial(draw_panels, figure),
            code=(panels.figures, draw_panels),
        )
    for name, (draw, needs) in further_figures.FIGURES.items():
        title, _, text = (inspect.getdoc(draw) or "").partition("\n\n")
        found[name] = Drawing(title.rstrip("."), text, needs, draw, (draw,))
    return found


def draw_panels(figure: FigureOfPaper, data: Mapping[str, xr.Dataset]) -> Figure:
    """All panels of a figure; each entry of ``data`` holds ``error`` and maybe ``predicted`` of a grid."""
    canvas, axes = plots.panels(f"{figure.title}  ({figure.label})", len(figure.panels))
    along, node = figure.panels[0].along, data[figure.panels[0].source]
    colours = plots.coloured(node[along].values.tolist())
    for panel, place in zip(figure.panels, axes, strict=True):
        held = node.sel(panel.held)
        plots.curves(place, panel.title, held["error"], colours, along, held.get("predicted"))
    plots.finish(axes, plots.STEPS, plots.ERROR)
    styles = {f"mean of {node.sizes['run']} runs": {"color": "grey"}, "95% band": plots.BAND}
    if "predicted" in node:
        styles["predicted"] = plots.PREDICTED
    names = {NAMES[along].format(value): colour for value, colour in colours.items()}
    plots.legend(canvas, names, **styles)
    return canvas


def chosen(scale: Scale, names: Sequence[str]) -> dict[str, Drawing]:
    """The figures of these names, all of them if there are none."""
    known = drawings(scale)
    wanted = [_checks.choice("figure", name, known) for name in names]
    return {name: known[name] for name in wanted or known}


def save(name: str, drawing: Drawing, data: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Draw a figure and write it to ``folder`` under this name."""
    plots.save(drawing.draw(data), folder, name)
