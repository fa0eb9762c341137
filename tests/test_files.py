"""Files are read as they were written, or not at all."""

import warnings

import h5py
import numpy as np
import pytest
import xarray as xr

import fedsarsa as fs
from fedsarsa import _files, _netcdf
from fedsarsa.deploy import files
from fedsarsa.federation import checkpoint, training
from tests.damage import damaged
from tests.worlds_of_tests import fleet

MUTATIONS = 2000
ABOUT = {"round": 3}


def small():
    return fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(3.0, 9.0), sync_every=5)


def saved_history(path):
    small().train(fleet(), 20, runs=2, seed=7).save(path)


def saved_checkpoint(path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)
    small().train(fleet(), 20, runs=2, seed=7, checkpoint=path)


def saved_state(path):
    arrays = {"theta": np.arange(300.0), "before.states": np.ones((1, 1), np.uint32)}
    files.save(path, "agent state", ABOUT, arrays)


def read_state(path):
    about, arrays = files.load(path, "agent state")
    return about, {name: array.tolist() for name, array in arrays.items()}


def read_checkpoint(path):
    return _netcdf.read(path, checkpoint.KIND, checkpoint.ARRAYS).to_dict()


KINDS = {
    "history": (saved_history, lambda path: fs.History.load(path).data.to_dict()),
    "checkpoint": (saved_checkpoint, read_checkpoint),
    "state": (saved_state, read_state),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_an_error_or_changes_nothing(kind, tmp_path, monkeypatch):
    save, read = KINDS[kind]
    path = tmp_path / "file"
    save(path, monkeypatch) if kind == "checkpoint" else save(path)
    sound, content = read(path), path.read_bytes()
    refused = 0
    for harmed in damaged(np.random.default_rng(0), content, MUTATIONS):
        path.write_bytes(harmed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "file: a file of an older version")
            try:
                again = read(path)
            except ValueError as error:  # anything else fails the test
                refused += str(error).startswith(f"{path}: expected a fedsarsa ")
                continue
        assert repr(again) == repr(sound)
    assert refused > 0.95 * MUTATIONS  # not those that cut off the digest alone, or change nothing


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_a_digest_are_read_with_a_warning(kind, tmp_path, monkeypatch):
    save, read = KINDS[kind]
    path = tmp_path / "file"
    save(path, monkeypatch) if kind == "checkpoint" else save(path)
    sound, content = read(path), path.read_bytes()
    older = content[: -_files.SEAL_LENGTH]
    if kind == "state":
        older = older[:-2] + b"\0\0"
    path.write_bytes(older)
    with pytest.warns(RuntimeWarning, match="file: a file of an older version, without a digest"):
        assert repr(read(path)) == repr(sound)


def test_other_programs_read_our_files(tmp_path):
    path = tmp_path / "history.nc"
    history = small().train(fleet(), 20, runs=2, seed=7)
    history.save(path)
    with xr.open_dataset(path) as plain:
        assert plain.identical(history.data)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["central"], history.central)
    saved_state(tmp_path / "state.npz")
    with np.load(tmp_path / "state.npz", allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["theta"], np.arange(300.0))
