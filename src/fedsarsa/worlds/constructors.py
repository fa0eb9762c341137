"""Which constructor makes an environment, in words that are the same in every process."""

import dataclasses
import enum
import functools
import inspect
import pathlib
import re
import types
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Such names may stand for several things: lambdas, functions made in functions, objects known by their repr.
_UNSURE = re.compile(r"<lambda>|<locals>| at \?")
# What a repr describes exactly.
_EXACT = (str, bytes, int, float, complex, np.generic, enum.Enum, pathlib.PurePath, types.NoneType)


def told(value: Any) -> str:
    """A constructor with its arguments, or an argument: modules and names, not addresses."""
    if isinstance(value, functools.partial):
        return f"{told(value.func)}{told(value.args)}{told(value.keywords)}"
    if isinstance(value, types.MethodType):
        return f"{told(value.__self__)}.{value.__name__}"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, np.ndarray):  # printed, it would lose digits
        return f"{value.dtype}{told(value.tolist()) if value.dtype.hasobject else value.tolist()}"
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return told(type(value)) + told(fields)
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{told(key)}: {told(value[key])}" for key in value)) + "}"
    if isinstance(value, Set):
        return "{" + ", ".join(sorted(map(told, value))) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(told, value)) + "]"
    if isinstance(value, _EXACT):
        return repr(value)
    return _ADDRESS.sub("", repr(value)) + " at ?"  # a repr may leave out what tells two objects apart


def unsure(words: str) -> bool:
    """Whether other constructors may be told in the same words."""
    return _UNSURE.search(words) is not None


def sharing(
    made: Sequence[tuple[Callable[..., Any] | str, Mapping[str, Any]]],
) -> list[tuple[list[int], list[str]]]:
    """Find constructors that are functions of one loop, and so make the same.

    ``made`` are constructors and their options. Such functions differ as objects, but have the same code,
    defaults and options, and read the same variables. Returns the places of each group, and the names of the
    variables. Variables that hold modules, functions or classes are meant to be shared, and do not count.
    """
    groups: dict[Any, list[int]] = {}
    for place, (function, options) in enumerate(made):
        if isinstance(function, types.FunctionType):
            cells = tuple(id(cell) for cell in function.__closure__ or ())
            defaults = told([function.__defaults__, function.__kwdefaults__, options])
            groups.setdefault((function.__code__, cells, defaults), []).append(place)
    found = []
    for places in groups.values():
        functions: list[Any] = [made[place][0] for place in places]
        names = _values(functions[0])
        if len({id(function) for function in functions}) > 1 and names:
            found.append((places, names))
    return found


def _values(function: types.FunctionType) -> list[str]:
    """Names of the variables outside a function that it reads values from."""
    variables = inspect.getclosurevars(function)
    held = {**variables.nonlocals, **variables.globals}
    return [name for name, value in held.items() if not (callable(value) or inspect.ismodule(value))]
