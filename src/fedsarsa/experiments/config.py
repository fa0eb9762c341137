"""Trainings described in TOML: every table below is a section of the file, every field a key."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from fedsarsa import engines
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.algorithm_sections import Algorithm
from fedsarsa.experiments.config_errors import explained
from fedsarsa.experiments.fleet_sections import FleetSection, PaperFleet
from fedsarsa.experiments.method_sections import AnyAlgorithm
from fedsarsa.experiments.section import DerivedSection, PositiveCount, Section, Steps, keys_of
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.methods import Method
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
    algorithm: AnyAlgorithm = Algorithm()
    training: Training = Training.model_validate({})

    def build(self, folder: Path) -> tuple[AnyFleet, FedSARSA | Method]:
        """Make the fleet and the algorithm, or the method; their files are in ``folder``."""
        return self.fleet.build(folder), self.algorithm.build(folder)

    def in_toml(self, message: str) -> str:
        """Return a message that begins with an argument's name with its key instead; others as they are."""
        name = re.split(r"\W", message, maxsplit=1)[0]
        for table in ("algorithm", "fleet", "training"):  # in this order: actions are the algorithm's first
            if name in type(getattr(self, table)).model_fields:
                return f"{table}.{message}"
        return message

    def __reduce__(self) -> Any:  # by content, as pickle cannot import sections that are made of a registry
        return type(self).model_validate, (self.model_dump(),)


@contextmanager
def named_errors(path: Path, settings: Config) -> Iterator[None]:
    """Have errors about what ``settings`` describe name the file, and the key where there is one."""
    try:
        yield
    except (TypeError, ValueError) as error:
        told = ValueError(f"{path}: {settings.in_toml(str(error))}")
        for note in getattr(error, "__notes__", []):
            told.add_note(note)
        raise told from error


def finite(fleet: AnyFleet) -> Fleet:
    """A fleet of finite worlds, which theory and errors are about."""
    if not isinstance(fleet, Fleet):
        raise ValueError(
            f"fleet.kind: expected finite worlds (such as 'paper' or 'file') for theory, got {fleet!r}"
        )
    return fleet


def load(path: Path, changes: Sequence[str] = ()) -> Config:
    """Read a configuration; the error lists every wrong key, its value and what was expected.

    ``changes`` such as "algorithm.step_size=0.1" take the place of what the file says.

    Parameters
    ----------
    path : Path
        The TOML file.
    changes : sequence of str
        What takes the place of the file's values, such as "algorithm.step_size=0.1".

    Returns
    -------
    Config
        With sections ``fleet``, ``algorithm`` and ``training``; ``build`` makes the fleet and the algorithm.

    Raises
    ------
    ValueError
        The file cannot be read, is a sweep, or has a wrong key.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from fedsarsa.experiments import config
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "small.toml"
    >>> path.write_text("fleet.agents = 2")
    16
    >>> fleet, algo = config.load(path, ["algorithm.step_size=0.1"]).build(path.parent)
    >>> len(fleet), algo.step_size
    (2, 0.1)
    """
    content = read(path)
    for change in changes:
        key, value = assignment(change)
        assign(content, key.split("."), value, str(path))
    if "sweep" in content:
        raise ValueError(f"{path}: expected one training, got a [sweep]; use fedsarsa sweep")
    try:
        return validate(content, str(path))
    except ValueError as error:
        for table, kind in _kinds(changes):
            if f": {table}." in str(error):
                error.add_note(
                    f"{table}.kind={kind} keeps the other keys of the table; to replace all of it: "
                    f"--set '{table}={{ kind = \"{kind}\" }}'."
                )
        raise


def _kinds(changes: Sequence[str]) -> list[tuple[str, Any]]:
    """The tables whose kind was changed, and to what."""
    given = map(assignment, changes)
    return [(key.removesuffix(".kind"), value) for key, value in given if key.endswith(".kind")]


def assignment(text: str) -> tuple[str, Any]:
    """A key and its value from "key=value", as TOML writes it; a value that is no TOML is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ValueError(f"set: expected key=value, such as algorithm.step_size=0.1, got {text!r}")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def assign(content: dict[str, Any], parts: Sequence[str], value: Any, place: str) -> None:
    """Set ``content[a][b][c]`` for ``parts`` a, b, c."""
    *above, last = parts
    table = content
    for depth, key in enumerate(above):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            name = ".".join(parts[: depth + 1])
            raise ValueError(
                f"{place}: {name}: expected a table, since {'.'.join(parts)} is set, got {table!r}"
            )
    table[last] = value


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
        raise ValueError(explained(error, content, Config, place)) from None
