"""A sweep as a figure: its outcome over one axis of the grid, a line for every value of the next."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from fedsarsa.experiments import plots
from fedsarsa.experiments.grid import Grid, label
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.summary import ERROR, TO_TARGET
from fedsarsa.experiments.sweep import arrange

MOST_PANELS = 12
MOST_LINES = 10


def figure(grid: Grid, outcomes: Sequence[xr.DataArray], title: str) -> Figure | str:
    """Draw what every cell led to, with 95% intervals over runs; or say why that cannot be drawn.

    The axis with the most numeric values is the x-axis, the next one with most values is a line for each, and
    there is a panel for every combination of the others.
    """
    names = sorted({str(one.name) for one in outcomes})
    if len(names) != 1:
        return f"cells led to {' and '.join(names)}, which share no axis"
    mean, margin = map(plots.drawable, mean_and_margin(arrange(grid, outcomes)))
    (outcome,) = names
    if not np.isfinite(mean.values).any():
        return f"no cell has a {outcome} that is a number"
    order = sorted(grid.names, key=lambda name: (not _numeric(mean[name]), -mean.sizes[name]))
    along, rest = order[0], sorted(order[1:], key=lambda name: -mean.sizes[name])
    lines, others = (rest[0], rest[1:]) if rest else (None, [])
    combinations = list(itertools.product(*(mean[name].values for name in others)))
    values = [None] if lines is None else list(mean[lines].values)
    if len(combinations) > MOST_PANELS or len(values) > MOST_LINES:
        return (
            f"{len(combinations)} panels of {len(values)} lines are more than {MOST_PANELS} of {MOST_LINES}; "
            "see summary.csv"
        )
    drawn, axes = plots.panels(title, len(combinations))
    colours = plots.coloured(values)
    for place, combination in zip(axes, combinations, strict=True):
        chosen = dict(zip(others, combination, strict=True))
        plots.decorate(place, ", ".join(f"{name} = {_words(value)}" for name, value in chosen.items()))
        place.set_yscale("log" if outcome in {ERROR, TO_TARGET} and (mean > 0).all() else "linear")
        x, ticks = _positions(mean[along])
        for value, colour in colours.items():
            at = chosen if lines is None else chosen | {lines: value}
            one, half = mean.sel(at), margin.sel(at).fillna(0.0)
            place.errorbar(x, one, yerr=half, color=colour, linewidth=1.3, capsize=2, **plots.DOTS)
        if ticks is not None:
            place.set_xticks(x, ticks, rotation=20, ha="right")
        elif (x > 0).all() and x.max() > 20 * x.min():
            place.set_xscale("log")
    _name_axes(axes, along, outcome)
    if lines is not None:
        plots.legend(drawn, {f"{lines} = {_words(value)}": colour for value, colour in colours.items()})
    return drawn


def _name_axes(axes: Sequence[Any], x: str, y: str) -> None:
    columns = axes[0].get_subplotspec().get_gridspec().ncols
    for place in axes[-columns:]:
        place.set_xlabel(x, fontsize="small")
        place.tick_params(labelbottom=True)
    for place in axes[::columns]:
        place.set_ylabel(y, fontsize="small")


def _numeric(values: xr.DataArray) -> bool:
    return values.dtype.kind in "iuf"


def _positions(values: xr.DataArray) -> tuple[Any, list[str] | None]:
    """Places along the figure, and their names where they are not numbers."""
    if _numeric(values):
        return values.values, None
    return np.arange(values.size), [_words(value) for value in values.values]


def _words(value: Any) -> str:
    return label(value.item() if isinstance(value, np.generic) else value)
