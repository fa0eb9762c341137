"""Directories and files of a deployment that others must not read; its state is in .npz files."""

import os
import stat
from pathlib import Path

from fedsarsa import _files
from fedsarsa._npz import Arrays as Arrays
from fedsarsa._npz import load as load
from fedsarsa._npz import save as save
from fedsarsa.deploy import wire


def private_directory(path: Path) -> Path:
    """``path`` as a directory that only its owner can open; made if it is not there."""
    path = path.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"{path}: expected a directory that can be made, got {error.strerror}") from None
    wire.check_private(path)
    return _files.check_writable(path)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, atomically."""
    with _files.replacing(path) as temporary:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)


def check_secret(path: Path) -> Path:
    """``path`` if it is a file that nobody but its owner can read."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a private key (fedsarsa deploy keys)")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise PermissionError(f"{path}: expected a key that only its owner can read (chmod 600)")
    return path
