"""Drawing from a fixed finite distribution in constant time (Walker's alias method, Vose's construction).

A row of S probabilities becomes S packed 64-bit entries. An entry holds, in its high 40 bits, the
threshold below which its own column is drawn, and in its low 24 bits the column drawn otherwise. One
64-bit random word gives column and fraction, so probabilities are exact to about 2**-40.
"""

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, kernel, piece

COLUMN_BITS = 24
FRACTION_BITS = 40

COLUMN = U64(COLUMN_BITS)
FRACTION = U64(FRACTION_BITS)
COLUMN_MASK = U64((1 << COLUMN_BITS) - 1)
FRACTION_MASK = U64((1 << FRACTION_BITS) - 1)
HALF = U64(32)
SIGN = U64(63)
SIGN_TO_HALF = U64(58)  # moves a word's sign to the bit that is worth HALF


@kernel
def pack(
    rows: Floats,
    table: NDArray[np.uint64],
    mass: Floats,
    small: NDArray[np.int64],
    large: NDArray[np.int64],
) -> None:
    """Write the alias entries of every row of ``rows`` (n, S) to ``table``; the rest is room (S,)."""
    columns = rows.shape[1]
    for i in range(rows.shape[0]):
        few = many = 0
        total = 0.0
        for c in range(columns):
            total += rows[i, c]
        for c in range(columns):
            mass[c] = rows[i, c] * (columns / total)
            if mass[c] < 1.0:
                small[few] = c
                few += 1
            else:
                large[many] = c
                many += 1
        while few > 0 and many > 0:
            few -= 1
            poor, rich = small[few], large[many - 1]
            threshold = np.uint64(mass[poor] * 2.0**FRACTION_BITS)
            table[i, poor] = (threshold << COLUMN) | np.uint64(rich)
            mass[rich] -= 1.0 - mass[poor]
            if mass[rich] < 1.0:
                many -= 1
                small[few] = rich
                few += 1
        # What rounding leaves over has mass one: always its own column.
        for k in range(many):
            table[i, large[k]] = np.uint64(large[k])
        for k in range(few):
            table[i, small[k]] = np.uint64(small[k])


def build(rows: Floats) -> NDArray[np.uint64]:
    """Alias table of the distributions in ``rows`` (n, S): packed entries, shape (n, S)."""
    if rows.shape[1] > 1 << COLUMN_BITS:
        raise ValueError(f"at most {1 << COLUMN_BITS} states can be sampled, got {rows.shape[1]}")
    table = np.empty(rows.shape, np.uint64)
    columns = rows.shape[1]
    small, large = np.empty(columns, np.int64), np.empty(columns, np.int64)
    pack(np.array(rows), table, np.empty(columns), small, large)
    return table


@piece
def split(word: int, columns: int) -> tuple[int, int]:
    """A random word as a column below ``columns`` and a fraction in units of 2**-40."""
    product = (word >> COLUMN) * columns
    return product >> FRACTION, product & FRACTION_MASK


@piece
def draw(table: NDArray[np.uint64], start: int, column: int, fraction: int) -> int:
    """What a column and a fraction draw from the row whose entries begin at ``table[start]``."""
    return resolve(table[start + column], column, fraction)


@piece
def resolve(entry: int, column: int, fraction: int) -> int:
    """What a column and a fraction draw by the entry in that column."""
    # Own column or the other is a coin toss, and a branch would be guessed wrong half of the time. So
    # both lie side by side in one word, and the sign of fraction - threshold shifts the right one down.
    both = (entry & COLUMN_MASK) << HALF | column
    negative = (fraction - (entry >> COLUMN)) >> SIGN_TO_HALF & HALF
    return both >> (HALF - negative) & COLUMN_MASK
