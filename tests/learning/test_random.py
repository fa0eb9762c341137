import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsarsa.learning import random

ONES = 0xFFFFFFFF


@numba.njit
def compiled(seed, run, agent, t):
    return random.words(seed, run, agent, t)


# Philox4x32-10's published test vectors (counter, key, result), in 32-bit words.
@pytest.mark.parametrize(
    ("counter", "key", "result"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_published_vectors(counter, key, result):
    words = random.plain_words(
        seed=key[0] | key[1] << 32, run=counter[2], agent=counter[3], t=counter[0] | counter[1] << 32
    )
    assert words == (result[0] << 32 | result[1], result[2] << 32 | result[3])


@given(st.integers(0, 2**64 - 1), st.integers(0, ONES), st.integers(0, ONES), st.integers(0, 2**64 - 1))
def test_compiled_words_are_the_plain_ones(seed, run, agent, t):
    assert compiled(*map(np.uint64, (seed, run, agent, t))) == random.plain_words(seed, run, agent, t)


@given(st.integers(0, 2**64 - 1))
def test_uniform_numbers_are_below_one_and_agree(word):
    value = random.plain_uniform(word)
    assert 0 <= value < 1
    assert random.uniform(np.uint64(word)) == value


def test_a_uniform_share_of_a_total_is_below_the_total():
    # What lets engines draw classes without ever reaching one of no mass.
    largest = random.plain_uniform(2**64 - 1)
    totals = np.random.default_rng(0).random(100_000) * 10.0 ** np.arange(-200, 200).repeat(250)
    assert (largest * totals < totals).all()
