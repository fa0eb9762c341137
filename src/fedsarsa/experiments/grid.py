"""The cells of a sweep: one configuration for every combination of the values in ``[sweep]``.

    [sweep]
    fleet.agents = [1, 5, 20]
    algorithm.policy = [{ kind = "softmax" }, { kind = "greedy" }]

An axis is the name of any key of the configuration; its values are listed. Keys that share their values are
one axis: ``"fleet.eps_p, fleet.eps_r" = [0.0, 0.5, 1.0]``.
"""

import copy
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsarsa._version import __version__
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments import config as configs
from fedsarsa.experiments.config import Config
from fedsarsa.methods import Method

ENGINE = "training.engine"  # the key


@dataclass(frozen=True)
class Cell:
    """One setting of a sweep: its number, its value on every axis, its configuration and its algorithm."""

    number: int
    values: dict[str, Any]
    config: Config
    algorithm: FedSARSA | Method

    @property
    def agents(self) -> int:
        """Agents of its fleet; 1 where only a file says."""
        return int(getattr(self.config.fleet, "agents", None) or 1)

    @property
    def work(self) -> int:
        """Agent-steps of its training."""
        training = self.config.training
        return self.agents * training.steps * training.runs

    def digest(self) -> str:
        """What distinguishes this cell's results from those of any other."""
        whole = self.config.model_dump(mode="json", exclude={"training": {"threads"}})
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def __str__(self) -> str:
        return ", ".join(f"{axis} = {label(value)}" for axis, value in self.values.items())


@dataclass(frozen=True)
class Grid:
    """All cells of a sweep, the last axis varying fastest; files are looked up in ``folder``."""

    axes: dict[str, list[Any]]
    cells: list[Cell]
    folder: Path

    @property
    def names(self) -> list[str]:
        """A short name for every axis: the last part of its (first) key, or all of it if two share that."""
        first = [keys(axis)[0] for axis in self.axes]
        short = [key.split(".")[-1] for key in first]
        return [name if short.count(name) == 1 else key for key, name in zip(first, short, strict=True)]

    def identity(self) -> dict[str, Any]:
        """Everything that decides the results, as JSON can hold it: to distinguish sweeps."""
        base = self.cells[0].config.model_dump(mode="json")
        base["training"].pop("threads")  # decides nothing
        if len({type(cell.config.algorithm) for cell in self.cells}) > 1:  # of other keys and defaults
            base["algorithm"] = self.cells[0].config.algorithm.model_dump(mode="json", exclude_unset=True)
        features = [getattr(cell.config.algorithm, "features", ()) for cell in self.cells]
        sections = [*(cell.config.fleet for cell in self.cells), *features]
        paths = {str(value) for section in sections for _, value in section if isinstance(value, Path)}
        files = {path: _digest(self.folder / path) for path in sorted(paths)}
        # As pairs: the order of the axes decides which number is which cell.
        axes = [[name, values] for name, values in self.axes.items()]
        content = {"fedsarsa": __version__, "axes": axes, "settings": base, "files": files}
        plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
        return plain


def load(path: Path, engine: str | None = None) -> Grid:
    """The sweep that a TOML file describes; ``engine`` takes the place of the one that the file names."""
    content = configs.read(path)
    axes = dict(_axes(content.pop("sweep", {}), "sweep", str(path)))
    if engine is not None:
        if any(ENGINE in keys(axis) for axis in axes):
            raise ValueError(f"engine must not be given where {path} varies {ENGINE}, got {engine!r}")
        configs.assign(content, ENGINE.split("."), engine, str(path))
    if not axes:
        raise ValueError(
            f"{path}: expected a [sweep] with lists of values, such as fleet.agents = [1, 5, 20]"
        )
    return build(content, axes, path.parent, str(path))


def build(content: dict[str, Any], axes: dict[str, list[Any]], folder: Path, place: str) -> Grid:
    """The cells of ``content``, a configuration as TOML gives it, with ``axes`` varied."""
    named = [key for axis in axes for key in keys(axis)]
    for key in named:
        if named.count(key) > 1:
            raise ValueError(f"{place}: sweep: expected every key on one axis, got {key} on several")
    cells = []
    for number, combination in enumerate(itertools.product(*axes.values())):
        values = dict(zip(axes, combination, strict=True))
        varied = copy.deepcopy(content)
        for axis, value in values.items():
            for name in keys(axis):
                configs.assign(varied, name.split("."), value, place)
        config = configs.validate(varied, f"{place}: cell {number + 1} of the sweep")
        # Built here, numbers out of range are found before anything is trained.
        cells.append(Cell(number, values, config, config.algorithm.build(folder)))
    return Grid(axes, cells, folder)


def keys(axis: str) -> list[str]:
    """The keys that an axis varies together."""
    return [key.strip() for key in axis.split(",")]


def label(value: Any) -> str:
    """A value in few words: tables by their kind or method, and numbers."""
    if isinstance(value, dict):
        names = [str(value[key]) for key in ("kind", "method") if key in value]
        rest = ", ".join(
            f"{key} {label(item)}" for key, item in value.items() if key not in {"kind", "method"}
        )
        return f"{' '.join(names)}({rest})" if rest else " ".join(names) or str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _axes(content: Any, place: str, path: str) -> Iterator[tuple[str, list[Any]]]:
    """Every list in nested tables, with the dotted name of its place."""
    if not isinstance(content, dict):
        raise ValueError(f"{path}: {place}: expected a list of values, got {content!r}")
    for key, value in content.items():
        name = f"{place}.{key}"
        if not isinstance(value, list):
            yield from _axes(value, name, path)
            continue
        if not value:
            raise ValueError(f"{path}: {name}: expected a list of values, got none")
        repeated = [one for place, one in enumerate(value) if one in value[:place]]
        if repeated:
            raise ValueError(f"{path}: {name}: expected different values, got {repeated[0]!r} twice")
        yield name.removeprefix("sweep."), value


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ValueError(f"fleet.path: expected an .npz file of arrays, got: {error}") from None
