"""A folder of results, one file each: of one configuration only, every file whole or not there."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fedsarsa import _files, _netcdf
from fedsarsa.federation.checkpoint import KIND

MANIFEST = "identity.json"
LOCK = ".lock"
T = TypeVar("T")


@dataclass(frozen=True)
class Store:
    """Numbered files in ``folder``; ``say`` reports those that had to be set aside."""

    folder: Path
    say: Callable[[str], None]

    def path(self, number: int | str) -> Path:
        """Where a result is kept: ``number``, or a name of more than four letters."""
        return self.folder / f"{number:0>4}.nc"

    def checkpoint(self, number: int) -> Path:
        """Where a part of result ``number`` is kept while it is made."""
        return self.folder / f"{number:04d}.checkpoint.nc"

    def get(self, number: int | str, load: Callable[[Path], T]) -> T | None:
        """Result ``number``, or None if it is not there; a damaged file is set aside."""
        return self._whole(self.path(number), load)

    def set_aside_if_damaged(self, checkpoint: Path) -> None:
        """Leave a checkpoint where it is only if it can be read."""
        self._whole(checkpoint, lambda path: _netcdf.read(path, KIND, ()))

    def _whole(self, path: Path, load: Callable[[Path], T]) -> T | None:
        if not path.exists():
            return None
        try:
            return load(path)
        except ValueError as error:
            aside = path.with_suffix(".damaged")
            for again in itertools.count(2):
                if not aside.exists():
                    break
                aside = path.with_suffix(f".{again}.damaged")
            path.replace(aside)
            self.say(f"{error}; set aside as {aside.name}, and made anew")
            return None


@contextmanager
def opened(folder: Path, identity: dict[str, Any], say: Callable[[str], None]) -> Iterator[Store]:
    """The store of one configuration, for this process alone; made if it is not there.

    One of another configuration is rejected, as is a folder with other files.
    """
    _files.writable_directory(folder)
    with _files.claimed(folder / LOCK):
        manifest = folder / MANIFEST
        if manifest.exists():
            _compare(manifest, identity)
        else:
            others = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
            if others:
                raise ValueError(
                    f"{folder}: expected an empty directory or one of this configuration, got {others[0]}"
                )
            _files.write_text(json.dumps(identity, indent=1), manifest)
        for left in folder.glob(".*.part"):  # by a process that was killed while it wrote
            left.unlink()
        store = Store(folder, say)
        for path in folder.glob("????.nc"):  # by one that was killed when it had written this
            store.checkpoint(int(path.stem)).unlink(missing_ok=True)
        yield store


def _compare(manifest: Path, identity: dict[str, Any]) -> None:
    try:
        known = json.loads(manifest.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{manifest}: expected the description of a sweep, got: {error}") from None
    different = difference(known, identity)
    if different:
        raise ValueError(
            f"{manifest.parent}: holds results of another configuration ({different}); "
            "expected an empty directory or the same configuration"
        )


def difference(known: Any, wanted: Any, place: str = "") -> str:
    """The first place where two contents of JSON differ, in words; empty if they are the same."""
    if isinstance(known, dict) and isinstance(wanted, dict):
        for key in [*known, *(key for key in wanted if key not in known)]:
            name = f"{place}.{key}" if place else key
            if key not in known or key not in wanted:
                return f"{name} only {'there' if key in known else 'here'}"
            found = difference(known[key], wanted[key], name)
            if found:
                return found
        return ""
    return "" if known == wanted else f"{place} is {known!r} there, {wanted!r} here"
