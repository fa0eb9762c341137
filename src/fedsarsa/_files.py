"""Files that are whole or not there: written under a temporary name, then renamed."""

import errno
import hashlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import h5py
import xarray as xr

from fedsarsa._interrupts import Interrupted, held_interrupt

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

SEAL = b"\nfedsarsa sha256 "
SEAL_LENGTH = len(SEAL) + 64
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
AGAIN = 5.0  # seconds until it is tried again to write where there was no room
HDF5 = b"\x89HDF\r\n\x1a\n"
END_OF_HDF5 = {0: 40, 1: 44, 2: 28, 3: 28}  # where superblocks of these versions tell the end of the file


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


def write(content: bytes, path: Path) -> None:
    """Write a file, atomically; the error of a disk that is full names it."""
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_text(text: str, path: Path) -> None:
    """Write a text file, atomically."""
    write(text.encode(), path)


def write_patiently(save: Callable[[], None], say: Callable[[str], None]) -> None:
    """Call ``save``, which writes what must not be lost: again and again until there is room for it.

    Raises
    ------
    Interrupted
        Ctrl-C while there was no room.
    """
    told = False
    with held_interrupt() as pressed:
        while True:
            try:
                return save()
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                if not told:
                    say(
                        f"{error.filename}: cannot be written ({error.strerror}); make room there; the "
                        f"result is kept in memory and tried again every {AGAIN:g} s, until Ctrl-C"
                    )
                told = True
            if pressed.wait(AGAIN):
                raise Interrupted("interrupted")


def sealed(content: bytes) -> bytes:
    """``content`` and a digest over all of it, which programs that read netCDF or .npz files pass over."""
    return content + SEAL + hashlib.sha256(content).hexdigest().encode()


def is_sealed(content: bytes, was_never: Callable[[bytes], bool]) -> bool:
    """Whether a content ends with its digest; older versions wrote none.

    ``was_never`` tells whether a content ends as theirs did, whatever has become of the rest.

    Raises
    ------
    ValueError
        The content is damaged.
    """
    if sealed(content[:-SEAL_LENGTH]) == content:
        return True
    if was_never(content):
        return False
    raise ValueError("a damaged file, whose digest is missing or another")


def warn_unsealed(path: Path) -> None:
    """Say that a file could be damaged and nobody would know."""
    warnings.warn(
        f"{path}: a file of an older version, without a digest: damage would not be noticed",
        RuntimeWarning,
        stacklevel=4,
    )


def write_netcdf(data: xr.Dataset, path: Path) -> None:
    """Write a dataset of numbers as netCDF, atomically, with a digest that reading verifies.

    A netCDF file is an HDF5 file whose dimensions are dimension scales. Written so, it takes an eighth of
    the time of ``Dataset.to_netcdf``, which sweeps of short trainings feel. HDF5 makes it in memory: where
    a disk is full, HDF5 would crash the process.
    """
    image = io.BytesIO()
    with h5py.File(image, "w", track_order=True) as file:
        for name, variable in data.variables.items():
            file.create_dataset(str(name), data=variable.values)
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
    write(sealed(image.getvalue()), path)


def _is_bare_hdf5(content: bytes) -> bool:
    """Whether an HDF5 file ends where it says it does: with nothing behind it."""
    place = END_OF_HDF5.get(content[8] if len(content) > 8 else -1)
    if place is None or not content.startswith(HDF5):
        return False
    return int.from_bytes(content[place : place + 8], "little") == len(content)


# What the HDF5 libraries raise for damaged files.
DAMAGE = (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError, EOFError)


def read_netcdf(path: Path, kind: str, needed: Iterable[str]) -> xr.Dataset:
    """Read a dataset that ``write_netcdf`` wrote, marked with the attribute ``fedsarsa_file = kind``.

    It must hold ``needed``, variables or attributes.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a fedsarsa {kind}")
    try:
        content = path.read_bytes()
        has_digest = is_sealed(content, _is_bare_hdf5)
        data = xr.load_dataset(io.BytesIO(content), engine="h5netcdf")
    except DAMAGE as error:
        raise ValueError(f"{path}: expected a fedsarsa {kind} in netCDF, got: {error}") from None
    if data.attrs.get("fedsarsa_file") != kind:
        raise ValueError(f"{path}: expected a fedsarsa {kind}, got another netCDF file")
    missing = [name for name in needed if name not in data and name not in data.attrs]
    if missing:
        raise ValueError(f"{path}: expected a whole fedsarsa {kind}, got one without {', '.join(missing)}")
    if not has_digest:
        warn_unsealed(path)
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
