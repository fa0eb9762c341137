"""How the package compiles: without reordered sums, so that engines agree."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

# Kernels neither allocate nor keep arrays, so they need no reference counts; counting them at every
# access to an array in a tuple made kernels three times slower.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}

# Unsigned 64-bit integers index arrays without Numba's test for negative indices. They must not meet
# signed integers in arithmetic: Numba, like NumPy, turns such a sum into a float.
U64: Any = np.uint64


def piece(function: F) -> F:
    """Compile a piece of a kernel; it is inlined where it is called, on the CPU or on a GPU."""
    compiled: F = numba.njit(forceinline=True, **OPTIONS)(function)
    return compiled


def kernel(function: F) -> F:
    """Compile a function that Python calls: cached on disk, and other threads run beside it."""
    compiled: F = numba.njit(nogil=True, cache=True, **OPTIONS)(function)
    return compiled
