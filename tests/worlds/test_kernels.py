import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.worlds.kernels import DenseKernel
from tests.worlds_of_tests import kernel_of


@pytest.mark.parametrize(("states", "actions"), [(5, 3), (4, 9), (3, 1)])
def test_shift_kernel_is_its_expansion(states, actions):
    rng = np.random.default_rng(0)
    shift = kernel_of("shift", rng, states, actions)
    # The definition, entry by entry: P_a(s, s') = P0(s, (s' - a) mod S).
    dense = DenseKernel(
        [
            [[shift.P0[s, (t - a) % states] for t in range(states)] for s in range(states)]
            for a in range(actions)
        ]
    )
    policy = rng.dirichlet(np.ones(actions), size=states)
    values = rng.normal(size=states)
    for a in range(actions):
        np.testing.assert_array_equal(shift.matrix(a), dense.matrix(a))
    np.testing.assert_allclose(shift.under(policy), dense.under(policy), atol=1e-15)
    np.testing.assert_allclose(shift.expect(values), dense.expect(values), atol=1e-14)


def test_dense_kernel_by_definition():
    rng = np.random.default_rng(1)
    array = kernel_of("dense", rng, 4, 2)
    kernel = DenseKernel(array)
    policy = rng.dirichlet(np.ones(2), size=4)
    values = rng.normal(size=4)
    for s in range(4):
        chain = sum(policy[s, a] * array[a, s] for a in range(2))
        np.testing.assert_allclose(kernel.under(policy)[s], chain, atol=1e-15)
        for a in range(2):
            assert kernel.expect(values)[s, a] == pytest.approx(array[a, s] @ values)


@pytest.mark.parametrize(
    ("P0", "actions", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], 2, r"P0 must sum to one along its last axis, got 1.1 in row \[1\]"),
        ([[1.5, -0.5], [0.5, 0.5]], 2, r"P0 must hold probabilities, got -0.5 at \[0, 1\]"),
        ([[np.nan, 1], [0.5, 0.5]], 2, r"P0 must be finite, got nan at \[0, 0\]"),
        ([[0.5, 0.5]], 2, r"P0 must have shape \(S, S\), got \(1, 2\)"),
        (np.eye(2), 0, "actions must be an integer of at least 1, got 0"),
        (np.eye(2), 1.5, "actions must be an integer, got 1.5"),
    ],
)
def test_bad_shift_kernels(P0, actions, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.ShiftKernel(P0, actions)
