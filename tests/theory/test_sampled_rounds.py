"""Predictions of rounds that ask some of the agents, or add noise, against training."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs

FLEET = fs.paper.fleet(8, eps_p=1.0, eps_r=1.0, states=10, actions=5, seed=3)
ALGO = fs.FedSARSA(fs.ModuloFeatures(3, 3), fs.Softmax(100.0), 0.05, sync_every=20)
PRIVATE = fs.servers.PrivateMean(clip=20.0, noise=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"participation": 0.25}, {"server": PRIVATE}, {"participation": 0.5, "server": PRIVATE}],
    ids=str,
)
def test_the_variance_of_trainings_is_the_predicted_one(options):
    """Variances over 60 runs, nine parameters and 30 records err by about 5%; 20% is allowed.

    Without the sampled agents' part, the prediction of the first would be 0.75 of what it is.
    """
    algo = replace(ALGO, **options)
    prediction = fs.theory.predict(FLEET, algo, 6000)
    history = algo.train(FLEET, 6000, runs=60, record_every=5)
    late = history.central.sel(t=slice(3000, None))
    assert float(late.var("run").sum("d").mean()) == pytest.approx(float(prediction.variance[-1]), rel=0.2)
    errors = history.mse(prediction.reference)
    for t in (100, 500, 2000):
        assert float(errors.sel(t=t).mean()) == pytest.approx(float(prediction.mse.sel(t=t)), rel=0.1)


def test_alike_agents_are_worth_their_number():
    """Worlds that are all the same differ by chance alone: n of N agents are n agents."""
    same = fs.Fleet([FLEET[0]] * 8)
    four = fs.theory.predict(same, replace(ALGO, participation=0.5), 2000)
    fewer = fs.theory.predict(fs.Fleet([FLEET[0]] * 4), ALGO, 2000)
    np.testing.assert_allclose(four.mse, fewer.mse, rtol=1e-6)


def test_noise_of_the_server_alone():
    """A fixed policy in one state: an autoregression of first order, whose variance is known."""
    world = fs.FiniteMDP(np.ones((1, 1, 1)), np.ones(1), discount=0.5)
    rule = fs.servers.PrivateMean(clip=10.0, noise=0.1)
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(0), 0.1, sync_every=3, server=rule)
    kept = (1 - 0.1 * 0.5) ** 3
    expected = rule.deviation(2) ** 2 / (1 - kept**2)
    prediction = fs.theory.predict(fs.Fleet([world] * 2), algo, 3000)
    assert float(prediction.variance[-1]) == pytest.approx(expected, rel=1e-6)


def test_clips_that_agents_reach_are_warned_of():
    with pytest.warns(UserWarning, match="clips in a round"):
        fs.theory.predict(FLEET, replace(ALGO, server=fs.servers.PrivateMean(clip=0.1, noise=0.1)), 200)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"participation": 0.5, "weights": [0.3, *[0.1] * 7]}, "weights must be None with participation"),
        ({"faults": fs.Faults(absent=0.1)}, "faults must be None here"),
    ],
)
def test_what_no_theory_follows(options, words):
    with pytest.raises(ValueError, match=words):
        fs.theory.predict(FLEET, replace(ALGO, **options), 100)


def test_other_theory_speaks_of_all_agents():
    algo = replace(ALGO, participation=0.5)
    for ask in (fs.theory.round_limit, lambda *both: fs.theory.plan(*both, 1.0)):
        with pytest.raises(ValueError, match="participation must be 1 here"):
            ask(FLEET, algo)
