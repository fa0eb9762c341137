"""Which constructor makes an environment, in words that are the same in every process."""

import dataclasses
import enum
import functools
import pathlib
import re
import types
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Such names may stand for several things: lambdas, functions made in functions, objects known by their repr.
_UNSURE = re.compile(r"<lambda>|<locals>| at \?")
# What a repr tells exactly.
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
