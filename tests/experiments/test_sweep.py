"""Sweeps: what is stored, what survives a crash, what is refused."""

import csv
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import stats

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.experiments import grid, store, sweep
from fedsarsa.experiments.config import Config
from tests.experiments.commands import command

SMALL = """
[fleet]
states = 10
actions = 5

[training]
steps = 400
runs = 2
seed = 4

[sweep]
fleet.agents = [1, 3]
"fleet.eps_p, fleet.eps_r" = [0.0, 0.5]
algorithm.policy = [{ kind = "softmax", temperature = 2.0 }, { kind = "greedy" }]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@contextmanager
def opened(config, out):
    said = []
    with sweep.opened(grid.load(config), out, said.append) as work:
        yield work, said


def final(cell, history):
    return history.final


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_cell_is_what_training_alone_gives(config, tmp_path):
    with opened(config, tmp_path / "out") as (work, _):
        array = sweep.arrange(work.grid, sweep.run(work, final, threads=2))
        assert array.dims == ("agents", "eps_p", "policy", "run", "d")
        assert array.policy.values.tolist() == ["softmax(temperature 2)", "greedy"]
        fleet = fs.paper.fleet(3, 0.5, 0.5, states=10, actions=5)
        for place, policy in enumerate([fs.Softmax(2.0), fs.Greedy()]):
            alone = fs.FedSARSA(policy=policy).train(fleet, 400, runs=2, seed=4)
            np.testing.assert_array_equal(array.sel(agents=3, eps_p=0.5).isel(policy=place), alone.final)
            assert work.history(work.grid.cells[6 + place]).data.equals(alone.data)


def test_what_is_stored_is_not_trained_again(config, tmp_path, monkeypatch):
    with opened(config, tmp_path / "out") as (work, _):
        first = sweep.run(work, final)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.nc")}
    monkeypatch.setattr(sweep, "train", lambda *_, **__: pytest.fail("trained again"))
    with opened(config, tmp_path / "out") as (work, _):
        for one, two in zip(first, sweep.run(work, final), strict=True):
            np.testing.assert_array_equal(one, two)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.nc")} == before


@pytest.mark.parametrize("place", ["head", "middle", "end"])
def test_a_damaged_cell_is_set_aside_and_made_anew(config, tmp_path, place):
    out = tmp_path / "out"
    with opened(config, out) as (work, said):
        sweep.run(work, final)
        before = contents(out)
        path = work.store.path(3)
        raw = bytearray(path.read_bytes())
        if place == "head":
            raw[:8] = b"12345678"
        elif place == "end":
            del raw[len(raw) // 2 :]
        else:  # one bit of a parameter
            at = raw.find(np.float64(work.history(work.grid.cells[3]).final[1, 4]).tobytes())
            assert at > 0
            raw[at] ^= 1
        path.write_bytes(raw)
        sweep.run(work, final)
    assert len(said) == 1
    assert "0003.nc" in said[0]
    assert "set aside as 0003.damaged" in said[0]
    assert (out / "0003.damaged").read_bytes() == raw
    (out / "0003.damaged").unlink()
    assert contents(out) == before


def test_the_file_of_another_cell_is_set_aside(config, tmp_path):
    with opened(config, tmp_path / "out") as (work, said):
        first = sweep.run(work, final)
        work.store.path(0).write_bytes(work.store.path(6).read_bytes())
        again = sweep.run(work, final)
    assert "expected the history of fleet.agents = 1" in said[0]
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)


def test_any_measure_will_do(config, tmp_path):
    with opened(config, tmp_path / "out") as (work, _):
        assert sweep.run(work, lambda cell, history: None) == [None] * 8


def test_worlds_without_a_fixed_point_have_no_error_but_a_summary(tmp_path):
    worlds, config = tmp_path / "worlds.npz", tmp_path / "own.toml"
    np.savez(worlds, transition=np.tile(np.eye(6), (2, 5, 1, 1)), reward=np.ones((2, 6)))
    fleet = '[fleet]\nkind = "file"\npath = "worlds.npz"\ndiscount = 0.5\n[training]\nsteps = 20\n'
    config.write_text(fleet + "[sweep]\ntraining.seed = [0, 1]")
    done = command("sweep", config, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "summary.csv").read_text().count("nan") == 4


CARTS = """
[fleet]
kind = "control"
world = "CartPole"

[algorithm]
features = { kind = "tile-coding", tilings = 2, bins = 2 }
policy = { kind = "epsilon-greedy" }

[training]
steps = 400
runs = 3

