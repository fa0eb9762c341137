"""What a training led to: a line in words, and a picture."""

import math
import warnings
from pathlib import Path

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from fedsarsa.experiments import learning_curves, plots
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.references import reference
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.experiments.summary import meanings, outcome_of
from fedsarsa.federation.history import History


def line(history: History, config: Config, folder: Path) -> str:
    """The outcome over runs, with its 95% margin and what it is."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # all runs failed or diverge
        found = outcome_of(history, config, folder)
        mean, margin = (float(one) for one in mean_and_margin(found))
    meaning = meanings([config], [found])[0].partition(": ")[2]
    if math.isnan(mean):
        return f"{found.name}: none ({'all runs failed' if found.attrs['failed'] == found.size else meaning})"
    runs = int(found.notnull().sum())
    spread = "" if math.isnan(margin) else f" +- {margin:.2g}"
    return f"{found.name} {mean:.4g}{spread} over {runs} run{'s' if runs > 1 else ''} ({meaning})"


def picture(history: History, config: Config, folder: Path, title: str) -> tuple[str, Figure]:
    """The name of the figure, and the figure: a learning curve, or the error of the central parameter."""
    if "episodes" in history.data:
        return "learning-curve", learning_curves.figure(history, title)
    theta = reference(config, folder)
    with np.errstate(over="ignore", invalid="ignore"):
        if theta is None:  # agent 0 would settle nowhere
            error: xr.DataArray = ((history.central - history.final) ** 2).sum("d", skipna=False)
            label = "squared distance to the run's last parameter"
        else:
            error, label = history.mse(theta), plots.ERROR
    error = plots.drawable(error)
    drawn, (axes,) = plots.panels(title, 1)
    for one in error.values:
        axes.plot(error["t"], one, color="0.6", linewidth=0.5)
    plots.band(axes, error, "t", color="tab:blue")
    plots.decorate(axes)
    axes.margins(x=0)
    if (error > 0).any():
        plots.finish([axes], plots.STEPS, label)
    plots.legend(drawn, {"mean over runs, 95% band": "tab:blue", "runs": "0.6"})
    return "error", drawn
