"""Figures that the paper does not have: collaboration, ties, decaying steps, rounds, returns, and more."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedsarsa.experiments import plots
from fedsarsa.experiments.reproduction.settings import RADII
from fedsarsa.experiments.statistics import floor, mean_and_margin

Data = Mapping[str, xr.Dataset]


def federating(data: Data) -> Figure:
    """Where the error ends, against the number of agents, one curve per level of heterogeneity.

    Below the dotted line agent 1 gains by federating; above it, it would do better alone.
    """
    figure, (axes,) = plots.panels("Where the error ends, by fleet size and level of heterogeneity", 1)
    floors = floor(data["sarsa"]["error"])
    colours = plots.coloured(floors["eps_p"].values.tolist())
    for level, colour in colours.items():
        plots.band(axes, floors.sel(eps_p=level, eps_r=level), "agents", color=colour, **plots.DOTS)
    plots.decorate(axes)
    axes.set_xscale("log")
    plots.mark(axes, floors["agents"].values.tolist())
    alone = float(floors.sel(agents=1).mean())
    axes.axhline(alone, linewidth=0.8, **plots.DOTTED)
    plots.finish([axes], "agents, $N$", "error at the end")
    names = {f"level {level:g}": colour for level, colour in colours.items()}
    plots.legend(figure, names, **{"agent 1 alone": plots.DOTTED})
    return figure


def schemes(data: Data) -> Figure:
    """Up to which level agent 1 gains: the error of the largest fleet over its own alone, in two schemes.

    Released perturbations lower rewards and never raise them. Symmetric ones leave the mean of the worlds
    near agent 1's. Below the dotted line agent 1 gains by federating.
    """
    figure, (axes,) = plots.panels("Up to which level agent 1 gains, by how worlds are perturbed", 1)
    sarsa, size = data["sarsa"], int(data["sarsa"]["agents"][-1])
    alone = floor(sarsa["error"]).sel(eps_p=0.0, eps_r=0.0, agents=1).mean("run")
    expected = floor(sarsa["predicted"]).sel(eps_p=0.0, eps_r=0.0, agents=1)
    levels = xr.DataArray(sarsa["eps_p"].values, dims="eps_p")
    parts = {"released": sarsa.sel(eps_p=levels, eps_r=levels, agents=size), "symmetric": data["symmetric"]}
    colours = dict(zip(parts, plots.shades(3)[1:], strict=True))
    for name, part in parts.items():
        plots.band(axes, floor(part["error"]) / alone, "eps_p", color=colours[name], **plots.DOTS)
        axes.plot(part["eps_p"], floor(part["predicted"]) / expected, **plots.PREDICTED)
    axes.axhline(1.0, linewidth=0.8, **plots.DOTTED)
    plots.decorate(axes)
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)  # level 0 is one of them
    axes.set_xlim(-0.02, 1.15 * float(levels[-1]))
    plots.mark(axes, levels.values.tolist())
    name = f"error at the end, $N = {size}$ / alone"
    plots.finish([axes], r"level $\epsilon_p = \epsilon_r$ (nominal)", name)
    names = {f"{name} scheme": colour for name, colour in colours.items()}
    plots.legend(figure, names, predicted=plots.PREDICTED, **{"agent 1 alone": plots.DOTTED})
    return figure


def mixtures(data: Data) -> Figure:
    """Every agent alone, one parameter for all, and a mixture for every agent, by level of heterogeneity.

    Mean over agents of the squared distance to the agent's own fixed point. A mixture of all agents'
    parameters, with exact weights of the agent's own, is best at every level.
    """
    node = data["mixtures"]
    figure, (axes,) = plots.panels("Alone, together, or a mixture for every agent", 1)
    colours = dict(zip(node["way"].values.tolist(), ("0.55", "tab:orange", plots.shades(3)[2]), strict=True))
    for way, colour in colours.items():
        plots.band(axes, node["error"].sel(way=way), "level", color=colour, **plots.DOTS)
        axes.plot(node["level"], node["predicted"].sel(way=way), **plots.PREDICTED)
    plots.decorate(axes)
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)  # level 0 is one of them
    levels = node["level"].values.tolist()
    axes.set_xlim(-0.02, 1.15 * levels[-1])
    plots.mark(axes, levels)
    name = r"error $\|\theta - \theta_*^{(i)}\|^2$, mean over agents"
    plots.finish([axes], r"level $\epsilon_p = \epsilon_r$ (nominal)", name)
    plots.legend(figure, colours, predicted=plots.PREDICTED)
    return figure


def agents(data: Data) -> Figure:
    """Where every agent's error to its own fixed point ends, less the noise, against the level.

    One curve per agent, and a line of slope 2: distances are proportional to the level.
    """
    floors = data["agents"]["error"]
    bias = (floors - floors.sel(level=0.0)).mean("run").sel(level=floors["level"] > 0)
    title = f"Near-optimal for every agent, N = {bias.sizes['agent']}"
    figure, (axes,) = plots.panels(title, 1)
    levels = bias["level"].values
    first, others = plots.shades(3)[2], plots.shades(3)[1]
    axes.plot(levels, bias.isel(agent=slice(None, 0, -1)), color=others, linewidth=1.0, **plots.DOTS)
    axes.plot(levels, bias.isel(agent=0), color=first, linewidth=1.0, **plots.DOTS)
    top = float(bias.isel(level=-1).max())
    axes.plot(levels, top * (levels / levels[-1]) ** 2, **plots.PREDICTED)
    plots.decorate(axes)
    axes.set_xscale("log")
    plots.mark(axes, levels.tolist())
    name = r"error to $\theta_*^{(i)}$ at the end, less noise"
    plots.finish([axes], r"level $\epsilon_p = \epsilon_r$", name)
    plots.legend(figure, {"agent 1": first, "another agent": others}, **{"slope 2": plots.PREDICTED})
    return figure


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
    colours = plots.coloured(data["ties"]["agents"].values.tolist())
    for (name, error), place in zip(parts.items(), axes, strict=True):
        plots.curves(place, name, error, colours)
    plots.finish(axes, plots.STEPS, plots.ERROR)
    plots.legend(figure, _by_size(colours), **{"95% band": plots.BAND})
    return figure


def decay(data: Data) -> Figure:
    """Error of the averaged parameter against all samples, with decaying step sizes (Corollary 2).

    Fleets of every size meet on one line of slope -1 once their transient is over: linear speedup.
    """
    figure, (axes,) = plots.panels("Decaying step size, no heterogeneity (cor:err-dec)", 1)
    error = data["decay"]["averaged"]
    colours = plots.coloured(error["agents"].values.tolist())
    for size, colour in colours.items():
        mean, margin = mean_and_margin(error.sel(agents=size))
        samples = size * error["steps"].values
        axes.errorbar(samples, mean, margin, color=colour, linewidth=1.2, capsize=2, **plots.DOTS)
    last = error.isel(agents=-1, steps=-1)
    samples = np.array([error["steps"].values.min(), max(colours) * error["steps"].values.max()])
    line = float(last.mean()) * samples[-1] / samples
    axes.plot(samples, line, **plots.PREDICTED)
    plots.decorate(axes)
    axes.set_xscale("log")
    name = r"error $\|\tilde\theta_T - \theta_{\mathrm{ref}}\|^2$"
    plots.finish([axes], "samples of all agents, $N T$", name)
    plots.legend(figure, _by_size(colours), **{"slope -1": plots.PREDICTED})
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
    names = {f"mean of {final.sizes['run']} runs, 95% band": plots.shades(3)[1]}
    plots.legend(figure, names, predicted=plots.PREDICTED)
    return figure


def projection(data: Data) -> Figure:
    """Error with and without projection, for radii below, at and beyond the norm of the reference.

    With twice that norm the ball holds the parameter on its whole way: both curves are the same.
    """
    figure, (axes,) = plots.panels("Projection onto a ball", 1)
    error = data["projection"]["error"]
    labels = ["no projection", *(rf"radius {share:g} $\|\theta_{{\mathrm{{ref}}}}\|$" for share in RADII)]
    colours = plots.coloured(labels)
    dashes = ["-", "-", (0, (6, 2)), (0, (2, 4))]  # some curves lie on each other
    for place, colour in enumerate(colours.values()):
        plots.band(axes, error.isel(radius=place), "t", color=colour, linestyle=dashes[place])
    plots.decorate(axes)
    axes.margins(x=0)
    plots.finish([axes], plots.STEPS, plots.ERROR)
    plots.legend(figure, colours)
    return figure


def tabular(data: Data) -> Figure:
    """Error of tabular FedSARSA, one parameter per pair of state and action, one curve per fleet size.

    The floor falls as 1/N, as with features.
    """
    figure, (axes,) = plots.panels("Tabular FedSARSA: 10 states, 10 actions, no heterogeneity", 1)
    node = data["tabular"]
    colours = plots.coloured(node["agents"].values.tolist())
    plots.curves(axes, "", node["error"], colours, predicted=node["predicted"])
    plots.finish([axes], plots.STEPS, plots.ERROR)
    plots.legend(figure, _by_size(colours), predicted=plots.PREDICTED)
    return figure


def personalisation(data: Data) -> Figure:
    """Error of agents to their own fixed points when they train on alone, with decaying step sizes.

    From the federated parameter, or from scratch; heterogeneity at level 1.
    """
    figure, (axes,) = plots.panels("Each agent trains on alone", 1)
    error = data["personalisation"]["error"].mean("agent")
    names = {"federated": "from the federated parameter", "scratch": "from scratch"}
    colours = dict(zip(names, plots.shades(3)[1:], strict=True))
    for start in names:
        plots.band(axes, error.sel(start=start), "steps", color=colours[start], **plots.DOTS)
    plots.decorate(axes)
    plots.finish([axes], "steps alone", r"error $\|\theta^{(i)} - \theta^{(i)}_*\|^2$, mean over agents")
    plots.legend(figure, {label: colours[start] for start, label in names.items()})
    return figure


def returns(data: Data) -> Figure:
    """Every agent's exact discounted return: uniform, federated softmax and greedy policies, its optimum.

    At temperature 100 the softmax policy is nearly uniform, and five by five features tell so little about a
    state that even acting greedily by them gains next to nothing: the published setting is a test of
    convergence, not of control.
    """
    figure, (axes,) = plots.panels("Exact discounted return of every agent", 1)
    value = data["returns"]["discounted_return"]
    # Name, marker, its size and its place beside the agent: the last three are nearly the same.
    shown = {
        "optimal": ("its own optimum", "_", 9, 0.0),
        "greedy": ("greedy on the federated parameter", "s", 7, 0.2),
        "federated": ("federated policy", "o", 4, 0.0),
        "uniform": ("uniform policy", "x", 5, -0.2),
    }
    styles: dict[str, Any] = {}
    for (policy, colour), (name, marker, size, aside) in zip(
        plots.coloured(list(shown)).items(), shown.values(), strict=True
    ):
        styles[name] = {"color": colour, "marker": marker, "linestyle": ""}
        agents = np.arange(1, value.sizes["agent"] + 1) + aside
        axes.plot(agents, value.sel(policy=policy), markersize=size, **styles[name])
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.set_xlabel("agent", fontsize="small")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("discounted return", fontsize="small")
    axes.tick_params(labelsize="x-small")
    plots.legend(figure, {}, **styles)
    return figure


def released(data: Data) -> Figure:
    """Carrying the action over (Algorithm 1) beside drawing it anew (the released program).

    The bands lie on each other.
    """
    levels = data["released"]["eps_p"].values.tolist()
    figure, axes = plots.panels("Carrying the action over, and drawing it anew", len(levels), columns=2)
    colours = plots.coloured(data["released"]["agents"].values.tolist())
    for level, place in zip(levels, axes, strict=True):
        title = rf"$\epsilon_p = \epsilon_r = {level:g}$"
        ours = data["sarsa"]["error"].sel(eps_p=level, eps_r=level)
        plots.curves(place, title, ours, colours)
        plots.curves(place, title, data["released"]["error"].sel(eps_p=level), colours, linestyle=":")
    plots.finish(axes, plots.STEPS, plots.ERROR)
    styles = {"carried over": {"color": "grey"}, "drawn anew": plots.DOTTED, "95% band": plots.BAND}
    plots.legend(figure, _by_size(colours), **styles)
    return figure


def _by_size(colours: Mapping[int, Any]) -> dict[str, Any]:
    return {f"N = {size}": colour for size, colour in colours.items()}


# Every figure, and the parts of the data that it needs.
FIGURES: dict[str, tuple[Callable[[Data], Figure], tuple[str, ...]]] = {
    "federating": (federating, ("sarsa",)),
    "schemes": (schemes, ("sarsa", "symmetric")),
    "mixtures": (mixtures, ("mixtures",)),
    "agents": (agents, ("agents",)),
    "ties": (ties, ("ql", "ties")),
    "decay": (decay, ("decay",)),
    "period": (period, ("period",)),
    "projection": (projection, ("projection",)),
    "tabular": (tabular, ("tabular",)),
    "personalisation": (personalisation, ("personalisation",)),
    "returns": (returns, ("returns",)),
    "released": (released, ("sarsa", "released")),
}
