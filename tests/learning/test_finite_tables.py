"""Tables that compiled steps read: the guide to a fixed policy's actions."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.learning import finite_step
from fedsarsa.learning.finite_tables import tabulate

STATES = 3


@pytest.mark.parametrize("actions", [1, 2, 3, 7, 100])
def test_guided_searches_find_what_searches_from_the_beginning_find(actions):
    """Also at the edges of the guide's intervals, where u A may be rounded up, and with chances of 0."""
    rng = np.random.default_rng(actions)
    tables = [rng.dirichlet(np.full(actions, 0.2), STATES), np.full((STATES, actions), 1 / actions)]
    tables.append(np.eye(actions)[rng.integers(actions, size=STATES)])
    world = fs.FiniteMDP(np.full((actions, STATES, STATES), 1 / STATES), np.zeros(STATES), 0.5)
    policies = [fs.FixedPolicy(pi) for pi in tables]
    features = fs.OneHot().on(STATES, actions)
    flat = tabulate(fs.Fleet([world] * len(policies)), features, fs.Softmax(1.0), policies)
    edges = np.arange(actions + 1) / actions
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1), rng.random(50)])
    near = near[(near >= 0) & (near < 1)]
    cumulative = flat.cumulative.reshape(len(policies), STATES, actions)
    for agent in range(len(policies)):
        acting = finite_step.acting(flat, np.uint64(agent))
        for s in range(STATES):
            found = [finite_step.fixed(flat, acting, np.uint64(s), uniform) for uniform in near.tolist()]
            places = np.searchsorted(cumulative[agent, s], near, side="right")
            np.testing.assert_array_equal(found, features.order[np.minimum(places, actions - 1)])
            assert (tables[agent][s, found] > 0).all()
            # In float32 a number may be rounded up to 1.
            assert finite_step.fixed(flat, acting, np.uint64(s), 1.0) == features.order[-1]


def test_policies_that_are_the_same_in_every_state_have_one_row():
    rng = np.random.default_rng(3)
    rows, actions = rng.dirichlet(np.ones(4), 2), 4
    fleet = fs.Fleet(
        [fs.FiniteMDP(np.full((actions, STATES, STATES), 1 / STATES), np.zeros(STATES), 0.5)] * 2
    )
    features = fs.ModuloFeatures(STATES, 2).on(STATES, actions)
    short, long = (
        tabulate(fleet, features, fs.Softmax(1.0), [fs.FixedPolicy(pi) for pi in each])
        for each in (rows, np.repeat(rows[:, None], STATES, axis=1))
    )
    assert short.cumulative.size * STATES == long.cumulative.size
    for agent in range(2):
        places = [finite_step.acting(one, np.uint64(agent)) for one in (short, long)]
        for s in range(STATES):
            for uniform in rng.random(30).tolist():
                found = [
                    finite_step.fixed(one, place, np.uint64(s), uniform)
                    for one, place in zip((short, long), places, strict=True)
                ]
                assert found[0] == found[1]
