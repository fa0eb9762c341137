"""Weights that are learned: near the exact ones in time, and never at an agent's cost (``costs``)."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation.servers.mixtures import mixture_weights
from tests.federation.costs import PUBLISHED, RUNS, assert_no_cost

pytestmark = pytest.mark.slow


def errors(fleet, algo, steps, record_every):
    """Of agents' own parameters and learned mixtures (run, t, agent), and of exact ones (run, agent).

    The last weights that were learned (run, agent, agent) come with them.
    """
    points = np.array([fs.theory.fixed_point(world, algo.features, algo.policy) for world in fleet])
    alone, learned = (
        replace(algo, server=rule).train(fleet, steps, RUNS, record_every=record_every)
        for rule in (fs.servers.Personal(weights=np.eye(len(fleet))), fs.servers.Personal())
    )
    final = alone.local.values
    np.testing.assert_array_equal(learned.local, final)
    noise = final.var(axis=0, ddof=1).sum(axis=-1)
    exact = np.stack([mixture_weights(points, own, noise) for own in points]) @ final
    own, mixed = alone.personal_mse(points).values, learned.personal_mse(points).values
    return own, mixed, ((exact - points) ** 2).sum(axis=-1), learned.weights[:, -1]


def correlation_time(own, points, every):
    """Steps until noise has fallen to 1/e, from parameters (run, t, agent, d) that have settled."""
    noise = own - points
    lag = 10
    fallen = np.sum(noise[:, lag:] * noise[:, :-lag]) / np.sum(noise[:, lag:] ** 2)
    return -lag * every / np.log(fallen)


@pytest.mark.parametrize("level", [0.0, 0.1, 0.2, 0.5, 1.0, 2.0])
def test_learned_weights_are_near_the_exact_ones_after_eight_correlation_times(level):
    """Counted from the first step, at which all agents are still to find their points."""
    runs, every = 24, PUBLISHED.sync_every
    fleet = fs.paper.fleet(agents=20, eps_p=level, eps_r=level)
    points = np.array([fs.theory.fixed_point(world, PUBLISHED.features, PUBLISHED.policy) for world in fleet])
    learned, alone = (
        replace(PUBLISHED, server=rule).train(fleet, 24_000, runs)
        for rule in (fs.servers.Personal(), fs.servers.Personal(weights=np.eye(20)))
    )
    own = alone.personal.values
    settled = own[:, 100:]
    time = correlation_time(settled, points, every)
    assert 2300 < time < 2600  # steps; alpha / 25 a step, as a feature is visited every 25th
    now = round(8 * time / every)
    noise = settled.var(axis=(0, 1)).sum(axis=-1)
    exact = np.stack([mixture_weights(points, target, noise) for target in points]) @ own[:, now]
    error = ((exact - points) ** 2).sum(axis=-1).mean()
    assert learned.personal_mse(points)[:, now].mean() <= 1.3 * error


@pytest.mark.parametrize("level", [0.0, 0.2, 2.0])
def test_learned_weights_stay_near_the_exact_ones(level):
    fleet = fs.paper.fleet(agents=20, eps_p=level, eps_r=level)
    own, mixed, exact, _ = errors(fleet, PUBLISHED, 64_000, 64)
    assert mixed[:, -1].mean() <= 1.2 * exact.mean()
    assert_no_cost(own, mixed)


def outlier():
    alike, other = (
        fs.paper.fleet(agents=8, eps_p=0.1, eps_r=0.1),
        fs.paper.fleet(agents=2, eps_p=2, eps_r=2, seed=5),
    )
    return fs.Fleet([*alike, other[1]]), PUBLISHED


def of_different_noise():
    sizes = np.geomspace(0.002, 0.05, 8).tolist()
    return fs.paper.fleet(agents=8, eps_p=0.3, eps_r=0.3, seed=1), replace(PUBLISHED, step_size=sizes)


def few_rounds():
    return fs.paper.fleet(agents=8, eps_p=0.5, eps_r=0.5, seed=1), replace(PUBLISHED, sync_every=2000)


@pytest.mark.parametrize("setting", [outlier, of_different_noise, few_rounds], ids=lambda made: made.__name__)
def test_no_agent_pays(setting):
    fleet, algo = setting()
    own, mixed, _, weights = errors(fleet, algo, 40_000, 4000 // algo.sync_every)
    assert_no_cost(own, mixed)
    assert mixed[:, -1].mean() < 0.8 * own[:, -1].mean()  # and it helps
    if setting is outlier:  # the odd one out is not listened to
        assert weights[:, -1, -1].mean() > 0.9
        assert weights[:, :-1, -1].max() < 0.1
