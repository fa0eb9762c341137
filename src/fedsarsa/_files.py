"""Files that are whole or not there: written under a temporary name, then renamed."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import h5py
import xarray as xr

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``; what was written there becomes ``path`` when all went well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
        _settle(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def claimed(path: Path) -> Iterator[None]:
    """Keep other processes from claiming the same file until the end of the block, or of the process."""
    with path.open("ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OSError(f"{path.parent}: expected no other process at work here, got one") from None
        yield


def _settle(folder: Path) -> None:
    """Wait until a folder's list of files is on the disk, where the system can say so."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_netcdf(data: xr.Dataset, path: Path) -> None:
    """Write a dataset of numbers as netCDF, atomically, with checksums that reading verifies.

    A netCDF file is an HDF5 file whose dimensions are dimension scales. Written so, it takes an eighth of
    the time of ``Dataset.to_netcdf``, which sweeps of short trainings feel.
    """
    with replacing(path) as temporary, h5py.File(temporary, "w", track_order=True) as file:
        for name, variable in data.variables.items():
            # Filters, the checksum among them, need chunks, and chunks need a size.
            checked = variable.size > 0 and variable.ndim > 0
            layout: dict[str, Any] = {"chunks": variable.shape, "fletcher32": True} if checked else {}
            file.create_dataset(str(name), data=variable.values, **layout)
        for name, size in data.sizes.items():
            if name not in data.variables:
                file.create_dataset(str(name), shape=(size,), dtype=">f4")
                note = f"This is a netCDF dimension but not a netCDF variable.{size:>10}"
            else:
                note = str(name)
            file[str(name)].make_scale(note)
        for name, variable in data.variables.items():
            for axis, dimension in enumerate(variable.dims):
                if dimension != name:
                    file[str(name)].dims[axis].attach_scale(file[str(dimension)])
        file.attrs.update(data.attrs)


def write_text(text: str, path: Path) -> None:
    """Write a text file, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


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
        with TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(f"{path}: expected a directory that can be written to, got {error}") from None
    return path
