"""The figure of a sweep: axes, lines and panels from the grid."""

import csv

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from fedsarsa.experiments import grid, plots, sweep_figure
from fedsarsa.experiments.summary import ERROR, RETURN
from tests.experiments.commands import SWEEP, command


def outcomes(cells, name=ERROR, runs=3):
    rng = np.random.default_rng(0)
    return [xr.DataArray(1 + rng.random(runs), dims="run", name=name) for _ in cells.cells]


def built(axes, tmp_path):
    return grid.build({}, axes, tmp_path, "x")


@pytest.mark.parametrize(
    ("axes", "panels", "lines", "x"),
    [
        ({"fleet.agents": [1, 2, 3]}, 1, 1, "agents"),
        ({"algorithm.step_size": [0.1, 0.2], "fleet.agents": [1, 2, 3]}, 1, 2, "agents"),
        ({"algorithm.policy": [{"kind": "softmax"}, {"kind": "greedy"}]}, 1, 1, "policy"),
        (
            {"fleet.agents": [1, 2], "algorithm.step_size": [0.1, 0.2, 0.3], "training.seed": [1, 2]},
            2,
            2,
            "step_size",
        ),
    ],
)
def test_axes_are_those_of_the_grid(tmp_path, axes, panels, lines, x):
    cells = built(axes, tmp_path)
    figure = sweep_figure.figure(cells, outcomes(cells), "title")
    assert len(figure.axes) == panels
    assert all(len(place.containers) == lines for place in figure.axes)
    assert figure.axes[0].get_xlabel() == x
    assert figure.axes[0].get_ylabel() == ERROR
    plots.save(figure, tmp_path, "summary")
    with Image.open(tmp_path / "summary.png") as picture:
        assert picture.width > 600


def test_what_is_not_drawn_has_a_reason(tmp_path):
    cells = built({"fleet.agents": [1, 2]}, tmp_path)
    nothing = [one * np.nan for one in outcomes(cells)]
    assert sweep_figure.figure(cells, nothing, "title") == "no cell has a final error that is a number"
    mixed = [outcomes(cells)[0], outcomes(cells, RETURN)[1]]
    why = "cells led to final error and late return, which share no axis"
    assert sweep_figure.figure(cells, mixed, "title") == why
    many = built({"fleet.agents": [1, 2], "training.seed": list(range(11))}, tmp_path)
    assert len(sweep_figure.figure(many, outcomes(many), "title").axes[0].containers) == 2
    lines = built({"fleet.agents": list(range(1, 12)), "training.seed": list(range(11))}, tmp_path)
    why = "1 panels of 11 lines are more than 12 of 10; see summary.csv"
    assert sweep_figure.figure(lines, outcomes(lines), "title") == why


def test_sweeps_say_why_there_is_no_figure(tmp_path):
    config, out = tmp_path / "sweep.toml", tmp_path / "out"
    config.write_text(SWEEP.replace("steps = 2000", "steps = 200").replace("[0.1, 0.01]", "[1e150]"))
    done = command("sweep", config, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no figure: no cell has a final error that is a number"
    assert not (out / "summary.png").exists()


def test_sweeps_write_a_figure_and_numbers_in_full(tmp_path):
    config, out = tmp_path / "sweep.toml", tmp_path / "out"
    config.write_text(SWEEP.replace("steps = 2000", "steps = 200"))
    done = command("sweep", config, "--out", out)
    assert done.returncode == 0, done.stderr
    assert {"summary.png", "summary.pdf"} <= {path.name for path in out.iterdir()}
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        "agents",
        "step_size",
        "final_error",
        "final_error_margin",
        "failed_runs",
        "file",
    ]
    assert all(name.isidentifier() for name in rows[0])
    assert len(rows[0]["final_error"]) > 12
