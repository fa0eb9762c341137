"""A folder of results: its cells as they come, and the claims of a reproduction."""

import csv
import shutil
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import grid, sweep
from fedsarsa.experiments.leaderboard import tables
from fedsarsa.experiments.leaderboard.entries import CONTROL, SAMPLES
from fedsarsa.experiments.statistics import Estimate
from fedsarsa.explore import leaderboard_view, opening, results, results_exports, results_pictures
from fedsarsa.explore.results_view import ResultsView, claims, difference, table
from tests.explore.tabs import opened

EXAMPLES = Path(__file__).parents[2] / "examples"

SWEEP = """
[fleet]
agents = 2
states = 6
actions = 4

[algorithm]
features = { kind = "modulo", d1 = 3, d2 = 2 }

[training]
steps = 40
runs = 2

[sweep]
"fleet.eps_p, fleet.eps_r" = [0.0, 0.5]
algorithm.policy = [{ kind = "softmax", temperature = 5.0 }, { kind = "greedy" }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep of four cells, trained."""
    folder = tmp_path_factory.mktemp("results")
    path = folder / "sweep.toml"
    path.write_text(SWEEP)
    with sweep.opened(grid.load(path), folder / "sweep") as work:
        sweep.run(work, lambda cell, history: None)
    return folder / "sweep"


def shown(folder, query=""):
    """The view of a folder in a tab that has been opened."""
    return opened(lambda _, given, tab: ResultsView(results.Results(folder), given, tab), None, query)


def test_cells_are_read_with_their_settings_and_errors(folder):
    found = results.Results(folder).sweeps["sweep"]
    outcomes = found.outcomes()
    assert len(outcomes) == 4
    assert found.axes == {"eps_p": ["0", "0.5"], "policy": ["softmax(temperature 5)", "greedy"]}
    assert found.settings(outcomes[2].cell) == {"eps_p": "0.5", "policy": "softmax(temperature 5)"}
    history = fs.History.load(folder / "0000.nc")
    fleet = fs.paper.fleet(2, 0, 0, states=6, actions=4)
    point = fs.theory.fixed_point(fleet[0], fs.ModuloFeatures(3, 2), fs.Softmax(5.0))
    assert outcomes[0].name == "final error"
    assert np.allclose(outcomes[0].curve["mean"], history.mse(point).mean("run"))
    assert outcomes[0].mean == pytest.approx(float(history.mse(point).isel(t=-1).mean()))


def test_a_folder_that_grows(folder, tmp_path):
    """Cells come one by one; a file that is not whole is left for later, and left alone."""
    part = tmp_path / "part"
    part.mkdir()
    shutil.copy(folder / "identity.json", part)
    found = results.Results(part)
    inside = found.sweeps["part"]
    assert inside.outcomes() == []
    before = found.stamp()
    shutil.copy(folder / "0001.nc", part)
    (part / "0002.nc").write_bytes((folder / "0002.nc").read_bytes()[:500])
    assert found.stamp() != before
    assert [one.cell.number for one in inside.outcomes()] == [1]
    shutil.copy(folder / "0002.nc", part)
    first, second = inside.outcomes()
    assert [first.cell.number, second.cell.number] == [1, 2]
    assert inside.outcomes()[0] is first  # read once
    assert sorted(path.name for path in part.iterdir()) == ["0001.nc", "0002.nc", "identity.json"]
    shown = table(inside, [first])
    assert (shown["cell"], shown["eps_p"], shown["policy"]) == ([1], [0], ["greedy"])
    assert difference(inside, [first]) == ""
    compared = difference(inside, [first, second])
    assert "eps_p = 0.5, policy = softmax(temperature 5)" in compared
    assert f"{second.mean - first.mean:+.3g} ± {np.hypot(first.margin, second.margin):.2g}" in compared


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_sweeps_of_a_reproduction_that_begin_later(folder, tmp_path):
    (tmp_path / "identity.json").write_text('{"seed": 0, "scale": {}}')
    found = results.of_folder(tmp_path)
    before = found.stamp()
    assert found.sweeps == {}
    view = shown(tmp_path)
    assert "No sweep has begun yet." in view.words.object
    shutil.copytree(folder, tmp_path / "cells" / "ql")
    view.look()
    assert "4 of 4 cells are trained" in view.words.object
    assert found.stamp() != before
    assert list(found.sweeps) == ["ql"]
    assert found.sweeps["ql"] is found.sweeps["ql"]  # its cells are read once


