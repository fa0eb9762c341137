"""Figures that the paper does not have: ties, decaying steps, rounds, projection, returns, and more."""

from collections.abc import Callable, Mapping

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsarsa.experiments import plots
from fedsarsa.experiments.reproduction import collaboration_figures
from fedsarsa.experiments.reproduction.settings import RADII
from fedsarsa.experiments.statistics import mean_and_margin

Data = Mapping[str, xr.Dataset]


def ties(data: Data) -> Figure:
    """On-policy federated Q-learning without heterogeneity, by what happens where values are equal.

    Ties to the first class: all runs share one fixed point, and errors fall as 1/N. Shared ties: the actions
    tried first decide at which of many fixed points a run settles; the reference, a long run of agent 1, is
    one of them.
    """
    parts = {
        "to the first class, as released": data["ql"]["error"].sel(eps_p=0.0),
        "shared": data["ties"]["error"],
    }
    figure, axes = plots.panels("Q-learning: where ties go", len(parts), columns=2)
    sizes = data["ties"]["agents"].values.tolist()
    colours = plots.shades(len(sizes))
    for (name, error), place in zip(parts.items(), axes, strict=True):
        for size, colour in zip(sizes, colours, strict=True):
            plots.band(place, error.sel(agents=size), "t", color=colour)
        plots.decorate(place, name)
        place.margins(x=0)
    plots.finish(axes, plots.STEPS, plots.ERROR)
    entries = [(f"N = {size}", colour) for size, colour in zip(sizes, colours, strict=True)]
    plots.legend(figure, entries, [("95% band", plots.BAND)])
    return figure


def decay(data: Data) -> Figure:
    """Error of the averaged parameter against all samples, with decaying step sizes (Corollary 2).

    Fleets of every size meet on one line of slope -1 once their transient is over: linear speedup.
    """
    figure, (axes,) = plots.panels("Decaying step size, no heterogeneity (cor:err-dec)", 1)
    error = data["decay"]["averaged"]
    sizes = error["agents"].values.tolist()
    colours = plots.shades(len(sizes))
    for size, colour in zip(sizes, colours, strict=True):
        mean, margin = mean_and_margin(error.sel(agents=size))
        samples = size * error["steps"].values
        axes.errorbar(samples, mean, margin, color=colour, linewidth=1.2, capsize=2, **plots.DOTS)
    last = error.isel(agents=-1, steps=-1)
    samples = np.array([error["steps"].values.min(), sizes[-1] * error["steps"].values.max()])
    line = float(last.mean()) * samples[-1] / samples
    axes.plot(samples, line, **plots.PREDICTED)
    plots.decorate(axes)
    axes.set_xscale("log")
    name = r"error $\|\tilde\theta_T - \theta_{\mathrm{ref}}\|^2$"
    plots.finish([axes], "samples of all agents, $N T$", name)
    entries = [(f"N = {size}", colour) for size, colour in zip(sizes, colours, strict=True)]
    plots.legend(figure, entries, [("slope -1", plots.PREDICTED)])
    return figure


def period(data: Data) -> Figure:
    """Error after the last step against the number of local steps between synchronisations.

    A thousand local steps save 999 of 1000 messages; the error hardly changes.
    """
    node = data["period"]
    final = node["final_error"]
    levels = final["eps_p"].values.tolist()
    figure, axes = plots.panels("Averaging less often", len(levels), columns=2, share_error=False)
    for level, place in zip(levels, axes, strict=True):
        plots.band(place, final.sel(eps_p=level), "sync_every", color=plots.shades(3)[1], **plots.DOTS)
        place.plot(final["sync_every"], node["predicted_final"].sel(eps_p=level), **plots.PREDICTED)
        plots.decorate(place, rf"$\epsilon_p = \epsilon_r = {level:g}$")
        place.set_xscale("log")
        plots.finish([place], "local steps per round, $K$ (messages: $T/K$)", "error after the last step")
    plots.legend(
        figure,
        [(f"mean of {final.sizes['run']} runs, 95% band", plots.shades(3)[1])],
        [("predicted", plots.PREDICTED)],
    )
    return figure


def projection(data: Data) -> Figure:
    """Error with and without projection, for radii below, at and beyond the norm of the reference.

    With twice that norm the ball holds the parameter on its whole way: both curves are the same.
    """
    figure, (axes,) = plots.panels("Projection on a ball", 1)
    error = data["projection"]["error"]
    labels = ["no projection", *(rf"radius {share:g} $\|\theta_{{\mathrm{{ref}}}}\|$" for share in RADII)]
    colours = plots.shades(len(labels))
    dashes = ["-", "-", (0, (6, 2)), (0, (2, 4))]  # some curves lie on each other
    for place, colour in enumerate(colours):
        plots.band(axes, error.isel(radius=place), "t", color=colour, linestyle=dashes[place])
    plots.decorate(axes)
    axes.margins(x=0)
    plots.finish([axes], plots.STEPS, plots.ERROR)
    plots.legend(figure, list(zip(labels, colours, strict=True)))
    return figure


