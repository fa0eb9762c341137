"""What threads of a GPU do with the parameters of agents, which are columns of shared memory.

Parameter j of an agent is ``apart`` from its next one; parameters of neighbours lie side by side.
"""

import math

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.engines.cuda_arrays import ONE, RUNS, Federations, Held, Records
from fedsarsa.learning.exponential import exponential
from fedsarsa.learning.finite_tables import WorldTables


@piece
def row_of(worlds: WorldTables, held: Held, s: int, a: int) -> int:
    """Where the row of (s, a) begins in the alias table."""
    return held.kernel + a * held.action_size + s * worlds.states


@piece
def mass_of(value: float, base: float, inverse: float) -> float:
    """The softmax mass of an action of some value, relative to that of the value ``base``.

    ``inverse`` is that of the temperature, as divisions take long on a GPU. So this may differ in the last
    bits from what the cpu engine draws by.
    """
    return exponential((value - base) * inverse)


@piece
def weigh_column(shared: Floats, start: int, masses: int, dim: int, apart: int, inverse: float) -> float:
    """Write the masses of all parameters of an agent; the largest parameter."""
    base = highest(shared, start, dim, apart)
    at, j = start, U64(0)
    while j < dim:
        shared[masses + at] = mass_of(shared[at], base, inverse)
        at, j = at + apart, j + ONE
    return base


@piece
def real_of(number: int) -> float:
    """An unsigned integer as a float."""
    return np.float64(np.int64(number))


@piece
def highest(theta: Floats, start: int, dim: int, apart: int) -> float:
    """The largest of an agent's parameters."""
    best = theta[start]
    j = ONE
    while j < dim:
        start += apart
        best = max(best, theta[start])
        j += ONE
    return best


@piece
def next_item(f: int, j: int, count: int, threads: int) -> tuple[int, int]:
    """The federation and parameter ``threads`` further on, where neighbours are of one parameter."""
    f, j = f + threads % count, j + threads // count
    if f >= count:
        f, j = f - count, j + ONE
    return f, j


@piece
def record_alone(
    shared: Floats,
    thread: int,
    apart: int,
    dim: int,
    federations: Federations,
    federation: int,
    ends: bool,
    due: bool,
    row: int,
    records: Records,
) -> None:
    """End the round of a federation of one agent, whose mean is its parameter; record it if that is due."""
    running = federations.failed_at[federation] == RUNS
    if due:
        records.drift[federation, row] = 0.0 if running else math.nan
    at, j = thread, U64(0)
    while j < dim:
        kept = shared[at] if running else math.nan
        if ends:
            federations.central[federation, j] = kept
        if due:
            records.central[federation, row, j] = kept
        at, j = at + apart, j + ONE


@piece
def mean_of(theta: Floats, at: int, apart: int, weight: Floats, first: int, agents: int) -> float:
    """The weighted mean of a parameter over a federation's agents, in their order."""
    total = theta[at] * 0.0
    i = U64(0)
    while i < agents:
        total += weight[first + i] * theta[at]
        at += apart
        i += ONE
    return total


@piece
def spread_of(
    theta: Floats, at: int, apart: int, weight: Floats, first: int, agents: int, mean: float
) -> float:
    """The weighted mean of squared distances from ``mean``."""
    total = mean * 0.0
    i = U64(0)
    while i < agents:
        total += weight[first + i] * (theta[at] - mean) ** 2
        at += apart
        i += ONE
    return total
