"""Figures about collaboration: who gains by it, up to which level, and how near every agent comes."""

from collections.abc import Mapping, Sequence

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsarsa.experiments import plots
from fedsarsa.experiments.statistics import floor

Data = Mapping[str, xr.Dataset]


def federating(data: Data) -> Figure:
    """Where the error ends, against the number of agents, one curve per level of heterogeneity.

    Below the dotted line agent 1 gains by federating; above it, it would do better alone.
    """
    figure, (axes,) = plots.panels("Where the error ends, by fleet size and level of heterogeneity", 1)
    floors = floor(data["sarsa"]["error"])
    levels = floors["eps_p"].values.tolist()
    colours = plots.shades(len(levels))
    for level, colour in zip(levels, colours, strict=True):
        plots.band(axes, floors.sel(eps_p=level, eps_r=level), "agents", color=colour, **plots.DOTS)
    plots.decorate(axes)
    axes.set_xscale("log")
    _ticks(axes, floors["agents"].values.tolist())
    alone = float(floors.sel(agents=1).mean())
    axes.axhline(alone, color="grey", linewidth=0.8, linestyle=":")
    plots.finish([axes], "agents, $N$", "error at the end")
    entries = [(f"level {level:g}", colour) for level, colour in zip(levels, colours, strict=True)]
    plots.legend(figure, entries, [("agent 1 alone", {"color": "grey", "linestyle": ":"})])
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
    axes.axhline(1.0, color="grey", linewidth=0.8, linestyle=":")
    plots.decorate(axes)
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.4)  # level 0 is one of them
    axes.set_xlim(-0.02, 1.15 * float(levels[-1]))
    _ticks(axes, levels.values.tolist())
    name = f"error at the end, $N = {size}$ / alone"
    plots.finish([axes], r"level $\epsilon_p = \epsilon_r$ (nominal)", name)
    entries = [(f"{name} scheme", colour) for name, colour in colours.items()]
    dotted = {"color": "grey", "linestyle": ":"}
    plots.legend(figure, entries, [("predicted", plots.PREDICTED), ("agent 1 alone", dotted)])
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
    for agent in reversed(range(bias.sizes["agent"])):
        colour = others if agent else first
        axes.plot(levels, bias.isel(agent=agent), color=colour, linewidth=1.0, **plots.DOTS)
    top = float(bias.isel(level=-1).max())
    axes.plot(levels, top * (levels / levels[-1]) ** 2, **plots.PREDICTED)
    plots.decorate(axes)
    axes.set_xscale("log")
    _ticks(axes, levels.tolist())
    name = r"error to $\theta_*^{(i)}$ at the end, less noise"
    plots.finish([axes], r"level $\epsilon_p = \epsilon_r$", name)
    plots.legend(figure, [("agent 1", first), ("another agent", others)], [("slope 2", plots.PREDICTED)])
    return figure


def _ticks(axes: Axes, values: Sequence[float]) -> None:
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
