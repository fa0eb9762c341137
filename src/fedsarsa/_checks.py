"""Argument checks: every error names the argument, the value and what was expected."""

import difflib
import math
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
T = TypeVar("T")

# Bytes of memory, where the system reports it.
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else math.inf
# How far a distribution's sum may be from one before it is taken for a mistake.
SUM_TOLERANCE = 1e-9


def instance(name: str, value: Any, kind: type[T], expected: str) -> T:
    """``value`` if it is one of ``kind``; the error says what was ``expected``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    return value


def integer(name: str, value: SupportsIndex, least: int, most: int | None = None) -> int:
    """``value`` as an int that is at least ``least``, and at most ``most``."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most}, got {value!r}")
    return number


def fits(name: str, value: object, needed: int, what: str) -> None:
    """Reject a ``value`` for which ``what`` would take more bytes than this machine has."""
    if needed > MEMORY:
        raise ValueError(
            f"{name} must leave {what} that fit into the {MEMORY / 2**30:.1f} GiB of this machine, "
            f"got {value}, for which they take {needed / 2**30:.3g} GiB"
        )


def number(name: str, value: Any, expected: str = "a finite number") -> float:
    """``value`` as a finite float."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {expected}, got {value!r}") from None
    if isinstance(value, bool | np.bool | str | bytes):
        raise TypeError(f"{name} must be {expected}, got {value!r}")
    if not math.isfinite(result):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return result


def positive(name: str, value: Any) -> float:
    """``value`` as a finite float above zero."""
    result = number(name, value, "a positive number")
    if result <= 0:
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return result


def fraction(name: str, value: Any) -> float:
    """``value`` as a float in [0, 1]."""
    result = number(name, value, "a number in [0, 1]")
    if not 0 <= result <= 1:
        raise ValueError(f"{name} must be a number in [0, 1], got {value!r}")
    return result


def real_array(name: str, value: ArrayLike) -> Floats:
    """``value`` as a float64 array of finite numbers, a copy of its own that nobody can write to."""
    try:
        given = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of real numbers: {error}") from None
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be an array of real numbers, got {given.dtype} values")
    array = np.array(given, dtype=np.float64, order="C")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ValueError(f"{name} must be finite, got {array[tuple(bad[0])]} at {index(bad[0])}")
    array.setflags(write=False)
    return array


def vector(name: str, value: ArrayLike, size: int) -> Floats:
    """As ``real_array``, of shape (``size``,)."""
    array = real_array(name, value)
    if array.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), got {array.shape}")
    return array


def labelled(name: str, value: ArrayLike, dims: Sequence[tuple[str, ...]]) -> Floats:
    """As ``real_array``; a labelled array (xarray) must also have one of these tuples of dimensions."""
    if hasattr(value, "final"):  # a history
        raise TypeError(
            f"{name} must be parameters, such as history.final or history.final[0], got {value!r}"
        )
    given = getattr(value, "dims", None)
    if given is not None and given not in dims:
        expected = " or ".join(str(list(names)) for names in dims)
        raise ValueError(f"{name} must have the dimensions {expected}, got {list(given)}")
    return real_array(name, value)


def distribution(name: str, value: ArrayLike) -> Floats:
    """``value`` as an array whose last axis holds probabilities that sum to one."""
    array = real_array(name, value)
    negative = np.argwhere(array < 0)
    if len(negative):
        raise ValueError(
            f"{name} must hold probabilities, got {array[tuple(negative[0])]} at {index(negative[0])}"
        )
    sums = array.sum(axis=-1)
    off = np.argwhere(np.abs(sums - 1) > SUM_TOLERANCE)
    if len(off):
        where = f" in row {index(off[0])}" if array.ndim > 1 else ""
        raise ValueError(f"{name} must sum to one along its last axis, got {sums[tuple(off[0])]:.12g}{where}")
    return array


def choice(name: str, value: str, valid: Iterable[str]) -> str:
    """``value`` if it is one of ``valid``; the error suggests the nearest one."""
    options = sorted(valid)
    if value in options:
        return value
    raise ValueError(f"{name} must be one of {', '.join(options)}, got {value!r}{nearest(value, options)}")


def nearest(value: object, valid: Sequence[str]) -> str:
    """A hint at the valid name that ``value`` was probably meant to be, or nothing."""
    near = difflib.get_close_matches(str(value), valid, n=1, cutoff=0.4)
    return f"; did you mean {near[0]!r}?" if near else ""


def index(position: NDArray[np.intp]) -> str:
    """An array position as people write it: ``[2, 0]``."""
    return str([int(i) for i in position])
