import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedsarsa as fs
from fedsarsa.learning.policies import greedy_as, improvement
from tests.worlds_of_tests import dense

VALUES = arrays(float, (3, 4), elements=st.floats(-1e6, 1e6))
POLICIES = [
    fs.Softmax(0.5),
    fs.Softmax(100.0),
    fs.Greedy(),
    fs.EpsilonGreedy(0.2),
    fs.Greedy(ties="first"),
    fs.EpsilonGreedy(0.2, ties="first"),
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


def test_ties_to_the_first_class():
    values = np.array([1.0, 3.0, 3.0, 1.0, 3.0, 3.0])
    # Without classes every action is one of its own.
    np.testing.assert_array_equal(fs.Greedy("first").probabilities(values), [0, 1, 0, 0, 0, 0])
    # Actions 1 and 4 have the same features: they share what the first of the best takes.
    classes = np.array([0, 1, 2, 0, 1, 2])
    taken = fs.Greedy("first").probabilities(values, classes=classes)
    np.testing.assert_array_equal(taken, [0, 0.5, 0, 0, 0.5, 0])
    mixed = fs.EpsilonGreedy(0.6, "first").probabilities(values, classes=classes)
    np.testing.assert_allclose(mixed, 0.1 + 0.4 * taken)
    # Row by row in a table of states.
    table = fs.Greedy("first").probabilities(np.stack([values, -values, np.zeros(6)]), classes=classes)
    np.testing.assert_array_equal(table, [taken, [0.5, 0, 0, 0.5, 0, 0], [0.5, 0, 0, 0.5, 0, 0]])


def test_the_same_features_give_the_same_policy_however_they_are_written():
    modulo = fs.ModuloFeatures(2, 3).on(4, 7)
    table = [[dense(modulo, [s], a) for a in range(7)] for s in range(4)]
    written = fs.TabularFeatures(np.negative(table) * -1.0).on(4, 7)  # with zeros of both signs
    theta = np.array([0.0, 0.0, 0.0, -1.0, 2.0, 2.0])
    for ties in ("share", "first"):
        one, two = (improvement(fs.Greedy(ties), features, theta) for features in (modulo, written))
        np.testing.assert_array_equal(one, two)
    # The first of five equal classes of actions: at 0 the first, where 4 and 5 tie the second.
    np.testing.assert_allclose(one[0], [1 / 3, 0, 0, 1 / 3, 0, 0, 1 / 3])
    np.testing.assert_allclose(one[1], [0, 1 / 2, 0, 0, 1 / 2, 0, 0])


def test_ties_are_told_where_they_are_not_shared():
    shown = [
        repr(policy)
        for ties in ("share", "first")
        for policy in (fs.Greedy(ties), fs.EpsilonGreedy(ties=ties))
    ]
    assert shown == [
        "Greedy()",
        "EpsilonGreedy(eps=0.1)",
        "Greedy(ties='first')",
        "EpsilonGreedy(eps=0.1, ties='first')",
    ]


def test_a_greedy_policy_breaks_ties_as_the_learned_one():
    assert greedy_as(fs.Softmax(2.0)) == fs.Greedy("share")
    assert greedy_as(fs.EpsilonGreedy(0.1, "first")) == fs.Greedy("first")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fs.Greedy("last"), "ties must be one of first, share, got 'last'"),
        (
            lambda: fs.EpsilonGreedy(0.1, ties="firts"),
            "ties must be one of first, share, got 'firts'; did you mean 'first'?",
        ),
        (lambda: fs.Greedy(None), "ties must be one of first, share, got None"),
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
