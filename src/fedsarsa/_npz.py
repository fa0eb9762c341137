"""A few arrays and a JSON object in one .npz file, whole or not there, no pickles."""

import io
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _files

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
        before = "; the one before is intact" if path.exists() else ""
        raise OSError(
            f"{path}: the {kind} could not be written ({error.strerror or error}){before}"
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
