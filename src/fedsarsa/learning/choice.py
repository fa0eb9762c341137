"""Drawing an action from Gamma(theta)(. | s), as compiled pieces: `weigh`, then `select`.

Actions with equal features in every state are one class, which is drawn by its mass. A uniform number times a
positive total is below that total, also after rounding: classes without mass are never drawn.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64, dispatch, piece
from fedsarsa.learning.policies import FIRST, POLICIES, Policy

_ONE = U64(1)


class Choice(NamedTuple):
    """A policy over classes of actions, as `weigh` reads it.

    ``policy`` is its code and ``parameter`` its one number. Class c has ``counts[c]`` of all ``actions``;
    ``alike[c]`` is the first class with the same features, which shares its luck where ``ties_first`` gives
    ties to the first. ``masses`` (S C,) are those of a fixed policy in every state, with S = 1 where states
    have no number; empty for others.
    """

    policy: int
    parameter: float
    ties_first: bool
    actions: float
    counts: Floats
    alike: NDArray[np.uint32]
    masses: Floats


def code_of(policy: type) -> int:
    """What compiled pieces know a policy by."""
    return list(POLICIES.values()).index(policy)


def choice(policy: Policy, counts: Floats, alike: NDArray[Any], masses: Floats) -> Choice:
    """A policy over classes with ``counts`` members each."""
    return Choice(
        policy=code_of(type(policy)),
        parameter=float(policy.parameter),
        ties_first=getattr(policy, "ties", None) == FIRST,
        actions=float(counts.sum()),
        counts=np.asarray(counts, dtype=float),
        alike=alike.astype(np.uint32),
        masses=masses,
    )


def renumbered(choice: Choice, policy: Policy) -> Choice:
    """The choice with the number of a policy of the same kind."""
    return choice._replace(parameter=float(policy.parameter))


# The first argument is the policy's code, the others are those of its own piece.
weigh_by = dispatch([piece(kind.weigh) for kind in POLICIES.values()])


@piece
def weigh(choice: Choice, state: int, values: Floats, masses: Floats) -> float:
    """The mass of every class under the policy, up to a common factor; their sum (see `Policy.weigh`)."""
    return weigh_by(choice.policy, choice, state, values, masses)


@piece
def copy_masses(given: Floats, at: int, classes: int, masses: Floats) -> float:
    """Copy the masses of a fixed policy, ``classes`` of them from ``at`` on; their sum."""
    total = 0.0
    for c in range(classes):
        masses[c] = given[at + c]
        total += masses[c]
    return total


@piece
def select(masses: Floats, at: int, count: int, target: float) -> tuple[int, float]:
    """The place among ``count`` masses from ``at`` on where their sum passes ``target``; the sum before it.

    It is never one without mass. There is no branch: what is drawn cannot be foreseen.
    """
    passed = below = 0.0
    place = U64(0)
    for c in range(count - _ONE):
        passed += masses[at + c]
        beyond = passed <= target
        place += U64(beyond)
        below = passed if beyond else below
    return place, below
