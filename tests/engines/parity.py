"""Trainings by two engines that must be the same, and the options over which they are compared."""

import numpy as np

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state

# Of the step, in worlds with two actions and fleets of three agents.
OPTIONS = [
    {"trace_decay": 0.8},
    {"trace_decay": 0.8, "traces": "replacing"},
    {"trace_decay": 1.0, "target": "expected"},
    {"target": "expected"},
    {"target": "max"},
    {"target": "max", "behaviour": fs.FixedPolicy("uniform")},
    {"behaviour": [fs.FixedPolicy(0), fs.FixedPolicy([0.2, 0.8]), fs.FixedPolicy(1)], "trace_decay": 0.5},
    {"redraw_actions": True},
    {"step_per_feature": True},
    {"radius": 0.3},
    {"step_size": [0.1, 0.2, fs.LinearDecay(3.0, 9.0)]},
    {"step_size": fs.LinearDecay(3.0, 9.0)},
    {"step_size": fs.PiecewiseDecay([0.3, 0.1], [20])},
    {"step_size": fs.LinearDecay(3.0, 9.0), "trace_decay": 0.5},
    {"weights": [0.2, 0.5, 0.3]},
    {"sync_every": None},
    {"sync_every": 1},
]


def assert_same_training(algo, group, steps, runs=2, seed=5, threads=2, scale=0.1, engine="cpu"):
    """Train with the reference and another engine, round by round, and compare everything after every round.

    ``algo`` is FedSARSA or a method.
    ``scale`` is the size of the random parameters to begin with; from 0 all values tie. Agents that never
    meet are compared every 7 steps. Returns the reference engine's last state.
    """
    problem = algo.problem(group, steps, runs, seed)
    theta0 = np.random.default_rng(seed).normal(size=(len(group), problem.features.dim)) * scale
    one, two = first_state(problem, theta0), first_state(problem, theta0)
    reference = engines.build("reference", problem, None)
    other = engines.build(engine, problem, threads)
    reference.start(one)
    other.start(two)
    while one.t < steps:
        length = min(problem.sync_every or 7, steps - one.t)
        assert_same_state(two, one)
        seen, again = reference.advance(one, length), other.advance(two, length)
        np.testing.assert_allclose(again.central, seen.central, rtol=0, atol=1e-12)
        np.testing.assert_allclose(again.drift, seen.drift, rtol=1e-11, atol=1e-14)
        if problem.sync_every or one.t == steps:  # others add to the sum when the round is over
            np.testing.assert_allclose(two.weighted_sum, one.weighted_sum, rtol=1e-12, atol=1e-12)
    assert_same_state(two, one)
    return one


def assert_same_state(two, one):
    """Parameters to 1e-12; what agents hold, exactly."""
    np.testing.assert_allclose(two.theta, one.theta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(two.central, one.central, rtol=0, atol=1e-12)
    for name in ("states", "actions", "failed_at"):
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name), err_msg=name)
    assert (two.episodes is None) == (one.episodes is None)
    if one.episodes is None or not one.episodes.episodes.size:  # finite worlds, without episodes
        return
    for name in ("physical", "numbers", "places", "elapsed", "clipped", "episodes", "lengths"):
        np.testing.assert_array_equal(getattr(two.episodes, name), getattr(one.episodes, name), err_msg=name)
    for name in ("value", "trace", "gain", "returns"):
        theirs, ours = getattr(two.episodes, name), getattr(one.episodes, name)
        np.testing.assert_allclose(theirs, ours, rtol=1e-12, atol=1e-12, err_msg=name)


def assert_same_history(history, other):
    """Two engines recorded the same training."""
    assert set(history.data) == set(other.data)
    for one in {"central", "local", "final", "averaged"} & set(other.data):
        np.testing.assert_allclose(history.data[one], other.data[one], rtol=0, atol=1e-12)
    np.testing.assert_allclose(history.data.returns, other.data.returns, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(history.drift, other.drift, rtol=1e-10, atol=1e-14)
    for one in ("episodes", "lengths", "clipped"):
        np.testing.assert_array_equal(history.data[one], other.data[one])
