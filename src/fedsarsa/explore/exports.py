"""A view's settings and numbers in forms that other programs read."""

import csv
import io
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsarsa.experiments.algorithm_sections import DEFAULT, SERVERS
from fedsarsa.experiments.config import Config
from fedsarsa.experiments.fleet_sections import PaperFleet
from fedsarsa.experiments.section import Section
from fedsarsa.explore.control_values import toml
from fedsarsa.explore.measurements import Trained, record_every
from fedsarsa.explore.theory_answers import Predicted

ALWAYS = (
    "features",
    "policy",
    "step_size",
    "sync_every",
)  # arguments that are written even if they are defaults
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
    end = END.format(training=_arguments(training))
    if not isinstance(config.fleet, PaperFleet) or config.algorithm.features.kind == "tabular":
        return (
            "from pathlib import Path\n\nimport fedsarsa as fs\n"
            "from fedsarsa.experiments.config import validate\n\n"
            f"settings = {content!r}\n"
            'fleet, algo = validate(settings, "settings").build(Path())  # the folder of its files\n' + end
        )
    fleet = {name: value for name, value in config.fleet if name != "kind"}
    wanted = {
        name: value
        for name, value in config.algorithm
        if name in ALWAYS or (value is not None and value != getattr(DEFAULT, name))
    }
    if wanted["sync_every"] == "never":
        wanted["sync_every"] = None
    lines = "".join(f"    {name}={_python(value)},\n" for name, value in wanted.items())
    return (
        f"import fedsarsa as fs\n\nfleet = fs.paper.fleet({_arguments(fleet)})\n"
        f"algo = fs.FedSARSA(\n{lines})\n{end}"
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
    columns["drift"] = curves["drift"].values
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        writer.writerow("" if isinstance(one, float) and math.isnan(one) else one for one in row)
    return text.getvalue()


def netcdf(trained: Trained, content: dict[str, Any]) -> bytes:
    """The history, as ``fs.History.load`` reads it, with its configuration."""
    trained.history.data.attrs["config"] = toml_text(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.nc"
        trained.history.save(path)
        return path.read_bytes()


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
    made = io.BytesIO()
    figure.savefig(made, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return made.getvalue()


# What can be downloaded: its name -> the ending of the file, and how it is made.
FILES: dict[str, tuple[str, Callable[[Trained, Predicted | None, dict[str, Any]], bytes]]] = {
    "PNG": ("png", lambda trained, predicted, _: picture(trained, predicted, "png")),
    "SVG": ("svg", lambda trained, predicted, _: picture(trained, predicted, "svg")),
    "CSV": ("csv", lambda trained, predicted, _: csv_text(trained, predicted).encode()),
    "netCDF": ("nc", lambda trained, _, content: netcdf(trained, content)),
}
