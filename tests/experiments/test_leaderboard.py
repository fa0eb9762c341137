"""The leaderboard: rows, choices of settings, yardsticks, resuming, and methods of the user's own."""

import csv
import io
from dataclasses import astuple, dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import xarray as xr

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.experiments.leaderboard import cells, entries, figures, fleets, run, tables, together
from fedsarsa.experiments.leaderboard.cells import Cell
from fedsarsa.experiments.leaderboard.entries import COMPARISON, CONTROL, PREDICTION, Entry
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.methods import METHODS, FedQ, QAvg
from tests.experiments.commands import command

TINY = Scale(40, 30, 8, 2, 2, (0.1, 0.3), (0.5,), 1)
GROUND = fleets.GROUNDS["random-0.4"](0)
OWN = """
from dataclasses import dataclass
from typing import ClassVar

from fedsarsa.methods import QAvg


@dataclass(frozen=True, eq=False)
class Mine(QAvg):
    name: ClassVar[str] = "mine"


class Nothing:
    name = "nothing"
    task = "control"


a_number = 3
"""


def entry(label):
    return next(one for one in entries.ENTRIES if one.label == label)


def test_every_method_has_a_row():
    assert {one.kind for one in entries.ENTRIES if not one.compared} == set(METHODS)
    labels = [(one.kind.task, one.label) for one in entries.ENTRIES]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", fleets.GROUNDS)
def test_fleets_are_what_they_are_called(name):
    ground = fleets.GROUNDS[name](0)
    assert ground.name == name
    assert ground.spread > 0
    points = cells.own_points(ground)
    assert np.isfinite(points).all()
    assert len(points) == len(ground.fleet)


@pytest.mark.slow
@pytest.mark.parametrize("board", entries.BOARDS)
def test_all_rows_of_a_fleet(board):
    every = [Cell(0, board, GROUND, one) for one in (None, *entries.entries(board))]
    found = [cell.measured(TINY, 0) for cell in every]
    rows = tables.rows(every, found)
    assert not [row.refused for row in rows if row.refused]
    for row in rows:
        for name in tables.columns(board):
            low, value, high = (getattr(row.numbers[name], part) for part in ("low", "value", "high"))
            assert low <= value <= high
    if board == CONTROL:
        optimum = next(row for row in rows if row.label == tables.OPTIMUM)
        assert all(row.numbers[tables.GAP].value >= -1e-9 for row in rows)
        assert optimum.numbers[tables.GAP].value == pytest.approx(0, abs=1e-12)
    figures.figure([row for row in rows if row.label != tables.OPTIMUM], board)


def test_a_policy_that_beats_an_optimum_stops_everything(monkeypatch):
    def lowered(fleet, policies):
        exact = fs.theory.returns_of(fleet, policies)
        return exact.assign(gap=exact.gap - 2.0)

    monkeypatch.setattr(cells, "returns_of", lowered)
    with pytest.raises(RuntimeError, match=r"QAvg on random-0.4: the policy of run 0 beats agent"):
        cells.trained(GROUND, CONTROL, entry("QAvg, paper's form"), replace(TINY, planning_steps=200), 0)


def test_settings_are_chosen_on_other_runs():
    seen = []

    @dataclass(frozen=True, eq=False)
    class Watched(QAvg):
        name: ClassVar[str] = "watched"

        def train(self, fleet, **options):
            seen.append((self.step_size, options["runs"], options["seed"], options["steps"]))
            return super().train(fleet, **options)

    found = cells.trained(GROUND, CONTROL, Entry("watched", Watched), replace(TINY, runs=3), 5)
    assert [one[1:] for one in seen] == [(2, 5 + cells.TUNING, 8)] * 2 + [(3, 5, 8)]
    assert [one[0] for one in seen[:2]] == [0.1, 0.3]
    assert seen[2][0] == found.attrs["step_size"]
    assert found.attrs["samples"] == 0
    assert found.attrs["sent"] == 25 * 2  # a table in each of two rounds
    assert found.discounted_return.shape == (3, 5)


