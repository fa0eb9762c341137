"""Trains with what the guides in docs/extending.md add to the package, of which PYTHONPATH has a copy."""

import gc

import numpy as np
from typer.testing import CliRunner

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.cli import app
from fedsarsa.deploy.federation_config import SERVERS
from fedsarsa.experiments import config
from fedsarsa.federation.servers import RULES, compiled_place
from fedsarsa.learning.bases import Polynomial
from fedsarsa.learning.policies import POLICIES

FINITE = fs.paper.fleet(agents=3, eps_p=0.5, eps_r=0.5, states=7, actions=6)
TABLE = fs.TabularFeatures(np.random.default_rng(0).normal(size=(7, 6, 4)), normalise=True)
CARTS = fs.control.fleet("CartPole", 3, spread=0.3, time_limit=15)
MASSES = fs.control.fleet("PointMass", agents=3, spread=0.3, noise=0.1, time_limit=20)
# Environments draw first states with generators of their own: here there is nothing to draw.
STILL = fs.control.fleet("PointMass", agents=3, spread=0.3, start=0.0, time_limit=20)
GYMS = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in STILL], processes=0)
POLICY, RULE = POLICIES["proportional"](0.5), RULES["midrange"]()


def trained_alike(algo, fleet, steps, *others, names=("central",), like=None):
    """Train in the reference engine and in others, on ``fleet``; the histories, which are the same."""
    slow = algo.train(like or fleet, steps, runs=2, engine="reference")
    for engine in others:
        fast = algo.train(fleet, steps, runs=2, engine=engine)
        assert (slow.data.attrs["engine"], fast.data.attrs["engine"]) == ("reference", engine)
        for name in names:
            np.testing.assert_allclose(fast.data[name], slow.data[name], rtol=0, atol=1e-12)
        if "lengths" in slow.data:
            np.testing.assert_array_equal(fast.data.lengths, slow.data.lengths)
    assert np.abs(slow.final).max() > 1e-3
    return slow


def train_in_the_world_with_the_features():
    algo = fs.FedSARSA(Polynomial(2), fs.Softmax(0.5), 0.2, sync_every=7, trace_decay=0.5)
    trained_alike(algo, MASSES, 60, "cpu", "timed", names=("central", "local", "returns"))


def train_with_the_policy():
    for fleet, features in (
        (FINITE, fs.ModuloFeatures(3, 2)),
        (FINITE, TABLE),
        (CARTS, fs.TileCoding(3, 4, memory=60)),
    ):
        for target in ("sampled", "expected"):
            algo = fs.FedSARSA(features, POLICY, 0.05, sync_every=7, target=target)
            trained_alike(algo, fleet, 50, "cpu")
    algo = fs.FedSARSA(Polynomial(2), POLICY, 0.2, sync_every=7)
    trained_alike(algo, GYMS, 50, "gym", names=("central", "local", "returns"), like=STILL)


def train_with_the_rule():
    assert compiled_place(RULE) >= 0
    for fleet, features in ((FINITE, fs.ModuloFeatures(3, 2)), (MASSES, Polynomial(2))):
        algo = fs.FedSARSA(features, fs.Softmax(0.5), 0.1, sync_every=7, server=RULE)
        slow = trained_alike(algo, fleet, 50, "cpu", names=("central", "local"))
        mean = fs.FedSARSA(features, fs.Softmax(0.5), 0.1, sync_every=7).train(fleet, 50, runs=2)
        assert np.abs(slow.final - mean.final).max() > 1e-6  # it is another rule
    trained_alike(algo, GYMS, 50, "gym", names=("central", "local", "returns"), like=STILL)


def train_in_the_engine():
    algo = fs.FedSARSA(fs.ModuloFeatures(3, 2), fs.Softmax(0.5), 0.1, sync_every=7)
    trained_alike(algo, FINITE, 50, "timed")
    listed = CliRunner().invoke(app, ["engines"])
    assert "timed" in listed.stdout
    assert engines.ENGINES["timed"].about in listed.stdout


def find_them_by_name():
    """Configurations know them, and so do deployments' servers."""
    settings = {
        "features": {"kind": "polynomial", "degree": 2},
        "policy": {"kind": "proportional", "width": 0.5},
        "server": {"kind": "midrange", "radius": 3.0},
    }
    made = config.validate(
        {"algorithm": settings, "training": {"engine": "timed"}}, "guides"
    ).algorithm.build()
    assert (made.features, made.policy, made.server) == (Polynomial(2), POLICY, type(RULE)(3.0))
    assert SERVERS["midrange"](rule="midrange").build() == RULE


if __name__ == "__main__":
    gc.disable()  # it looks again and again at what Numba makes, which is all in use
    train_in_the_world_with_the_features()
    train_with_the_policy()
    train_with_the_rule()
    train_in_the_engine()
    find_them_by_name()
