"""Methods in TOML: ``algorithm.method`` names one, and the other keys of the table are its settings."""

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Discriminator, Tag

from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.algorithm_sections import (
    BEHAVIOUR,
    FEATURES,
    POLICIES,
    SETTING_TYPES,
    Algorithm,
    SettingsSection,
)
from fedsarsa.experiments.section import named, section_for, table_of
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.learning.targets import TARGETS
from fedsarsa.methods import METHODS, Method
from fedsarsa.methods.fed_q import AVERAGING

OURS = FedSARSA.__name__  # the method where none is named: a table of all its settings
# A policy that moves is refused by the method, which says why, and which method takes it.
POLICY_TABLE = table_of(POLICIES, FixedPolicy())
METHOD_TYPES: dict[str, Any] = SETTING_TYPES | {
    "aim": Literal[TARGETS],
    "averaging": Literal[AVERAGING],
}
# Where a type of FedSARSA's settings says too much.
OWN_TYPES: dict[str, dict[str, Any]] = {
    "prediction": {"policy": POLICY_TABLE},
    "control": {"behaviour": BEHAVIOUR},
}


class MethodSection(SettingsSection):
    """The settings of a method."""


def method_section(kind: type[Any]) -> type[MethodSection]:
    """The section of a method: a key for every setting, and its name."""
    made = {one.name: one.default_factory() for one in fields(kind) if one.default_factory is not MISSING}
    defaults = {name: section_for(value, FEATURES | POLICIES) for name, value in made.items()}
    types = METHOD_TYPES | OWN_TYPES[kind.task]
    return named(kind, MethodSection, "method", kind.name, toml_types=types, defaults=defaults)


def method_of(value: Any) -> Any:
    """The name of the method that a table describes."""
    return value.get("method", OURS) if isinstance(value, dict) else getattr(value, "method", OURS)


def without_name(value: Any) -> Any:
    """The table of FedSARSA's settings without its name."""
    return {key: own for key, own in value.items() if key != "method"} if isinstance(value, dict) else value


SECTIONS = {kind.name: method_section(kind) for kind in METHODS}
TAGGED = [
    Annotated[Algorithm, BeforeValidator(without_name), Tag(OURS)],
    *(Annotated[one, Tag(name)] for name, one in SECTIONS.items()),
]
if TYPE_CHECKING:
    AnyAlgorithm = Algorithm | MethodSection
else:
    AnyAlgorithm = Annotated[Union[tuple(TAGGED)], Discriminator(method_of)]  # noqa: UP007


def ours(algo: FedSARSA | Method, what: str) -> FedSARSA:
    """``algo`` if it is FedSARSA, for which alone there is ``what``."""
    if not isinstance(algo, FedSARSA):
        raise ValueError(f"algorithm.method: expected {OURS} for {what}, got {algo.name!r}")
    return algo