def test_worlds_that_a_method_refuses():
    dense = fs.TabularFeatures(np.random.default_rng(0).normal(size=(5, 5, 3)), normalise=True)
    cell = Cell(0, CONTROL, replace(GROUND, features=dense), entry("FedQ, importance averaging"))
    found = cell.measured(TINY, 0)
    sticks = Cell(1, CONTROL, GROUND, None)
    row = tables.rows([sticks, cell], [sticks.measured(TINY, 0), found])[0]
    assert "features must have one active parameter per pair" in row.refused
    assert row.numbers == {}
    assert "one active parameter" in tables.to_csv([row])


def test_agents_alone_send_nothing_and_are_measured_by_their_own():
    found = cells.trained(GROUND, PREDICTION, entry("alone, TD(0)"), TINY, 0)
    assert np.isnan(found.attrs["sent"])
    np.testing.assert_array_equal(found["own_error"], found["agents_error"])
    assert entry("alone, TD(0)").block == COMPARISON


def test_errors_begin_at_one():
    """In units of where all begin, theta = 0: hardly moved, agents' errors are 1."""
    still = replace(TINY, prediction_steps=1, step_sizes=(1e-9,))
    found = cells.trained(GROUND, PREDICTION, entry("FedTD(0)"), still, 0)
    np.testing.assert_allclose(found["agents_error"], 1, rtol=1e-6)


def test_pooled_agents_live_in_the_mean_world():
    kind = entry("pooled, Q-learning").kind
    target = kind(GROUND.behaviour, 0.1).target(GROUND.fleet)
    np.testing.assert_allclose(target, fs.theory.optimal_values(GROUND.fleet.central()).ravel())


def test_a_table_in_numbers():
    sticks = Cell(0, CONTROL, GROUND, None)
    cell = Cell(1, CONTROL, GROUND, entry("QAvg, released form"))
    rows = tables.rows([sticks, cell], [sticks.measured(TINY, 0), cell.measured(TINY, 0)])
    assert [row.label for row in rows] == ["QAvg, released form", tables.BEST_COMMON, tables.OPTIMUM]
    content = list(csv.DictReader(io.StringIO(tables.to_csv(rows))))
    assert float(content[1][tables.TO_COMMON]) == 0
    assert float(content[0][tables.MEAN]) <= float(content[2][tables.MEAN])
    assert tables.leaders(rows) == {rows[0]}


@pytest.fixture
def my_methods(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_methods_for_a_test.py").write_text(OWN)


@pytest.mark.usefixtures("my_methods")
def test_a_method_of_ones_own():
    mine = entries.added("my_methods_for_a_test:Mine")
    assert mine.label == "mine"
    assert mine in entries.entries(CONTROL, [mine])
    assert mine not in entries.entries(PREDICTION, [mine])


@pytest.mark.usefixtures("my_methods")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Mine", "add must be module:Method, such as my_methods:MyMethod, got 'Mine'"),
        ("no_such_module_at_all:Mine", "add must name a class that can be imported, .* No module named"),
        (
            "my_methods_for_a_test:Yours",
            "add must name a class that can be imported, .* no attribute 'Yours'",
        ),
        ("my_methods_for_a_test:a_number", "add must name a class of methods, .* which is 3"),
        ("my_methods_for_a_test:Nothing", "without knows, train, target, communication, policies"),
        ("fedsarsa.methods:FedSynQ", "name must differ from those of other rows, got 'FedSynQ'"),
    ],
)
def test_what_is_no_method(name, message):
    with pytest.raises((ValueError, TypeError), match=message):
        entries.added(name)


def test_fleets_by_name():
    with pytest.raises(ValueError, match=r"fleet must be one of .* did you mean 'two-state'"):
        fleets.grounds(["two-states"], 0)


@pytest.mark.processes
@pytest.mark.usefixtures("my_methods")
def test_a_leaderboard_goes_on_where_it_was(tmp_path, monkeypatch):
    few = [entry("QAvg, paper's form"), entry("FedQ, equal averaging"), entry("FedTD(0)")]
    monkeypatch.setattr(entries, "ENTRIES", tuple(few))
    out = tmp_path / "board"
    first = run.leaderboard(out, TINY, 0, ["two-state"])
    assert (out / run.REPORT).read_text().count("<h3>two-state</h3>") == 2
    stamps = {path.name: path.stat().st_mtime_ns for path in out.glob("*.nc")}
    assert len(stamps) == 5  # three rows, and the yardsticks of two boards
    (out / "0001.nc").unlink()
    second = run.leaderboard(out, TINY, 0, ["two-state"], ["my_methods_for_a_test:Mine"])
    again = {path.name: path.stat().st_mtime_ns for path in out.glob("*.nc")}
    assert {name for name in again if stamps.get(name) != again[name]} == {"0001.nc", "0005.nc"}
    assert [row.label for row in second.rows if row.label not in {one.label for one in first.rows}] == [
        "mine"
    ]
    ours = {row.label: row for row in second.rows}
    for row in first.rows:
        assert ours[row.label].numbers == row.numbers
    with pytest.raises(ValueError, match="holds results of another configuration"):
        run.leaderboard(out, TINY, 1, ["two-state"])


