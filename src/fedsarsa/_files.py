"""Files that are whole or not there: written under a temporary name, then renamed."""

import errno
import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from fedsarsa._interrupts import Interrupted, held_interrupt

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

SEAL = b"\nfedsarsa sha256 "
SEAL_LENGTH = len(SEAL) + 64
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
AGAIN = 5.0  # seconds until it is tried again to write where there was no room


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
                        f"result is kept in memory and retried every {AGAIN:g} s, until Ctrl-C"
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
