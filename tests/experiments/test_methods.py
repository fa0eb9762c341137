"""Methods in configurations: one key names them, and a sweep may vary it."""

import csv
import inspect
import io
import tomllib

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config, grid, summary, training_report
from fedsarsa.experiments.method_sections import SECTIONS
from fedsarsa.experiments.references import reference
from fedsarsa.explore import results_view
from fedsarsa.explore.results import SweepResults
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
        (
            'method = "FedTD"\npolicy = { kind = "softmax" }',
            "policy must be a FixedPolicy.*got Softmax.*FedSARSA",
        ),
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


def assert_read_again(path):
    """The description that a sweep keeps in its folder has the same cells."""
    whole = grid.load(path)
    known = whole.identity()
    again = grid.build(known["settings"], dict(known["axes"]), path.parent, str(path))
    assert [cell.digest() for cell in again.cells] == [cell.digest() for cell in whole.cells]


def test_methods_with_other_keys_are_an_axis_of_tables(tmp_path):
    axis = """
    [sweep]
    algorithm = [
      { method = "SARSA", policy = { kind = "softmax", temperature = 5.0 }, step_size = 0.1 },
      { method = "FedQ", averaging = "importance", step_size = 0.1 },
    ]
    """
    (tmp_path / "sweep.toml").write_text(FLEET + axis)
    cells = grid.load(tmp_path / "sweep.toml").cells
    assert [str(cell) for cell in cells] == [
        "algorithm = SARSA(policy softmax(temperature 5), step_size 0.1)",
        "algorithm = FedQ(averaging importance, step_size 0.1)",
    ]
    assert_read_again(tmp_path / "sweep.toml")
    (tmp_path / "sweep.toml").write_text(
        FLEET + "[algorithm]\npolicy.kind = 'softmax'\n[sweep]\nalgorithm.method = ['SARSA', 'FedQ']\n"
    )
    with pytest.raises(ValueError, match=r"cell 2 of the sweep: algorithm.policy: unknown key"):
        grid.load(tmp_path / "sweep.toml")


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
    assert_read_again(tmp_path / "sweep.toml")


def outcome(tmp_path, algorithm, steps=40):
    """What a training of a configuration led to, in numbers and in words."""
    (tmp_path / "one.toml").write_text(f"{FLEET}[algorithm]\n{algorithm}\n[training]\nruns = 2\n")
    settings = config.load(tmp_path / "one.toml")
    fleet, algo = settings.fleet.build(tmp_path), settings.algorithm.build(tmp_path)
    history = algo.train(fleet, steps, runs=2)
    found = summary.outcome_of(history, settings, tmp_path)
    return fleet, algo, history, found, training_report.line(history, settings, tmp_path)


def test_outcomes_of_methods_are_errors_to_their_own_target(tmp_path):
    features = "features = { kind = 'modulo', d1 = 6, d2 = 2 }"
    softmax = f'method = "SARSA"\n{features}\npolicy = {{ kind = "softmax", temperature = 5.0 }}'
    fleet, algo, history, found, line = outcome(tmp_path, softmax)
    assert found.name == "error to target"
    np.testing.assert_array_equal(found, history.mse(algo.target(fleet)).isel(t=-1))
    assert "to the method's own target" in line
    assert "agent 0" not in line
    assert "to agent 0's fixed point" in outcome(tmp_path, softmax.replace('"SARSA"', '"FedSARSA"'))[4]


@pytest.mark.parametrize("kind", ["SoftPAvg", "ProjPAvg", "SARSA"])
def test_outcomes_of_control_methods_without_a_target_are_exact_returns(tmp_path, kind):
    policy = '\npolicy = { kind = "greedy" }' if kind == "SARSA" else ""
    fleet, algo, history, found, line = outcome(tmp_path, f'method = "{kind}"{policy}')
    assert algo.target(fleet) is None
    for run, policy in enumerate(algo.policies(history)):
        expected = fs.theory.returns_of(fleet, policy).discounted_return.mean()
        np.testing.assert_allclose(found[run], expected, rtol=1e-12)
    assert line.startswith("exact return ")
    assert "as the method has no target" in line


def test_where_there_is_no_outcome_the_reason_is_said(tmp_path):
    line = outcome(tmp_path, 'method = "FedTD"\nstep_size = 1e300', steps=200)[4]
    assert line == "error to target: none (all runs failed)"


@pytest.mark.slow
def test_methods_are_swept_and_trained_by_the_command(tmp_path):
    (tmp_path / "sweep.toml").write_text(SWEEP)
    done = command("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "out/summary.csv").read_text()
    assert "SCAFFLSA" in table
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [bool(row["final_error"]) for row in rows] == [True, False, False, False, False]
    assert [bool(row["error_to_target"]) for row in rows] == [False, True, True, True, True]
    assert not (tmp_path / "out/summary.png").exists()  # errors to other points do not share an axis
    results = SweepResults(tmp_path / "out")
    assert "final error or error to target" in results_view.table(results, results.outcomes())
    assert "nan" not in table
    (tmp_path / "one.toml").write_text(FLEET + '[algorithm]\nmethod = "FedHSA"\n[training]\nsteps = 40\n')
    done = command("train", tmp_path / "one.toml", "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    history = fs.History.load(tmp_path / "one/history.nc")
    assert history.settings["method"] == "FedHSA"
