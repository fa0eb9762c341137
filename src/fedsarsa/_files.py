"""Files that are whole or not there: written under a temporary name, then renamed."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``; what was written there becomes ``path`` when all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_netcdf(data: xr.Dataset, path: Path) -> None:
    """Write a dataset as netCDF, atomically."""
    with replacing(path) as temporary:
        data.to_netcdf(temporary, engine="h5netcdf")


# What the HDF5 libraries raise for damaged files.
DAMAGE = (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, EOFError)


def read_netcdf(path: Path, kind: str, needed: Iterable[str]) -> xr.Dataset:
    """Read a dataset that ``write_netcdf`` wrote, marked with the attribute ``fedsarsa_file = kind``.

    It must hold ``needed``, variables or attributes.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a fedsarsa {kind}")
    try:
        data = xr.load_dataset(path, engine="h5netcdf")
    except DAMAGE as error:
        raise ValueError(f"{path}: expected a fedsarsa {kind} in netCDF, got: {error}") from None
    if data.attrs.get("fedsarsa_file") != kind:
        raise ValueError(f"{path}: expected a fedsarsa {kind}, got another netCDF file")
    missing = [name for name in needed if name not in data and name not in data.attrs]
    if missing:
        raise ValueError(f"{path}: expected a whole fedsarsa {kind}, got one without {', '.join(missing)}")
    return data


def writable_directory(path: Path) -> Path:
    """``path`` as a directory in which files can be made; made if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{path}: expected a directory that can be written to, got {error}") from None
    return check_writable(path)


def check_writable(path: Path) -> Path:
    """``path`` if it is a directory in which files can be made."""
    try:
        probe = path / f".{os.getpid()}.probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{path}: expected a directory that can be written to, got {error}") from None
    return path
