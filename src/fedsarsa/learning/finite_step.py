"""The SARSA step of equation ``eq:g``, as compiled pieces for CPU and GPU kernels.

The reference engine says the same in plain NumPy and is the specification. Pieces take parameters as
one flat array and the place ``start`` where an agent's begin, ``apart`` from each other; integers are
unsigned 64-bit.

An action is drawn as a class of equal features, then as a member of it, from the same random number in
[0, 1). Two ways lead to the same action:

- *direct*: values, then masses by the policy. Any policy, any features.
- *cached*: the softmax masses of an aggregation's parameters are kept, and an update refreshes one of
  them. Only for softmax.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import I64, U32, U64, DeviceBuild, ceiling, instruction, on_device, piece
from fedsarsa.learning.choice import select, weigh
from fedsarsa.learning.finite_tables import Tables, WorldTables
from fedsarsa.worlds import alias

_ONE = U64(1)

# Outside these limits a row's total says little: masses may have overflowed or vanished.
TRUST_LOW, TRUST_HIGH = 1e-200, 1e200


@piece
def first_state(worlds: WorldTables, world: int, word: int) -> int:
    """s_0 from the world's initial distribution."""
    column, fraction = alias.split(word, worlds.states)
    return alias.draw(worlds.alias, worlds.alias_start[world], column, fraction)


@piece
def next_state(worlds: WorldTables, world: int, s: int, a: int, column: int, fraction: int) -> int:
    """s' ~ P_a(s, .) of ``world``, from a split random word."""
    row = worlds.kernel_start[world] + a * worlds.action_size[world] + s * worlds.states
    return drawn(worlds, row, worlds.turns[world] * rotation(worlds, a), column, fraction)


@piece
def rotation(worlds: WorldTables, a: int) -> int:
    """a modulo the number of states."""
    return a if U64(len(worlds.rotation)) <= worlds.states else worlds.rotation[a]


@piece
def drawn(worlds: WorldTables, row: int, turn: int, column: int, fraction: int) -> int:
    """s' from the row of (s, a) in the alias table, turned by ``turn``."""
    return turned(worlds, alias.draw(worlds.alias, row, column, fraction), turn)


def _least(_: DeviceBuild) -> Callable[..., Any]:
    """`turned` for a GPU: what is below zero is above all states where numbers have no sign."""

    def turned(worlds: Any, s: int, turn: int) -> int:
        moved = U32(s + turn)
        return min(moved, U32(moved - worlds.states))

    return turned


@on_device(_least)
def turned(worlds: Any, s: int, turn: int) -> int:
    """``s`` + ``turn``, modulo the number of ``worlds.states``."""
    beyond = s + turn - worlds.states
    return beyond + (worlds.states & (U64(0) - (beyond >> alias.SIGN)))  # no branch, as in alias.draw


@piece
def reward_of(worlds: WorldTables, world: int, s: int, a: int, s_next: int) -> float:
    """r(s, a, s') of ``world``."""
    return worlds.reward[
        world * worlds.reward_world
        + s * worlds.reward_state
        + a * worlds.reward_action
        + s_next * worlds.reward_next
    ]


@piece
def increment(tables: Tables, reward: float, value: float, next_value: float, step_size: float) -> float:
    """alpha (r + discount Q(s', a') - Q(s, a)): what the step adds along phi(s, a)."""
    return step_size * (reward + tables.discount * next_value - value)


@piece
def value(tables: Tables, theta: Floats, start: int, s: int, a: int, apart: int = _ONE) -> float:
    """Q(s, a) with the parameters at ``theta[start::apart]``."""
    if tables.dense.size == 0:
        return theta[start + (tables.rows[s] * tables.width + tables.columns[a]) * apart]
    at = s * tables.dim * tables.actions + a
    total = 0.0
    for _ in range(tables.dim):
        total += tables.dense[at] * theta[start]
        at += tables.actions
        start += apart
    return total


@piece
def trusted(total: float) -> bool:
    """Whether the cached masses of a row, with this total, say which action to draw."""
    return TRUST_LOW < total < TRUST_HIGH


def _reciprocal(build: DeviceBuild) -> Callable[..., Any]:
    """`ratio` for a GPU, which has no division: off by a unit or two in the last place."""
    from numba.cuda import libdevice, types

    if build.single:
        return lambda x, y: libdevice.fast_fdividef(x, y)
    guess, fma = instruction("rcp.approx.ftz.f64 $0, $1;", types.float64, types.float64), libdevice.fma

    def ratio(x: float, y: float) -> float:
        inverse = guess(y)  # twenty bits of it; each of Newton's steps doubles them
        inverse = fma(inverse, fma(-y, inverse, 1.0), inverse)
        inverse = fma(inverse, fma(-y, inverse, 1.0), inverse)
        return x * inverse

    return ratio


@on_device(_reciprocal)
def ratio(x: float, y: float) -> float:
    """X / y."""
    return x / y


