"""Drawing an action from Gamma(theta)(. | s), as compiled pieces.

Actions with equal features are one class: the class is drawn by its mass, then a member uniformly, from
the same random number in [0, 1). Two ways lead to the same action:

- *direct*: values, then masses by the policy. Any policy, any features.
- *cached*: the softmax masses of an aggregation's parameters are kept, and an update refreshes one of
  them. Only for softmax.

A uniform number times a positive total is below that total, also after rounding: classes without mass
are never drawn.
"""

import math
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, piece
from fedsarsa.learning.tables import EPSILON_GREEDY, FIXED, SOFTMAX, Tables

_ONE = U64(1)

# Outside these limits a row's total says little: masses may have overflowed or vanished.
TRUST_LOW, TRUST_HIGH = 1e-200, 1e200


@piece
def value(tables: Tables, theta: Floats, start: int, s: int, a: int) -> float:
    """Q(s, a) with the parameters at ``theta[start:]``."""
    if tables.dense.size == 0:
        return theta[start + tables.rows[s] * tables.width + tables.columns[a]]
    at = s * tables.dim * tables.actions + a
    total = 0.0
    for _ in range(tables.dim):
        total += tables.dense[at] * theta[start]
        at += tables.actions
        start += _ONE
    return total


@piece
def member(tables: Tables, column: int, share: float) -> int:
    """The action of class ``column`` at ``share`` in [0, 1) of the class."""
    count = tables.counts[column]
    position = min(max(np.int64(share * count), 0), np.int64(count) - 1)
    return U64(tables.order[tables.first[column] + U64(position)])


@piece
def direct(
    tables: Tables, theta: Floats, start: int, s: int, uniform: float, values: Floats, weights: Floats
) -> int:
    """An action at state ``s``; ``values`` and ``weights`` are room for one number per class."""
    if tables.policy == FIXED:
        return fixed(tables, s, uniform)
    classes: Any = np.int64(tables.width)
    if tables.dense.size == 0:
        at = start + tables.rows[s] * tables.width
        for c in range(classes):
            values[c] = theta[at + U64(c)]
    else:
        at = s * tables.dim * tables.actions
        for c in range(classes):
            values[c] = 0.0
        for j in range(tables.dim):
            coordinate = theta[start + U64(j)]
            for c in range(classes):
                values[c] += tables.dense[at + U64(c)] * coordinate
            at += tables.actions
    weigh(tables, classes, values, weights)
    return select(tables, weights, U64(0), uniform * total(tables, weights, U64(0)))


@piece
def weigh(tables: Tables, classes: int, values: Floats, weights: Floats) -> None:
    """The mass of every class under the policy, up to a common factor."""
    best = values[0]
    for c in range(1, classes):
        best = max(best, values[c])
    if tables.policy == SOFTMAX:
        for c in range(classes):
            weights[c] = tables.counts[c] * math.exp((values[c] - best) / tables.parameter)
        return
    tied, leader = 0.0, -1  # actions that share the greedy mass, and the first class of them
    for c in range(classes):
        takes = values[c] == best
        if takes and leader < 0:
            leader = c
        if takes and tables.ties_first:
            takes = tables.alike[c] == tables.alike[leader]
        weights[c] = tables.counts[c] if takes else 0.0
        tied += weights[c]
    explore = tables.parameter if tables.policy == EPSILON_GREEDY else 0.0
    floor = explore / np.float64(np.int64(tables.actions))
    for c in range(classes):
        mass = floor + (1.0 - explore) / tied if weights[c] > 0.0 else floor
        weights[c] = tables.counts[c] * mass


@piece
def total(tables: Tables, masses: Floats, at: int) -> float:
    """The sum of the classes' masses, from ``masses[at]`` on."""
    result = 0.0
    for c in range(tables.width):
        result += masses[at + c]
    return result


@piece
def select(tables: Tables, masses: Floats, at: int, target: float) -> int:
    """The action at which the cumulative mass of the classes passes ``target``."""
    passed = below = 0.0
    column = U64(0)
    for c in range(tables.width - _ONE):
        passed += masses[at + c]
        beyond = passed <= target
        column += U64(beyond)
        below = passed if beyond else below
    return member(tables, column, (target - below) / masses[at + column])


@piece
def fixed(tables: Tables, s: int, uniform: float) -> int:
    """An action of a fixed policy: bisection of its cumulative probabilities."""
    start = s * tables.actions
    low, high = U64(0), tables.actions - _ONE
    target = uniform
    while low < high:
        middle = (low + high) >> _ONE
        if tables.cumulative[start + middle] > target:
            high = middle
        else:
            low = middle + _ONE
    return U64(tables.order[low])
