"""Which constructor makes an environment, in words that are the same in every process."""

import functools
import re
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
# Such names may stand for several things: lambdas, functions made in functions, objects without a name.
_UNSURE = re.compile(r"<lambda>|<locals>| at \?")


def told(value: Any) -> str:
    """A constructor with its arguments, or an argument: modules and names, not addresses."""
    if isinstance(value, functools.partial):
        return f"{told(value.func)}{told(value.args)}{told(value.keywords)}"
    if isinstance(value, types.MethodType):
        return f"{told(value.__self__)}.{value.__name__}"
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{value.__module__}:{value.__qualname__}"
    if isinstance(value, np.ndarray):  # printed, it would lose digits
        return f"{value.dtype}{value.tolist()}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {told(value[key])}" for key in sorted(value, key=repr)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(told(item) for item in value) + "]"
    return _ADDRESS.sub(" at ?", repr(value))


def unsure(words: str) -> bool:
    """Whether other constructors may be told in the same words."""
    return _UNSURE.search(words) is not None
