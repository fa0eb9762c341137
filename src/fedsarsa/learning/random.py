"""Random numbers: a function of (seed, run, agent, t), with no state to carry.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011):
the key is the seed, the counter is (t, run, agent). Every step of every agent owns two 64-bit words:
the first draws the next state, the second the next action. Streams of different agents and runs never
meet, and any step's numbers can be had without those before it.

Episodes need more numbers than that. Steps are below 2**48, and the counter's high 16 bits say what else
step t's numbers are for (``purpose``): the state and the action that begin the next episode when one ends
at t (t = START: the first episode), the pair of step t where every step begins anew, and fresh candidates
for continuous actions.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedsarsa._numba import U32, U64, DeviceBuild, instruction, on_device, piece

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

# The counter value at which an agent's first state and action are drawn: no step has it.
START = 2**64 - 1
# Added to t for the executed action where it is drawn anew at every step.
REDRAW = 2**63

# What numbers are for, in the counter's high bits; step numbers themselves have 0.
FIRST_STATE, FIRST_STATE_MORE, FIRST_ACTION, PAIR = 1, 2, 3, 4
CANDIDATES, FIRST_CANDIDATES, REDRAW_CANDIDATES = 1024, 2048, 3072  # two candidates each, from here on
MOST_CANDIDATES = 2048
PURPOSE_BITS = 48

_STEP, _PURPOSE = U64(2**PURPOSE_BITS - 1), U64(PURPOSE_BITS)
_M0, _M1 = U64(MULTIPLIERS[0]), U64(MULTIPLIERS[1])
_W0, _W1 = U64(KEY_STEPS[0]), U64(KEY_STEPS[1])
_LOW, _HALF, _UNUSED = U64(0xFFFFFFFF), U64(32), U64(11)


def _words_of_halves(_: DeviceBuild) -> Callable[..., Any]:
    """`words` for a GPU, which multiplies numbers of 32 bits, and nothing longer, in one instruction."""
    from numba.cuda import types

    product = instruction("mul.wide.u32 $0, $1, $2;", types.uint64, types.uint32, types.uint32)
    m0, m1, w0, w1 = map(U32, (*MULTIPLIERS, *KEY_STEPS))

    def words(seed: int, run: int, agent: int, t: int) -> tuple[int, int]:
        c0, c1, c2, c3 = U32(t), U32(t >> _HALF), U32(run), U32(agent)
        k0, k1 = U32(seed), U32(seed >> _HALF)
        for _ in range(ROUNDS):
            p0, p1 = product(m0, c0), product(m1, c2)
            c0, c1 = U32(U32(p1 >> _HALF) ^ c1 ^ k0), U32(p1)
            c2, c3 = U32(U32(p0 >> _HALF) ^ c3 ^ k1), U32(p0)
            k0, k1 = U32(k0 + w0), U32(k1 + w1)
        return (U64(c0) << _HALF) | U64(c1), (U64(c2) << _HALF) | U64(c3)

    return words


@on_device(_words_of_halves)
def words(seed: int, run: int, agent: int, t: int) -> tuple[int, int]:
    """The two 64-bit words of step ``t``; all arguments are unsigned 64-bit, run and agent below 2**32."""
    c0, c1, c2, c3 = t & _LOW, t >> _HALF, run, agent
    k0, k1 = seed & _LOW, seed >> _HALF
    for _ in range(ROUNDS):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return (c0 << _HALF) | c1, (c2 << _HALF) | c3


@piece
def purpose(t: int, what: int) -> int:
    """The counter of step ``t``'s numbers for ``what``; both unsigned 64-bit."""
    return (t & _STEP) | (what << _PURPOSE)


@piece
def uniform(word: int) -> float:
    """A 64-bit word as a float in [0, 1), from its high 53 bits."""
    return np.float64(np.int64(word >> _UNUSED)) * 2.0**-53


def plain_words(seed: int, run: int, agent: int, t: int) -> tuple[int, int]:
    """The same two words with Python's integers, for the reference engine."""
    low = 0xFFFFFFFF
    counter = [t & low, t >> 32, run, agent]
    key = [seed & low, seed >> 32]
    for _ in range(ROUNDS):
        high0, low0 = divmod(MULTIPLIERS[0] * counter[0], 2**32)
        high1, low1 = divmod(MULTIPLIERS[1] * counter[2], 2**32)
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0]
        key = [(k + step) & low for k, step in zip(key, KEY_STEPS, strict=True)]
    return counter[0] << 32 | counter[1], counter[2] << 32 | counter[3]


def plain_purpose(t: int, what: int) -> int:
    """The same counter with Python's integers."""
    return t % 2**PURPOSE_BITS | what << PURPOSE_BITS


def plain_uniform(word: int) -> float:
    """A 64-bit word as a float in [0, 1), from its high 53 bits."""
    return (word >> 11) * 2.0**-53
