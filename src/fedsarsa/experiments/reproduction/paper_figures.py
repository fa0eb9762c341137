"""The paper's simulation figures, drawn from the trained grids."""

from collections.abc import Mapping

import xarray as xr
from matplotlib.figure import Figure

from fedsarsa.experiments import plots
from fedsarsa.experiments.reproduction.panels import FigureOfPaper

NAMES = {"agents": "N = {}", "eps_p": r"$\epsilon_p$ = {:g}", "eps_r": r"$\epsilon_r$ = {:g}"}


def draw(figure: FigureOfPaper, data: Mapping[str, xr.Dataset]) -> Figure:
    """All panels of a figure; each entry of ``data`` holds ``error`` and maybe ``predicted`` of a grid."""
    canvas, axes = plots.panels(f"{figure.title}  ({figure.label})", len(figure.panels))
    along, source = figure.panels[0].along, figure.panels[0].source
    values = data[source][along].values.tolist()
    colours = dict(zip(values, plots.shades(len(values)), strict=True))
    predicted = data[source].get("predicted")
    for panel, place in zip(figure.panels, axes, strict=True):
        for value, error in panel.curves(data[source]["error"]):
            plots.band(place, error, "t", color=colours[value])
        if predicted is not None:
            for _, curve in panel.curves(predicted):
                place.plot(curve["t"], curve, **plots.PREDICTED)
        plots.decorate(place, panel.title)
        place.margins(x=0)
    plots.finish(axes, plots.STEPS, plots.ERROR)
    extra = [(f"mean of {data[source].sizes['run']} runs", {"color": "grey"}), ("95% band", plots.BAND)]
    if predicted is not None:
        extra.append(("predicted", plots.PREDICTED))
    entries = [(NAMES[along].format(value), colours[value]) for value in values]
    plots.legend(canvas, entries, extra)
    return canvas
