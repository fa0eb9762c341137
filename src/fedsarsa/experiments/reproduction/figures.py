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
from fedsarsa.experiments.reproduction import further_figures, panels, paper_figures
from fedsarsa.experiments.reproduction.settings import Scale


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
            draw=partial(paper_figures.draw, figure),
            code=(panels.figures, paper_figures.draw),
        )
    for name, (draw, needs) in further_figures.FIGURES.items():
        title, _, text = (inspect.getdoc(draw) or "").partition("\n\n")
        found[name] = Drawing(title.rstrip("."), text, needs, draw, (draw,))
    return found


def _dashed(name: str) -> str:
    """What is said of predictions, which need a smooth policy."""
    return "" if name == "ql" else "; dashed: predicted before training"


def chosen(scale: Scale, names: Sequence[str]) -> dict[str, Drawing]:
    """The figures of these names, all of them if there are none."""
    known = drawings(scale)
    wanted = [_checks.choice("figure", name, known) for name in names]
    return {name: known[name] for name in wanted or known}


def save(name: str, scale: Scale, data: Mapping[str, xr.Dataset], folder: Path) -> None:
    """Draw one figure and write it to ``folder``."""
    plots.save(drawings(scale)[name].draw(data), folder, name)
