"""Which constructor makes an environment, in words that are the same in every process."""

import contextlib
import copy
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


def own(value: Any) -> Any:
    """A copy that later changes do not reach; functions, classes and what cannot be copied, as they are."""
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever an object raises that cannot be copied
        return value


def unsure(words: str) -> bool:
    """Whether other constructors may be told in the same words."""
    return _UNSURE.search(words) is not None


OF_MAKE = ("max_episode_steps", "disable_env_checker")  # options of gymnasium.make, for any id


def options_of(make_env: str | Callable[..., Any]) -> list[str] | None:
    """Names of the options that a constructor takes; None where it does not say."""
    parameters = _parameters(make_env)
    if parameters is None or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return None
    return [*parameters, *(OF_MAKE if isinstance(make_env, str) else ())]


def default_of(make_env: str | Callable[..., Any], name: str) -> Any:
    """What an option is unless given; None where that is not known."""
    from fedsarsa.worlds._gymnasium import gymnasium

    try:
        own = _parameters(make_env) or {}
        spec = gymnasium.spec(make_env) if isinstance(make_env, str) else None
    except gymnasium.error.Error:  # no such id, which is said when the environment is made
        return None
    if spec is not None and name == OF_MAKE[0]:
        return spec.max_episode_steps
    if spec is not None and name in spec.kwargs:
        return spec.kwargs[name]
    return own[name].default if name in own else None


def _parameters(make_env: str | Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """The arguments of a constructor, by name; None where it does not say."""
    from fedsarsa.worlds._gymnasium import gymnasium

    function: Any = make_env
    if isinstance(make_env, str):
        function = gymnasium.spec(make_env).entry_point
        if isinstance(function, str):
            function = gymnasium.envs.registration.load_env_creator(function)
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # such as of what is not written in Python
        return None


def sharing(made: Sequence[Any]) -> list[tuple[list[int], list[str]]]:
    """Find what is made of functions of one loop, and so is the same.

    ``made`` holds, for each environment, its constructor, wrappers and options. Functions of a loop differ as
    objects, but have the same code and defaults, and read the same variables. Returns the places of each
    group, and the names of the variables. Variables that hold modules, named functions or classes are meant
    to be shared, and do not count.
    """
    groups: dict[Any, list[int]] = {}
    for place, one in enumerate(made):
        ways = tuple(
            (function.__code__, tuple(map(id, function.__closure__ or ())), told(_defaults(function)))
            for function in _functions(one)
        )
        if ways:
            groups.setdefault((told(one), ways), []).append(place)
    found = []
    for places in groups.values():
        names: dict[str, None] = {}
        for alike in zip(*(_functions(made[place]) for place in places), strict=True):
            if len({id(function) for function in alike}) > 1:
                names |= dict.fromkeys(_values(alike[0], set()))
        if names:
            found.append((places, list(names)))
    return found


def _functions(value: Any) -> list[types.FunctionType]:
    """The functions in a constructor, in wrappers or in options, and in the defaults of such functions."""
    if isinstance(value, functools.partial):
        return _functions((value.func, value.args, value.keywords))
    if isinstance(value, Mapping):
        return _functions(list(value.values()))
    if isinstance(value, list | tuple):
        return [function for one in value for function in _functions(one)]
    return [value, *_functions(_defaults(value))] if isinstance(value, types.FunctionType) else []


def _defaults(function: types.FunctionType) -> list[Any]:
    return [function.__defaults__, function.__kwdefaults__]


def _values(function: types.FunctionType, seen: set[int]) -> list[str]:
    """Names of the variables outside a function that it reads values from, in functions inside it as well.

    A variable that holds a lambda, or a function made in a function, counts for what that one reads.
    """
    seen.add(id(function))
    held: dict[str, Any] = {}
    for code in _codes(function.__code__):
        held |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a variable that has no value yet
            held[name] = cell.cell_contents
    names = []
    for name, value in held.items():
        if isinstance(value, types.FunctionType) and unsure(value.__qualname__):
            names += [] if id(value) in seen else _values(value, seen)
        elif not (callable(value) or inspect.ismodule(value)):
            names.append(name)
    return names


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """A function's code, and that of the functions inside it."""
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return [code, *(one for part in inside for one in _codes(part))]
