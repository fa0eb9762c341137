"""Methods are trained alike by the reference and by the compiled engine, and resume from checkpoints."""

import signal

import numpy as np
import pytest

from fedsarsa import engines
from fedsarsa._interrupts import Interrupted
from fedsarsa.federation import training
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.state import first_state
from tests.engines.parity import assert_same_state
from tests.methods.cases import AGENTS, CASES, FLEET, GROUPS, PI, REWARDS, STATES, m


def trained(method, engine, pieces, fleet=FLEET):
    """A training in pieces; copies of the state after every piece, and the records."""
    problem = method.problem(fleet, sum(pieces), runs=2, seed=5)
    start = np.random.default_rng(1).normal(size=(AGENTS, problem.features.dim)) * 0.1
    state, trainer = first_state(problem, start), engines.build(engine, problem, 2)
    trainer.start(state)
    seen = [trainer.advance(state, steps) for steps in pieces]
    return state, np.concatenate([one.central for one in seen], axis=1)


def assert_same(method, fleet=FLEET):
    every = method.algorithm().sync_every or 7
    pieces = [2 * every, 1, every - 1, every, 3] if every > 1 else [3, 1, 5]
    (one, central), (two, again) = (trained(method, e, pieces, fleet) for e in ("reference", "cpu"))
    assert_same_state(two, one)
    np.testing.assert_allclose(again, central, rtol=0, atol=1e-12)
    np.testing.assert_allclose(two.weighted_sum, one.weighted_sum, rtol=1e-12, atol=1e-12)
    assert np.isfinite(one.theta).all()
    assert one.theta.std() > 1e-3


@pytest.mark.parametrize("method", CASES.values(), ids=CASES)
def test_engines_agree(method):
    if "slowing" in next(name for name, one in CASES.items() if one is method):
        every = method.sync_every  # the cpu engine adds to theta-tilde's sum when a round is over
        (one, _), (two, _) = (trained(method, e, [every, 2 * every]) for e in ("reference", "cpu"))
        assert_same_state(two, one)
        np.testing.assert_allclose(two.weighted_sum, one.weighted_sum, rtol=1e-12, atol=1e-12)
    else:
        assert_same(method)


def test_engines_agree_where_agents_watch_one_chain():
    assert_same(m.ConsensusTD(STATES, PI, 0.2, graph="star", shared=True), REWARDS)
    assert_same(m.ConsensusTD(STATES, PI, 0.2, graph="star", shared=True, independent=True), REWARDS)


@pytest.fixture
def stopped(monkeypatch):
    """Training that Ctrl-C stops after 9 steps, within a round where rounds are longer than 3."""

    def press(t):
        if t >= 9:
            signal.raise_signal(signal.SIGINT)

    def stop(method, path, **more):
        with monkeypatch.context() as patched:
            patched.setattr(training, "adapted", lambda span, seconds: 3)
            patched.setattr(Engine, "first_steps", 3)
            with pytest.raises(Interrupted, match=r"interrupted after (9|1.) of 22 steps"):
                method.train(FLEET, steps=22, runs=2, seed=5, checkpoint=path, progress=press, **more)

    return stop


@pytest.mark.parametrize("method", CASES.values(), ids=CASES)
def test_checkpoints_are_gone_on_from(method, stopped, tmp_path):
    whole = method.train(FLEET, steps=22, runs=2, seed=5)
    path = tmp_path / "checkpoint.nc"
    stopped(method, path)
    again = method.train(FLEET, steps=22, runs=2, seed=5, checkpoint=path)
    assert set(again.data) == set(whole.data)
    for name in set(whole.data) - {"settings"}:
        np.testing.assert_allclose(again.data[name], whole.data[name], rtol=1e-13, atol=1e-14, err_msg=name)


def test_a_checkpoint_of_another_method_is_refused(stopped, tmp_path):
    path = tmp_path / "checkpoint.nc"
    stopped(m.NStepTD(GROUPS, PI, 0.1, sync_every=4, n=2), path)
    for other in (m.NStepTD(GROUPS, PI, 0.1, sync_every=4, n=3), m.FedTD(GROUPS, PI, 0.1, sync_every=4)):
        with pytest.raises(ValueError, match="got one of another"):
            other.train(FLEET, steps=22, runs=2, seed=5, checkpoint=path)


@pytest.mark.parametrize("method", [CASES["FedHSA"], CASES["n-step"], CASES["all pairs"]], ids=repr)
def test_engines_that_cannot_are_named(method):
    problem = method.problem(FLEET, 20, runs=1, seed=0)
    with pytest.raises(ValueError, match="engine must be cpu or reference"):
        engines.build("ray", problem)


def test_an_exchange_at_every_step_goes_on_for_long():
    """Spans end with every record, and what the next one may last does not grow without bound."""
    span = 1
    for _ in range(400):
        span = training.adapted(span, 1e-6)
    assert span < 10**15
    assert m.PFLSA(GROUPS, PI, 0.01).train(FLEET, steps=400, runs=1).central.sizes["t"] == 401
