"""Sections of a configuration: keys, types and defaults are read from the arguments of what they make."""

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from fedsarsa.federation.problem import MOST_STEPS
from fedsarsa.learning.continuous_features import Bounds

# Whatever is counted or timed has a limit, so that a slip of the finger is rejected before memory is taken.
Count = Annotated[int, Field(le=1_000_000)]
PositiveCount = Annotated[Count, Field(ge=1)]
Steps = Annotated[int, Field(le=MOST_STEPS)]
Seed = Annotated[int, Field(ge=0)]
File = Annotated[Path, Field(strict=False)]


class Section(BaseModel):
    """A section of a configuration: no unknown keys, no silent conversions."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def __hash__(self) -> int:
        return hash(self.model_dump_json())  # fields may hold lists and tables, which have no hash


class DerivedSection(Section):
    """A section whose keys are the arguments of a class or function; see ``keys_of``."""

    source: ClassVar[Any]  # the class or function
    key_names: ClassVar[tuple[str, ...]]  # its arguments that have a key

    if TYPE_CHECKING:  # keys that are read from arguments

        def __getattr__(self, name: str) -> Any: ...

    def build(self, folder: Path = Path()) -> Any:
        """Make what the section describes; its files are in ``folder``."""
        return self.source(**self.arguments(folder))

    def arguments(self, folder: Path) -> dict[str, Any]:
        """Return the arguments for ``source``."""
        return {name: built(getattr(self, name), folder) for name in self.key_names}


class BoundsSection(Section):
    """Lowest and highest observations, a number for all or a list; a pair of those says the same."""

    low: float | list[float]
    high: float | list[float]

    def build(self, folder: Path) -> Bounds:  # noqa: ARG002
        """Return the bounds as features take them."""
        return self.low, self.high


M = TypeVar("M", bound=DerivedSection)


def built(value: Any, folder: Path) -> Any:
    """Return what a section, or every section of a list, describes, and any other value as it is."""
    if isinstance(value, list):
        return [built(one, folder) for one in value]
    return value.build(folder) if isinstance(value, Section) else value  # type: ignore[attr-defined]


def keys_of(
    source: Callable[..., Any],
    without: Sequence[str] = (),
    toml_types: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[type[M]], type[M]]:
    """Give a section a key for every argument of a class or function.

    Parameters
    ----------
    source : callable
        Its arguments name the keys, and give their types and defaults.
    without : sequence of str
        Arguments that have no key of their own.
    toml_types : mapping, optional
        Types of keys that TOML writes in another way than Python, or within limits. The annotations of the
        section are read as well.
    defaults : mapping, optional
        Defaults that differ from those of the arguments.

    Raises
    ------
    TypeError
        An argument's type does not say how TOML writes it, and neither does ``toml_types``.

    Examples
    --------
    >>> from fedsarsa import LinearDecay
    >>> @keys_of(LinearDecay)
    ... class LinearDecaySection(DerivedSection):
    ...     kind: Literal["linear-decay"] = "linear-decay"
    >>> LinearDecaySection(w=2.0, a=9.0).build()
    LinearDecay(w=2.0, a=9.0)
    """

    def derive(section: type[M]) -> type[M]:
        known = {**section.__annotations__, **(toml_types or {})}
        keys: dict[str, Any] = {}
        for name, argument in inspect.signature(source, eval_str=True).parameters.items():
            if name not in without and argument.kind is not argument.VAR_KEYWORD:
                key = known[name] if name in known else toml_type(argument.annotation)
                default = (defaults or {}).get(name, argument.default)
                keys[name] = (key, ... if default is argument.empty else default)
        made: Any = create_model(
            section.__name__, __base__=section, __module__=section.__module__, __doc__=section.__doc__, **keys
        )
        made.source, made.key_names = staticmethod(source), tuple(keys)
        return made  # type: ignore[no-any-return]

    return derive


def sections(registry: Mapping[str, Any], toml_types: Mapping[str, Any]) -> dict[str, type[DerivedSection]]:
    """Return a section for every kind in a registry of classes; keep what is a section already."""
    return {
        kind: one
        if isinstance(one, type) and issubclass(one, DerivedSection)
        else named(one, DerivedSection, "kind", kind, toml_types=toml_types)
        for kind, one in registry.items()
    }


def named(source: Any, base: type[M], tag: str, name: str, **options: Any) -> type[M]:
    """Return a ``base`` with a key for every argument of ``source``, and its ``name`` as the key ``tag``.

    The ``options`` are those of `keys_of`.
    """
    key: Any = {tag: (Literal[name], name)}
    return keys_of(source, **options)(
        create_model(source.__name__, __base__=base, __doc__=source.__doc__, **key)
    )


def toml_type(annotation: Any) -> Any:
    """Return the type of the TOML values for an argument's annotation."""
    if annotation is int:
        return Count
    if annotation == Bounds:
        return BoundsSection | list[float] | list[list[float]]
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return Union[tuple(toml_type(one) for one in get_args(annotation))]  # noqa: UP007
    if origin is Sequence:
        return list[toml_type(*get_args(annotation))]  # type: ignore[misc]
    if origin is Literal or annotation in (bool, float, str, types.NoneType):
        return annotation
    raise TypeError(f"toml_types must say how TOML writes {annotation}")


def section_for(value: object, kinds: Mapping[str, type[DerivedSection]]) -> Any:
    """Return the section that describes ``value``."""
    one = next(one for one in kinds.values() if one.source is type(value))
    return one(**{name: getattr(value, name) for name in one.key_names})


def table_of(kinds: Mapping[str, type[DerivedSection]], default: object = None) -> Any:
    """Return the type of a table of one of these kinds; without a ``kind`` it is that of ``default``."""
    tables: Any = Annotated[Union[tuple(kinds.values())], Field(discriminator="kind")]  # noqa: UP007
    return tables if default is None else Annotated[tables, unless_given(section_for(default, kinds).kind)]


def unless_given(kind: str) -> BeforeValidator:
    """Take a table without a ``kind`` for one of this kind."""
    return BeforeValidator(lambda value: {"kind": kind} | value if isinstance(value, dict) else value)
