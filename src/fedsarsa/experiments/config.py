"""Trainings described in TOML: every table below is a section of the file, every field a key."""

import tomllib
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field, ValidationError

from fedsarsa import engines
from fedsarsa._checks import nearest
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.algorithm_sections import SHAPES, Algorithm
from fedsarsa.experiments.fleet_sections import FleetSection, PaperFleet
from fedsarsa.experiments.section import DerivedSection, PositiveCount, Section, Steps, keys_of
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.worlds.fleet import Fleet


def check_engine(name: str) -> str:
    """An engine's name, unchanged."""
    engines.resolve(name)
    return name


@keys_of(FedSARSA.train, without=["self", "fleet", "theta0", "progress", "checkpoint", "callback"])
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

    def build(self, folder: Path) -> tuple[AnyFleet, FedSARSA]:
        """Make the fleet and the algorithm; their files are in ``folder``."""
        return self.fleet.build(folder), self.algorithm.build(folder)

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
