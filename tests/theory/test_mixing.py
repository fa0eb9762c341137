import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsarsa as fs
from fedsarsa.theory.mixing import LEAST_RHO, mixing, mixing_rate, perturbation
from fedsarsa.theory.stationary import stationary_distribution
from fedsarsa.worlds.kernels import DenseKernel
from tests.theory.random_fleets import random_kernel


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([1e-2, 0.1, 1.0, 10.0]),
    st.sampled_from(["dense", "shift"]),
)
def test_mixing_holds_for_every_policy(seed, states, actions, sharpness, kind):
    rng = np.random.default_rng(seed)
    rows = random_kernel(rng, states, actions, sharpness, kind)
    rows = np.where(rows < 1e-6, 0.0, rows)  # with zeros: not every step contracts
    rows /= rows.sum(axis=-1, keepdims=True)
    kernel = fs.ShiftKernel(rows, actions) if kind == "shift" else DenseKernel(rows)
    m, rho = mixing(kernel)
    if rho == 1:
        return
    for choice in itertools.islice(itertools.product(range(actions), repeat=states), 64):
        for policy in (np.eye(actions)[list(choice)], rng.dirichlet(np.ones(actions), size=states)):
            chain = kernel.under(policy)
            eta, power = stationary_distribution(chain), np.eye(states)
            for t in range(30):
                assert np.abs(power - eta).sum(axis=1).max() <= m * rho**t * (1 + 1e-9) + 1e-9
                power = power @ chain


@pytest.mark.parametrize(("states", "actions"), [(5, 3), (4, 4), (3, 8), (1, 2)])
def test_dobrushin_over_all_pairs_of_rows(states, actions):
    rng = np.random.default_rng(0)
    for kind in ("dense", "shift"):
        rows = random_kernel(rng, states, actions, 1.0, kind)
        kernel = fs.ShiftKernel(rows, actions) if kind == "shift" else DenseKernel(rows)
        every = [kernel.matrix(a)[s] for a in range(actions) for s in range(states)]
        largest = max(np.abs(x - y).sum() / 2 for x in every for y in every)
        assert mixing(kernel) == (2.0, pytest.approx(max(largest, LEAST_RHO), abs=1e-12))


def test_several_steps_where_one_does_not_contract():
    ring = (0.5 * np.eye(8) + 0.25 * np.roll(np.eye(8), 1, axis=1) + 0.25 * np.roll(np.eye(8), -1, axis=1))[
        None
    ]
    m, rho = mixing(DenseKernel(ring))
    assert mixing_rate(ring[0]) == pytest.approx(0.5 + 0.5 * math.cos(math.pi / 4))
    assert mixing_rate(ring[0]) < rho < 1
    power = np.eye(8)
    for t in range(200):
        assert np.abs(power - 1 / 8).sum(axis=1).max() <= m * rho**t + 1e-12
        power = power @ ring[0]


@pytest.mark.parametrize(
    "rows",
    [
        [[[0.0, 1.0], [1.0, 0.0]]],  # periodic
        [[[1.0, 0.0], [0.0, 1.0]]],  # two classes
        [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],  # one policy stays, another moves
    ],
)
def test_no_uniform_mixing(rows):
    m, rho = mixing(DenseKernel(rows))
    assert rho == 1
    assert perturbation(m, rho) == math.inf


def test_perturbation_by_hand():
    # m rho^n <= 1 first at n = 1: 1 + 2 * 0.3 / 0.7.
    assert perturbation(2.0, 0.3) == pytest.approx(1 + 0.6 / 0.7)
    # log_0.9(1/2) = 6.58: n = 7.
    assert perturbation(2.0, 0.9) == pytest.approx(7 + 2 * 0.9**7 / 0.1)
    assert mixing(DenseKernel([[[0.2, 0.8], [0.2, 0.8]]])) == (2.0, 1e-6)
