import h5py
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


def test_an_old_file_survives_a_failed_save(history, tmp_path, monkeypatch):
    path = tmp_path / "history.nc"
    history.save(path)
    before = path.read_bytes()

    written = []

    def full_disk(self, name, **options):
        written.append(name)
        if len(written) == 3:
            raise OSError("no space left on device")
        return create(self, name, **options)

    create = h5py.File.create_dataset
    monkeypatch.setattr(h5py.File, "create_dataset", full_disk)
    with pytest.raises(OSError, match="no space left"):
        history.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["history.nc"]


def test_other_files_are_not_histories(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a fedsarsa history"):
        fs.History.load(tmp_path / "none.nc")
    other = tmp_path / "other.nc"
    xr.Dataset({"x": ("a", [1.0])}).to_netcdf(other, engine="h5netcdf")
    with pytest.raises(ValueError, match="expected a fedsarsa history, got another netCDF file"):
        fs.History.load(other)


# The HDF5 libraries leave noise behind when they meet damage.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_damaged_files_are_reported_as_such(history, tmp_path):
    history.save(tmp_path / "sound.nc")
    sound = (tmp_path / "sound.nc").read_bytes()
    rng = np.random.default_rng(0)
    reported = 0
    for trial in range(40):
        damaged = bytearray(sound)
        for place in rng.integers(0, len(sound), size=400):
            damaged[place] = rng.integers(0, 256)
        path = tmp_path / f"damaged-{trial}.nc"
        path.write_bytes(bytes(damaged))
        try:
            fs.History.load(path)
        except ValueError as error:  # anything else fails the test
            reported += f"{path.name}: expected a" in str(error)
    assert reported > 5


def test_incomplete_files_are_reported_as_such(history, tmp_path):
    history.save(tmp_path / "sound.nc")
    sound = (tmp_path / "sound.nc").read_bytes()
    (tmp_path / "half.nc").write_bytes(sound[: len(sound) // 2])
    with pytest.raises(ValueError, match="expected a fedsarsa history in netCDF"):
        fs.History.load(tmp_path / "half.nc")
    history.data.drop_vars("local").to_netcdf(tmp_path / "less.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="expected a whole fedsarsa history, got one without local"):
        fs.History.load(tmp_path / "less.nc")
