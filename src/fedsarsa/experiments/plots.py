"""Figures: error curves with confidence bands, readable in print and by colour-blind readers."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedsarsa import _files
from fedsarsa.experiments.statistics import mean_and_margin

FORMATS = ("png", "pdf")
PANEL = (3.1, 2.3)  # inches
FRAME = 1.15  # inches for the title and the legend
ERROR = r"error $\|\bar\theta_t - \theta_{\mathrm{ref}}\|^2$"
STEPS = "steps per agent, $t$"
PREDICTED: dict[str, Any] = {"color": "black", "linewidth": 0.7, "linestyle": (0, (4, 2))}


def shades(count: int) -> list[tuple[float, ...]]:
    """Colours of equal steps in lightness, the darkest last: they keep their order in grey."""
    # Imported here: it draws in every colour map, and takes longer to load than a small training.
    from matplotlib import colormaps

    return [tuple(shade) for shade in colormaps["viridis"](np.linspace(0.9, 0.0, count))]


def panels(title: str, count: int, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """A figure with a title and ``count`` panels on shared axes."""
    columns = min(columns, count)
    rows = -(-count // columns)
    size = (max(columns, 2) * PANEL[0], rows * PANEL[1] + FRAME)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    figure.suptitle(title, fontsize="medium")
    return figure, axes[:count]


def band(axes: Axes, error: xr.DataArray, along: str, **style: Any) -> None:
    """Mean over runs of ``error`` (run, along) with its 95% band."""
    mean, margin = mean_and_margin(error)
    x = error[along].values
    axes.plot(x, mean, linewidth=1.3, **style)
    low = np.maximum(mean - margin, np.finfo(float).tiny)  # zero cannot be drawn on a logarithmic axis
    axes.fill_between(x, low, mean + margin, color=style["color"], alpha=0.25, linewidth=0)


def decorate(axes: Axes, title: str = "") -> None:
    """Logarithmic error, a light grid, a small title."""
    axes.set_yscale("log")
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_title(title, fontsize="small")
    axes.tick_params(which="both", labelsize="x-small")


def finish(axes: Sequence[Axes], x: str, y: str) -> None:
    """Names for shared axes, and limits by the lines: a band may reach down to zero, at minus infinity."""
    heights = np.concatenate(
        [np.asarray(line.get_ydata(), float) for place in axes for line in place.get_lines()]
    )
    seen = heights[np.isfinite(heights) & (heights > 0)]
    axes[0].set_ylim(seen.min() / 1.6, seen.max() * 1.4)
    grid = axes[0].get_subplotspec()
    assert grid is not None
    columns = grid.get_gridspec().ncols
    for place in axes[-columns:]:
        place.set_xlabel(x, fontsize="small")
        place.tick_params(labelbottom=True)
    for place in axes[::columns]:
        place.set_ylabel(y, fontsize="small")


def legend(figure: Figure, entries: Sequence[tuple[str, Any]], extra: Iterable[tuple[str, Any]] = ()) -> None:
    """One legend for all panels, below them: coloured lines, then others with styles of their own."""
    lines = [Line2D([], [], color=colour, linewidth=1.3, label=label) for label, colour in entries]
    lines += [Line2D([], [], label=label, **style) for label, style in extra]
    rows = -(-len(lines) // (7 if figure.get_figwidth() > 2 * PANEL[0] else 4))
    figure.legend(
        handles=lines,
        loc="outside lower center",
        ncols=-(-len(lines) // rows),
        frameon=False,
        fontsize="small",
    )


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``name.png`` and ``name.pdf``, each whole or not at all."""
    paths = [folder / f"{name}.{kind}" for kind in FORMATS]
    for path in paths:
        with _files.replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=150)
        figure.set_layout_engine("none")  # it is laid out now, and that takes as long as drawing
    return paths
