"""Features of one's own: any function of observations, such as a frozen network's last layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import call_address, piece
from fedsarsa.learning.continuous_features import (
    Basis,
    Bounds,
    Coefficients,
    ContinuousFeatures,
    Integers,
    coefficients,
)

Function = Callable[[NDArray[np.float64]], ArrayLike]
PROBES = 8  # observations at which functions are compared


@dataclass(frozen=True, eq=False)
class FunctionBasis(Basis):
    """``function`` of observations (n, inputs), as they are: features (n, size)."""

    raw: ClassVar[bool] = True

    function: Function
    inputs: int
    count: int

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.count

    def rows(self, observations: Floats) -> Floats:
        """Features (n, size) of observations (n, inputs)."""
        values = np.asarray(self.function(observations), dtype=float)
        if values.shape != (len(observations), self.size):
            raise ValueError(
                f"features must map observations of shape {observations.shape} to features of shape "
                f"{(len(observations), self.size)}, got {values.shape} from {_name(self.function)}"
            )
        return values

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """All functions, and their values at an observation (inputs,)."""
        return np.arange(self.size), self.rows(np.array(unit, dtype=float, ndmin=2))[0]

    @property
    def most_active(self) -> int:
        """All of them."""
        return self.size

    def constant(self, value: float) -> Floats:
        """Parameters with which the basis is ``value`` everywhere: for functions of any kind, only 0."""
        if value != 0:
            raise ValueError(
                f"initial_value must be 0 with features of your own, got {value}; give theta0 instead"
            )
        return np.zeros(self.size)

    def identity(self) -> list[object]:
        """What distinguishes this function from others."""
        return [self.inputs, self.size, self.probed()]

    def probed(self) -> Floats:
        """Its values at some observations, (PROBES, size), by which functions are told apart."""
        return self.rows(np.random.default_rng(0).uniform(size=(PROBES, self.inputs)))

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads: where the compiled function is."""
        if not _compiled(self.function):
            raise ValueError(
                f"features: {_name(self.function)} must be a function compiled by numba.njit to be called by "
                "compiled engines; engine 'reference' and Gymnasium environments take any"
            )
        return coefficients(self.size, 1.0, function=_callable(self.function, self.inputs, self.size).address)

    @staticmethod
    @piece
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
        """The function at ``unit``; where there is no function, ``unit`` holds its values already."""
        for j in range(c.active):
            index[j] = j
        if c.function != 0:
            call_address(c.function, unit, value)
        else:
            for j in range(c.active):
                value[j] = unit[j]


@dataclass(frozen=True, eq=False)
class Evaluated(FunctionBasis):
    """Features that were computed before: kernels find them in the place of observations."""

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""
        return coefficients(self.size, 1.0)


class FunctionFeatures(ContinuousFeatures):
    """Features of your own: ``FedSARSA(features=function)`` is short for it.

    Parameters
    ----------
    function : callable
        Maps observations (n, inputs), as the worlds give them, to features (n, size), a row each. Rows must
        not depend on each other, nor on what was computed before. Norms of about 1 or less keep step sizes
        comparable. Gymnasium environments and engine ``reference`` take any function; the compiled engines
        one that ``numba.njit`` has compiled.

    Raises
    ------
    TypeError
        ``function`` cannot be called.

    Notes
    -----
    Every action has parameters of its own. With f = function(x),

        Q(x, a) = sum_j f_j theta_(j, a)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(features=lambda x: np.tanh(x @ np.ones((4, 3)) / 2), policy=fs.EpsilonGreedy(0.1))
    >>> algo.features.on_box(4).size
    3
    """

    basis: ClassVar[type[Basis]] = FunctionBasis
    bounds: Bounds | None = None

    def __init__(self, function: Function) -> None:
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"function must map observations (n, inputs) to features, got {function!r}")
        self.function = function

    def on_box(self, inputs: int) -> FunctionBasis:
        """The basis for a number of inputs; the function is called to see how many features it gives.

        Raises
        ------
        ValueError
            The function does not answer a row of features for every row of observations.
        """
        try:
            shape = np.shape(self.function(np.zeros((2, inputs))))
        except Exception as error:
            error.add_note(
                f"features: {_name(self.function)} was called with an array of shape (2, {inputs})"
            )
            raise
        if len(shape) != 2 or shape[0] != 2 or shape[1] == 0:
            raise ValueError(
                f"features must map observations of shape (2, {inputs}) to features of shape (2, size), got "
                f"{shape} from {_name(self.function)}"
            )
        return FunctionBasis(self.function, inputs, shape[1])

    def __repr__(self) -> str:
        return f"FunctionFeatures({_name(self.function)})"


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _compiled(function: Any) -> bool:
    """Whether Numba has compiled a function."""
    return type(function).__module__.partition(".")[0] == "numba"


@cache
def _callable(function: Any, inputs: int, size: int) -> Any:
    """A C function of two pointers, to an observation and to where its features go; kept alive here."""
    import numba

    namespace: Any = numba
    carray, pointer = namespace.carray, namespace.types.CPointer(numba.float64)

    def call(x: Any, out: Any) -> None:
        values = function(carray(x, (1, inputs)))
        place = carray(out, (size,))
        for j in range(size):
            place[j] = values[0, j]

    return numba.cfunc(numba.void(pointer, pointer))(call)