[sweep]
fleet.agents = [1, 2]
"""


def test_control_worlds_have_returns(tmp_path):
    path, out = tmp_path / "carts.toml", tmp_path / "out"
    path.write_text(CARTS)
    done = command("sweep", path, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "late return: mean return of the training episodes" in " ".join(done.stdout.split())
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert list(rows[0]) == ["agents", "late_return", "late_return_margin", "failed_runs", "file"]
    for row in rows:
        data = fs.History.load(out / row["file"]).data
        last = data.isel(bin=slice(-20, None))  # of 200 bins of two steps
        assert last["bin_end"][0] == 362
        means = (last["returns"].sum("bin") / last["episodes"].sum("bin")).mean("agent")  # per run
        assert float(row["late_return"]) == pytest.approx(float(means.mean()), rel=1e-14)
        margin = stats.t.interval(0.95, 2, scale=stats.sem(means))[1]
        assert float(row["late_return_margin"]) == pytest.approx(margin, rel=1e-12)


def test_a_damaged_checkpoint_is_set_aside(config, tmp_path):
    with opened(config, tmp_path / "out") as (work, said):
        work.store.checkpoint(2).write_bytes(b"rubbish")
        sweep.run(work, final)
    assert "0002.checkpoint.damaged" in said[0]


def test_another_configuration_is_refused(config, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other"
    with opened(config, out):
        pass
    config.write_text(SMALL.replace("seed = 4", "seed = 5"))
    message = r"training.seed is 4 there, 5 here\); expected an empty directory"
    with pytest.raises(ValueError, match=message), opened(config, out):
        pass
    config.write_text(SMALL.replace("[1, 3]", "[1, 4]"))
    with pytest.raises(ValueError, match=r"axes is \[\['fleet.agents', \[1, 3\]\]"), opened(config, out):
        pass
    lines = SMALL.splitlines()
    agents = lines.index("fleet.agents = [1, 3]")
    lines[agents], lines[agents + 1] = lines[agents + 1], lines[agents]  # the same axes in another order
    config.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="axes is"), opened(config, out):
        pass
    other.mkdir()
    (other / "thesis.tex").touch()
    with (
        pytest.raises(ValueError, match=r"expected an empty directory .* got thesis.tex"),
        opened(config, other),
    ):
        pass
    assert [path.name for path in other.iterdir() if path.name != store.LOCK] == ["thesis.tex"]


def test_two_processes_do_not_share_a_folder(config, tmp_path):
    out = tmp_path / "out"
    with (
        opened(config, out),
        pytest.raises(OSError, match="expected no other process at work here"),
        opened(config, out),
    ):
        pass
    with opened(config, out):
        pass


def test_files_of_worlds_are_part_of_the_configuration(tmp_path):
    worlds, config, out = tmp_path / "worlds.npz", tmp_path / "own.toml", tmp_path / "out"
    kernel = np.full((2, 3, 4, 4), 0.25)
    np.savez(worlds, transition=kernel, reward=np.ones((2, 4)))
    fleet = '[fleet]\nkind = "file"\npath = "worlds.npz"\ndiscount = 0.5\n'
    config.write_text(fleet + "[sweep]\ntraining.seed = [0, 1]")
    with opened(config, out):
        pass
    np.savez(worlds, transition=kernel, reward=np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"files.worlds.npz is"), opened(config, out):
        pass


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("fleet.agents = [1, 3]", "fleet.agents = 3"),
            "sweep.fleet.agents: expected a list of values, got 3",
        ),
        (("[1, 3]", "[]"), "sweep.fleet.agents: expected a list of values, got none"),
        (("[1, 3]", "[3, 3]"), "sweep.fleet.agents: expected different values, got 3 twice"),
        (
            ("fleet.agents", "fleet.agent"),
            "cell 1 of the sweep: fleet.agent: unknown key",
        ),
        (('kind = "greedy"', 'kind = "greed"'), "cell 2 of the sweep: algorithm.policy.kind: expected"),
        (("temperature = 2.0", "temperature = -2.0"), "temperature must be"),
        (
            ("[1, 3]", "[1, 0]"),
            "cell 5 of the sweep: fleet.agents: expected at least 1, got 0",
        ),
        (("[0.0, 0.5]", "[0.0, -0.5]"), "cell 3 of the sweep: fleet.eps_p: expected at least 0, got -0.5"),
        (
            ("algorithm.policy", '"fleet.agents, training.seed" = [1]\nalgorithm.policy'),
            "on several",
        ),
        (("[fleet]", "fleet = 3\n[other]"), "fleet: expected a table, since fleet.agents is set, got 3"),
    ],
)
def test_mistakes_are_explained_before_anything_is_trained(config, change, message):
    config.write_text(SMALL.replace(*change))
    with pytest.raises(ValueError, match=message):
        grid.load(config)


def test_a_file_without_a_sweep(config):
    config.write_text(SMALL[: SMALL.index("[sweep]")])
    with pytest.raises(ValueError, match=r"expected a \[sweep\]"):
        grid.load(config)


def test_a_cell_that_cannot_be_trained_is_named(config, tmp_path):
    config.write_text(SMALL + "algorithm.weights = [[0.5, 0.5]]\n")
    message = r"cell with fleet.agents = \d, .*: algorithm.weights must have shape"
    with opened(config, tmp_path / "out") as (work, _), pytest.raises(ValueError, match=message):
        sweep.run(work, final)


@pytest.mark.parametrize("name", ["ray", "own"])
def test_cells_of_engines_that_take_a_cluster_are_no_tasks_of_one(config, tmp_path, monkeypatch, name):
    from fedsarsa.experiments import cluster

    monkeypatch.setitem(engines.ENGINES, "own", engines.ENGINES["ray"])
    config.write_text(SMALL.replace("[training]", f'[training]\nengine = "{name}"'))
    with (
        opened(config, tmp_path / "out") as (work, _),
        pytest.raises(ValueError, match=f"training.engine must be for one core with --ray, got '{name}'"),
    ):
        cluster.train(work, "local")


def test_axes_of_one_name_keep_their_whole_keys():
    axes = {"fleet.seed": [0, 1], "training.seed": [0, 1]}
    assert grid.build({}, axes, fs.__file__, "here").names == ["fleet.seed", "training.seed"]


LONG = SMALL.replace("steps = 400", "steps = 200_000\nrecord_every = 100").replace("runs = 2", "runs = 4")
MANY = (
    LONG.replace("[1, 3]", "[1, 2, 3, 4]")
    .replace("[0.0, 0.5]", "[0.0, 0.5, 1.0, 2.0]")
    .replace("200_", "100_")
)

UNEVEN = LONG.partition("[sweep]")[0].replace("200_", "2_000_") + "[sweep]\nfleet.agents = [1, 2, 8, 16]\n"


def start(config, out):
    arguments = [sys.executable, "-c", "from fedsarsa.cli import main; main()", "sweep", config, "--out", out]
    arguments += ["--threads", "2"]  # cells at a time, on machines of any size
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def finish(config, out):
    with start(config, out) as child:
        printed, errors = child.communicate(timeout=300)
    assert child.returncode == 0, errors
    return printed


def test_a_checkpoint_that_outlived_its_cell_is_removed(config, tmp_path):
    with opened(config, tmp_path / "out") as (work, _):
        sweep.run(work, final)
        left = work.store.checkpoint(3)
        left.write_bytes(work.store.path(3).read_bytes())
    with opened(config, tmp_path / "out"):
        assert not left.exists()


@pytest.mark.slow
def test_kill_nine_at_ten_random_moments_loses_and_repeats_nothing(config, tmp_path):
    config.write_text(MANY)
    whole, out = tmp_path / "whole", tmp_path / "out"
    finish(config, whole)
    written = [path.stat().st_mtime for path in whole.glob("????.nc")]
    pace = (max(written) - min(written)) / len(written)  # seconds from one cell to the next
    moments, stored = random.Random(0), {}
    for _ in range(10):
        with start(config, out) as child:
            begun = time.monotonic()
            while child.poll() is None and len(list(out.glob("*.nc"))) <= len(stored):
                time.sleep(0.01)  # until one more cell is there, and then for a random moment
                assert time.monotonic() - begun < 120
            until = time.monotonic() + moments.random() * pace
            while time.monotonic() < until and len(list(out.glob("????.nc"))) < len(stored) + 3:
                time.sleep(0.001)
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
        cells = {path.name: path.stat().st_mtime_ns for path in out.glob("????.nc")}
        assert stored.items() <= cells.items()  # no finished cell was lost or written again
        stored = cells
    assert len(stored) < 32  # the last one, too, was killed at work
    finish(config, out)
    cells = {path.name: path.stat().st_mtime_ns for path in out.glob("????.nc")}
    assert stored.items() <= cells.items()
    assert contents(out) == contents(whole)


@pytest.mark.slow
def test_interrupt_keeps_the_cells_begun(config, tmp_path):
    config.write_text(UNEVEN)
    whole, out = tmp_path / "whole", tmp_path / "out"
    with start(config, out) as child:
        while child.poll() is None and not list(out.glob("????.nc")):
            time.sleep(0.01)  # until the smaller one of two is there: the other is being trained
        os.killpg(child.pid, signal.SIGINT)
        printed, errors = child.communicate(timeout=60)
    assert child.returncode == 130, errors
    assert "resume with: fedsarsa sweep" in printed
    assert list(out.glob("*.checkpoint.nc"))
    finish(config, out)
    finish(config, whole)
    assert contents(out) == contents(whole)


def test_a_sweep_is_not_a_training(config):
    from fedsarsa.experiments import config as configs

    with pytest.raises(ValueError, match=r"expected one training, got a \[sweep\]; use fedsarsa sweep"):
        configs.load(config)
    assert isinstance(grid.load(config).cells[0].config, Config)
