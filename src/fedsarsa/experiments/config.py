"""Trainings described in TOML: every table below is a section of the file, every field a key."""

import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile, ZipFile

import numpy as np
from pydantic import AfterValidator, Field, ValidationError

from fedsarsa import engines
from fedsarsa._checks import nearest
from fedsarsa.experiments.algorithm_sections import Algorithm
from fedsarsa.experiments.continuous import ControlSection, GymSection, GymTablesSection
from fedsarsa.experiments.section import Count, Section, Steps, unless_given
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.worlds import paper
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.kernels import ShiftKernel

LARGE = 0.5  # GiB of worlds that take long to make


class PaperFleet(Section):
    """Worlds of the paper's simulations; see ``fedsarsa.paper.fleet``."""

    kind: Literal["paper"] = "paper"
    agents: Count = Field(default=20, ge=1)
    eps_p: float = Field(default=1.0, ge=0, le=2)
    eps_r: float = Field(default=1.0, ge=0, le=2)
    seed: int = Field(default=0, ge=0)
    scheme: Literal["released", "calibrated", "symmetric"] = "released"
    states: Count = Field(default=100, ge=2)
    actions: Count = Field(default=100, ge=1)
    discount: float = Field(default=0.2, ge=0, lt=1)
    reward_cap: float = Field(default=10.0, gt=0)

    def build(self, folder: Path) -> Fleet:  # noqa: ARG002
        """The fleet."""
        size = 8 * self.agents * self.states**2 / 2**30
        if size > LARGE:
            print(f"fedsarsa: making {self.agents} worlds of {size:.1f} GiB together ...", file=sys.stderr)
        return paper.fleet(**self.model_dump(exclude={"kind"}))


class FileFleet(Section):
    """Worlds of your own, from an .npz file beside the configuration.

    It holds ``reward`` (N, S), (N, S, A) or (N, S, A, S) and either ``transition`` (N, A, S, S) or
    ``P0`` (N, S, S) whose columns each of ``actions`` actions rotates; ``initial`` (N, S) if wanted.
    """

    kind: Literal["file"]
    path: Annotated[Path, Field(strict=False)]
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


class Training(Section):
    """How long, how often, with which random numbers."""

    steps: Steps = Field(default=20_000, ge=1)
    runs: Count = Field(default=10, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**64)
    engine: Annotated[str, AfterValidator(check_engine)] = "auto"
    threads: Count | None = Field(default=None, ge=1)
    record_every: Steps = Field(default=1, ge=1)


class Config(Section):
    """A whole configuration file."""

    fleet: FleetSection = PaperFleet()
    algorithm: Algorithm = Algorithm()
    training: Training = Training()


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
    """One of pydantic's errors as a sentence that names key, value and what was expected."""
    place = [str(part) for part in problem["loc"]]
    if problem["type"] == "extra_forbidden":
        valid = _keys(problem["loc"][:-1], whole)
        return f"{'.'.join(place)}: unknown key{nearest(place[-1], valid)}; valid: {', '.join(valid)}"
    if problem["type"] == "union_tag_not_found":
        given = problem["input"]
        return f"{'.'.join(place)}: expected a number, a list or a table with a kind, got {given!r}"
    if problem["type"] == "union_tag_invalid":
        valid = [tag.strip("'") for tag in problem["ctx"]["expected_tags"].split(", ")]
        tag = problem["ctx"]["tag"]
        return f"{'.'.join(place)}.kind: expected {' or '.join(valid)}, got {tag!r}{nearest(tag, valid)}"
    return f"{'.'.join(place)}: {problem['msg']}, got {problem['input']!r}"


def _keys(place: tuple[Any, ...], whole: type[Section]) -> list[str]:
    """The valid keys of the section at ``place``, a path through fields and ``kind`` tags."""
    sections: list[type[Section]] = [whole]
    for part in place:
        found: list[type[Section]] = []
        for section in sections:
            field = section.model_fields.get(str(part))
            tag = section.model_fields.get("kind")
            if field is not None:
                found += [s for s in _sections(field.annotation) if s is not section]
            elif tag is not None and part in getattr(tag.annotation, "__args__", ()):
                found.append(section)
        sections = found
    return sorted({name for section in sections for name in section.model_fields})


def _sections(annotation: Any) -> list[type[Section]]:
    """The sections inside a field's annotation."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Section) else []
    return [section for part in getattr(annotation, "__args__", ()) for section in _sections(part)]
