"""The exp of compiled softmax policies."""

import numpy as np

from fedsarsa.learning.exponential import LIMIT, exponential


def test_accurate_to_two_units_in_the_last_place():
    points = np.concatenate([np.linspace(-LIMIT, LIMIT, 2001), np.linspace(-1.0, 1.0, 2001), [0.0]])
    values = np.array([exponential(x) for x in points])
    assert (np.abs(values - np.exp(points)) <= 2 * np.spacing(np.exp(points))).all()
    assert exponential(0.0) == 1.0


def test_saturates_beyond_its_limits():
    assert exponential(1e6) == exponential(LIMIT)
    assert exponential(-1e6) == exponential(-LIMIT) > 0.0
