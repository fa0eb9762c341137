"""What differs from agent to agent: quantities drawn from ranges or listed, and who has what in words."""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedsarsa import _checks

SHOWN = 6  # agents whose values a ``repr`` shows, before it leaves some out


def checked(vary: Any, spread: Any) -> tuple[Mapping[str, Any], float]:
    """``vary`` and ``spread`` of a fleet, if they are of their kinds."""
    vary = {} if vary is None else vary
    if not isinstance(vary, Mapping):
        raise TypeError(f"vary must be a dict of names and ranges or lists, got {vary!r}")
    spread = _checks.number("spread", spread, "a number in [0, 1)")
    if not 0 <= spread < 1:
        raise ValueError(f"spread must be a number in [0, 1), got {spread!r}")
    return vary, spread


def count(agents: int | None, vary: Mapping[str, Any]) -> int:
    """N, from ``agents`` or the lists in ``vary``."""
    if agents is not None:
        return _checks.integer("agents", agents, least=1)
    lengths = {len(given) for given in vary.values() if isinstance(given, list | np.ndarray)}
    if len(lengths) != 1:
        got = "none" if not lengths else "lists of " + " and ".join(map(str, sorted(lengths))) + " values"
        raise ValueError(f"agents must be given, or lists of one length in vary, got {got}")
    return lengths.pop()


def column(name: str, given: Any, count: int, rng: np.random.Generator, whole: bool = False) -> list[Any]:
    """One quantity of every agent: the first of a list, or draws from a range.

    Where the quantity is a ``whole`` number by default, and both ends are, so is what is drawn.
    """
    if isinstance(given, list | np.ndarray):
        if len(given) < count:
            raise ValueError(
                f"vary[{name!r}] must list a value for each of {count} agents, got {len(given)}: {given!r}; "
                f"to draw from a range, give a tuple (low, high), in TOML {{ low = ..., high = ... }}"
            )
        return list(given[:count])
    if not isinstance(given, tuple) or len(given) != 2:
        raise ValueError(
            f"vary[{name!r}] must be a range (low, high) or a list with a value per agent, got {given!r}"
        )
    low, high = (_checks.number(f"vary[{name!r}]", end) for end in given)
    if low > high:
        raise ValueError(f"vary[{name!r}] must have low <= high, got {given!r}")
    if whole and all(is_whole(end) for end in given):
        return list(rng.integers(int(low), int(high), count, endpoint=True).tolist())
    return drawn(f"vary[{name!r}]", low, high, count, rng)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def around(name: str, middle: float, spread: float, count: int, rng: np.random.Generator) -> list[Any]:
    """One quantity of every agent, uniform within a share of ``middle``."""
    low, high = sorted([(1 - spread) * middle, (1 + spread) * middle])
    return drawn(name, low, high, count, rng)


def drawn(name: str, low: float, high: float, count: int, rng: np.random.Generator) -> list[Any]:
    """One quantity of every agent, uniform between two ends. Agent i's does not depend on ``count``."""
    if not math.isfinite(high - low):
        raise ValueError(f"{name} must have a range of ordinary size, got {low!r} to {high!r}")
    return list(rng.uniform(low, high, count).tolist())


def differing(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Those of the quantities in which agents differ."""
    return {
        name: list(values)
        for name, values in columns.items()
        if any(not _same(values[0], value) for value in values[1:])
    }


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same; arrays are compared as a whole."""
    return one is other or (type(one) is type(other) and bool(np.array_equal(one, other)))


def numbers(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[float]]:
    """Those of the quantities that are a number for every agent."""
    return {
        name: [float(value) for value in values]
        for name, values in columns.items()
        if all(isinstance(value, int | float | np.number) for value in values)
    }


def coordinates(fleet: Any, taken: Container[Any]) -> dict[str, Any]:
    """Coordinates along ``agent`` for results: its number, and all numbers in which agents' worlds differ.

    A number whose name is ``taken`` is called ``agent_name``.
    """
    result: dict[str, Any] = {"agent": np.arange(len(fleet))}
    for name, values in numbers(fleet.varied()).items():
        result[f"agent_{name}" if name in taken else name] = ("agent", values)
    return result


def in_words(columns: Mapping[str, Sequence[Any]]) -> str:
    """Who has what, in the agents' order, for a ``repr``: ``, length=[0.4, 0.6]``."""
    return "".join(f", {name}=[{shortened(map(_value, values))}]" for name, values in columns.items())


def shortened(words: Iterable[str]) -> str:
    """A list in words, with the middle of a long one left out."""
    listed = list(words)
    if len(listed) > SHOWN:
        listed = [*listed[: SHOWN - 1], "...", listed[-1]]
    return ", ".join(listed)


def table(columns: Mapping[str, Sequence[Any]]) -> str:
    """Who has what, a line per agent."""
    cells = {name: [_value(value) for value in values] for name, values in columns.items()}
    widths = {name: max(map(len, [name, *values])) + 2 for name, values in cells.items()}
    lines = ["agent " + "".join(name.rjust(widths[name]) for name in cells)]
    for agent in range(len(next(iter(cells.values())))):
        lines.append(f"{agent:5} " + "".join(cells[name][agent].rjust(widths[name]) for name in cells))
    return "\n".join(lines)


def _value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else f"{value}"


def in_short(value: Any) -> str:
    """A value as Python writes it, floats with at most five digits."""
    return repr(float(f"{value:.5g}")) if isinstance(value, float) else repr(value)
