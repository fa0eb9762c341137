"""Engines train what was written down once."""

import pytest

from tests.engines.anchors import CONTROL, FINITE, GYMNASIUM, assert_anchored, control, finite, gymnasium


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_finite_worlds(engine):
    assert_anchored(finite(), FINITE, engine)


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_control_worlds(engine):
    assert_anchored(control(), CONTROL, engine)


@pytest.mark.parametrize("processes", [0, 2])
def test_environments_of_gymnasium(processes):
    assert_anchored(gymnasium(processes), GYMNASIUM)
