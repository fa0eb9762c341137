"""Figures: error curves with confidence bands, readable in print and by colour-blind readers."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedsarsa import _files
from fedsarsa.experiments.statistics import mean_and_margin

FORMATS = ("png", "pdf")
# In inches: a panel, the gaps between panels, and the margins with axis labels, title and legend. Laid out by
# hand, since finding a layout takes as long as drawing.
PANEL = (2.8, 1.95)
GAP = (0.3, 0.4)
LEFT, RIGHT, TOP, BOTTOM = 0.65, 0.25, 0.55, 0.9
LETTERS_PER_INCH, LETTERS_OF_A_LINE = 12.5, 7  # of a legend's text, and of the line before each entry
ERROR = r"error $\|\bar\theta_t - \theta_{\mathrm{ref}}\|^2$"
STEPS = "steps per agent, $t$"
BAND: dict[str, Any] = {"color": "grey", "linewidth": 6, "alpha": 0.3}
DOTS: dict[str, Any] = {"marker": "o", "markersize": 3}
PREDICTED: dict[str, Any] = {"color": "black", "linewidth": 0.7, "linestyle": (0, (4, 2))}
LARGEST = 1e100
DOTTED: dict[str, Any] = {"color": "grey", "linestyle": ":"}

T = TypeVar("T")


def shades(count: int) -> list[tuple[float, ...]]:
    """Colours of equal steps in lightness, the darkest last: they keep their order in grey."""
    # Imported here: it draws in every colour map, and takes longer to load than a small training.
    from matplotlib import colormaps

    return [tuple(shade) for shade in colormaps["viridis"](np.linspace(0.9, 0.0, count))]


def coloured(values: Sequence[T]) -> dict[T, tuple[float, ...]]:
    """A shade for every value, in their order."""
    return dict(zip(values, shades(len(values)), strict=True))


def panels(title: str, count: int, columns: int = 3, share_error: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure with a title and ``count`` panels on shared axes."""
    columns = min(columns, count)
    rows = -(-count // columns)
    panel = PANEL if columns > 1 else (2 * PANEL[0], 1.5 * PANEL[1])
    left = LEFT if share_error else LEFT + 0.2  # small ranges have long tick labels
    gap = GAP[0] if share_error else left
    width = left + columns * panel[0] + (columns - 1) * gap + RIGHT
    height = BOTTOM + rows * panel[1] + (rows - 1) * GAP[1] + TOP
    figure = Figure(figsize=(width, height))
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=share_error, squeeze=False).flat)
    figure.subplots_adjust(
        left=left / width,
        right=1 - RIGHT / width,
        bottom=BOTTOM / height,
        top=1 - TOP / height,
        wspace=gap / panel[0],
        hspace=GAP[1] / panel[1],
    )
    for unused in axes[count:]:
        unused.set_axis_off()
    figure.suptitle(title, fontsize="medium", y=1 - 0.12 / height)
    return figure, axes[:count]


def drawable(values: xr.DataArray) -> xr.DataArray:
    """Numbers, without those so large that axes overflow: what diverges leaves the picture."""
    return values.where(abs(values) < LARGEST)


def band(axes: Axes, error: xr.DataArray, along: str, **style: Any) -> None:
    """Mean over runs of ``error`` (run, along) with its 95% band."""
    mean, margin = mean_and_margin(error)
    x = error[along].values
    axes.plot(x, mean, linewidth=1.3, **style)
    low = np.maximum(mean - margin, np.finfo(float).tiny)  # zero cannot be drawn on a logarithmic axis
    axes.fill_between(x, low, mean + margin, color=style["color"], alpha=0.25, linewidth=0)


def curves(
    axes: Axes,
    title: str,
    error: xr.DataArray,
    colours: Mapping[Any, Any],
    along: str = "agents",
    predicted: xr.DataArray | None = None,
    **style: Any,
) -> None:
    """Errors (along, run, t) over time as bands, one per colour, and what was predicted, (along, t)."""
    for value, colour in colours.items():
        band(axes, error.sel({along: value}), "t", color=colour, **style)
    if predicted is not None:
        axes.plot(predicted["t"], predicted.transpose("t", along), **PREDICTED)
    decorate(axes, title)
    axes.margins(x=0)


def mark(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at these values and nowhere else."""
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()


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
    if seen.max() > 100 * seen.min():
        for place in axes:
            place.minorticks_off()  # powers of ten are enough, and ticks are most of what drawing costs
    grid = axes[0].get_subplotspec()
    assert grid is not None
    columns = grid.get_gridspec().ncols
    for place in axes[-columns:]:
        place.set_xlabel(x, fontsize="small")
        place.tick_params(labelbottom=True)
    if x == STEPS:
        axes[0].xaxis.set_major_locator(MaxNLocator(4))
    for place in axes[::columns]:
        place.set_ylabel(y, fontsize="small")


def legend(figure: Figure, colours: Mapping[str, Any], **styles: Mapping[str, Any]) -> None:
    """One legend for all panels, below them: coloured lines, then others with styles of their own."""
    lines = [Line2D([], [], color=colour, linewidth=1.3, label=label) for label, colour in colours.items()]
    lines += [Line2D([], [], label=label, **style) for label, style in styles.items()]
    needed = sum(LETTERS_OF_A_LINE + len(str(line.get_label())) for line in lines)
    rows = math.ceil(needed / (LETTERS_PER_INCH * figure.get_figwidth()))
    figure.legend(
        handles=lines,
        loc="lower center",
        ncols=-(-len(lines) // rows),
        frameon=False,
        fontsize="small",
    )


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``name.png`` and ``name.pdf``, each whole or not at all."""
    paths = [folder / f"{name}.{kind}" for kind in FORMATS]
    for path in paths:
        with _files.replacing(path) as temporary:
            # Without the date: the same data give the same file.
            about = {"CreationDate": None} if path.suffix == ".pdf" else None
            figure.savefig(temporary, format=path.suffix[1:], dpi=150, metadata=about)
    return paths
