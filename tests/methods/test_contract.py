"""Every method does what `Method` says."""

import inspect
from dataclasses import is_dataclass

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments.leaderboard import entries, fleets

FLEET = fs.paper.fleet(agents=3, eps_p=0.5, eps_r=0.5, seed=3, states=6, actions=4, discount=0.6)


@pytest.mark.parametrize("kind", fs.methods.METHODS, ids=lambda kind: kind.name)
def test_methods_keep_the_contract(kind):
    method = kind()
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert isinstance(method, fs.methods.Method)
    assert isinstance(method, fs.methods.ControlMethod) == (kind.task == "control")
    assert kind.knows in {"samples", "simulator", "worlds"}
    assert kind.__name__ in fs.methods.__all__
    history = method.train(FLEET, steps=20, runs=2, seed=1)
    d = history.final.sizes["d"]
    assert np.isfinite(history.final).all()
    up, down, per = method.communication(d, len(FLEET))
    assert up > 0
    assert down >= 0
    assert per is None or per >= 1
    target = method.target(FLEET)
    assert target is None or target.shape in {(d,), (len(FLEET), d)}
    if kind.task == "control":
        policies = method.policies(history)
        assert policies.shape in {(2, 6, 4), (2, 3, 6, 4)}
        np.testing.assert_allclose(policies.sum(axis=-1), 1)


@pytest.mark.parametrize("kind", fs.methods.METHODS, ids=lambda kind: kind.name)
def test_train_has_the_arguments_of_fedsarsa(kind):
    ours, theirs = (inspect.signature(one.train).parameters for one in (fs.FedSARSA, kind))
    assert list(theirs) == list(ours)
    for name, argument in theirs.items():
        assert argument.kind == ours[name].kind
        if (name, kind.knows) == ("steps", "worlds"):
            assert argument.default == 512  # sweeps over whole tables
        else:
            assert argument.default == ours[name].default


@pytest.mark.slow
@pytest.mark.parametrize("name", fleets.GROUNDS)
def test_no_learned_policy_beats_an_agents_own_optimum(name):
    ground = fleets.GROUNDS[name](0)
    for entry in entries.entries(entries.CONTROL):
        method = entry.method(ground, 0.3, 0.1 if entry.acts else None)
        policies = method.policies(method.train(ground.fleet, steps=40, runs=1))
        each = policies if policies.ndim == 4 else policies[:, None]
        gap = fs.theory.returns_of(ground.fleet, each).gap
        assert gap.min() >= -1e-9 * ground.spread, entry.label


def test_names_are_different():
    names = [kind.name for kind in fs.methods.METHODS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("method", [fs.methods.FedTD(fs.ModuloFeatures(2, 1)), fs.methods.QAvg(sync_every=2)])
def test_a_callback_may_stop_a_method(method):
    seen = []

    def stop(event):
        seen.append(event.t)
        if event.t >= 10:
            event.stop("enough")

    history = method.train(fs.random_mdps.fleet(agents=2), steps=40, runs=1, callback=stop)
    assert seen[-1] == history.settings["steps"] == 10
    assert history.settings["stopped_early"] == "enough"
    assert history.settings["steps_asked_for"] == 40
