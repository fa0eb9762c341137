"""A view's settings and numbers in forms that other programs read."""

import csv
import io
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from fedsarsa import _netcdf
from fedsarsa.experiments.algorithm_sections import DEFAULT, SERVERS
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.fleet_sections import ControlSection, PaperFleet
from fedsarsa.experiments.method_sections import MethodSection
from fedsarsa.experiments.section import Section
from fedsarsa.explore.control_values import toml
from fedsarsa.explore.measurements import Trained, record_every
from fedsarsa.explore.theory_answers import Predicted
from fedsarsa.federation.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALWAYS = (
    "features",
    "policy",
    "step_size",
    "sync_every",
)  # arguments that are written even if they are defaults
FLEETS = {"paper": "fs.paper.fleet", "control": "fs.control.fleet"}
METHOD_END = """history = algo.train(fleet, {training})
print(history.final.mean("run"))
"""
CONTROL_END = """history = algo.train(fleet, {training})
print(history.learning_curve(bins=50).mean("agent").mean("run"))
"""
END = """history = algo.train(fleet, {training})
target = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
print(history.mse(target).mean("run"))
"""


def toml_text(content: dict[str, Any]) -> str:
    """A configuration file, as ``fedsarsa train`` reads it."""
    lines = []
    for section, keys in content.items():
        lines += [f"[{section}]", *(f"{key} = {toml(value)}" for key, value in keys.items()), ""]
    return "\n".join(lines)


def python(content: dict[str, Any]) -> str:
    """A program that trains what is shown."""
    config = Config.model_validate(content)
    training = config.training.model_dump(exclude_defaults=True) | {
        "steps": config.training.steps,
        "runs": config.training.runs,
        "record_every": record_every(config),
    }
    algorithm, section = config.algorithm, config.fleet
    method, control = isinstance(algorithm, MethodSection), isinstance(section, ControlSection)
    end = (CONTROL_END if control else METHOD_END if method else END).format(training=_arguments(training))
    tabular = getattr(getattr(algorithm, "features", None), "kind", "") == "tabular"
    if tabular or getattr(section, "vary", {}) or not isinstance(section, PaperFleet | ControlSection):
        return (
            "from pathlib import Path\n\nimport fedsarsa as fs\n"
            "from fedsarsa.experiments.config import validate\n\n"
            f"settings = {content!r}\n"
            'fleet, algo = validate(settings, "settings").build(Path())  # the folder of its files\n' + end
        )
    fleet = {name: getattr(section, name) for name in section.key_names if name != "vary"}
    fleet |= getattr(section, "physics", {})
    usual = {} if method else dict(DEFAULT.__dict__)
    wanted = {
        name: getattr(algorithm, name)
        for name in algorithm.key_names
        if name in ALWAYS
        or (getattr(algorithm, name) is not None and getattr(algorithm, name) != usual.get(name))
    }
    if wanted.get("sync_every") == "never":
        wanted["sync_every"] = None
    lines = "".join(f"    {name}={_python(value)},\n" for name, value in wanted.items())
    made = f"fs.methods.{algorithm.source.__name__}" if method else "fs.FedSARSA"
    return (
        f"import fedsarsa as fs\n\nfleet = {FLEETS[section.kind]}({_arguments(fleet)})\n"
        f"algo = {made}(\n{lines})\n{end}"
    )


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={_python(value)}" for name, value in values.items())


def _python(value: Any) -> str:
    """A value as Python writes it; sections as what they make."""
    if isinstance(value, list):
        return f"[{', '.join(_python(one) for one in value)}]"
    if not isinstance(value, Section):
        return repr(value)
    kind: Any = type(value)
    room = "fs.servers." if kind in SERVERS.values() else "fs."
    inside = {name: getattr(value, name) for name in kind.key_names if getattr(value, name) is not None}
    return f"{room}{kind.source.__name__}({_arguments(inside)})"


def csv_text(trained: Trained, predicted: Predicted | None) -> str:
    """The curves: t, mean error, its 95% band, what was predicted, drift."""
    curves = trained.curves
    columns = {name: curves[name].values for name in ("t", "error", "low", "high")}
    if predicted is not None:
        columns["predicted"] = predicted.mse.reindex(t=curves["t"]).values
    return csv_columns(columns | {"drift": curves["drift"].values})


def learning_csv(curves: xr.Dataset) -> str:
    """Learning curves: t, mean over agents and runs, its 95% band, and every agent's own."""
    columns = {name: curves[name].values for name in ("t", "mean", "low", "high")}
    own = curves["agents"].transpose("agent", "t").values
    return csv_columns(columns | {f"agent {agent}": values for agent, values in enumerate(own)})


def csv_columns(columns: dict[str, Any]) -> str:
    """Columns as text; what is not a number is left out."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in zip(*(np.asarray(values).tolist() for values in columns.values()), strict=True):
        writer.writerow("" if isinstance(one, float) and math.isnan(one) else one for one in row)
    return text.getvalue()


def netcdf(history: History, content: dict[str, Any]) -> bytes:
    """The history, as ``fs.History.load`` reads it, with its configuration."""
    return _netcdf.content(history.data.assign_attrs(config=toml_text(content)))


def picture(trained: Trained, predicted: Predicted | None, kind: str) -> bytes:
    """The error curve as a figure for print, ``kind`` png or svg."""
    from fedsarsa.experiments import plots  # Matplotlib, half a second that the first page need not wait for

    settings = trained.history.settings
    title = f"{settings['agents']} agents, {settings['runs']} runs, K = {settings['sync_every'] or 'never'}"
    figure, [axes] = plots.panels(title, 1)
    colour = plots.shades(2)[-1]
    plots.band(axes, trained.error(), "t", color=colour)
    if predicted is not None:
        axes.plot(predicted.mse["t"], predicted.mse, **plots.PREDICTED)
    plots.decorate(axes)
    axes.margins(x=0)
    plots.finish([axes], plots.STEPS, plots.ERROR)
    plots.legend(figure, {"trained": colour}, **({} if predicted is None else {"predicted": plots.PREDICTED}))
    return saved(figure, kind)


def learning_picture(history: History, kind: str) -> bytes:
    """The learning curves as a figure for print, ``kind`` png or svg."""
    from fedsarsa.experiments import learning_curves  # Matplotlib too

    settings = history.settings
    return saved(
        learning_curves.figure(history, f"{settings['agents']} agents, {settings['runs']} runs"), kind
    )


def saved(figure: "Figure", kind: str) -> bytes:
    """A figure as a file, the same for the same data."""
    made = io.BytesIO()
    figure.savefig(made, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return made.getvalue()


# What can be downloaded: its name -> the ending of the file, and how it is made of what is drawn and shown.
Files = dict[str, tuple[str, Callable[[Any, dict[str, Any]], bytes]]]
FILES: Files = {  # of a training and its prediction
    "PNG": ("png", lambda drawn, _: picture(drawn[0], drawn[1], "png")),
    "SVG": ("svg", lambda drawn, _: picture(drawn[0], drawn[1], "svg")),
    "CSV": ("csv", lambda drawn, _: csv_text(*drawn).encode()),
    "netCDF": ("nc", lambda drawn, content: netcdf(drawn[0].history, content)),
}
CONTROL_FILES: Files = {  # of a training in control worlds
    "PNG": ("png", lambda drawn, _: learning_picture(drawn.history, "png")),
    "SVG": ("svg", lambda drawn, _: learning_picture(drawn.history, "svg")),
    "CSV": ("csv", lambda drawn, _: learning_csv(drawn.curves).encode()),
    "netCDF": ("nc", lambda drawn, content: netcdf(drawn.history, content)),
}
