"""To which parameter errors are measured."""

from pathlib import Path

import numpy as np

import fedsarsa as fs
from fedsarsa.experiments import config
from fedsarsa.experiments.references import reference

SMALL = {"states": 20, "actions": 10, "agents": 3, "eps_p": 1.0, "eps_r": 1.0}


def reference_of(policy, **fleet):
    settings = {"fleet": SMALL | fleet, "algorithm": {"policy": policy}}
    return reference(config.validate(settings, "here"), Path())


def test_fixed_points_of_agent_1_whatever_the_scheme_and_the_level():
    for policy, own in (
        ({"kind": "softmax", "temperature": 2.0}, fs.Softmax(2.0)),
        ({"kind": "fixed", "pi": 3}, fs.FixedPolicy(3)),
    ):
        expected = fs.theory.fixed_point(
            fs.paper.nominal(states=20, actions=10), fs.ModuloFeatures(5, 5), own
        )
        for fleet in ({}, {"scheme": "symmetric"}, {"eps_p": 0.0}):
            np.testing.assert_array_equal(reference_of(policy, **fleet), expected)


def test_ties_to_the_first_class_have_a_fixed_point_that_training_reaches():
    found = reference_of({"kind": "greedy", "ties": "first"})
    first = np.arange(10) % 5 == 0
    nominal = fs.paper.nominal(states=20, actions=10)
    td = fs.theory.fixed_point(nominal, fs.ModuloFeatures(5, 5), fs.FixedPolicy(first / first.sum()))
    np.testing.assert_allclose(found, td, rtol=0, atol=1e-12)
    algo = fs.FedSARSA(policy=fs.Greedy(ties="first"), step_size=fs.LinearDecay(0.05, 2000.0))
    averaged = algo.train(fs.Fleet([nominal]), 300_000, runs=1, seed=3, record_every=30_000).averaged[0]
    assert ((averaged - found) ** 2).sum() < 1e-3 * (found**2).sum()


def test_other_greedy_policies_are_measured_to_a_long_run():
    nominal = fs.paper.nominal(states=20, actions=10)
    for policy, own in (
        ({"kind": "greedy"}, fs.Greedy()),
        ({"kind": "epsilon-greedy", "eps": 0.1, "ties": "first"}, fs.EpsilonGreedy(0.1, "first")),
    ):
        algo = fs.FedSARSA(policy=own, step_size=fs.LinearDecay(0.05, 2000.0))
        history = algo.train(fs.Fleet([nominal]), 1_000_000, runs=1, seed=2**40, record_every=10**6)
        np.testing.assert_array_equal(reference_of(policy), history.averaged[0])