def tabular(data: Data) -> Figure:
    """Error of tabular FedSARSA, one parameter per pair of state and action, one curve per fleet size.

    The floor falls as 1/N, as with features.
    """
    figure, (axes,) = plots.panels("Tabular FedSARSA: 10 states, 10 actions, no heterogeneity", 1)
    node = data["tabular"]
    sizes = node["agents"].values.tolist()
    colours = plots.shades(len(sizes))
    for size, colour in zip(sizes, colours, strict=True):
        plots.band(axes, node["error"].sel(agents=size), "t", color=colour)
        axes.plot(node["t"], node["predicted"].sel(agents=size), **plots.PREDICTED)
    plots.decorate(axes)
    axes.margins(x=0)
    plots.finish([axes], plots.STEPS, plots.ERROR)
    entries = [(f"N = {size}", colour) for size, colour in zip(sizes, colours, strict=True)]
    plots.legend(figure, entries, [("predicted", plots.PREDICTED)])
    return figure


def personalisation(data: Data) -> Figure:
    """Error of agents to their own fixed points when they go on alone, with decaying step sizes.

    From the federated parameter, or from scratch; heterogeneity at level 1.
    """
    figure, (axes,) = plots.panels("Each agent goes on alone", 1)
    error = data["personalisation"]["error"].mean("agent")
    names = {"federated": "from the federated parameter", "scratch": "from scratch"}
    colours = dict(zip(names, plots.shades(3)[1:], strict=True))
    for start in names:
        plots.band(axes, error.sel(start=start), "steps", color=colours[start], **plots.DOTS)
    plots.decorate(axes)
    plots.finish([axes], "steps alone", r"error $\|\theta^{(i)} - \theta^{(i)}_*\|^2$, mean over agents")
    plots.legend(figure, [(label, colours[start]) for start, label in names.items()])
    return figure


def returns(data: Data) -> Figure:
    """Every agent's exact discounted return: uniform, federated softmax and greedy policies, its optimum.

    At temperature 100 the softmax policy is nearly uniform, and five by five features tell so little about a
    state that even acting greedily by them gains next to nothing: the published setting is a test of
    convergence, not of control.
    """
    figure, (axes,) = plots.panels("Exact discounted return of every agent", 1)
    value = data["returns"]["discounted_return"]
    names = {
        "optimal": "its own optimum",
        "greedy": "greedy on the federated parameter",
        "federated": "federated policy",
        "uniform": "uniform policy",
    }
    colours = dict(zip(names, plots.shades(len(names)), strict=True))
    markers = dict(zip(names, "_sox", strict=True))
    sizes = dict(zip(names, (9, 7, 4, 5), strict=True))  # the last ones lie on top of each other
    agents = np.arange(1, value.sizes["agent"] + 1)
    aside = dict(zip(names, (0.0, 0.2, 0.0, -0.2), strict=True))  # the last three are nearly the same
    for name in names:
        axes.plot(
            agents + aside[name],
            value.sel(policy=name),
            markers[name],
            color=colours[name],
            markersize=sizes[name],
        )
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_xlabel("agent", fontsize="small")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("discounted return", fontsize="small")
    axes.tick_params(labelsize="x-small")
    styles = [{"color": colours[name], "marker": markers[name], "linestyle": ""} for name in names]
    plots.legend(figure, [], zip(names.values(), styles, strict=True))
    return figure


def released(data: Data) -> Figure:
    """Carrying the action over (Algorithm 1) beside drawing it anew (the released program).

    The bands lie on each other.
    """
    levels = data["released"]["eps_p"].values.tolist()
    sizes = data["released"]["agents"].values.tolist()
    figure, axes = plots.panels("Carrying the action over, and drawing it anew", len(levels), columns=2)
    colours = plots.shades(len(sizes))
    for level, place in zip(levels, axes, strict=True):
        for size, colour in zip(sizes, colours, strict=True):
            ours = data["sarsa"]["error"].sel(eps_p=level, eps_r=level, agents=size)
            plots.band(place, ours, "t", color=colour)
            theirs = data["released"]["error"].sel(eps_p=level, agents=size)
            plots.band(place, theirs, "t", color=colour, linestyle=":")
        plots.decorate(place, rf"$\epsilon_p = \epsilon_r = {level:g}$")
        place.margins(x=0)
    plots.finish(axes, plots.STEPS, plots.ERROR)
    entries = [(f"N = {size}", colour) for size, colour in zip(sizes, colours, strict=True)]
    dotted = {"color": "grey", "linestyle": ":"}
    extra = [("carried over", {"color": "grey"}), ("drawn anew", dotted), ("95% band", plots.BAND)]
    plots.legend(figure, entries, extra)
    return figure


# Every figure, and the parts of the data that it needs.
FIGURES: dict[str, tuple[Callable[[Data], Figure], tuple[str, ...]]] = {
    "federating": (collaboration_figures.federating, ("sarsa",)),
    "schemes": (collaboration_figures.schemes, ("sarsa", "symmetric")),
    "agents": (collaboration_figures.agents, ("agents",)),
    "ties": (ties, ("ql", "ties")),
    "decay": (decay, ("decay",)),
    "period": (period, ("period",)),
    "projection": (projection, ("projection",)),
    "tabular": (tabular, ("tabular",)),
    "personalisation": (personalisation, ("personalisation",)),
    "returns": (returns, ("returns",)),
    "released": (released, ("sarsa", "released")),
}
