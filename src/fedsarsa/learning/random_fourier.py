"""Random Fourier features (Rahimi and Recht, 2007): cosines with random frequencies, for many inputs."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.learning.continuous_features import (
    MOST_PARAMETERS,
    Basis,
    Bounds,
    Coefficients,
    ContinuousFeatures,
    Integers,
    checked_bounds,
    coefficients,
)


@dataclass(frozen=True, eq=False)
class RandomCosines(Basis):
    """Cosines of w'x + b: column j of ``points`` (inputs + 1, n) is w_j and below it b_j; the first is 0."""

    points: Floats

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.points.shape[1]

    @property
    def weight(self) -> float:
        """What cosines are multiplied by, for a norm of at most 1."""
        return 1 / math.sqrt(self.size)

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """All functions, and their values."""
        angles = self.points[-1].copy()
        for i, x in enumerate(unit):  # in this order, as compiled
            angles += self.points[i] * x
        return np.arange(self.size), np.array([math.cos(angle) * self.weight for angle in angles])

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
        """All cosines at ``unit``; the inner loop is over functions, and compiles to vector instructions."""
        inputs = c.points.shape[0] - 1
        for j in range(c.active):
            value[j] = c.points[inputs, j]
        for i in range(inputs):
            x = unit[i]
            for j in range(c.active):
                value[j] += c.points[i, j] * x
        for j in range(c.active):
            index[j] = j
            value[j] = math.cos(value[j]) * c.weight


@dataclass(frozen=True)
class RandomFourier(ContinuousFeatures):
    """cos(w'x + b) with random w and b, divided by the root of their number: for many observations.

    Observations are scaled to [0, 1]. With w normal and b uniform, phi(x)'phi(y) is about half a Gaussian
    kernel of the distance between x and y. The number of parameters does not grow with that of observations.

    Parameters
    ----------
    count : int
        Number of functions; the first one is constant.
    width : float
        Standard deviation of that kernel, as a share of the diagonal of the bounds. The smaller, the finer
        what can be told apart.
    seed : int
        Decides w and b.
    bounds : (low, high), optional
        Bounds of the observations, one number for all or one each; the world's unless given.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Notes
    -----
    With u the observation scaled to [0, 1], ``count`` vectors w_j with normal entries of standard deviation
    1 / (width sqrt(inputs)), and b_j uniform in [0, 2 pi),

        phi_j(u) = cos(w_j'u + b_j) / sqrt(count),  but phi_0(u) = 1 / sqrt(count)

    Examples
    --------
    Basis functions of an image with 147 numbers:

    >>> import fedsarsa as fs
    >>> fs.RandomFourier(count=200, bounds=(0.0, 10.0)).on_box(147).size
    200
    """

    count: int = 100
    width: float = 0.25
    seed: int = 0
    bounds: Bounds | None = None

    basis: ClassVar[type[Basis]] = RandomCosines

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _checks.integer("count", self.count, least=1))
        object.__setattr__(self, "width", _checks.positive("width", self.width))
        object.__setattr__(self, "seed", _checks.integer("seed", self.seed, least=0))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))

    def on_box(self, inputs: int) -> RandomCosines:
        """The basis for a number of inputs."""
        if (inputs + 1) * self.count > MOST_PARAMETERS:
            raise ValueError(
                f"count must leave at most {MOST_PARAMETERS} numbers, got {self.count} for {inputs} inputs"
            )
        rng = np.random.default_rng(self.seed)
        points = np.zeros((inputs + 1, self.count))
        points[:-1, 1:] = rng.normal(size=(self.count - 1, inputs)).T / (self.width * math.sqrt(inputs))
        points[-1, 1:] = rng.uniform(0.0, 2 * math.pi, self.count - 1)
        return RandomCosines(points)