def _whole(build: DeviceBuild) -> Callable[..., Any]:
    """`member` for a GPU, where integers have a smallest and a largest one, and floats do not."""
    from numba.cuda import libdevice

    ceiling = libdevice.float2int_ru if build.single else libdevice.double2int_ru
    one, none = np.int32(1), np.int32(0)

    def member(tables: Tables, column: int, distance: float) -> int:
        back = max(np.int32(ceiling(distance) - one), none)
        inside = min(back, np.int32(tables.most - _ONE))
        return tables.members[U32(column * tables.most + U32(inside))]

    return member


@on_device(_whole)
def member(tables: Tables, column: int, distance: float) -> int:
    """The action of class ``column`` that a target ``distance`` actions before the end of the class draws."""
    back = ceiling(distance) - 1.0
    last = np.float64(np.int64(tables.most)) - 1.0
    inside = min(back if back > 0.0 else 0.0, last)  # whatever rounding does
    return tables.members[column * tables.most + U64(np.int64(inside))]


@piece
def acting(tables: Tables, agent: int) -> int:
    """Where the fixed policy by which an agent acts begins in ``tables.cumulative``; 0 if there is none."""
    if tables.policies <= _ONE:
        return U64(0)
    return agent % tables.policies * (U64(tables.cumulative.size) // tables.policies)


@piece
def direct(
    tables: Tables,
    theta: Floats,
    start: int,
    acting: int,
    s: int,
    uniform: float,
    values: Floats,
    weights: Floats,
    apart: int = _ONE,
) -> int:
    """An action at state ``s``; ``values`` and ``weights`` are room for one number per class.

    It is drawn by the fixed policy that begins at ``acting``, if there are any.
    """
    if tables.cumulative.size > 0:
        return fixed(tables, acting, s, uniform)
    class_values(tables, theta, start, s, values, apart)
    target = uniform * weigh(tables.choice, 0, values, weights)
    column, below = select(weights, U64(0), tables.width, target)
    beyond = below + weights[column] - target
    return member(tables, column, beyond / weights[column] * tables.choice.counts[column])


@piece
def class_values(
    tables: Tables, theta: Floats, start: int, s: int, values: Floats, apart: int = _ONE
) -> None:
    """Q(s, .) of every class of actions, into ``values``."""
    classes: Any = np.int64(tables.width)
    if tables.dense.size == 0:
        at = start + tables.rows[s] * tables.width * apart
        for c in range(classes):
            values[c] = theta[at + U64(c) * apart]
    else:
        at = s * tables.dim * tables.actions
        for c in range(classes):
            values[c] = 0.0
        for j in range(tables.dim):
            coordinate = theta[start + U64(j) * apart]
            for c in range(classes):
                values[c] += tables.dense[at + U64(c)] * coordinate
            at += tables.actions


@piece
def largest(tables: Tables, theta: Floats, start: int, s: int, values: Floats) -> float:
    """max_a Q(s, a)."""
    if tables.dense.size == 0:  # every column is some action's
        at = start + tables.rows[s] * tables.width
        best = theta[at]
        for c in range(tables.width):
            best = max(best, theta[at + c])
        return best
    class_values(tables, theta, start, s, values)
    best = values[0]
    for c in range(tables.width):
        best = max(best, values[c])
    return best


@piece
def expected(tables: Tables, theta: Floats, start: int, s: int, values: Floats, weights: Floats) -> float:
    """The policy's mean of Q(s, .)."""
    class_values(tables, theta, start, s, values)
    total, mean = weigh(tables.choice, I64(s), values, weights), 0.0
    for c in range(tables.width):
        mean += weights[c] * values[c]
    return mean / total


@piece
def draw_class(
    tables: Tables, masses: Floats, begin: int, uniform: float, sums: Floats, apart: int = _ONE
) -> tuple[float, int, float, float]:
    """Draw a class of actions by the masses of its row, at ``masses[begin::apart]``.

    Returns the row's total, the class, what the target leaves of it, and the mass of one of its actions;
    ``sums`` is room for a number per class. It is the class that `choice.select` finds.
    """
    last = tables.width - _ONE
    sums[0] = tables.choice.counts[0] * masses[begin]
    for c in range(last):
        sums[c + _ONE] = sums[c] + tables.choice.counts[c + _ONE] * masses[begin + (c + _ONE) * apart]
    whole = sums[last]
    target = uniform * whole
    group, upto = last, whole
    for back in range(last):
        c = last - _ONE - back
        if sums[c] > target:
            group, upto = c, sums[c]
    return whole, group, upto - target, masses[begin + group * apart]


@piece
def fixed(tables: Tables, acting: int, s: int, uniform: float) -> int:
    """An action of the fixed policy that begins at ``acting``: the first that its sums pass ``uniform`` at.

    The search begins with the guide's place, from where one or two comparisons are left on average.
    """
    start, last = acting + s * tables.stride, tables.actions - _ONE
    guess = min(U64(uniform * np.float64(tables.actions)), last)  # float32 may round the number up to 1
    return searched(tables, start, U64(tables.guide[start + guess]), uniform)


@piece
def searched(tables: Tables, start: int, place: int, uniform: float) -> int:
    """The first action, from a place in their order on, that the sums from ``start`` pass ``uniform`` at."""
    while place < tables.actions - _ONE and tables.cumulative[start + place] <= uniform:
        place += _ONE
    return U64(tables.order[place])