def test_what_a_gpu_takes():
    taken = {
        one.label: together.takes("cuda", Cell(0, one.kind.task, GROUND, one), TINY)
        for one in entries.ENTRIES
    }
    left = ["FedSynQ", "QAvg, paper's form", "QAvg, released form", "SoftPAvg", "ProjPAvg"]
    left += ["3-step TD", "FedHSA"]
    assert {label for label, yes in taken.items() if not yes} == set(left)


@pytest.mark.parametrize("board", entries.BOARDS)
def test_an_engine_of_ones_choice_measures_the_same(board):
    """Stage by stage for all cells, and one after another by the engine that is taken unasked."""
    every = [Cell(i, board, GROUND, one) for i, one in enumerate(entries.entries(board))]
    cells_of = [cell for cell in every if together.takes("ray", cell, TINY)][:4]
    dense = fs.TabularFeatures(np.random.default_rng(0).normal(size=(5, 5, 3)), normalise=True)
    refusing = replace(GROUND, features=dense, state_features=None)
    cells_of.append(Cell(99, board, refusing, entry("FedQ, importance averaging")))
    found = dict(together.measured(cells_of, "reference", TINY, 0))
    assert list(found) == [cells_of[-1], *cells_of[:-1]]  # which is over first
    for cell in cells_of:
        xr.testing.assert_allclose(found[cell], cell.measured(TINY, 0), rtol=1e-9)
        assert found[cell].attrs == cell.measured(TINY, 0).attrs
    assert "one active parameter" in found[cells_of[-1]].attrs["refused"]


@pytest.mark.processes
def test_methods_that_the_engine_does_not_take_are_named(tmp_path, monkeypatch):
    few = [entry("QAvg, paper's form"), entry("FedQ, equal averaging"), entry("FedTD(0)")]
    monkeypatch.setattr(entries, "ENTRIES", tuple(few))
    said, out = [], tmp_path / "board"
    slow = run.leaderboard(out, TINY, 0, ["two-state"], say=said.append, engine="reference")
    assert said == [
        "engine 'reference' does not take these methods, which train without it: QAvg, paper's form"
    ]
    for one, two in zip(
        slow.rows, run.leaderboard(tmp_path / "other", TINY, 0, ["two-state"]).rows, strict=True
    ):
        assert one.label == two.label
        for name, number in two.numbers.items():
            np.testing.assert_allclose(astuple(one.numbers[name]), astuple(number), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"holds results of another configuration \(engine only there\)"):
        run.leaderboard(out, TINY, 0, ["two-state"])


def test_an_engine_that_does_not_work_here_is_said_before_anything_is_written(tmp_path, monkeypatch):
    missing = replace(engines.ENGINES["cuda"], device=lambda: "there is no NVIDIA GPU here")
    monkeypatch.setitem(engines.ENGINES, "cuda", missing)
    done = command("leaderboard", "--quick", "--engine", "cuda", "--out", tmp_path / "board")
    assert done.returncode == 2
    assert done.stderr == "fedsarsa: engine 'cuda' does not work here: there is no NVIDIA GPU here\n"
    assert not (tmp_path / "board").exists()


def test_a_row_is_its_methods_own_training():
    """With one setting there is nothing to choose, and the numbers are those of a training by hand."""
    one = entry("FedQ, importance averaging")
    found = cells.trained(GROUND, CONTROL, one, replace(TINY, step_sizes=(0.2,)), 3)
    method = FedQ(GROUND.behaviour, 0.2, averaging="importance")
    history = method.train(GROUND.fleet, steps=40, runs=2, seed=3)
    exact = fs.theory.returns_of(GROUND.fleet, method.policies(history)[:, None])
    np.testing.assert_array_equal(found.discounted_return, exact.discounted_return)
