"""Tile coding (Sutton and Barto, section 9.5.4): several grids, each displaced; one active tile in each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa._numba import U64, floor, piece, sized, vectorised
from fedsarsa.learning.continuous_features import (
    INPUTS,
    Basis,
    Bounds,
    Coefficients,
    ContinuousFeatures,
    Integers,
    checked_bounds,
    coefficients,
    per_input,
    spread_out,
)

MOST_TILES = 20_000_000  # tiles that the collision report counts one by one
_HALF = U64(32)


@dataclass(frozen=True, eq=False)
class Tiles(Basis):
    """Tiles on inputs in [0, 1]: ``bins`` (inputs,), displacements ``offsets`` (tilings, inputs) in tiles."""

    bins: Floats
    offsets: Floats
    slots: int

    @property
    def tilings(self) -> int:
        """Number of grids."""
        return len(self.offsets)

    @property
    def tiles(self) -> int:
        """Tiles of one grid."""
        return math.prod(int(count) + 1 for count in self.bins)

    @property
    def each(self) -> int:
        """Parameters of one grid."""
        return self.slots or self.tiles

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return self.tilings * self.each

    @property
    def strides(self) -> Integers:
        """What one tile along an input adds to the number of a grid's tile, (inputs, tilings).

        Hashed tiles are numbered by multilinear hashing: odd factors with random bits, sums modulo 2**64, of
        which the upper half is well mixed however many inputs there are. Every grid has factors of its own,
        so that places which share a parameter in one grid do not in the others.
        """
        inputs = len(self.bins)
        if self.slots:
            drawn = np.random.Philox(0).random_raw(inputs * self.tilings) | U64(1)
            return drawn.view(np.int64).reshape(inputs, self.tilings)
        counts = self.bins.astype(np.int64) + 1
        steps = np.concatenate([np.cumprod(counts[::-1])[-2::-1], [1]]).astype(np.int64)
        return np.repeat(steps[:, None], self.tilings, axis=1)

    @property
    def weight(self) -> float:
        """Value of an active tile."""
        return 1 / math.sqrt(self.tilings)

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """Indices of the active tiles, one per grid, and their values."""
        tile = np.floor(unit * self.bins + self.offsets).astype(np.int64)
        slot = self.slot((tile * self.strides.T).sum(axis=1))
        return np.arange(self.tilings) * self.each + slot, np.full(self.tilings, self.weight)

    def slot(self, number: Integers) -> Integers:
        """Where the parameters of tiles are within their grid's."""
        if not self.slots:
            return number
        return ((number.view(np.uint64) >> _HALF) * U64(self.slots) >> _HALF).astype(np.int64)

    def constant(self, value: float) -> Floats:
        """Parameters with which all tiles give ``value``."""
        return np.full(self.size, value * self.weight)

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""
        return coefficients(
            self.tilings,
            self.weight,
            bins=self.bins,
            offsets=np.ascontiguousarray(self.offsets.T),
            strides=self.strides,
            each=self.each,
            slots=self.slots,
        )

    def collisions(self) -> dict[str, float]:
        """How hashing shares parameters: tiles and slots of a grid, and the share of tiles that collide.

        The first grid's tiles are counted; of more than ``MOST_TILES``, what an ideal hash would do is given.
        """
        sharing = 0.0
        if self.slots and self.tiles <= MOST_TILES:
            counts, block = (self.bins + 1).astype(int).tolist(), 1 << 18
            taken = np.zeros(self.slots, np.int64)
            for first in range(0, self.tiles, block):
                tile = np.unravel_index(np.arange(first, min(first + block, self.tiles)), counts)
                taken += np.bincount(
                    self.slot(np.stack(tile, axis=1) @ self.strides[:, 0]), minlength=self.slots
                )
            sharing = float(taken[taken > 1].sum() / self.tiles)
        elif self.slots:
            sharing = 1 - (1 - 1 / self.slots) ** float(min(self.tiles - 1, 10**300))
        return {"tiles": self.tiles, "slots": self.each, "sharing": sharing}

    @staticmethod
    @piece
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
        """The active tiles at ``unit``."""
        if c.slots > 0:
            for k in range(c.active):
                index[k] = 0
            for i in range(len(c.bins)):
                place = unit[i] * c.bins[i]
                for k in range(c.active):
                    index[k] += np.int64(floor(place + c.offsets[i, k])) * c.strides[i, k]  # modulo 2**64
            for k in range(c.active):
                index[k] = k * c.each + np.int64(((U64(index[k]) >> _HALF) * U64(c.slots)) >> _HALF)
                value[k] = c.weight
            return
        _encode(len(unit), c, unit, index, value)


def _over_inputs(count: int) -> Any:
    """A piece for ``count`` inputs without hashing."""

    @vectorised
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
        # Tile numbers as floats, which hold them exactly: over all grids at once, with vector instructions.
        for k in range(c.active):
            number = 0.0
            for i in range(count or len(c.bins)):
                number += floor(unit[i] * c.bins[i] + c.offsets[i, k]) * np.float64(c.strides[i, 0])
            index[k] = k * c.each + np.int64(number)
            value[k] = c.weight

    return encode


_encode = sized(_over_inputs, INPUTS)


@dataclass(frozen=True)
class TileCoding(ContinuousFeatures):
    """Displaced grids over the observations, with one parameter per tile and action.

    Every active tile has the value 1 / sqrt(tilings), so that phi has norm 1: a step size of 1 corrects the
    whole error, whatever the number of tilings. (With ones for values one would divide the step size by it.)

    Parameters
    ----------
    tilings : int
        Number of grids. Grid k is displaced by k (1, 3, 5, ...) / tilings tiles, the asymmetric displacement
        that Miller and Glanz recommend.
    bins : int or one per observation
        Tiles across the bounds; a displaced grid has one more.
    bounds : (low, high), optional
        Bounds of the observations; the world's unless given. Observations outside are clipped, and counted.
    memory : int, optional
        Hash the tiles of each grid into memory / tilings slots, for many observations;
        ``on_box(inputs).collisions()`` says what that costs.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Notes
    -----
    With u the observation scaled to [0, 1] and o_k the displacement of grid k, each grid has one active
    tile,

        number floor(u bins + o_k), with the value phi = 1 / sqrt(tilings)

    Examples
    --------
    Basis functions of two observations:

    >>> import fedsarsa as fs
    >>> fs.TileCoding(tilings=4, bins=3).on_box(2).size
    64
    """

    tilings: int = 8
    bins: int | Sequence[int] = 8
    bounds: Bounds | None = None
    memory: int | None = None

    basis: ClassVar[type[Basis]] = Tiles

    def __post_init__(self) -> None:
        object.__setattr__(self, "tilings", _checks.integer("tilings", self.tilings, least=1))
        object.__setattr__(self, "bins", per_input("bins", self.bins, least=1))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        if self.memory is not None:
            memory = _checks.integer("memory", self.memory, least=self.tilings)
            object.__setattr__(self, "memory", memory)

    def on_box(self, inputs: int) -> Tiles:
        """The tiles for a number of inputs."""
        bins = spread_out("bins", self.bins, inputs)  # type: ignore[arg-type]
        steps = np.outer(np.arange(self.tilings), 2 * np.arange(inputs) + 1)
        return Tiles(
            bins=np.array(bins, dtype=float),
            offsets=(steps % self.tilings) / self.tilings,
            slots=0 if self.memory is None else self.memory // self.tilings,
        )
