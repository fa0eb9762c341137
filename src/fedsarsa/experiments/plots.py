"""Figures: error curves with confidence bands, readable in print and by colour-blind readers."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from fedsarsa import _files
from fedsarsa.experiments.statistics import mean_and_margin

SIZE = (6.4, 4.0)
FORMATS = ("png", "pdf")


def error_curves(errors: Mapping[str, xr.DataArray], title: str) -> Figure:
    """One curve per entry of ``errors`` (run, t): mean over runs and 95% band, logarithmic error."""
    # Imported here: it draws in every colour map, and takes longer to load than a small training.
    from matplotlib import colormaps

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    shades = colormaps["viridis"](np.linspace(0.9, 0.0, len(errors)))
    for (label, error), shade in zip(errors.items(), shades, strict=True):
        mean, margin = mean_and_margin(error)
        t = error["t"].values
        axes.plot(t, mean, color=shade, label=label, linewidth=1.4)
        low = np.maximum(mean - margin, np.finfo(float).tiny)
        axes.fill_between(t, low, mean + margin, color=shade, alpha=0.25, linewidth=0)
    axes.set_yscale("log")
    axes.margins(x=0)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_xlabel("steps per agent, $t$")
    axes.set_ylabel(r"mean squared error $\|\bar\theta_t - \theta_{\mathrm{ref}}\|^2$")
    axes.set_title(title, fontsize="medium")
    axes.legend(frameon=False, fontsize="small", ncols=2)
    return figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as ``name.png`` and ``name.pdf``, each whole or not at all."""
    paths = [folder / f"{name}.{kind}" for kind in FORMATS]
    for path in paths:
        with _files.replacing(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=200)
    return paths
