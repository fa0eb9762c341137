import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedsarsa as fs

VALUES = arrays(float, (3, 4), elements=st.floats(-1e6, 1e6))
POLICIES = [
    fs.Softmax(0.5),
    fs.Softmax(100.0),
    fs.Greedy(),
    fs.EpsilonGreedy(0.2),
    fs.FixedPolicy(),
    fs.FixedPolicy(2),
    fs.FixedPolicy([0.1, 0.2, 0.3, 0.4]),
    fs.FixedPolicy(np.full((3, 4), 0.25)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@given(values=VALUES)
def test_contract(policy, values):
    table = policy.probabilities(values)
    assert table.shape == (3, 4)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    for s in range(3):
        np.testing.assert_allclose(policy.probabilities(values[s], s), table[s], atol=1e-15)


def test_softmax_by_hand_and_without_overflow():
    pi = fs.Softmax(2.0).probabilities(np.array([0.0, 2.0 * np.log(3)]))
    np.testing.assert_allclose(pi, [0.25, 0.75])
    np.testing.assert_array_equal(fs.Softmax(1e-3).probabilities(np.array([0.0, 1e6])), [0, 1])


def test_greedy_shares_ties():
    np.testing.assert_allclose(fs.Greedy().probabilities(np.array([1.0, 3.0, 3.0])), [0, 0.5, 0.5])
    np.testing.assert_allclose(
        fs.EpsilonGreedy(0.3).probabilities(np.array([1.0, 3.0, 3.0])), [0.1, 0.45, 0.45]
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.Softmax(0), "temperature must be a positive number, got 0"),
        (lambda: fs.Softmax(np.inf), "temperature must be a positive number, got inf"),
        (lambda: fs.EpsilonGreedy(1.5), r"eps must be a number in \[0, 1\], got 1.5"),
        (
            lambda: fs.FixedPolicy("unifrom"),
            "pi must be one of uniform, got 'unifrom'; did you mean 'uniform'",
        ),
        (lambda: fs.FixedPolicy(-1), "pi must be an integer of at least 0, got -1"),
        (lambda: fs.FixedPolicy([0.5, 0.6]), "pi must sum to one along its last axis, got 1.1"),
        (lambda: fs.FixedPolicy(9).table(3, 4), "pi must be an action below 4, got 9"),
        (
            lambda: fs.FixedPolicy([0.5, 0.5]).table(3, 4),
            r"pi must have shape \(3, 4\) or \(4,\), got \(2,\)",
        ),
        (
            lambda: fs.FedSARSA(policy="greedy"),
            "policy must be Softmax, Greedy, EpsilonGreedy or FixedPolicy, got 'greedy'",
        ),
    ],
)
def test_bad_policies(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
