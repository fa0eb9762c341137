import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.theory.smoothness import lipschitz
from tests.theory.random_fleets import random_features


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (fs.Softmax(4.0), 0.25),
        (fs.FixedPolicy(), 0.0),
        (fs.FixedPolicy(1), 0.0),
        (fs.EpsilonGreedy(1.0), 0.0),
        (fs.EpsilonGreedy(1.0, ties="first"), 0.0),
        (fs.EpsilonGreedy(0.5), math.inf),
        (fs.Greedy(), math.inf),
    ],
)
def test_lipschitz_constants(policy, expected):
    assert lipschitz(policy, actions=3) == expected
    assert lipschitz(policy, actions=1) == 0.0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-2, 2), st.floats(-4, 2))
def test_softmax_is_lipschitz(seed, heat, apart):
    rng = np.random.default_rng(seed)
    table = random_features(rng, 3, 4, "dense").on(3, 4)
    policy = fs.Softmax(10.0**heat)
    one = rng.normal(size=table.dim)
    other = one + 10.0**apart * rng.normal(size=table.dim)
    change = np.abs(policy.probabilities(table.values(one)) - policy.probabilities(table.values(other))).sum(
        axis=1
    )
    assert change.max() <= lipschitz(policy, 4) * np.linalg.norm(one - other) * (1 + 1e-9) + 1e-12


def test_softmax_attains_its_lipschitz_constant():
    table = fs.TabularFeatures([[[1.0], [-1.0]]]).on(1, 2)
    policy = fs.Softmax(3.0)
    change = policy.probabilities(table.values(np.array([1e-5]))) - policy.probabilities(
        table.values(np.array([-1e-5]))
    )
    assert np.abs(change).sum() / 2e-5 == pytest.approx(1 / 3.0)
