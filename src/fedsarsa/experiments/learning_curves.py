"""Learning curves: return or reward per step against each agent's own steps, per agent and for the fleet."""

import warnings
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fedsarsa.experiments.plots import STEPS
from fedsarsa.experiments.statistics import mean_and_margin
from fedsarsa.federation.history import History

SIZE = (6.4, 4.0)  # inches
# With a marker, as a point may be alone.
LINE: dict[str, Any] = {"marker": ".", "linewidth": 0.5, "markersize": 2.0}
POINTS = 50  # points of a curve: bins of time are put together
LABELS = {"return": "return of an episode", "reward_per_step": "reward per step (no episode has ended)"}


def figure(history: History, title: str) -> Figure:
    """The fleet's mean return with a 95% band over runs, and every agent's own in the background.

    Where no episode has ended, the mean reward of a step.
    """
    curve = history.learning_curve(bins=POINTS)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # bins without an episode
        agents, (mean, margin) = curve.mean("run"), mean_and_margin(curve.mean("agent"))
    drawn = Figure(figsize=SIZE, layout="constrained")
    axes = drawn.subplots()
    for agent in agents.transpose("agent", "t").values:
        axes.plot(*_known(curve["t"], agent), color="0.6", **LINE)
    axes.plot(*_known(curve["t"], mean), color="tab:blue", label="fleet", **LINE | {"linewidth": 1.6})
    axes.fill_between(
        *_known(curve["t"], mean - margin, mean + margin), color="tab:blue", alpha=0.25, linewidth=0
    )
    known = agents.values[np.isfinite(agents.values)]
    if known.size and np.ptp(known) > 0:  # a band of two runs may reach far beyond
        room = 0.05 * np.ptp(known)
        axes.set_ylim(known.min() - room, known.max() + room)
    axes.plot([], [], color="0.6", label="agents", **LINE)
    axes.margins(x=0)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_xlabel(STEPS)
    axes.set_ylabel(LABELS[str(curve.name)])
    axes.set_title(title, fontsize="small", wrap=True)
    axes.legend(frameon=False, fontsize="small")
    return drawn


def _known(*arrays: Any) -> list[Any]:
    """The places at which all arrays are finite: lines go on over bins in which no episode has ended."""
    values = np.array(arrays)
    return list(values[:, np.isfinite(values).all(axis=0)])
