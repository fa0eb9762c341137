import itertools

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory.common_policy import mean_return, project_rows, stationarity_gap
from tests.worlds_of_tests import fleet, world


def test_gradient_against_differences():
    group = fleet(0, agents=3, kind="shift")
    group = fs.Fleet([*group, group[0]])
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(3), size=5)
    value, slope, _ = mean_return(group, policy)
    assert value == pytest.approx(float(fs.theory.returns_of(group, policy).discounted_return.mean()))
    towards = rng.dirichlet(np.ones(3), size=5) - policy
    up, down = (mean_return(group, policy + h * towards)[0] for h in (1e-6, -1e-6))
    assert (slope * towards).sum() == pytest.approx((up - down) / 2e-6, rel=1e-7)


def test_nearest_distributions():
    rows = np.random.default_rng(1).normal(size=(50, 4))
    near = project_rows(rows)
    np.testing.assert_allclose(near.sum(axis=1), 1)
    assert near.min() == 0
    # <row - near, other - near> <= 0 for every distribution, so for every corner; no other point has that.
    away = np.einsum("ri,rci->rc", rows - near, np.eye(4)[None] - near[:, None])
    assert away.max() < 1e-12
    np.testing.assert_allclose(project_rows(near), near, atol=1e-15)


def test_one_world_has_its_own_optimum():
    mdp = world(np.random.default_rng(2), states=6, actions=4, discount=0.95)
    best = fs.theory.best_common_policy([mdp, mdp], starts=3)
    own = fs.theory.returns_of([mdp], best.policy)
    assert float(own.gap[0]) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(best.found, best.mean_return)


def test_two_worlds_against_every_policy_of_a_grid():
    """Two states and two actions: no policy on a grid of 201 x 201 is better, and the best one mixes."""
    rng = np.random.default_rng(3)
    kernels = rng.dirichlet([0.2, 0.2], size=(2, 2, 2))
    group = fs.Fleet([fs.FiniteMDP(kernel, [0, 1], 0.9, [1, 0]) for kernel in kernels])
    best = fs.theory.best_common_policy(group)
    assert best.gap < 1e-6
    levels = np.linspace(0, 1, 201)
    p, q = (axis.ravel() for axis in np.meshgrid(levels, levels))
    policies = np.stack([np.stack([p, 1 - p], -1), np.stack([q, 1 - q], -1)], axis=1)
    total = 0.0
    for kernel in kernels:  # 2 x 2 systems by Cramer's rule
        chain = np.einsum("ksa,ast->kst", policies, kernel)
        a, b, c, d = (np.eye(2) - 0.9 * chain).reshape(-1, 4).T
        total += -b / (a * d - b * c) / 2
    assert best.mean_return >= total.max() - 1e-9
    assert best.mean_return == pytest.approx(total.max(), rel=1e-3)


def test_worlds_that_differ_want_mixed_policies():
    """No deterministic policy is as good, of all 2^4; agents' own optima are worse on average too."""
    rng = np.random.default_rng(5)
    group = fs.Fleet(
        [fs.FiniteMDP(rng.dirichlet([0.1] * 4, size=(2, 4)), [0, 0, 0, 1], 0.9) for _ in range(4)]
    )
    best = fs.theory.best_common_policy(group)
    choices = [np.eye(2)[list(choice)] for choice in itertools.product(range(2), repeat=4)]
    pure = max(mean_return(group, choice)[0] for choice in choices)
    assert best.mean_return > pure + 1e-3
    assert best.gap == pytest.approx(stationarity_gap(group, best.policy))
    assert 0 <= best.gap < 1e-6
    assert stationarity_gap(group, choices[0]) > 0.1


def test_arguments():
    with pytest.raises(ValueError, match="starts must be an integer of at least 1, got 0"):
        fs.theory.best_common_policy(fleet(0), starts=0)
