"""State on disk: a few arrays and a JSON object in one .npz file, whole or not there, no pickles."""

import io
import json
import os
import stat
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _files
from fedsarsa.deploy import wire

Arrays = dict[str, NDArray[Any]]


def save(path: Path, kind: str, about: dict[str, Any], arrays: Arrays) -> None:
    """Write ``path`` atomically; when that fails, what was there before stays."""
    archive = io.BytesIO()
    header = np.array(json.dumps(about | {"fedsarsa_file": kind, "arrays": sorted(arrays)}))
    np.savez(archive, allow_pickle=False, about=header, **arrays)
    # The digest is the archive's comment, whose length is the last that an archive tells.
    image = archive.getvalue()[:-2] + _files.SEAL_LENGTH.to_bytes(2, "little")
    try:
        _files.write(_files.sealed(image), path)
    except OSError as error:
        raise OSError(
            f"{path}: the {kind} could not be written ({error.strerror or error}); the one before is intact"
        ) from None


def load(path: Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read what ``save`` wrote."""
    try:
        content = path.read_bytes()
        has_digest = _files.is_sealed(content, _is_bare_zip)
        with ZipFile(io.BytesIO(content)), np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        about = json.loads(str(arrays.pop("about")))
        if not isinstance(about, dict) or about.pop("fedsarsa_file", None) != kind:
            raise ValueError("a file of another kind")
        # Checksums are over contents, not over names and sizes.
        arrays_alone = all(isinstance(array, np.ndarray) for array in arrays.values())
        if about.pop("arrays", None) != sorted(arrays) or not arrays_alone:
            raise ValueError("a file with other contents than it lists")
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, RuntimeError) as error:
        raise ValueError(f"{path}: expected a fedsarsa {kind}, got: {error}") from None
    if not has_digest:
        _files.warn_unsealed(path)
    return about, arrays


def _is_bare_zip(content: bytes) -> bool:
    """Whether an archive ends without a comment."""
    return content[-22:-18] == b"PK\x05\x06" and content[-2:] == b"\0\0"


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
