"""What threads of a GPU do with the parameters of agents, which are columns of shared memory.

Parameter j of an agent is ``apart`` from its next one; parameters of neighbours lie side by side.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U32, DeviceBuild, instruction, on_device, piece
from fedsarsa.engines.cuda_arrays import Federations, Held, Records
from fedsarsa.learning.exponential import exponential
from fedsarsa.learning.finite_tables import Tables

AT_ONCE = U32(5)  # numbers that a thread reads before it waits for the first


@piece
def held_by(
    tables: Tables, world: int, seed: int, run: int, stream: int, sizes: Floats, first_size: int
) -> Held:
    """What an agent's steps read; its random numbers are a function of ``seed``, ``run`` and ``stream``."""
    worlds = tables.worlds
    return Held(
        states=U32(worlds.states),
        alias=worlds.alias[I64(worlds.kernel_start[world]) :],
        action_size=U32(worlds.action_size[world]),
        turns=U32(worlds.turns[world]),
        reward=worlds.reward[I64(world * worlds.reward_world) :],
        reward_state=U32(worlds.reward_state),
        reward_action=U32(worlds.reward_action),
        reward_next=U32(worlds.reward_next),
        sizes=sizes[I64(first_size) :],
        seed=seed,
        run=run,
        stream=stream,
    )


def _moved(_: DeviceBuild) -> Callable[..., Any]:
    from numba.cuda import types

    move = instruction("mov.b64 $0, $1;", types.uint64, types.uint64, fixed=True)
    return lambda number: move(number)


@on_device(_moved)
def afresh(number: int) -> int:
    """The same number, unknown to the compiler: what follows from it is not computed before, and kept."""
    return number


@piece
def place_of(held: Held, s: int, a: int, column: int) -> int:
    """Where the entry of (s, a) in a column stands in the world's alias table."""
    return U32(a * held.action_size + s * held.states + column)


@piece
def reward_place(held: Held, s: int, a: int, s_next: int) -> int:
    """Where r(s, a, s') stands among the world's rewards."""
    return U32(s * held.reward_state + a * held.reward_action + s_next * held.reward_next)


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
    at, j = start, U32(0)
    while j < dim:
        shared[masses + at] = mass_of(shared[at], base, inverse)
        at, j = U32(at + apart), U32(j + U32(1))
    return base


@piece
def real_of(number: int) -> float:
    """An unsigned integer as a float."""
    return np.float64(np.int64(number))


@piece
def highest(theta: Floats, start: int, dim: int, apart: int) -> float:
    """The largest of an agent's parameters."""
    best = theta[start]
    j = U32(1)
    while j < dim:
        start = U32(start + apart)
        best = max(best, theta[start])
        j = U32(j + U32(1))
    return best


@piece
def record_alone(
    shared: Floats,
    thread: int,
    apart: int,
    dim: int,
    federations: Federations,
    federation: int,
    running: bool,
    ends: bool,
    due: bool,
    row: int,
    records: Records,
) -> None:
    """End the round of a federation of one agent, whose mean is its parameter; record it if that is due."""
    if due:
        records.drift[federation, row] = 0.0 if running else math.nan
    at, j = thread, U32(0)
    while j < dim and (ends or due):
        kept = shared[at] if running else math.nan
        if ends:
            federations.central[federation, j] = kept
        if due:
            records.central[federation, row, j] = kept
        at, j = U32(at + apart), U32(j + U32(1))


@piece
def sum_of(numbers: Floats, at: int, apart: int, count: int) -> float:
    """The sum of ``count`` numbers, in their order, at ``numbers[at::apart]``."""
    total, i = 0.0, U32(0)  # not a number of the array times 0: there may be none, or NaN
    while i + AT_ONCE <= count:
        for _ in range(5):
            total += numbers[at]
            at = U32(at + apart)
        i = U32(i + AT_ONCE)
    while i < count:
        total += numbers[at]
        at, i = U32(at + apart), U32(i + U32(1))
    return total


@piece
def mean_of(
    theta: Floats, at: int, apart: int, weights: Floats, first: int, agents: int, even: bool
) -> float:
    """The weighted mean of a parameter over a federation's agents, in their order.

    Where weights are ``even``, they are the first one.
    """
    total, weight, i = 0.0, weights[first], U32(0)
    while i + AT_ONCE <= agents:
        for _ in range(5):
            if not even:
                weight = weights[first + i]
            total += weight * theta[at]
            at, i = U32(at + apart), U32(i + U32(1))
    while i < agents:
        if not even:
            weight = weights[first + i]
        total += weight * theta[at]
        at, i = U32(at + apart), U32(i + U32(1))
    return total


@piece
def spread_of(
    theta: Floats, at: int, apart: int, weights: Floats, first: int, agents: int, even: bool, mean: float
) -> float:
    """The weighted mean of squared distances from ``mean``."""
    total, weight, i = 0.0, weights[first], U32(0)
    while i + AT_ONCE <= agents:
        for _ in range(5):
            if not even:
                weight = weights[first + i]
            distance = theta[at] - mean
            total += weight * (distance * distance)
            at, i = U32(at + apart), U32(i + U32(1))
    while i < agents:
        if not even:
            weight = weights[first + i]
        distance = theta[at] - mean
        total += weight * (distance * distance)
        at, i = U32(at + apart), U32(i + U32(1))
    return total


@piece
def copy_column(shared: Floats, start: int, to: int, apart: int, count: int) -> None:
    """Copy ``count`` numbers ``apart`` from each other; some are read before the first is written."""
    while count >= AT_ONCE:
        one, two, three = shared[start], shared[start + apart], shared[start + U32(2) * apart]
        four, five = shared[start + U32(3) * apart], shared[start + U32(4) * apart]
        shared[to], shared[to + apart], shared[to + U32(2) * apart] = one, two, three
        shared[to + U32(3) * apart], shared[to + U32(4) * apart] = four, five
        start, to = U32(start + AT_ONCE * apart), U32(to + AT_ONCE * apart)
        count = U32(count - AT_ONCE)
    while count > 0:
        shared[to] = shared[start]
        start, to, count = U32(start + apart), U32(to + apart), U32(count - U32(1))