def test_compared_cells_all_look_different(folder):
    inside = results.Results(folder).sweeps["sweep"]
    every = inside.outcomes()
    alike = results_pictures.looks(inside, every, "policy", compared=False)
    assert [one.label for one in alike.values()] == ["policy = softmax(temperature 5)", "policy = greedy"] * 2
    assert len({one.colour for one in alike.values()}) == 2
    apart = results_pictures.looks(inside, every[:3], "policy", compared=True)
    assert len({one.colour for one in apart.values()}) == 3
    assert [one.label for one in apart.values()][1] == "eps_p = 0, policy = greedy"


def test_files_hold_the_numbers_of_the_cells(folder):
    inside = results.Results(folder).sweeps["sweep"]
    drawn = inside.outcomes()[1:3]
    looks = results_pictures.looks(inside, drawn, "policy", compared=True)
    shown = results_exports.Shown(inside, drawn, table(inside, drawn), looks, log=True)
    made = {name: make(shown, {}) for name, (_, make) in results_exports.RESULTS_FILES.items()}
    rows = list(csv.DictReader(made["table CSV"].decode().splitlines()))
    assert [row["policy"] for row in rows] == ["greedy", "softmax(temperature 5)"]
    assert [float(row["final error"]) for row in rows] == pytest.approx([one.mean for one in drawn], rel=1e-3)
    points = list(csv.DictReader(made["curves CSV"].decode().splitlines()))
    assert {row["cell"] for row in points} == {"1", "2"}
    wanted = [*drawn[0].curve["mean"].values, *drawn[1].curve["mean"].values]
    assert [float(row["mean"]) for row in points] == wanted
    assert made["netCDF"] == (folder / "0001.nc").read_bytes()
    assert made["PNG"].startswith(b"\x89PNG")
    assert b"<svg" in made["SVG"]
    board = [row("A", 1.0, 2.0), row("B", 2.0, 3.0)]
    made = {name: make(board, {}) for name, (_, make) in results_exports.BOARD_FILES.items()}
    assert [one.label for one in tables.from_csv(made["CSV"].decode())] == ["A", "B"]
    assert made["PNG"].startswith(b"\x89PNG")


def test_claims_link_to_the_figures_that_are_there(folder, tmp_path):
    whole = tmp_path / "published"
    shutil.copytree(folder, whole / "cells" / "sarsa")
    (whole / "identity.json").write_text('{"seed": 0, "scale": {}}')
    (whole / "sarsa.png").write_bytes(b"")
    rows = "claim,where,quantity,value,low,high,verdict,detail,figure\n"
    rows += "it <falls>,sec:a,slope,1.0,0.9,1.1,holds,,sarsa\nit stays,sec:b,slope,2.0,,,does not hold,,td\n"
    (whole / "claims.csv").write_text(rows)
    found = results.Results(whole)
    assert list(found.sweeps) == ["sarsa"]
    page = claims(found.claims(), found.figures(), {"scale": "linear", "figure": "td"})
    assert "it &lt;falls&gt;" in page
    assert "1 [0.9, 1.1]" in page
    assert '<a href="results?scale=linear&amp;figure=sarsa">sarsa</a>' in page
    assert "figure=td" not in page
    assert '<span class="fails">does not hold</span>' in page


def row(label, low, high, fleet="small", **more):
    value = Estimate((low + high) / 2, low, high)
    return tables.Row(CONTROL, fleet, SAMPLES, label, dict.fromkeys(tables.RETURNS, value), sent=20.0, **more)


