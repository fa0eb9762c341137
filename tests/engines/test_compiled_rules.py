"""Server rules that are compiled into the round do what they say in NumPy."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.engines import compiled_server
from fedsarsa.engines.compiled import options_of, server_view, settings_of, span_of, step_sizes_of
from fedsarsa.federation.rounds import end_round
from fedsarsa.federation.servers import COMPILED, compiled_place, projection
from fedsarsa.federation.state import RUNNING, first_state
from fedsarsa.learning.targets import Step
from tests.worlds_of_tests import every_kind, fleet

AGENTS, RUNS, K = 5, 3, 4
GROUP = fleet(2, agents=AGENTS, states=4, actions=3)
GRAPH = fs.servers.Consensus("ring").matrix(AGENTS) @ fs.servers.Consensus("star").matrix(AGENTS)
RULES = every_kind(
    dict(enumerate(COMPILED)),
    fs.servers.Mean([0.3, 0.1, 0.2, 0.2, 0.2]),
    fs.servers.ServerStep(0.7),
    fs.servers.ControlVariates(),
    fs.servers.FirstDirections(),
    fs.servers.MeanDirection(),
    fs.servers.SharedDirections(),
    fs.servers.SharedDirections(own=0.6),
    fs.servers.ImportanceMean(),
    fs.servers.Consensus("ring"),
    fs.servers.Consensus("star"),
    fs.servers.Consensus("complete"),
    fs.servers.Consensus(GRAPH),
)


def after_a_round(rule):
    """A problem, and a state as steps of a round may have left it; some parameters nobody has visited."""
    sizes = [0.1, fs.LinearDecay(3.0, 9.0), 0.2, 0.3, 0.1]
    problem = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy(), sizes, K, server=rule).problem(GROUP, 100, RUNS, 0)
    problem = replace(problem, step=Step(shifted=rule.shifts, leaves=rule.leaves))
    rng = np.random.default_rng(1)
    state = first_state(problem, rng.normal(size=(AGENTS, problem.features.dim)))
    state.t = 2 * K
    state.theta[:] = rng.normal(size=state.theta.shape)
    state.shift[:] = rng.normal(size=state.shift.shape)
    state.left[:] = rng.exponential(size=state.left.shape) * rng.choice([0.0, 1.0, 800.0], state.left.shape)
    state.left[:, :, :2] = 0.0
    return problem, state


def settled(problem, state):
    """The server's part of a compiled round."""
    span = span_of(problem, state.t, K)
    central, drift = np.empty((RUNS, 1, problem.features.dim)), np.empty((RUNS, 1))
    failed_at, sums = np.full(RUNS, RUNNING, np.int64), step_sizes_of(problem, span).sums
    settings = settings_of(problem, np.arange(AGENTS))
    view = server_view(state, slice(None))
    options = options_of(problem)
    compiled_server.settle(settings, options, view, span, 0, sums, failed_at, central, drift)
    return central[:, 0]


@pytest.mark.parametrize("radius", [None, 0.5])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_compiled_rules_are_their_own_combine(rule, radius):
    problem, ours = after_a_round(replace(rule, radius=radius))
    theirs = copy.deepcopy(ours)
    central = settled(problem, ours)
    end_round(problem, theirs, theirs.t, theirs.t + K, theirs.central)
    np.testing.assert_allclose(central, theirs.central, rtol=0, atol=1e-12)
    for name in ("central", "starts", "shift", "left"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=0, atol=1e-12)
    if rule.personal:
        np.testing.assert_allclose(ours.theta, theirs.theta, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alike", [True, False])
def test_importance_after_a_single_step(alike):
    """Every agent has learned about one parameter, with one step size or its own."""
    rule = fs.servers.ImportanceMean()
    problem, ours = after_a_round(rule)
    rng = np.random.default_rng(2)
    weights = -np.log1p(-np.full(AGENTS, 0.1) if alike else -rng.uniform(0.1, 0.9, AGENTS))
    ours.left[:] = 0.0
    for run in range(RUNS):
        ours.left[run, range(AGENTS), rng.integers(4, size=AGENTS)] = weights
    before, expected = ours.central.copy(), ours.central.copy()
    for run, j in np.argwhere(ours.left.any(axis=1)):
        each = np.exp(ours.left[run, :, j])
        expected[run, j] = each @ ours.theta[run, :, j] / each.sum()
    central = settled(problem, ours)
    np.testing.assert_allclose(central, expected, rtol=0, atol=1e-14)
    assert 0 < (central == before).mean() < 1


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-140, 1.0, 1e139, 1e170, 1e300])
@pytest.mark.parametrize("dim", [1, 3, 4, 9])
def test_projections_of_any_size_are_those_in_numpy(dim, scale):
    rng = np.random.default_rng(dim)
    for sizes in (np.ones(dim), 10.0 ** rng.uniform(-8, 0, dim)):
        theta = rng.normal(size=dim) * sizes * scale
        for radius in (0.3 * scale, 10 * scale, math.inf):
            ours = theta.copy()
            compiled_server.project(ours, radius)
            theirs = projection.project(theta, None if math.isinf(radius) else radius)
            np.testing.assert_allclose(ours, theirs, rtol=1e-14)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_start_that_is_not_finite_fails_its_run_alone(rule):
    problem, ours = after_a_round(rule)
    for array in (ours.theta, ours.left):
        array[1] = np.inf if array.size else 0.0
    theirs = copy.deepcopy(ours)
    settled(problem, ours)
    end_round(problem, theirs, theirs.t, theirs.t + K, theirs.central)
    np.testing.assert_array_equal(ours.failed_at, theirs.failed_at)
    assert ours.failed_at.tolist() == [RUNNING, 3 * K - 1, RUNNING]
    np.testing.assert_allclose(ours.central, theirs.central, rtol=0, atol=1e-12)


def test_a_rule_derived_from_a_compiled_one_is_compiled_if_it_combines_alike():
    class Renamed(fs.servers.ServerStep):
        pass

    class Other(fs.servers.ServerStep):
        def combine(self, before, after, context):
            return before

    assert COMPILED[compiled_place(Renamed(0.5))] is fs.servers.ServerStep
    assert compiled_place(Other(0.5)) == -1
    assert compiled_place(fs.servers.Median()) == -1
