"""Worlds outside the registry: which of them are compiled, and what is said of the others."""

from dataclasses import dataclass

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa._numba import piece
from fedsarsa.worlds.control import WORLDS, dynamics

ALGO = fs.FedSARSA(fs.TileCoding(2, 3), fs.Softmax(1.0), 0.2, 5)


def test_numbers_are_places_in_the_registry():
    assert [dynamics.number(world) for world in WORLDS.values()] == list(range(len(WORLDS)))


@dataclass(frozen=True)
class Moon(fs.control.CartPole):
    gravity: float = 1.6


def test_a_world_with_the_pieces_of_another_is_trained_by_every_engine():
    one, two = (ALGO.train([Moon()] * 2, 40, engine=engine) for engine in ("reference", "cpu"))
    same = ALGO.train([fs.control.CartPole(gravity=1.6)] * 2, 40)
    np.testing.assert_allclose(one.final, two.final, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(two.final, same.final)


@dataclass(frozen=True)
class Frozen(fs.control.CartPole):
    @staticmethod
    @piece
    def step(p, x, action, u):
        return 0.5, False


def test_a_world_with_pieces_of_its_own_needs_a_line_to_be_compiled():
    history = ALGO.train([Frozen()], 40, engine="reference")
    assert history.data.attrs["engine"] == "reference"
    with pytest.raises(ValueError, match=r"Frozen must have a line in .*registry.py .* engine 'reference'"):
        ALGO.train([Frozen()], 40)
