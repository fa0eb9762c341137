"""The Fourier basis (Konidaris, Osentoski and Thomas, 2011): cosines of the observations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.learning.continuous_features import (
    Basis,
    Bounds,
    Coefficients,
    ContinuousFeatures,
    Integers,
    checked_bounds,
    coefficients,
    grid,
    per_input,
    spread_out,
)


@dataclass(frozen=True, eq=False)
class Cosines(Basis):
    """Cosines with the frequencies ``points`` (n, inputs), the first of them 0."""

    points: Floats

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return len(self.points)

    @property
    def weight(self) -> float:
        """What cosines are multiplied by, for a norm of at most 1."""
        return 1 / math.sqrt(self.size)

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """All functions, and their values."""
        phases = np.zeros(self.size)
        for i, x in enumerate(unit):  # in this order, as compiled
            phases += self.points[:, i] * x
        return np.arange(self.size), np.array([math.cos(math.pi * p) * self.weight for p in phases])

    def constant(self, value: float) -> Floats:
        """Parameters with which the constant function gives ``value``, the others nothing."""
        theta = np.zeros(self.size)
        theta[0] = value / self.weight
        return theta

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""
        return coefficients(self.size, self.weight, points=self.points)

    @staticmethod
    @piece
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
        """All cosines at ``unit``."""
        inputs = c.points.shape[1]
        for j in range(c.active):
            phase = 0.0
            for i in range(inputs):
                phase += c.points[j, i] * unit[i]
            index[j] = j
            value[j] = math.cos(math.pi * phase) * c.weight


@dataclass(frozen=True)
class FourierBasis(ContinuousFeatures):
    """cos(pi c'x) for all c with entries up to ``order``, divided by the root of their number.

    Parameters
    ----------
    order : int or one per observation
        Highest frequency.
    bounds : (low, high), optional
        Bounds of the observations; the world's unless given.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Notes
    -----
    With u the observation scaled to [0, 1] and n vectors c of whole numbers from 0 to ``order``,

        phi_c(u) = cos(pi c'u) / sqrt(n)

    Examples
    --------
    Basis functions of two observations:

    >>> import fedsarsa as fs
    >>> fs.FourierBasis(order=3).on_box(2).size
    16
    """

    order: int | Sequence[int] = 3
    bounds: Bounds | None = None

    basis: ClassVar[type[Basis]] = Cosines

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", per_input("order", self.order, least=0))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    def on_box(self, inputs: int) -> Cosines:
        """The basis for a number of inputs."""
        orders = spread_out("order", self.order, inputs)  # type: ignore[arg-type]
        return Cosines(grid(self, [np.arange(order + 1.0) for order in orders]))
