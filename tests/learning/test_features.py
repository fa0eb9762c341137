import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.algorithm import FedSARSA
from fedsarsa.learning.features import FINITE
from tests.worlds_of_tests import dense, every_kind


def maps():
    table = np.random.default_rng(0).normal(size=(6, 4, 3))
    return every_kind(FINITE, fs.OneHot(), fs.ModuloFeatures(3, 2), fs.TabularFeatures(table, normalise=True))


@pytest.mark.parametrize("features", maps(), ids=repr)
def test_contract(features):
    on = features.on(6, 4)
    theta = np.random.default_rng(1).normal(size=on.dim)
    values = on.values(theta)
    assert values.shape == (6, 4)
    assert sorted(on.order) == list(range(4))
    for s in range(6):
        np.testing.assert_array_equal(on.values_at(theta, [s]), values[s])
        for a in range(4):
            assert dense(on, [s], a) @ theta == pytest.approx(values[s, a])
            assert np.linalg.norm(dense(on, [s], a)) <= 1 + 1e-12


def test_modulo_features_are_the_papers():
    on = fs.ModuloFeatures(5, 5).on(100, 100)
    assert on.dim == 25
    assert np.flatnonzero(dense(on, [13], 42)).tolist() == [(13 % 5) * 5 + 42 % 5]


def test_one_hot_tells_every_pair_apart():
    on = fs.OneHot().on(3, 4)
    assert on.dim == 12
    assert {int(np.flatnonzero(dense(on, [s], a))[0]) for s in range(3) for a in range(4)} == set(range(12))


def test_large_norms_are_rejected_with_the_pair_or_divided_away():
    table = np.full((2, 3, 4), 0.1)
    table[1, 2] = 2.0
    with pytest.raises(ValueError, match="feature norms of at most 1, got 4 at state 1, action 2"):
        fs.TabularFeatures(table)
    normalised = fs.TabularFeatures(table, normalise=True).table
    np.testing.assert_allclose(normalised, table / 4)
    small = np.full((2, 3, 4), 0.1)
    np.testing.assert_array_equal(fs.TabularFeatures(small, normalise=True).table, small)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.TabularFeatures([[1.0]]), r"table must have shape \(S, A, d\), got \(1, 1\)"),
        (lambda: fs.TabularFeatures([[[np.nan]]]), "table must be finite, got nan"),
        (lambda: fs.ModuloFeatures(0, 5), "d1 must be an integer of at least 1, got 0"),
        (
            lambda: fs.ModuloFeatures(5, 5).on(4, 9),
            "needs at least 5 states and 5 actions, got a world with 4 and 9",
        ),
        (
            lambda: fs.TabularFeatures(np.zeros((2, 2, 1))).on(3, 2),
            "a table for 2 states and 2 actions, got a world with 3 and 2",
        ),
        (
            lambda: FedSARSA(features="one-hot"),
            r"features must be OneHot\(\), ModuloFeatures or TabularFeatures, got 'one-hot'",
        ),
    ],
)
def test_bad_features(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
