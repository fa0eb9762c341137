"""State on disk is read as it was written, or not at all."""

import contextlib

import numpy as np
import pytest

from fedsarsa.deploy import files

ABOUT, ARRAYS = {"round": 3}, {"theta": np.arange(3.0), "before.states": np.ones((1, 1), np.uint32)}


@pytest.mark.parametrize("flip", [1, 128, 255])
def test_no_flipped_byte_changes_what_is_read(tmp_path, flip):
    path = tmp_path / "state.npz"
    files.save(path, "agent state", ABOUT, ARRAYS)
    whole = path.read_bytes()
    refused = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        path.write_bytes(damaged)
        refused += 1
        with contextlib.suppress(ValueError):
            about, arrays = files.load(path, "agent state")
            refused -= 1
            assert about == ABOUT
            assert arrays.keys() == ARRAYS.keys()
            assert all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
    assert refused > len(whole) / 2  # the rest are dates and the like
