"""Trainings described in TOML: every table below is a section of the file, every field a key."""

import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from zipfile import BadZipFile, ZipFile

import numpy as np
from pydantic import AfterValidator, Field, ValidationError

from fedsarsa import engines
from fedsarsa._checks import nearest
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.algorithm_sections import SHAPES, Algorithm
from fedsarsa.experiments.continuous import ControlSection, GymSection, GymTablesSection
from fedsarsa.experiments.section import (
    Count,
    DerivedSection,
    File,
    PositiveCount,
    Section,
    Seed,
    Steps,
    keys_of,
    unless_given,
)
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.worlds import paper
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.kernels import ShiftKernel

LARGE = 0.5  # GiB of worlds that take long to make

LEVEL = Annotated[float, Field(ge=0, le=2)]
LIMITS = {
    "agents": PositiveCount,
    "eps_p": LEVEL,
    "eps_r": LEVEL,
    "seed": Seed,
    "scheme": Literal[paper.SCHEMES],
    "states": Annotated[Count, Field(ge=2)],
    "actions": PositiveCount,
    "discount": Annotated[float, Field(ge=0, lt=1)],
    "reward_cap": Annotated[float, Field(gt=0)],
}


@keys_of(paper.fleet, toml_types=LIMITS)
class PaperFleet(DerivedSection):
    """Worlds of the paper's simulations; see ``fedsarsa.paper.fleet``."""

    kind: Literal["paper"] = "paper"

    def build(self, folder: Path = Path()) -> Fleet:
        """Make the fleet."""
        size = 8 * self.agents * self.states**2 / 2**30
        if size > LARGE:
            print(f"fedsarsa: making {self.agents} worlds of {size:.1f} GiB together ...", file=sys.stderr)
        return paper.fleet(**self.arguments(folder))


