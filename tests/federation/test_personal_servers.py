"""Server rules with a start per agent, a memory, a shift, and what steps leave: the same in every engine."""

from dataclasses import dataclass, replace

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa._interrupts import Interrupted
from fedsarsa.federation.state import first_state
from tests.federation.trainings import (
    AGENTS,
    RUNS,
    STEPS,
    Between,
    Corrected,
    K,
    assert_same,
    carts,
    finite,
)

VARIANTS = [
    pytest.param(world, rule, id=f"{world.__name__}-{type(rule).__name__}")
    for world in (finite, carts)
    for rule in (Between(), Corrected())
]


@pytest.mark.parametrize(("world", "rule"), VARIANTS)
def test_engines_agree(world, rule):
    fleet, algo = world()
    sizes = np.linspace(0.05, 0.1, AGENTS).tolist()
    algo = replace(algo, server=rule, step_size=sizes, sync_every=K)
    expected = algo.train(fleet, STEPS, RUNS, engine="reference")
    for threads in (1, 2):
        seen = algo.train(fleet, STEPS, RUNS, threads=threads)
        assert_same(seen, expected)
    assert np.ptp(seen.local.values, axis=1).max() > 1e-3  # agents differ


def test_theta_tilde_is_that_of_the_mean_of_the_agents():
    fleet, algo = finite()
    algo = replace(algo, server=Between(), step_size=fs.LinearDecay(2.0, 100.0))
    expected = algo.train(fleet, STEPS, RUNS, engine="reference")
    np.testing.assert_allclose(algo.train(fleet, STEPS, RUNS).averaged, expected.averaged, atol=1e-12)


@pytest.mark.parametrize("world", [finite, carts])
@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_agents_that_keep_all_of_their_own_are_independent(world, engine):
    fleet, algo = world()
    kept = replace(algo, server=Between(own=1.0)).train(fleet, STEPS, RUNS, engine=engine)
    alone = replace(algo, sync_every=None).train(fleet, STEPS, RUNS, engine=engine)
    np.testing.assert_allclose(kept.local, alone.local, rtol=0, atol=1e-12)


def test_environments_too():
    class Walk(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.place = 0
            return 0, {}

        def step(self, action):
            self.place = (self.place + 1 + int(action)) % 4
            return self.place, self.place / 3, False, False, {}

    fleet = fs.GymFleet([fs.GymWorld(Walk)] * 3, 0.8, processes=0)
    algo = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.25), 0.1, K, server=Between(own=1.0))
    kept = algo.train(fleet, STEPS, RUNS)
    alone = replace(algo, server=None, sync_every=None).train(fleet, STEPS, RUNS)
    np.testing.assert_allclose(kept.local, alone.local, rtol=0, atol=1e-12)
    corrected = replace(algo, server=Corrected()).train(fleet, STEPS, RUNS)
    assert (
        np.abs(corrected.local - replace(algo, server=Between()).train(fleet, STEPS, RUNS).local).max() > 1e-3
    )


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_what_a_rule_keeps_is_in_the_state(engine):
    fleet, algo = finite()
    problem = replace(algo, server=Between()).problem(fleet, STEPS, RUNS, seed=0)
    state = first_state(problem, np.zeros(problem.features.dim))
    made = engines.build(engine, problem, 1)
    made.start(state)
    for steps in (2 * K, 3, K - 3, 2 * K):  # whole rounds, a part of one, the rest of it
        made.advance(state, steps)
    assert state.memory["rounds"].tolist() == [5, 5]
    np.testing.assert_array_equal(state.theta, state.starts)
    np.testing.assert_allclose(state.central, state.starts.mean(axis=1), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("world", "rule"), VARIANTS)
@pytest.mark.parametrize("engines_used", [("cpu", "cpu"), ("reference", "cpu"), ("cpu", "reference")])
def test_a_checkpoint_holds_what_a_rule_keeps(world, rule, engines_used, tmp_path, monkeypatch):
    fleet, algo = world()
    algo = replace(algo, server=rule)
    whole = algo.train(fleet, STEPS, RUNS)
    path = tmp_path / "checkpoint.nc"
    monkeypatch.setattr("fedsarsa.federation.engine.FIRST_SPAN", 12 * AGENTS * RUNS)  # a round and a part
    monkeypatch.setattr("fedsarsa.federation.training.SPAN_SECONDS", 1e-9)

    def stop(t):
        if t >= 2 * K + 3:
            raise Interrupted("enough")

    first, second = engines_used
    with monkeypatch.context() as patched:
        patched.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", -1.0)
        with pytest.raises(Interrupted):
            algo.train(fleet, STEPS, RUNS, engine=first, checkpoint=path, progress=stop)
    assert path.exists()
    assert_same(algo.train(fleet, STEPS, RUNS, engine=second, checkpoint=path), whole)


def test_a_run_whose_starts_are_not_finite_fails_alone():
    @dataclass(frozen=True)
    class Breaking(Between):
        def combine(self, before, after, context):
            start = super().combine(before, after, context)
            first = context.memory["travelled"][:, 0].sum(axis=1)
            start[(context.t >= 2 * K) & (first == first.max()), 1] = np.inf
            return start

    fleet, algo = finite()
    algo = replace(algo, server=Breaking())
    one, two = (algo.train(fleet, STEPS - STEPS % K, RUNS, engine=engine) for engine in ("reference", "cpu"))
    np.testing.assert_array_equal(one.failed_at, two.failed_at)
    assert sorted(one.failed_at.values.tolist()) == [3 * K - 1, 4 * K - 1]  # the last one left is the largest
    np.testing.assert_allclose(one.central, two.central, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(one.drift), np.isnan(two.drift))


def test_a_start_of_the_wrong_shape_is_one_sentence():
    @dataclass(frozen=True)
    class Flat(Between):
        def combine(self, before, after, context):
            return after.mean(axis=1)

    fleet, algo = finite()
    with pytest.raises(
        ValueError, match=r"Flat\(own=0.5\) must combine to the shape \(2, 7, 6\), got \(2, 6\)"
    ):
        replace(algo, server=Flat()).train(fleet, STEPS, RUNS)
