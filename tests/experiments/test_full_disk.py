"""Trainings whose disk is full: nothing crashes, and what was trained is written when there is room."""

import os
import signal

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import grid, sweep
from tests.experiments.commands import SMALL
from tests.full_disks import FullDisk

pytestmark = pytest.mark.slow

COMMAND = """
import fedsarsa.federation.training as training
from fedsarsa.cli import main
training.CHECKPOINT_SECONDS = -1.0  # after every stretch
main()
"""


def test_a_training_waits_for_room_and_loses_nothing(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(SMALL)
    place = tmp_path / "disk" / "out"
    with FullDisk(tmp_path, COMMAND, "train", config, "--out", place) as disk:
        said = disk.hear("make room there")
        assert f"{place}/history.nc: cannot be written (No space left on device)" in said
        disk.make_room()
        code, _, errors = disk.end()
    assert code == 0, errors
    assert "checkpoint.nc'; training is not saved: it cannot be extended" in errors
    assert "Traceback" not in errors
    written = fs.History.load(tmp_path / "kept" / "history.nc")
    expected = fs.FedSARSA().train(fs.paper.fleet(3, states=10, actions=5), 50, runs=2, seed=4)
    np.testing.assert_array_equal(written.central, expected.central)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"history.nc", "error.png", "error.pdf"}


def test_ctrl_c_gives_up_a_training_without_room(tmp_path):
    config = tmp_path / "small.toml"
    config.write_text(SMALL)
    with FullDisk(tmp_path, COMMAND, "train", config, "--out", tmp_path / "disk" / "out") as disk:
        disk.hear("make room there")
        os.kill(disk.child(), signal.SIGINT)
        code, said, errors = disk.end()
    assert code == 130, errors
    assert "history.nc was not written, and this training is lost" in said
    assert "Traceback" not in errors


def test_a_sweep_waits_for_room_and_loses_nothing(tmp_path):
    config = tmp_path / "sweep.toml"
    config.write_text(SMALL + "[sweep]\nfleet.agents = [1, 2, 3]\n")
    kept = tmp_path / "kept"
    with sweep.opened(grid.load(config), kept):  # begun where there was room
        pass
    (kept / ".lock").unlink()
    with FullDisk(tmp_path, COMMAND, "sweep", config, "--out", tmp_path / "disk" / "out") as disk:
        assert ".nc: cannot be written (No space left on device)" in disk.hear("make room there")
        disk.make_room()
        code, said, errors = disk.end()
    assert code == 0, errors + said
    assert "Traceback" not in errors
    for number, agents in enumerate((1, 2, 3)):
        written = fs.History.load(kept / f"{number:04d}.nc")
        expected = fs.FedSARSA().train(fs.paper.fleet(agents, states=10, actions=5), 50, runs=2, seed=4)
        np.testing.assert_array_equal(written.central, expected.central)
