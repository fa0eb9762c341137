"""Tile coding (Sutton and Barto, section 9.5.4): several grids, each displaced; one active tile in each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.learning.boxes import (
    Bounds,
    Coefficients,
    ContinuousFeatures,
    Integers,
    checked_bounds,
    coefficients,
    per_input,
    spread_out,
)

KIND = 0
MOST_TILES = 20_000_000  # tiles that the collision report counts one by one
_FACTOR, _SHIFT = (
    0x9E3779B97F4A7C15,
    32,
)  # Fibonacci hashing: high bits of a product with 2**64 / golden ratio
_ODD, _HALF = U64(_FACTOR), U64(_SHIFT)


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
        ``collisions`` says what that costs.
    """

    tilings: int = 8
    bins: int | Sequence[int] = 8
    bounds: Bounds | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tilings", _checks.integer("tilings", self.tilings, least=1))
        object.__setattr__(self, "bins", per_input("bins", self.bins, least=1))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        if self.memory is not None:
            memory = _checks.integer("memory", self.memory, least=self.tilings)
            object.__setattr__(self, "memory", memory)

    def on_box(self, inputs: int) -> "Tiles":
        """The tiles for a number of inputs."""
        bins = spread_out("bins", self.bins, inputs)  # type: ignore[arg-type]
        steps = np.outer(np.arange(self.tilings), 2 * np.arange(inputs) + 1)
        return Tiles(
            bins=np.array(bins, dtype=float),
            offsets=(steps % self.tilings) / self.tilings,
            slots=0 if self.memory is None else self.memory // self.tilings,
        )


@dataclass(frozen=True, eq=False)
class Tiles:
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
    def size(self) -> int:
        """Number of basis functions."""
        return self.tilings * (self.slots or self.tiles)

    @property
    def strides(self) -> Integers:
        """What one tile along an input adds to a tile's number."""
        counts = self.bins.astype(np.int64) + 1
        return np.concatenate([np.cumprod(counts[::-1])[-2::-1], [1]]).astype(np.int64)

    @property
    def weight(self) -> float:
        """Value of an active tile."""
        return 1 / math.sqrt(self.tilings)

    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """Indices of the active tiles, one per grid, and their values."""
        cells = np.floor(unit * self.bins + self.offsets).astype(np.int64) @ self.strides
        index = [k * (self.slots or self.tiles) + self.slot(int(cell)) for k, cell in enumerate(cells)]
        return np.array(index), np.full(self.tilings, self.weight)

    def slot(self, cell: int) -> int:
        """Where a tile's parameter is within its grid's."""
        if not self.slots:
            return cell
        return ((cell * _FACTOR % 2**64 >> _SHIFT) * self.slots) >> _SHIFT

    def constant(self, value: float) -> Floats:
        """Parameters with which all tiles give ``value``."""
        return np.full(self.size, value * self.weight)

    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""
        return coefficients(
            KIND,
            self.size,
            self.tilings,
            self.weight,
            bins=self.bins,
            offsets=np.ascontiguousarray(self.offsets.T),
            strides=self.strides,
            tiles=self.tiles,
            slots=self.slots,
        )

    def collisions(self) -> dict[str, float]:
        """How hashing shares parameters: tiles and slots of a grid, and the share of tiles that collide."""
        if not self.slots:
            return {"tiles": self.tiles, "slots": self.tiles, "sharing": 0.0}
        if self.tiles > MOST_TILES:
            raise ValueError(f"at most {MOST_TILES} tiles can be counted, got {self.tiles}")
        cells = np.arange(self.tiles, dtype=np.uint64)
        with np.errstate(over="ignore"):
            slots = ((cells * U64(_FACTOR) >> _HALF) * U64(self.slots)) >> _HALF
        taken = np.bincount(slots.astype(np.int64), minlength=self.slots)
        return {
            "tiles": self.tiles,
            "slots": self.slots,
            "sharing": float(taken[taken > 1].sum() / self.tiles),
        }


@piece
def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats) -> None:
    """The active tiles at ``unit``."""
    each = c.tiles if c.slots == 0 else c.slots
    for k in range(c.active):
        value[k] = 0.0
    # Tile numbers as floats, which hold them exactly: over all grids at once, with vector instructions.
    for i in range(len(c.bins)):
        place, stride = unit[i] * c.bins[i], np.float64(c.strides[i])
        for k in range(c.active):
            value[k] += np.floor(place + c.offsets[i, k]) * stride
    for k in range(c.active):
        cell = np.int64(value[k])
        if c.slots > 0:
            cell = np.int64((((U64(cell) * _ODD) >> _HALF) * U64(c.slots)) >> _HALF)
        index[k] = k * each + cell
        value[k] = c.weight
