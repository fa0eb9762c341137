import numpy as np
import pytest
import xarray as xr

import fedsarsa as fs
from tests.worlds_of_tests import fleet


@pytest.fixture
def history():
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(3.0, 9.0), sync_every=5)
    return algo.train(fleet(), 20, runs=2, seed=7)


def test_round_trip(history, tmp_path):
    path = tmp_path / "history.nc"
    history.save(path)
    again = fs.History.load(path)
    assert again.data.identical(history.data)
    assert again.settings == history.settings
    assert [p.name for p in tmp_path.iterdir()] == ["history.nc"]


def test_it_says_how_it_was_made(history):
    attrs = history.data.attrs
    assert attrs["engine"] == "cpu"
    assert attrs["seed"] == "7"
    assert attrs["fedsarsa_version"] == fs.__version__
    assert history.settings["policy"] == "Softmax(temperature=1.0)"
    assert history.settings["steps"] == 20
    assert history.settings["sync_every"] == 5


def test_mse_by_definition(history):
    theta = np.arange(15.0)
    error = history.mse(theta)
    assert error.dims == ("run", "t")
    expected = np.sum((history.central.values - theta) ** 2, axis=2)
    np.testing.assert_allclose(error, expected)
    with pytest.raises(ValueError, match=r"theta must have shape \(15,\), got \(3,\)"):
        history.mse([1, 2, 3])


def test_other_files_are_not_histories(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a fedsarsa history"):
        fs.History.load(tmp_path / "none.nc")
    other = tmp_path / "other.nc"
    xr.Dataset({"x": ("a", [1.0])}).to_netcdf(other, engine="h5netcdf")
    with pytest.raises(ValueError, match="expected a fedsarsa history, got another netCDF file"):
        fs.History.load(other)


def test_incomplete_files_are_reported_as_such(history, tmp_path):
    history.save(tmp_path / "sound.nc")
    sound = (tmp_path / "sound.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(sound[: len(sound) // 2])
    with pytest.raises(ValueError, match="expected a fedsarsa history in netCDF"):
        fs.History.load(tmp_path / "half.nc")
    fs.History(history.data.drop_vars("local")).save(tmp_path / "less.nc")
    with pytest.raises(ValueError, match="expected a whole fedsarsa history, got one without local"):
        fs.History.load(tmp_path / "less.nc")
