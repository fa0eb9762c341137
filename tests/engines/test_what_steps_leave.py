"""What is added to every direction of a round (``shift``), and what steps leave for the server (``left``)."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from fedsarsa.learning.targets import Step

K, STEPS, RUNS, AGENTS, ALPHA = 6, 30, 2, 3, 0.1

FINITE = fs.paper.fleet(agents=AGENTS, eps_p=0.5, eps_r=0.5, seed=3, states=6, actions=4, discount=0.6)
CARTS = fs.control.fleet("CartPole", AGENTS, spread=0.3, noise=0.01, time_limit=15)
TABLE = fs.TabularFeatures(np.random.default_rng(0).uniform(0, 0.5, size=(6, 4, 5)))
CASES = {
    "aggregation": (FINITE, fs.ModuloFeatures(3, 2)),
    "dense": (FINITE, TABLE),
    "tiles": (CARTS, fs.TileCoding(3, 4, memory=60)),
    "radial": (CARTS, fs.RBF(2)),
}
STEPS_WITH = [
    Step(shifted=True),
    Step(shifted=True, target="expected", redraw_actions=True),
    Step(shifted=True, trace_decay=0.7),
    Step(leaves="direction"),
    Step(leaves="direction", shifted=True, target="expected"),
    Step(leaves="log-weights"),
    Step(leaves="visits"),
    Step(leaves="visits", trace_decay=0.7),
    Step(leaves="log-weights", target="max", behaviour=(fs.FixedPolicy("uniform"),)),
]


def problem_of(case, step, policy=None, step_size=ALPHA, server=None):
    fleet, features = CASES[case]
    algo = fs.FedSARSA(features, policy or fs.Softmax(0.5), step_size, sync_every=K, server=server)
    return replace(algo.problem(fleet, STEPS, RUNS, seed=4), step=step)


def trained(problem, engine, shift, pieces):
    """A training in pieces, with the same shift all the time; the state after every piece."""
    theta0 = np.random.default_rng(1).normal(size=(AGENTS, problem.features.dim))
    state, trainer = first_state(problem, theta0), engines.build(engine, problem, 2)
    trainer.start(state)
    if problem.step.shifted:
        state.shift[:] = shift
    seen = []
    for steps in pieces:
        trainer.advance(state, steps)
        seen.append((state.theta.copy(), state.central.copy(), state.left.copy()))
    return seen


def shift_for(problem):
    return np.random.default_rng(2).normal(size=(RUNS, AGENTS, problem.features.dim))


@pytest.mark.parametrize("step", STEPS_WITH, ids=str)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("server", [None, fs.servers.Median()], ids=str)
def test_compiled_steps_are_those_of_the_reference(case, step, server):
    problem = problem_of(case, step, server=server)
    pieces = [K, 2, K - 2, 2 * K, 1]
    ours = trained(problem, "cpu", shift_for(problem), pieces)
    theirs = trained(problem, "reference", shift_for(problem), pieces)
    for one, two in zip(ours, theirs, strict=True):
        for mine, other in zip(one, two, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
    assert not ours[0][2].any()  # a round begins with nothing left
    if step.leaves:
        assert ours[1][2].any()


@pytest.mark.parametrize("policy", [fs.EpsilonGreedy(0.3), fs.FixedPolicy(), fs.Softmax(0.5)], ids=repr)
@pytest.mark.parametrize("target", ["sampled", "expected", "max"])
def test_policies_and_targets_see_the_shift(target, policy):
    problem = problem_of("aggregation", Step(shifted=True, target=target), policy)
    ours, theirs = (trained(problem, e, 20 * shift_for(problem), [2, 1, 3, K]) for e in ("cpu", "reference"))
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one[0], two[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", ["aggregation", "dense"])
@pytest.mark.parametrize("largest", [1e308, 1e305, np.inf, np.nan])
def test_a_shift_that_overflows_fails_a_run_at_the_same_step(case, largest):
    """One agent has it, for a parameter that it need not have visited."""
    problem = problem_of(case, Step(shifted=True), fs.FixedPolicy(), step_size=0.5)
    shift = shift_for(problem)
    shift[1, 2, 3] = largest
    failed = []
    for name in ("cpu", "reference"):
        state, trainer = first_state(problem, np.zeros(problem.features.dim)), engines.build(name, problem, 1)
        trainer.start(state)
        state.shift[:] = shift
        with np.errstate(all="ignore"):
            trainer.advance(state, STEPS)
        failed.append(state.failed_at.tolist())
    assert failed[0] == failed[1]
    assert failed[0][0] < 0
    assert (failed[0][1] >= 0) == (largest != 1e305)


def test_theta_tilde_counts_the_shift():
    problem = problem_of("aggregation", Step(shifted=True), step_size=fs.LinearDecay(3.0, 9.0))
    states = []
    for name in ("cpu", "reference"):
        theta0 = np.zeros(problem.features.dim)
        state, trainer = first_state(problem, theta0), engines.build(name, problem, 1)
        trainer.start(state)
        state.shift[:] = shift_for(problem)
        trainer.advance(state, 2 * K)
        states.append(state.weighted_sum)
    np.testing.assert_allclose(*states, rtol=1e-12)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_shift_moves_every_parameter_by_alpha_times_itself_at_every_step(engine):
    # Without rewards and from 0, what is learned is 0: the shift alone moves parameters.
    world = fs.FiniteMDP(np.full((2, 3, 3), 1 / 3), np.zeros(3), discount=0.5)
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy("uniform"), ALPHA, sync_every=None)
    problem = replace(algo.problem(fs.Fleet([world]), 1, 1, seed=0), step=Step(shifted=True))
    state, trainer = first_state(problem, np.zeros(6)), engines.build(engine, problem, 1)
    trainer.start(state)
    state.shift[:] = np.arange(6.0)
    trainer.advance(state, 1)
    np.testing.assert_allclose(state.theta[0, 0], ALPHA * np.arange(6.0), rtol=1e-15)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_directions_add_up_to_what_plain_steps_add_to_a_frozen_parameter(engine, case):
    # One step each: the direction left behind is what the plain step moved, divided by its size.
    kept, plain = problem_of(case, Step(leaves="direction")), problem_of(case, Step())
    start = np.random.default_rng(1).normal(size=(AGENTS, kept.features.dim))
    ((theta, _, left),) = trained(kept, engine, 0, [1])
    np.testing.assert_array_equal(theta, np.broadcast_to(start, theta.shape))
    state = first_state(plain, start)
    trainer = engines.build(engine, plain, 1)
    trainer.start(state)
    trainer.advance(state, 1)
    np.testing.assert_allclose(ALPHA * left, state.theta - start, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_log_weights_count_the_visits_of_every_pair(engine):
    # With one active feature: -log(1 - alpha) times the number of steps, over all pairs.
    problem = problem_of("aggregation", Step(leaves="log-weights"))
    ((_, _, left),) = trained(problem, engine, 0, [K - 1])
    visits = left / -np.log1p(-ALPHA)
    np.testing.assert_allclose(visits, visits.round(), atol=1e-12)
    np.testing.assert_allclose(visits.sum(axis=-1), K - 1)


def test_bad_options_are_named():
    with pytest.raises(ValueError, match="leaves must be one of"):
        Step(leaves="everything")
    with pytest.raises(TypeError, match="shifted must be True or False, got 1"):
        Step(shifted=1)