def test_a_leaderboard_is_read_and_told(tmp_path):
    rows = [row("A", 0.0, 0.0, step_size=0.1), row("B <x>", -1.0, 3.0), row("C", 5.0, 6.0)]
    rows += [
        tables.Row(CONTROL, "small", SAMPLES, "D", refused="one active parameter"),
        row("A", -1.0, 1.0, "other"),
    ]
    (tmp_path / "leaderboard.csv").write_text(tables.to_csv(rows))
    board = results.of_folder(tmp_path)
    found = board.rows()
    assert [repr(one) for one in found] == [repr(one) for one in rows]
    said = leaderboard_view.sentence(found[:4])
    assert "Learns from samples: A; B <x>." in said
    assert "1 of 4 methods reject these worlds." in said
    page = leaderboard_view.table(found[:4])
    assert "<b>B &lt;x&gt;</b>" in page
    assert "<b>C" not in page
    assert "rejected: one active parameter" in page
    (tmp_path / "leaderboard.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        ValueError, match=r"leaderboard.csv: expected a table that fedsarsa leaderboard wrote"
    ):
        results.of_folder(tmp_path)


def test_a_leaderboard_that_is_still_measured(tmp_path):
    (tmp_path / "identity.json").write_text('{"seed": 0, "scale": {}, "rows": [["control", "A"]]}')
    (tmp_path / "0000.nc").write_bytes(b"")
    board = results.of_folder(tmp_path)
    assert (board.rows(), board.measured()) == ([], 1)
    before = board.stamp()
    (tmp_path / "leaderboard.csv").write_text(tables.to_csv([row("A", 1.0, 2.0)]))
    assert board.stamp() != before
    assert [one.label for one in board.rows()] == ["A"]
    (tmp_path / "leaderboard.csv").unlink()
    assert board.stamp() == before
    assert board.rows() == []


def test_what_the_command_opens(folder, tmp_path, monkeypatch):
    assert opening.asked(str(folder))[1] == "results"
    with pytest.raises(ValueError, match="expected results of fedsarsa sweep, reproduce or leaderboard"):
        opening.asked(str(tmp_path))
    link = "http://127.0.0.1:1234/token/plan?fleet.agents=3"
    assert opening.asked(link)[1:3] == ("plan", "?fleet.agents=3")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/carts.toml").write_text('fleet = { kind = "control", world = "CartPole" }')
    (tmp_path / "examples/small.toml").write_text("fleet.agents = 7")
    monkeypatch.setattr(opening, "EXAMPLES", (tmp_path / "nowhere", tmp_path / "examples"))
    assert opening.asked("small")[0].content["fleet"]["agents"] == 7
    assert opening.asked("carts")[1] == "control"
    (tmp_path / "examples/gym.toml").write_text('fleet = { kind = "gym", id = "CartPole-v1", agents = 2 }')
    with pytest.raises(ValueError, match=r"gym.toml: fleet.kind: expected finite or control .* got 'gym'"):
        opening.asked("gym")
    with pytest.raises(ValueError, match="cannot be read"):
        opening.asked("nothing.toml")
    with pytest.raises(ValueError, match=r"nothing: expected .* an example \(acrobot, .*q-learning\)$"):
        opening.asked("nothing")


def test_an_address_is_opened_with_what_it_was_made_with(folder, tmp_path):
    link = "http://127.0.0.1:1234/token/results?scale=linear"
    assert opening.asked(str(folder), link)[1:3] == ("results", "?scale=linear")
    with pytest.raises(
        ValueError, match="link: expected the folder of its results: fedsarsa explore RESULTS"
    ):
        opening.asked(link)
    with pytest.raises(ValueError, match=r"link: expected an address .* got 'elsewhere'"):
        opening.asked(str(folder), "elsewhere")
    (tmp_path / "carts.toml").write_text('fleet = { kind = "control", world = "CartPole" }')
    link = "http://127.0.0.1:1234/token/control?file=carts.toml&fleet.agents=3"
    base, view, query, _ = opening.asked(str(tmp_path / "carts.toml"), link)
    assert (base.name, view, query) == ("carts.toml", "control", "?file=carts.toml&fleet.agents=3")
    with pytest.raises(ValueError, match=r"opened with carts\.toml, got one with no file"):
        opening.asked(link)


