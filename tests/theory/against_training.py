"""Predictions against trainings.

A prediction passes where it is within a tolerance of the simulated mean, beyond three standard errors of that
mean. Seeds are fixed, so a test that passes always passes; three standard errors are what a fair test with
other seeds needs: by chance one point in 400 lies further off, and the tolerance comes on top of it.
"""

import numpy as np

import fedsarsa as fs
from fedsarsa.theory.federation_model import federation_model


def trained(prediction, fleet, algo, runs, seed=0):
    """Squared errors of a training for the steps of a prediction, (run, t)."""
    steps = int(prediction.mse.t[-1])
    record_every = max(1, steps // (algo.sync_every or steps) // 400)
    history = algo.train(
        fleet, steps=steps, runs=runs, seed=seed, engine="cpu", threads=1, record_every=record_every
    )
    return history.mse(prediction.reference)


def excess(predicted, errors):
    """Largest relative distance of a prediction (t,) from the mean of ``errors`` (run, t), less 3 errors."""
    mean = errors.mean("run")
    deviation = errors.std("run", ddof=1) / np.sqrt(errors.sizes["run"])
    distance = abs(predicted.sel(t=errors.t) - mean) - 3 * deviation
    return float((distance / mean).max())


def floor_excess(floor, errors):
    """The same for the floor and the mean over the last quarter of the training."""
    last = errors.isel(t=slice(errors.sizes["t"] * 3 // 4, None)).mean("t")
    deviation = float(last.std("run", ddof=1)) / np.sqrt(errors.sizes["run"])
    return (abs(floor - float(last.mean())) - 3 * deviation) / float(last.mean())


def small_fleet(agents=5, level=1.0, states=20, actions=10, seed=0):
    """The published fleet, with fewer states and actions."""
    return fs.paper.fleet(agents, level, level, seed=seed, states=states, actions=actions)


def ring(states, bias=0.0, seed=0, initial=None):
    """A lazy random walk on a ring; with ``bias`` its two actions lean to either side."""
    rng = np.random.default_rng(seed)
    here, right = np.eye(states), np.roll(np.eye(states), 1, axis=1)
    moves = [0.5 * here + 0.25 * (1 + lean) * right + 0.25 * (1 - lean) * right.T for lean in (-bias, bias)]
    reward = 5 + 5 * np.sin(2 * np.pi * np.arange(states) / states) + rng.normal(size=states)
    return fs.FiniteMDP(np.stack(moves), reward, 0.5, initial)


def relaxation(states):
    """Relaxation time of the walk on a ring."""
    return 2 / (1 - np.cos(2 * np.pi / states))


def three_roots():
    """A world, features and a policy with two roots that attract and one between them that repels."""
    kernel = [[[0.2, 0.8], [0.3, 0.7]], [[0.3, 0.7], [0.6, 0.4]]]
    table = [[[1.6, 0.0], [-2.6, -0.2]], [[-0.7, -0.4], [-0.3, 1.9]]]
    mdp = fs.FiniteMDP(kernel, [[0.75, 2.25], [-0.75, 1.25]], 0.5)
    return mdp, fs.TabularFeatures(np.array(table), normalise=True), fs.Softmax(1.0)


def small_world(policy, reward="state", seed=0):
    """A random world as theory sees it, and its classes of actions."""
    rng = np.random.default_rng(seed)
    shape = {"state": 8, "pair": (8, 4), "next": (8, 4, 8)}[reward]
    mdp = fs.FiniteMDP(rng.dirichlet(np.ones(8), size=(4, 8)), rng.normal(size=shape), 0.7)
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), policy)
    model = federation_model(algo.problem(fs.Fleet([mdp]), 1, runs=1, seed=0))
    return model.worlds[0], model.classes
