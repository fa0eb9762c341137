"""Personal mixtures: exact weights by hand, weights that are learned, and the same in every engine."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import fedsarsa as fs
from fedsarsa.federation.servers.mixtures import (
    completed,
    denoised,
    estimate,
    estimated_weights,
    mixture_weights,
    weights_by_visits,
)
from tests.federation.trainings import AGENTS, RUNS, STEPS, K, assert_same, carts, finite

pytestmark = pytest.mark.filterwarnings(
    "ignore:Personal. every agent listens to itself alone"
)  # short trainings


def error_of(weights, points, target, noise):
    return np.sum((weights @ points - target) ** 2) + noise @ weights**2


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_the_minimum_on_the_simplex(seed):
    rng = np.random.default_rng(seed)
    agents, dim = int(rng.integers(2, 9)), int(rng.integers(1, 6))
    points, target = rng.normal(size=(agents, dim)), rng.normal(size=dim)
    noise = rng.uniform(0.1, 2.0, agents)
    weights = mixture_weights(points, target, noise)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    # The conditions of Karush, Kuhn and Tucker: the gradient is least where weights are positive.
    gradient = 2 * (points @ (weights @ points - target) + noise * weights)
    assert gradient[weights > 0] == pytest.approx(gradient.min(), abs=1e-9)
    # And a general minimiser finds nothing lower.
    found = minimize(
        error_of,
        np.full(agents, 1 / agents),
        (points, target, noise),
        bounds=[(0, 1)] * agents,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        tol=1e-12,
    )
    assert error_of(weights, points, target, noise) <= found.fun + 1e-9


def test_weights_by_hand():
    # Alike: 1/N. One agent: 1. Noise v and 3 v: as 1/v. Two points 3 apart, noise 1: w (9 + 1) = 1 - w.
    np.testing.assert_allclose(mixture_weights(np.zeros((5, 2)), np.zeros(2), np.ones(5)), 0.2)
    np.testing.assert_allclose(mixture_weights(np.ones((1, 2)), np.zeros(2), np.ones(1)), 1)
    np.testing.assert_allclose(
        mixture_weights(np.zeros((2, 1)), np.zeros(1), np.array([1.0, 3.0])), [0.75, 0.25]
    )
    points = np.array([[0.0], [3.0]])
    np.testing.assert_allclose(mixture_weights(points, points[0], np.ones(2)), [10 / 11, 1 / 11])
    # Two clusters, far apart: uniform within, next to nothing between.
    clusters = np.repeat([[0.0, 0.0], [1e4, 0.0]], 3, axis=0)
    weights = np.stack([mixture_weights(clusters, own, np.ones(6)) for own in clusters])
    np.testing.assert_allclose(weights, np.kron(np.eye(2), np.full((3, 3), 1 / 3)), atol=1e-6)


def correlated(rng, shape, correlation):
    """Samples (n, ...) of variance 1, those k apart with the correlation ``correlation`` ** k."""
    out = rng.normal(size=shape)
    for k in range(1, len(out)):
        out[k] = correlation * out[k - 1] + (1 - correlation**2) ** 0.5 * out[k]
    return out


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_estimates_know_the_correlation(correlation):
    rng, n, agents, dim, runs = np.random.default_rng(3), 20, 4, 10, 400
    samples = np.stack([correlated(rng, (n, agents, dim), correlation) for _ in range(runs)])
    lags = np.arange(1, n)
    share = (1 + 2 * np.sum((1 - lags / n) * correlation**lags)) / n
    found = estimate(samples)
    # Means over 400 runs; 5 standard errors of each are below 3 % of it.
    assert found.noise.mean() == pytest.approx(dim, rel=0.05)
    assert found.share.mean() == pytest.approx(share, rel=0.1)
    assert np.mean(found.mean**2) == pytest.approx(share, rel=0.05)


def test_what_is_still_on_its_way_is_not_known():
    way = np.exp(-np.arange(20) / 30)[:, None, None] * np.ones((20, 3, 5))
    found = estimate(way + 1e-3 * np.random.default_rng(0).normal(size=way.shape))
    assert found.share.min() > 0.9
    np.testing.assert_array_equal(estimated_weights(found, 0.5), np.eye(3))
    np.testing.assert_array_equal(estimated_weights(estimate(np.zeros((20, 3, 5))), 0.5), np.eye(3))


def test_learned_weights_approach_the_exact_ones():
    rng = np.random.default_rng(1)
    points = np.concatenate([np.zeros((4, 6)), np.full((3, 6), 0.3), np.full((1, 6), 30.0)])
    noise = np.linspace(0.5, 2.0, 8)
    samples = points + np.sqrt(noise / 6)[:, None] * rng.normal(size=(4000, 8, 6))
    learned = estimated_weights(estimate(samples), 0.5)
    exact = np.stack([mixture_weights(points, own, noise) for own in points])
    np.testing.assert_allclose(learned, exact, atol=0.02)
    np.testing.assert_allclose(learned[7], np.eye(8)[7], atol=0.01)  # the odd one out listens to itself,
    assert learned[:7, 7].max() < 0.01  # and nobody to it


def distances(points):
    return np.linalg.norm(points[:, None] - points, axis=-1)


def test_points_that_are_known_stay_and_noise_alone_is_one_point():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(6, 9))
    np.testing.assert_allclose(
        distances(denoised(points, np.full(6, 1e-9), 9.0)), distances(points), rtol=1e-6
    )
    noise = rng.normal(size=(6, 400)) * np.linspace(0.5, 2.0, 6)[:, None]
    assert not denoised(noise, 400 * np.linspace(0.5, 2.0, 6) ** 2, 400.0).any()


def test_in_many_directions_it_is_the_estimator_of_james_and_stein():
    # Six points of mean square A = 6000 around their centre, known with an error of 4000: 0.6 of the way.
    rng, dim = np.random.default_rng(1), 20_000
    points = np.sqrt(6000 / dim) * rng.normal(size=(6, dim))
    seen = points + np.sqrt(4000 / dim) * rng.normal(size=(6, dim))
    found = denoised(seen, np.full(6, 4000.0), dim)
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(distances(found)[off] / distances(seen)[off], 0.6, rtol=0.03)


def test_few_directions_that_differ_are_found_among_many():
    rng = np.random.default_rng(2)
    points = np.zeros((12, 200))
    points[:, 0] = np.linspace(-4, 4, 12)
    seen = points + 0.3 * rng.normal(size=points.shape)  # errors have the mean square 18, points 6.3
    found = distances(denoised(seen, np.full(12, 18.0), 200.0))
    isotropic = 6.3 / (6.3 + 18) * distances(seen)  # as if points differed in all directions alike
    assert np.abs(found - distances(points)).mean() < 0.5 * np.abs(isotropic - distances(points)).mean()


@pytest.mark.parametrize("directions", [3, 40])
def test_estimates_know_over_how_many_directions_noise_is_spread(directions):
    rng = np.random.default_rng(0)
    samples = np.zeros((30, 8, 50))
    samples[..., :directions] = rng.normal(size=(30, 8, directions)) * np.linspace(1, 3, 8)[:, None]
    # Of 29 x 28 dependent products; five standard errors are below 30 %.
    assert estimate(samples).directions == pytest.approx(directions, rel=0.3)


def test_what_an_agent_has_not_learned_comes_from_those_who_have():
    theta, visits = (
        np.array([[1.0, 5.0, 7.0], [3.0, 6.0, 7.0]]),
        np.array([[99.0, 0.0, 0.0], [99.0, 99.0, 0.0]]),
    )
    np.testing.assert_allclose(completed(theta, visits), [[1, 6, 7], [3, 6, 7]])
    half = completed(theta, np.array([[np.log(2), 99, 99], [99, 99, 99]]))
    # It has learned half, and takes the rest from the mean with the weights 1/2 and 1.
    np.testing.assert_allclose(half, [[(1 + (0.5 * 1 + 3) / 1.5) / 2, 5, 7], [3, 6, 7]])
    # Where agents weigh alike, everybody has the mean by what each has learned.
    visits = np.random.default_rng(0).exponential(size=(2, 3))
    mean = np.average(theta, axis=0, weights=1 - np.exp(-visits))
    np.testing.assert_allclose(np.full(2, 0.5) @ completed(theta, visits), mean)


def test_distances_count_where_the_agent_goes():
    # Agents 0 and 1 agree where 0 goes, and differ elsewhere, which is where 1 goes.
    rng = np.random.default_rng(0)
    points = np.concatenate([np.zeros((3, 40)), [[0.0], [30.0], [30.0]] * np.ones(20)], axis=1)
    samples = points + rng.normal(size=(20, 3, 60))
    visits = np.full((3, 60), 1e-6)
    visits[0, :40] = visits[1:, 40:] = 50.0
    visits += 20.0  # all have learned everything
    own = weights_by_visits(samples, visits, 0.5)
    visits[0] = [*[500.0] * 40, *[1e-3] * 20]
    seen = weights_by_visits(samples, visits, 0.5)
    assert own[0, 0] > 0.9
    np.testing.assert_allclose(seen[0], 1 / 3, atol=0.1)


# ---- the rule ----

WEIGHTS = np.full((AGENTS, AGENTS), 0.5 / AGENTS) + 0.5 * np.eye(AGENTS)
RULES = [
    fs.servers.Personal(),
    fs.servers.Personal("mixture", WEIGHTS),
    fs.servers.Personal("mixture", radius=0.1),
    fs.servers.Personal(visits=True),
    fs.servers.Personal("mixture", WEIGHTS, visits=True),
]


@pytest.mark.parametrize("world", [finite, carts])
@pytest.mark.parametrize("rule", RULES, ids=["learned", "mixture", "projected", "visits", "both"])
def test_engines_agree(world, rule):
    fleet, algo = world()
    algo = replace(algo, server=rule, sync_every=K)
    expected, seen = (algo.train(fleet, STEPS, RUNS, engine=engine) for engine in ("reference", "cpu"))
    assert_same(seen, expected)
    for name in ("personal", "weights"):
        np.testing.assert_allclose(seen.data[name], expected.data[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("world", [finite, carts])
def test_agents_that_act_by_their_own_parameter_learn_as_alone(world):
    fleet, algo = world()
    kept = replace(algo, server=fs.servers.Personal(weights=WEIGHTS)).train(fleet, STEPS, RUNS)
    alone = replace(algo, sync_every=None).train(fleet, STEPS, RUNS)
    np.testing.assert_allclose(kept.local, alone.local, rtol=0, atol=1e-12)
    own = replace(algo, server=fs.servers.Personal("mixture", np.eye(AGENTS))).train(fleet, STEPS, RUNS)
    np.testing.assert_allclose(own.local, alone.local, rtol=0, atol=1e-12)
    mixing = replace(algo, server=fs.servers.Personal("mixture", WEIGHTS)).train(fleet, STEPS, RUNS)
    assert np.abs(mixing.local - alone.local).max() > 1e-3


def test_mixtures_are_those_of_the_weights():
    fleet, algo = finite()
    history = replace(algo, server=fs.servers.Personal(weights=WEIGHTS)).train(fleet, 4 * K, RUNS)
    np.testing.assert_allclose(history.personal[:, -1], WEIGHTS @ history.local.values, atol=1e-15)
    np.testing.assert_array_equal(history.weights[:, -1], np.broadcast_to(WEIGHTS, (RUNS, AGENTS, AGENTS)))
    points = np.random.default_rng(0).normal(size=history.local.shape[1:])
    expected = np.sum((history.personal.values - points) ** 2, axis=-1)
    np.testing.assert_allclose(history.personal_mse(points), expected)


def test_records_and_what_is_kept_do_not_depend_on_spans_or_interruptions(tmp_path, monkeypatch):
    fleet, algo = finite()
    algo = replace(algo, server=fs.servers.Personal(), sync_every=2)
    whole = algo.train(fleet, 200, RUNS, record_every=3)
    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", AGENTS * RUNS)

    def stop(t):
        if t >= 101:
            raise KeyboardInterrupt

    path = tmp_path / "checkpoint.nc"
    with monkeypatch.context() as patched:
        patched.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", -1.0)
        with pytest.raises(KeyboardInterrupt):
            algo.train(fleet, 200, RUNS, record_every=3, checkpoint=path, progress=stop)
    again = algo.train(fleet, 200, RUNS, record_every=3, checkpoint=path)
    for name in ("personal", "weights", "central", "local"):
        np.testing.assert_array_equal(again.data[name], whole.data[name], err_msg=name)


def test_agents_who_know_different_states_learn_all_of_them_by_visits():
    """No mixture of whole parameters can do that; see ``test_the_federation_can_be_ahead`` of the theory."""
    often = np.array([1.0, 0.0])
    worlds = [np.stack([[visits, visits]]) for visits in (often, often[::-1])]
    fleet = fs.Fleet([fs.FiniteMDP(chain, [1.0, 1.0], 0.5, initial=chain[0, 0]) for chain in worlds])
    for visits, expected in ((True, [[2, 2], [2, 2]]), (False, [[2, 0], [0, 2]])):
        rule = fs.servers.Personal(visits=visits)
        history = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.05, 10, server=rule).train(
            fleet, 2000, runs=1
        )
        np.testing.assert_allclose(history.personal[0, -1], expected, atol=1e-6)


def test_one_agent_is_its_own_mixture():
    fleet = fs.paper.fleet(agents=1)
    history = fs.FedSARSA(server=fs.servers.Personal(), sync_every=5).train(fleet, 200, runs=2)
    np.testing.assert_array_equal(history.personal[:, -1], history.local)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [[0.5, 0.4], [0, 1]]}, "weights must sum to one for every agent, got 0.9 for agent 0"),
        ({"weights": [0.5, 0.5]}, r"weights must have shape \(N, N\), got \(2,\)"),
        ({"visits": 1}, "visits must be True or False, got 1"),
        ({"act": "owm"}, "act must be .*'own'"),
    ],
)
def test_bad_rules_are_one_sentence(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fs.servers.Personal(**options)


def test_weights_of_another_fleet_are_one_sentence():
    algo = fs.FedSARSA(server=fs.servers.Personal(weights=np.eye(2)))
    with pytest.raises(ValueError, match=r"weights must have shape \(3, 3\), got \(2, 2\)"):
        algo.train(fs.paper.fleet(agents=3), 100)
    with pytest.raises(AttributeError, match="personal is kept by personal server rules"):
        _ = fs.FedSARSA().train(fs.paper.fleet(agents=2), 100, runs=1).personal


@pytest.mark.parametrize(
    ("steps", "why"),
    [(39, "3 rounds: weights are learned from round 4 on"), (80, "are too noisy to be")],
)
def test_too_few_rounds_are_told(steps, why):
    algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=10)
    with pytest.warns(RuntimeWarning, match=rf"Personal: every agent listens to itself alone after .*{why}"):
        history = algo.train(fs.paper.fleet(agents=2), steps, runs=1)
    np.testing.assert_array_equal(history.weights[0, -1], np.eye(2))


@pytest.mark.parametrize("rule", [fs.servers.Personal(), fs.servers.Personal(weights=np.eye(2))])
def test_nothing_is_told_of_one_agent_or_of_given_weights(rule, recwarn):
    agents = 1 if rule.weights is None else 2
    fs.FedSARSA(server=rule, sync_every=10).train(fs.paper.fleet(agents=agents), 20, runs=1)
    assert [one for one in recwarn if "Personal" in str(one.message)] == []


def test_agents_that_never_synchronise_have_only_their_own():
    algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=None)
    history = algo.train(fs.paper.fleet(agents=2), 50, runs=1)
    assert history.personal.sizes["t"] == 1
