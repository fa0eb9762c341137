"""Radial basis functions, normalised: bells on a grid that always add up to one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
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

NARROWEST = 0.1  # of the distance between centres: narrower bells vanish between them


@dataclass(frozen=True, eq=False)
class Bells(Basis):
    """Bells around ``points`` (n, inputs), exp(-sum of precision (x - point)^2), normalised."""

    points: Floats
    precision: Floats

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return len(self.points)

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """All functions, and their values."""
        distances = np.zeros(self.size)
        for i, x in enumerate(unit):  # in this order, as compiled
            gap = x - self.points[:, i]
            distances += self.precision[i] * (gap * gap)
        bells = [math.exp(-distance) for distance in distances]
        total = 0.0
        for bell in bells:
            total += bell
        return np.arange(self.size), np.array([bell / total for bell in bells])

    def constant(self, value: float) -> Floats:
        """Parameters with which all bells together give ``value``."""
        return np.full(self.size, value)

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""
        return coefficients(self.size, 1.0, points=self.points, precision=self.precision)

    @staticmethod
    @piece
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
        """All bells at ``unit``."""
        inputs = c.points.shape[1]
        total = 0.0
        for j in range(c.active):
            distance = 0.0
            for i in range(inputs):
                gap = unit[i] - c.points[j, i]
                distance += c.precision[i] * (gap * gap)
            index[j] = j
            bell = math.exp(-distance)
            value[j] = bell
            total += bell
        for j in range(c.active):
            value[j] = value[j] / total


@dataclass(frozen=True)
class RBF(ContinuousFeatures):
    """Gaussian bells on a grid of centres, divided by their sum; the norm is then at most 1.

    Parameters
    ----------
    centres : int or one per observation
        Centres across the bounds.
    width : float
        Standard deviation of a bell, in distances between centres.
    bounds : (low, high), optional
        Bounds of the observations; the world's unless given.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Notes
    -----
    With u the observation scaled to [0, 1] and s_i the ``width`` times the distance between centres
    along input i,

        g_k(u) = exp(-sum_i (u_i - c_ki)^2 / (2 s_i^2)),  phi_k(u) = g_k(u) / sum_l g_l(u)

    Examples
    --------
    Basis functions of two observations:

    >>> import fedsarsa as fs
    >>> fs.RBF(centres=4).on_box(2).size
    16
    """

    centres: int | Sequence[int] = 5
    width: float = 0.5
    bounds: Bounds | None = None

    basis: ClassVar[type[Basis]] = Bells

    def __post_init__(self) -> None:
        object.__setattr__(self, "centres", per_input("centres", self.centres, least=1))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        width = _checks.positive("width", self.width)
        if width < NARROWEST:
            raise ValueError(f"width must be at least {NARROWEST}, got {self.width!r}")
        object.__setattr__(self, "width", width)

    def on_box(self, inputs: int) -> Bells:
        """The basis for a number of inputs."""
        counts = spread_out("centres", self.centres, inputs)  # type: ignore[arg-type]
        axes = [np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5]) for count in counts]
        deviations = np.array([self.width / max(count - 1, 1) for count in counts])
        return Bells(grid(self, axes), 0.5 / deviations**2)
