"""Methods in configurations: one key names them, and a sweep may vary it."""

import inspect
import tomllib

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config, grid
from fedsarsa.experiments.method_sections import SECTIONS
from fedsarsa.experiments.references import reference
from tests.experiments.commands import command

FLEET = '[fleet]\nkind = "paper"\nagents = 3\neps_p = 0.5\neps_r = 0.5\nstates = 6\nactions = 4\n'


def built(text):
    return config.validate(tomllib.loads(FLEET + text), "here").algorithm.build()


@pytest.mark.parametrize("kind", fs.methods.METHODS, ids=lambda kind: kind.name)
def test_every_setting_of_a_method_has_a_key(kind):
    section = SECTIONS[kind.name]
    assert set(inspect.signature(kind).parameters) | {"method"} == set(section.model_fields)
    method = built(f'[algorithm]\nmethod = "{kind.name}"\n')
    assert type(method) is kind
    assert repr(method) == repr(kind())


def test_a_method_is_made_from_its_table():
    method = built(
        """
        [algorithm]
        method = "ConsensusTD"
        graph = [[0.5, 0.5, 0.0], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75]]
        features = { kind = "modulo", d1 = 6, d2 = 1 }
        policy = { pi = 1 }
        step_size = { kind = "linear-decay", w = 0.5, a = 10.0 }
        """
    )
    assert isinstance(method, fs.methods.ConsensusTD)
    assert method.server().matrix(3)[2, 2] == 0.75
    assert repr(method.policy) == "FixedPolicy(1)"
    assert repr(method.features) == "ModuloFeatures(d1=6, d2=1)"
    behaviour = '[algorithm]\nmethod = "FedQ"\nbehaviour = [{ pi = 0 }, { pi = 1 }, { pi = "uniform" }]\n'
    assert len(built(behaviour).behaviour) == 3


def test_fedsarsa_may_be_named_too():
    named, unnamed = (built(f"[algorithm]\n{line}sync_every = 3") for line in ('method = "FedSARSA"\n', ""))
    assert isinstance(named, fs.FedSARSA)
    assert repr(named) == repr(unnamed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('method = "FedDT"', "algorithm.method: expected FedSARSA or .*got 'FedDT'; did you mean 'FedTD'?"),
        ('method = "FedTD"\nsync = 3', "algorithm.sync: unknown key; did you mean 'sync_every'?; valid"),
        ("sync = 3", "algorithm.sync: unknown key; did you mean 'sync_every'?"),
        ('method = "SCAFFLSA"\nsync_every = 0.5', "algorithm.sync_every.*: expected a whole number"),
        ('method = "FedTD"\npolicy = { kind = "softmax" }', "algorithm.policy.kind: expected 'fixed'"),
        ('method = "FedQ"\nstep_size = 1.5', "algorithm: step_size must be below 1"),
    ],
)
def test_what_is_wrong_is_named(text, message):
    with pytest.raises(ValueError, match=message.replace("?;", r"\?;").replace("'?", r"'\?")):
        built(f"[algorithm]\n{text}\n")


def test_theory_is_of_fedsarsa(tmp_path):
    path = tmp_path / "td.toml"
    path.write_text(FLEET + '[algorithm]\nmethod = "FedTD"\n')
    done = command("theory", path)
    assert done.returncode == 2
    assert "algorithm.method: expected FedSARSA for theory, got 'FedTD'" in done.stderr


SWEEP = (
    FLEET
    + """
[algorithm]
step_size = 0.1
features = { kind = "modulo", d1 = 6, d2 = 1 }
policy = { kind = "fixed", pi = 0 }
[training]
steps = 40
runs = 2
[sweep]
algorithm.method = ["FedSARSA", "FedTD", "SCAFFLSA", "PFLSA", "OneShotTD"]
"""
)


def test_a_method_is_an_axis_of_a_sweep(tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    cells = grid.load(tmp_path / "sweep.toml").cells
    assert [type(cell.algorithm).__name__ for cell in cells] == [
        "FedSARSA",
        "FedTD",
        "SCAFFLSA",
        "PFLSA",
        "OneShotTD",
    ]
    fleet = cells[0].config.fleet.build(tmp_path)
    targets = [cell.algorithm.target(fleet) for cell in cells[1:]]
    for cell, target in zip(cells[1:], targets, strict=True):
        point = reference(cell.config, tmp_path)
        np.testing.assert_array_equal(point, target if target.ndim == 1 else target.mean(axis=0))
    assert len({cell.digest() for cell in cells}) == len(cells)


@pytest.mark.slow
def test_methods_are_swept_and_trained_by_the_command(tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    done = command("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "out/summary.csv").read_text()
    assert "SCAFFLSA" in table
    assert "nan" not in table
    (tmp_path / "one.toml").write_text(FLEET + '[algorithm]\nmethod = "FedHSA"\n[training]\nsteps = 40\n')
    done = command("train", tmp_path / "one.toml", "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    history = fs.History.load(tmp_path / "one/history.nc")
    assert history.settings["method"] == "FedHSA"
