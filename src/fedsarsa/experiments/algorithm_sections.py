"""The algorithm in TOML: one line here for every kind of features, policies, step sizes and server rules."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag

from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.section import (
    Count,
    DerivedSection,
    File,
    Steps,
    built,
    keys_of,
    section_for,
    sections,
    table_of,
    unless_given,
)
from fedsarsa.federation import servers
from fedsarsa.federation.participation import Faults
from fedsarsa.federation.servers.consensus import GRAPHS
from fedsarsa.learning import policies
from fedsarsa.learning.actions import GridActions, RandomActions
from fedsarsa.learning.bases import CONTINUOUS
from fedsarsa.learning.features import FINITE, TabularFeatures
from fedsarsa.learning.schedules import ExponentialSchedule, LinearSchedule
from fedsarsa.learning.step_sizes import ConstantStep, LinearDecay, PiecewiseDecay

# Keys whose type in Python says too little, or which have a limit of their own.
TOML_TYPES: dict[str, Any] = {
    "boundaries": list[Steps],
    "graph": Literal[GRAPHS] | list[list[float]],
    "memory": Annotated[int, Field(le=2**31)] | None,
    "pi": Count | Literal["uniform"] | list[float] | list[list[float]],
    "ties": Literal[policies.TIES],
    "weights": list[float] | list[list[float]] | None,
}


@keys_of(TabularFeatures, without=["table"])
class TabularSection(DerivedSection):
    """Any feature vectors, one per pair: an array (S, A, d) in an .npy file beside the configuration.

    Norms above 1 are rejected; ``normalise`` divides the whole table by the largest instead.
    """

    kind: Literal["tabular"] = "tabular"
    file: File

    def build(self, folder: Path = Path()) -> TabularFeatures:
        """Read the feature map from its file in ``folder``."""
        try:
            with (folder / self.file).open("rb") as file:
                table = np.lib.format.read_array(file, allow_pickle=False)
        except (OSError, ValueError, MemoryError) as error:
            raise ValueError(f"file must be an .npy file of an array (S, A, d), got: {error}") from None
        try:
            return TabularFeatures(table, **self.arguments(folder))
        except (TypeError, ValueError) as error:
            raise ValueError(f"file: {self.file}: {error}") from None


@keys_of(Faults)
class FaultsSection(DerivedSection):
    """Agents that are absent, late or lie."""


def kind_of(features: type) -> str:
    """The kind of a class of features in TOML: that of TileCoding is tile-coding, of FourierBasis fourier."""
    name = features.__name__.removesuffix("Features").removesuffix("Basis")
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower()


FEATURES = sections(
    {kind_of(one): one for one in (*FINITE.values(), *CONTINUOUS.values())} | {"tabular": TabularSection},
    TOML_TYPES,
)
STEP_SIZES = sections(
    {
        "constant": ConstantStep,
        "linear": LinearSchedule,
        "exponential": ExponentialSchedule,
        "linear-decay": LinearDecay,
        "piecewise-decay": PiecewiseDecay,
    },
    TOML_TYPES,
)
SERVERS = sections(servers.RULES, TOML_TYPES)
ACTIONS = sections({"grid": GridActions, "random": RandomActions}, TOML_TYPES)
DEFAULT = FedSARSA()
NUMBER, LIST = SHAPES = ("number", "list")  # what a value may be instead of a table


def shape(value: Any) -> Any:
    """Return what a value is written as: a number, a list, or a table of some kind."""
    if isinstance(value, dict):
        return value.get("kind")
    return getattr(value, "kind", LIST if isinstance(value, list) else NUMBER)


def by_shape(shapes: Mapping[str, Any]) -> Any:
    """Return the type of a value that is written in one of these shapes."""
    tagged = [Annotated[one, Tag(tag)] for tag, one in shapes.items()]
    return Annotated[Union[tuple(tagged)], Discriminator(shape)]  # noqa: UP007


STEP_SIZE = by_shape({NUMBER: float, **STEP_SIZES})
POLICIES = sections(policies.POLICIES, TOML_TYPES | {"eps": STEP_SIZE, "temperature": STEP_SIZE})
FIXED = POLICIES["fixed"]
BEHAVIOUR = Annotated[by_shape({"fixed": FIXED, LIST: list[FIXED]}), unless_given("fixed")]  # type: ignore[valid-type]
SETTING_TYPES = TOML_TYPES | {
    "features": table_of(FEATURES, DEFAULT.features),
    "policy": table_of(POLICIES, DEFAULT.policy),
    "step_size": by_shape({NUMBER: float, LIST: list[STEP_SIZE], **STEP_SIZES}),  # type: ignore[valid-type]
    "sync_every": Steps | Literal["never"],
    "radius": Annotated[float | None, BeforeValidator(lambda value: None if value == "none" else value)],
    "server": table_of(SERVERS, DEFAULT.rule) | None,
    "actions": table_of(ACTIONS) | None,
    "faults": FaultsSection | None,
    "behaviour": BEHAVIOUR | None,
}
DEFAULT_TABLES = {
    "features": section_for(DEFAULT.features, FEATURES),
    "policy": section_for(DEFAULT.policy, POLICIES),
}


class SettingsSection(DerivedSection):
    """The settings of the algorithm, or of a method."""

    def build(self, folder: Path = Path()) -> Any:
        """Make the algorithm; its files are in ``folder``.

        Raises
        ------
        ValueError
            A setting is out of its range, or a file is not what it should be; the message names the key.
        """
        place, arguments = "algorithm", {}
        try:
            for name in self.key_names:
                place, value = f"algorithm.{name}", getattr(self, name)
                arguments[name] = None if (name, value) == ("sync_every", "never") else built(value, folder)
            place = "algorithm"
            return self.source(**arguments)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{place}: {error}") from None


@keys_of(FedSARSA, toml_types=SETTING_TYPES, defaults=DEFAULT_TABLES)
class Algorithm(SettingsSection):
    """The settings of FedSARSA; the defaults are the published setting."""
