"""Pictures of personal weights: whom every agent listens to, and what it gains by that."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.hierarchy import leaves_list, linkage

from fedsarsa import _checks
from fedsarsa.experiments import plots

SIZE = (5.2, 4.4)  # inches, of the matrix
WIDTH, HEIGHT = 0.28, 3.6  # inches per agent and in all, of the errors
MARKS = "osD^v<>"
MOST_TICKS = 40  # agents whose numbers are all shown


def agent_order(points: ArrayLike) -> NDArray[np.int64]:
    """The agents with neighbours side by side, (N,): the leaves of a Ward tree over their points (N, d)."""
    given = _checks.real_array("points", points)
    if len(given) < 2:
        return np.arange(len(given))
    return np.asarray(leaves_list(linkage(given, "ward", optimal_ordering=True)))


def weights_figure(weights: ArrayLike, order: Sequence[int] | NDArray[np.int64] | None = None) -> Figure:
    """The matrix of weights (N, N): a row for every agent, a column for every agent it may listen to.

    ``order`` are the agents from top to bottom and from left to right (`agent_order`), as they are numbered
    unless given.
    """
    given = _checks.real_array("weights", weights)
    agents = len(given)
    place = _order(order, agents)
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    most = max(float(np.abs(given).max()), np.finfo(float).tiny)
    signed = bool((given < 0).any())  # weights of either sign need a scale with two sides
    image = axes.imshow(
        given[np.ix_(place, place)],
        cmap="RdBu" if signed else "viridis",
        vmin=-most if signed else 0.0,
        vmax=most,
    )
    shown = _shown(place)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(len(shown)), shown, fontsize="x-small")
    axes.set_xlabel("weight of agent j", fontsize="small")
    axes.set_ylabel("in the mixture of agent i", fontsize="small")
    figure.colorbar(image).ax.tick_params(labelsize="x-small")
    return figure


def errors_figure(
    errors: Mapping[str, ArrayLike], order: Sequence[int] | NDArray[np.int64] | None = None
) -> Figure:
    """Every agent's error in several ways, (N,) each by its name, such as alone, together and personal."""
    given = {name: _checks.real_array(name, values) for name, values in errors.items()}
    agents = len(next(iter(given.values())))
    place = _order(order, agents)
    figure = Figure(figsize=(2 + WIDTH * min(agents, MOST_TICKS), HEIGHT), layout="constrained")
    axes = figure.subplots()
    for (name, values), colour, mark in zip(given.items(), plots.shades(len(given)), MARKS, strict=False):
        axes.plot(range(agents), values[place], mark, color=colour, markersize=4, label=name)
    plots.decorate(axes)
    shown = _shown(place)
    axes.set_xticks(range(len(shown)), shown, fontsize="x-small")
    axes.set_xlabel("agent", fontsize="small")
    axes.set_ylabel("error to its own fixed point", fontsize="small")
    figure.legend(loc="outside upper center", ncols=len(given), frameon=False, fontsize="small")
    return figure


def _shown(place: NDArray[np.int64]) -> list[str]:
    """The numbers of the agents, or none where there are too many."""
    return [str(agent) for agent in place] if len(place) <= MOST_TICKS else []


def _order(order: Sequence[int] | NDArray[np.int64] | None, agents: int) -> NDArray[np.int64]:
    place = np.arange(agents) if order is None else np.asarray(order)
    if not np.array_equal(np.sort(place), np.arange(agents)):
        raise ValueError(f"order must hold every agent from 0 to {agents - 1} once, got {order!r}")
    return place
