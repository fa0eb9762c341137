"""Coalitions: the best of all splits, near it where there are too many, and groups known by hand."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import coalitions, grouping, personal_weights
from tests.theory.against_training import small_fleet

ALGO = fs.FedSARSA(fs.ModuloFeatures(4, 3), step_size=0.05)


def splits(agents):
    """Every way to split agents 0 .. N - 1 into groups, as labels (N,)."""
    if agents == 0:
        yield ()
        return
    for label in splits(agents - 1):
        yield from ((*label, group) for group in range(max(label, default=-1) + 2))


def total(label, means, points, variances):
    """Sum of errors, from the definition: every agent's distance from its group's mean, and its variance."""
    cost, label = 0.0, np.asarray(label)
    for group in np.unique(label):
        mine = label == group
        mean = means[mine].mean(axis=0)
        cost += sum(
            ((mean - point) ** 2).sum() + variances[mine].sum() / mine.sum() ** 2 for point in points[mine]
        )
    return cost


def random_agents(rng, agents, dim=3):
    points = rng.normal(size=(agents, dim)) * rng.choice([0.3, 1.0, 3.0])
    return points + 0.1 * rng.normal(size=points.shape), points, rng.uniform(0.2, 2.0, size=agents)


@pytest.mark.parametrize("seed", range(6))
def test_the_best_split_of_all(seed):
    agents = random_agents(np.random.default_rng(seed), 6)
    label = grouping._best_split(grouping._statistics(*agents))
    assert total(label, *agents) == pytest.approx(min(total(one, *agents) for one in splits(6)), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_splits_of_many_are_near_the_best(seed):
    """Promised is that no single move or merge helps; these are also at most 2% above the best."""
    agents = random_agents(np.random.default_rng([1, seed]), 9)
    statistics = grouping._statistics(*agents)
    label = grouping._improved(statistics, grouping._cut(statistics, agents[1]))
    cost = total(label, *agents)
    least = total(grouping._best_split(statistics), *agents)
    assert least * (1 - 1e-9) <= cost <= 1.02 * least
    assert cost <= total(np.arange(9), *agents) * (1 + 1e-9)
    assert cost <= total(np.zeros(9), *agents) * (1 + 1e-9)
    for agent in range(9):
        for group in range(10):
            moved = label.copy()
            moved[agent] = group
            assert total(moved, *agents) >= cost * (1 - 1e-9)
    for one, other in np.ndindex(9, 9):
        assert total(np.where(label == one, other, label), *agents) >= cost * (1 - 1e-9)


def test_equal_noise_costs_scatter_and_one_noise_per_group():
    rng = np.random.default_rng(0)
    points, v, label = rng.normal(size=(8, 3)), 0.7, np.array([0, 0, 0, 1, 1, 2, 2, 2])
    scatter = sum(((points[label == g] - points[label == g].mean(axis=0)) ** 2).sum() for g in range(3))
    assert total(label, points, points, np.full(8, v)) == pytest.approx(scatter + 3 * v)


def test_groups_of_a_fleet():
    fleet = small_fleet(5, level=0.5)
    found, best = coalitions(fleet, ALGO, 3_000), personal_weights(fleet, ALGO, 3_000)
    assert found.best
    np.testing.assert_allclose(found.errors, best.error(found.weights), rtol=1e-9)
    np.testing.assert_allclose(found.alone, best.alone, rtol=1e-12)
    variances = np.trace(best.covariances, axis1=1, axis2=2)
    least = min(total(one, best.means, best.points, variances) for one in splits(5))
    assert found.errors.sum() == pytest.approx(least, rel=1e-9)
    assert (best.personal <= found.errors * (1 + 1e-12)).all()
    assert repr(found).startswith("Coalitions([0")


@pytest.mark.parametrize("agents", [6, 14])
def test_two_clusters(agents):
    """Two kinds of worlds in turn, few enough for all splits and too many."""
    one, other = small_fleet(2, level=2.0)
    found = coalitions([one, other] * (agents // 2), ALGO, 5_000)
    assert found.groups == (tuple(range(0, agents, 2)), tuple(range(1, agents, 2)))
    assert found.best == (agents == 6)


def test_a_fleet_of_one_and_one_of_equals():
    assert coalitions(small_fleet(1), ALGO, 500).groups == ((0,),)
    found = coalitions(small_fleet(13, level=0.0), ALGO, 500)
    assert found.groups == (tuple(range(13)),)


def test_bad_input():
    with pytest.raises(ValueError, match="policy must change smoothly"):
        coalitions(small_fleet(2), fs.FedSARSA(policy=fs.Greedy()), 100)
