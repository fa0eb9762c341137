import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import particles, predict
from fedsarsa.theory.federation_model import federation_model
from fedsarsa.theory.gaussian_averages import Points
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.prediction_warnings import BENT
from fedsarsa.theory.trajectory import follow, split_rounds
from fedsarsa_benchmarks.random_fleets import random_case
from tests.theory.against_training import excess, small_fleet, small_world, trained


@pytest.mark.parametrize("reward", ["state", "pair", "next"])
def test_noise_has_its_long_run_covariance(reward):
    """Twenty thousand draws: an entry is off by 5% of the largest with a probability below 1e-6."""
    one, kinds = small_world(fs.Softmax(2.0), reward)
    theta, count = np.arange(6.0), 20_000
    draws = particles.noise(Points(one, kinds, np.tile(theta, (count, 1))), np.random.default_rng(0))
    expected = linearise(one, kinds.at(theta)).noise
    assert (np.abs(draws.mean(axis=0)) < 5 * np.sqrt(np.diag(expected) / count)).all()
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.05 * expected.max())


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 13])
def test_mean_power_is_the_mean_of_all_powers(count):
    J = np.random.default_rng(0).normal(size=(3, 3))
    powers = [np.linalg.matrix_power(np.eye(3) + 0.1 * J, k) for k in range(count)]
    np.testing.assert_allclose(particles.mean_power(J, 0.1, count), np.mean(powers, axis=0))


def followed(fleet, algo, steps):
    """The arguments of the particles' functions, for a training from 0 and errors from agent 0's root."""
    problem = algo.problem(fleet, steps, runs=1, seed=0)
    model = federation_model(problem)
    strides = split_rounds(problem.schedules, model.groups, steps // model.period, model.period)
    start = np.zeros(model.classes.phi.shape[2])
    target = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    return model, start, strides, follow(model, start, strides, target), target


@pytest.mark.parametrize("step_size", [0.05, fs.PiecewiseDecay([0.1, 0.02], [300])], ids=["constant", "jump"])
@pytest.mark.parametrize("sync_every", [1, 60])
def test_a_fixed_policy_leaves_particles_a_gaussian(sync_every, step_size):
    """Mean and variance are those of the prediction: each is 5 standard errors off with less than 1e-4."""
    fleet = small_fleet(3, states=6, actions=4)
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.FixedPolicy("uniform"), step_size, sync_every)
    arguments = followed(fleet, algo, 600)
    model, start, strides, trajectory, target = arguments
    assert particles.particles_confirm(*arguments)
    moves = list(particles.split_moves(model, strides, trajectory))
    for done, central in particles.follow_particles(model, start, strides, moves):
        place = np.flatnonzero(trajectory.round == done)
        if len(place):
            errors = ((central - target) ** 2).sum(axis=1)
            margin = 5 * errors.std(ddof=1) / len(errors) ** 0.5
            predicted = trajectory.errors(target)[place[0]]
            assert abs(errors.mean() - predicted) <= margin + 0.03 * predicted


def test_particles_do_not_confirm_what_training_contradicts():
    """See `test_policies_that_vary_too_much_are_off_and_say_so`."""
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.Softmax(1.2), 0.1)
    assert not particles.particles_confirm(*followed(small_fleet(1, 0.0, seed=1), algo, 4_000))


@pytest.mark.slow
def test_curves_that_particles_confirm_need_no_warning():
    case, runs = random_case(70022, 400), 100
    prediction = predict(case.fleet, case.algo, case.steps)  # a warning would be an error
    assert prediction.bend > BENT
    errors = trained(prediction, case.fleet, case.algo, runs)
    assert excess(prediction.mse, errors) <= 0.1


def test_too_few_particles_confirm_nothing(monkeypatch):
    algo = fs.FedSARSA(fs.ModuloFeatures(4, 3), fs.FixedPolicy("uniform"), 0.05, 10)
    monkeypatch.setattr(particles, "PARTICLES", 4)
    assert not particles.particles_confirm(*followed(small_fleet(3, 0.0), algo, 4_000))