def test_the_examples_that_are_named_are_those_that_open(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # they open anywhere
    opened = []
    for path in sorted(EXAMPLES.glob("*.toml")):
        with suppress(ValueError):
            opening.asked(path.stem)
            opened.append(path.stem)
    assert opened == opening.NAMES.split()
    build = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel = build["targets"]["wheel"]
    installed = [path for path in wheel["only-include"] if path.startswith("examples")]
    assert installed == [f"examples/{name}.toml" for name in opened]
    assert wheel["sources"]["examples"] == "fedsarsa/examples"
    assert opening.EXAMPLES[0] == Path(fs.__file__).parent / "examples"
    page = (EXAMPLES.parent / "docs/explore.md").read_text()
    assert all(f"`{name}`" in page for name in opened)


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_a_view_of_results_is_restored_by_its_address(folder):
    view = shown(folder, "?scale=linear&x=policy&only.eps_p=0.5")
    assert view.scale.value == "linear"
    for part in ("scale=linear", "x=policy", "only.eps_p=0.5"):
        assert part in view.tab.query


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_wrong_keys_of_an_address_of_results_are_named_until_something_changes(folder):
    view = shown(folder, "?foo=1&x=zzz&cells=1|99&only.eps_p=0|7")
    for said in (
        "address: foo: unknown key; ",
        "address: x: expected eps_p or policy, got &#x27;zzz&#x27;",
        "address: cells: expected 0 to 3, got &#x27;99&#x27;",
        "address: only.eps_p: expected 0 or 0.5, got &#x27;7&#x27;",
    ):
        assert said in view.words.object
    view.x.value = "policy"
    assert "address:" not in view.words.object
    assert "address:" not in shown(folder, view.tab.query).words.object


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_cells_come_into_the_figures_that_are_there(folder, tmp_path):
    """So that zoom and hidden entries of the legend stay as they are."""
    part = tmp_path / "part"
    part.mkdir()
    for name in ("identity.json", "0000.nc"):
        shutil.copy(folder / name, part)
    view = shown(part)
    before, lines = view.curves.figure, list(view.curves.figure.renderers)
    shutil.copy(folder / "0001.nc", part)
    view.look()
    assert view.pictures[0].object is view.curves.figure is before
    assert before.renderers[:2] == lines
    assert [len(one.renderers) for one in before.legend[0].items] == [1, 1]
    assert view.along.source.data["mean"] == [one.mean for one in view.chosen.outcomes()]
    view.only["policy"].value = ["greedy"]
    assert len(before.renderers) == 2
    assert lines[0] not in before.renderers


def test_longer_curves_lie_under_shorter_ones(folder):
    inside = results.Results(folder).sweeps["sweep"]
    first, *others = inside.outcomes()
    short = [replace(one, curve=one.curve.isel(t=slice(2))) for one in [first]]
    picture = results_pictures.CurvesPicture(log=True)
    picture.show(inside, [*short, *others], results_pictures.looks(inside, [first, *others], "eps_p", False))
    lengths = [len(one.data_source.data["t"]) for one in picture.figure.renderers]
    assert lengths[-2:] == [2, 2]
    assert min(lengths[:-2]) > 2


@pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
def test_returns_below_zero_have_a_linear_axis_and_their_name(folder, monkeypatch):
    inside = results.Results(folder).sweeps["sweep"]
    below = [replace(one, name="late return", mean=-one.mean, curve=-one.curve) for one in inside.outcomes()]
    monkeypatch.setattr(results.SweepResults, "outcomes", lambda self: below)
    view = shown(folder, "?scale=log")
    assert (view.scale.options, view.scale.value) == (["linear"], "linear")
    assert type(view.curves.figure.y_scale).__name__ == "LinearScale"
    assert view.curves.figure.left[0].axis_label == "return of an episode"
    assert view.along.figure.left[0].axis_label == "late return"
    monkeypatch.undo()
    view.draw()
    assert view.scale.options == ["log", "linear"]
