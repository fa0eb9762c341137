"""Drawing among eight masses at once is drawing among them one by one."""

import numpy as np
import pytest

from fedsarsa.engines import eight_masses


def drawn(masses, counts, classes, uniform, sums):
    zero = np.uint64(0)
    return eight_masses.select(masses, zero, counts, np.uint64(classes), uniform, sums, zero)


@pytest.mark.parametrize("classes", range(1, 9))
def test_the_place_where_the_sum_passes_the_target(classes):
    rng = np.random.default_rng(classes)
    counts, sums = np.zeros(8), np.empty(8)
    counts[:classes] = rng.integers(1, 9, classes)
    for spread in (0.0, 1.0, 30.0):
        masses = np.zeros(8)
        masses[:classes] = np.exp(spread * rng.normal(size=classes))
        masses[rng.integers(classes)] *= classes == 1 or rng.random() < 0.5  # a class without mass
        expected = np.cumsum(masses * counts)
        for uniform in rng.random(100):
            total, target, place = drawn(masses, counts, classes, uniform, sums)
            np.testing.assert_allclose(sums, expected, rtol=1e-15)
            assert total == sums[-1]
            assert target == uniform * total
            # The sums of both may differ in their last bits; none of these targets lies between them.
            assert place == np.searchsorted(expected[: classes - 1], target, side="right")


@pytest.mark.parametrize("classes", range(1, 9))
def test_never_beyond_the_last_class(classes):
    """Not even at the largest uniform number, with sums that are rounded in different orders."""
    rng = np.random.default_rng(0)
    counts, sums = np.zeros(8), np.empty(8)
    counts[:classes] = 1.0
    for _ in range(200):
        masses = np.zeros(8)
        masses[:classes] = rng.random(classes)
        _, _, place = drawn(masses, counts, classes, 1.0 - 2.0**-53, sums)
        assert place == classes - 1


def test_instructions_are_the_definition_bit_for_bit():
    rng = np.random.default_rng(1)
    for classes in range(1, 9):
        counts, kernels, plain = np.zeros(8), np.empty(8), np.empty(8)
        counts[:classes] = rng.integers(1, 9, classes)
        for uniform in rng.random(50):
            masses = rng.random(8)
            found = drawn(masses, counts, classes, uniform, kernels)
            assert found == eight_masses._select(masses, 0, counts, classes, uniform, plain, 0)
            np.testing.assert_array_equal(kernels, plain)