class FileFleet(Section):
    """Worlds of your own, from an .npz file beside the configuration.

    It holds ``reward`` (N, S), (N, S, A) or (N, S, A, S) and either ``transition`` (N, A, S, S) or
    ``P0`` (N, S, S) whose columns each of ``actions`` actions rotates; ``initial`` (N, S) if wanted.
    """

    kind: Literal["file"]
    path: File
    discount: float
    actions: Count | None = None

    def build(self, folder: Path) -> Fleet:
        """The fleet."""
        path = folder / self.path
        try:
            with ZipFile(path), np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise ValueError(f"fleet.path: expected an .npz file of arrays, got: {error}") from None
        known = {"reward", "transition", "P0", "initial"}
        one_kernel = ("transition" in arrays) != ("P0" in arrays)
        if "reward" not in arrays or not one_kernel or set(arrays) - known:
            raise ValueError(
                f"fleet.path: expected reward, either transition or P0, and maybe initial in {path.name}, "
                f"got {', '.join(sorted(arrays)) or 'nothing'}"
            )
        if "P0" in arrays and self.actions is None:
            raise ValueError("fleet.actions: expected the number of actions that rotate P0, got none")
        agents = len(np.atleast_1d(arrays["reward"]))
        for name, array in arrays.items():
            if array.ndim < 2 or len(array) != agents:
                raise ValueError(
                    f"fleet.path: expected {name} with a first axis of {agents} agents, got {array.shape}"
                )
        return Fleet(self._world(arrays, agent) for agent in range(agents))

    def _world(self, arrays: dict[str, Any], agent: int) -> FiniteMDP:
        own = {name: array[agent] for name, array in arrays.items()}
        try:
            kernel = ShiftKernel(own["P0"], self.actions or 0) if "P0" in own else own["transition"]
            return FiniteMDP(kernel, own["reward"], self.discount, own.get("initial"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"fleet.path: agent {agent}: {error}") from None


FleetSection = Annotated[
    PaperFleet | FileFleet | ControlSection | GymSection | GymTablesSection,
    Field(discriminator="kind"),
    unless_given("paper"),
]


def check_engine(name: str) -> str:
    """An engine's name, unchanged."""
    engines.resolve(name)
    return name


@keys_of(FedSARSA.train, without=["self", "fleet", "theta0", "progress", "checkpoint"])
class Training(DerivedSection):
    """How long, how often, with which random numbers."""

    steps: Annotated[Steps, Field(ge=1)]
    runs: PositiveCount
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    engine: Annotated[str, AfterValidator(check_engine)]
    threads: PositiveCount | None
    record_every: Annotated[Steps, Field(ge=1)]


class Config(Section):
    """A whole configuration file."""

    fleet: FleetSection = PaperFleet()
    algorithm: Algorithm = Algorithm()
    training: Training = Training.model_validate({})

    def __reduce__(self) -> Any:  # by content, as pickle cannot import sections that are made of a registry
        return type(self).model_validate, (self.model_dump(),)


def finite(fleet: AnyFleet) -> Fleet:
    """A fleet of finite worlds, which theory and errors are about."""
    if not isinstance(fleet, Fleet):
        raise ValueError(
            f"fleet.kind: expected finite worlds ('paper', 'file' or 'gym-tables') for theory, got {fleet!r}"
        )
    return fleet


def load(path: Path) -> Config:
    """Read a configuration; the error lists every wrong key, its value and what was expected."""
    content = read(path)
    if "sweep" in content:
        raise ValueError(f"{path}: expected one training, got a [sweep]; use fedsarsa sweep")
    return validate(content, str(path))


def read(path: Path) -> dict[str, Any]:
    """A TOML file's content."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected TOML, got {error}") from None


def validate(content: dict[str, Any], place: str) -> Config:
    """The configuration of a file's content; errors begin with ``place``."""
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        lines = [f"{place}: " + explain(problem) for problem in error.errors()]
        raise ValueError("\n".join(lines)) from None


def explain(problem: Any, whole: type[Section] = Config) -> str:
    """Return one of pydantic's errors as a sentence that names key, value and what was expected."""
    place, given = ".".join(str(part) for part in problem["loc"]), problem["input"]
    match problem["type"]:
        case "extra_forbidden":
            valid = _keys(problem["loc"][:-1], whole)
            hint = nearest(problem["loc"][-1], valid)
            return f"{place}: unknown key{hint}; valid: {', '.join(valid)}"
        case "union_tag_not_found":
            others = "" if problem["ctx"]["discriminator"] == "'kind'" else "a number, a list or "
            return f"{place}: expected {others}a table with a kind, got {given!r}"
        case "union_tag_invalid":
            tags = [tag.strip("'") for tag in problem["ctx"]["expected_tags"].split(", ")]
            others = "".join(f"a {tag} or " for tag in tags if tag in SHAPES)
            if not isinstance(given, dict):
                return f"{place}: expected {others}a table with a kind, got {given!r}"
            valid, tag = [tag for tag in tags if tag not in SHAPES], problem["ctx"]["tag"]
            return f"{place}.kind: expected {' or '.join(valid)}, got {tag!r}{nearest(tag, valid)}"
        case "value_error":
            return f"{place}: {problem['ctx']['error']}"
    return f"{place}: {problem['msg']}, got {given!r}"


def _keys(place: tuple[Any, ...], whole: type[Section]) -> list[str]:
    """Return the valid keys of the section at ``place``, a path through fields, kinds, shapes and numbers."""
    found: list[type[Section]] = [whole]
    for part in place:
        inside = [one.model_fields[part].annotation for one in found if part in one.model_fields]
        alike = [one for one in found if part in _kind(one)]
        found = [table for annotation in inside for table in tables(annotation)] or alike or found
    return sorted({name for one in found for name in one.model_fields})


def _kind(section: type[Section]) -> tuple[Any, ...]:
    """Return the kind of a section, if it has one."""
    kind = section.model_fields.get("kind")
    return () if kind is None else get_args(kind.annotation)


def tables(annotation: Any) -> list[type[Section]]:
    """Return the sections inside a field's annotation."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Section) else []
    found = [section for part in getattr(annotation, "__args__", ()) for section in tables(part)]
    return list(dict.fromkeys(found))
