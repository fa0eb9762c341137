"""The server's memory on disk: a checkpoint to resume from, the central parameters, a line per round."""

import hashlib
import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fedsarsa import _files
from fedsarsa._checks import Floats
from fedsarsa.deploy import files
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.federation.servers.rule import Memory

KIND = "server checkpoint"
CHECKPOINT, CENTRAL, ROUNDS = "checkpoint.npz", "central.f64", "rounds.jsonl"
DIGEST, MEMORY = "sha256", "memory."
FIELDS = {  # of a round's line, as far as others rely on them; the line of round 0 has none of them
    "agents": list,
    "missing": list,
    "rejected": dict,
    "moved": float,
    "bytes_sent": int,
    "bytes_received": int,
    "seconds": float,
}


@dataclass
class Standing:
    """Where a federation stands after ``round`` rounds.

    Attributes
    ----------
    federation : str
        A name drawn at its beginning, by which agents know whether they have begun.
    nodes : dict
        Which agent lives behind which Flower node, as far as they have replied.
    counted : dict
        The last round that counted each agent.
    privacy : dict
        What the privacy accountant must remember.
    starts : (N, d)
        Where agents begin the next round, if the server rule is personal; (0, d) if it is not.
    memory : dict of arrays that begin with one run
        What the server rule keeps.
    """

    theta: Floats
    starts: Floats
    memory: Memory = field(default_factory=dict)
    round: int = 0
    federation: str = field(default_factory=lambda: secrets.token_hex(8))
    nodes: dict[int, int] = field(default_factory=dict)
    counted: dict[int, int] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """The files of a federation in ``home``."""

    def __init__(self, settings: Federation, home: Path) -> None:
        self.settings, self.home, self.dim = settings, home, settings.dim
        self._digest = ""  # of the last line

    def open(self) -> Standing:
        """Where the federation stands: at its beginning, or at its checkpoint."""
        found = checkpoint(self.home)
        if found is None:
            self._check_age(-1)
            settings, rule = self.settings, self.settings.rule
            starts = np.tile(settings.theta0, (settings.agents if rule.personal else 0, 1))
            memory = rule.memory(1, settings.agents, settings.dim)
            standing = Standing(settings.theta0, starts, memory)
            self._forget_after(-1)
            self.close_round(standing, {"round": 0})
            return standing
        about, arrays = found
        for name, own in self._promised.items():
            given = about.get("promised", {}).get(name)
            if given != own:
                raise ValueError(
                    f"{self.home / CHECKPOINT}: expected a checkpoint of this federation, "
                    f"whose {name} is {own}, got one whose {name} is {given}; "
                    "choose another directory, or remove it"
                )
        done, every = about["round"], self.settings.every
        self._check_age(done)
        if done > self.settings.rounds:
            raise ValueError(
                f"training.steps: expected at least the {done * every} of the {done} rounds that are done in "
                f"{self.home}, got {self.settings.training.steps}"
            )
        nodes, counted = ({int(key): n for key, n in about[name].items()} for name in ("nodes", "counted"))
        memory = {name.removeprefix(MEMORY): one for name, one in arrays.items() if name.startswith(MEMORY)}
        starts = arrays.get("starts", np.empty((0, self.dim)))
        known = about["round"], about["federation"], nodes, counted, about["privacy"]
        standing = Standing(arrays["theta"], starts, memory, *known)
        self._forget_after(standing.round)
        rows = central(self.home, self.dim)[standing.round :]
        if len(rows) and not np.isnan(rows[0]).all() and not np.array_equal(rows[0], standing.theta):
            raise _other_parameters(self.home, standing.round)
        return standing

    def close_round(self, standing: Standing, record: dict[str, Any]) -> None:
        """Write a finished round: first what can be taken back, last the checkpoint."""
        central = self.home / CENTRAL
        try:
            with central.open("r+b" if central.exists() else "w+b") as file:
                before = standing.round * self.dim
                held = min(before, file.seek(0, os.SEEK_END) // 8)
                lost = np.full(before - held, np.nan)  # zeros would pass for parameters
                file.seek(held * 8)
                _write(file, np.concatenate([lost, standing.theta]).astype("<f8").tobytes())
            line, digest = _sealed(record | {"central": _digest(standing.theta)}, self._digest)
            with (self.home / ROUNDS).open("ab") as lines:
                _write(lines, line)
            self._digest = digest
        except OSError as error:
            raise OSError(
                f"{self.home}: round {standing.round} could not be written ({error.strerror}); "
                f"the checkpoint before it is intact"
            ) from None
        self.save(standing)

    def save(self, standing: Standing) -> None:
        """Write the checkpoint."""
        files.save(
            self.home / CHECKPOINT,
            KIND,
            {
                "round": standing.round,
                "federation": standing.federation,
                "nodes": standing.nodes,
                "counted": standing.counted,
                "privacy": standing.privacy,
                "promised": self._promised,
            },
            {"theta": standing.theta, "starts": standing.starts}
            | {MEMORY + name: array for name, array in standing.memory.items()},
        )

    @property
    def _promised(self) -> dict[str, str]:
        """What may not change while a federation lasts."""
        return self.settings.terms | self.settings.averaging

    def _check_age(self, known: int) -> None:
        """Reject a checkpoint older than the files beside it, which resuming from it would cut off."""
        central = self.home / CENTRAL
        held = central.stat().st_size // (self.dim * 8) - 1 if central.exists() else -1
        last = max([held, *(line["round"] for line in read(self.home))])
        if last > known + 1:  # a server that was killed may have written one round more
            given = f"that of round {known}" if known >= 0 else "none"
            raise ValueError(
                f"{self.home / CHECKPOINT}: expected the checkpoint of round {last}, the last in {ROUNDS} or "
                f"{CENTRAL}, got {given}; put it back, or move these two away to begin there all the same"
            )

    def _forget_after(self, last: int) -> None:
        """Take back what was written of rounds that the checkpoint does not know."""
        central, rounds = self.home / CENTRAL, self.home / ROUNDS
        if rounds.exists():  # first: whoever reads along finds parameters for every line
            kept = [line for line in _lines(self.home) if line.record["round"] <= last]
            _files.write(b"".join(line.text + b"\n" for line in kept), rounds)
            self._digest = kept[-1].digest if kept else ""
            if kept and not kept[0].digest:
                _files.warn_unsealed(rounds)
        if central.exists():
            with central.open("r+b") as file:
                held = file.seek(0, os.SEEK_END) // (self.dim * 8)
                file.truncate(min(held, last + 1) * self.dim * 8)


def _write(file: BinaryIO, content: bytes) -> None:
    """Write, and wait until it is on disk: what the checkpoint knows is then there too."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def checkpoint(home: Path) -> tuple[dict[str, Any], files.Arrays] | None:
    """What the checkpoint in ``home`` holds, see `files.load`; None where there is none yet."""
    path = home / CHECKPOINT
    return files.load(path, KIND) if path.exists() else None


def read(home: Path) -> list[dict[str, Any]]:
    """The rounds written so far; an end that a crash cut off, which has no newline, is none."""
    return [line.record for line in _lines(home)]


@dataclass(frozen=True)
class _Line:
    """A round's line, and its digest; "" in those of older versions, which have none."""

    text: bytes
    record: dict[str, Any]
    digest: str


def _lines(home: Path) -> list[_Line]:
    path = home / ROUNDS
    if not path.exists():
        return []
    known = checkpoint(home)  # first: a round's line is written before its checkpoint
    *texts, end = path.read_bytes().split(b"\n")
    found: list[_Line] = []
    for number, text in enumerate(texts, start=1):
        line = _line(text, found)
        if line is None:
            raise ValueError(
                f"{path}: line {number}: expected a round as a JSON object with round, {', '.join(FIELDS)} "
                f"and its digest, got {text[:60].decode(errors='replace')!r}; put a copy back, or move the "
                "file away, and its history"
            )
        found.append(line)
    last = _line(end, found)
    found += [] if last is None else [last]
    if known is not None and (not found or found[-1].record["round"] < known[0]["round"]):
        raise ValueError(
            f"{path}: expected lines up to round {known[0]['round']}, got {len(found)} lines; put a copy "
            "back, or move the file away, and its history"
        )
    return found


def _line(text: bytes, before: list[_Line]) -> _Line | None:
    """A round's line, if it is one and the one that follows those before it."""
    record = _record(text)
    if record is None:
        return None
    previous = before[-1].digest if before else ""
    digest = record.pop(DIGEST, "")
    if not digest and not previous:  # of an older version
        return _Line(text, record, "")
    sound = _sealed(record, previous) == (text + b"\n", digest)
    return _Line(text, record, digest) if sound else None


def _sealed(record: dict[str, Any], previous: str) -> tuple[bytes, str]:
    """A round's line and its digest, which is over the line before it too."""
    digest = hashlib.sha256((previous + json.dumps(record)).encode()).hexdigest()
    return json.dumps(record | {DIGEST: digest}).encode() + b"\n", digest


def _digest(theta: Floats) -> str:
    return hashlib.sha256(theta.astype("<f8").tobytes()).hexdigest()


def _record(line: bytes) -> dict[str, Any] | None:
    """A round's line, if it is one."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or type(record.get("round")) is not int:
        return None
    complete = all(isinstance(record.get(name), kind) for name, kind in FIELDS.items())
    return record if complete or record.keys() <= {"round", "central", DIGEST} else None


def central(home: Path, dim: int) -> Floats:
    """The central parameters after 0, 1, ... rounds, (rounds + 1, d); NaN where they were lost."""
    lines, known, path = read(home), checkpoint(home), home / CENTRAL
    numbers = np.fromfile(path, "<f8") if path.exists() else np.zeros(0)
    rows: Floats = numbers[: len(numbers) // dim * dim].reshape(-1, dim).astype(np.float64)
    last = max([-1 if known is None else known[0]["round"], *(line["round"] for line in lines)])
    rows = rows[: last + 1]
    for line in lines:
        if "central" in line and line["round"] < len(rows):
            row = rows[line["round"]]
            if not np.isnan(row).all() and _digest(row) != line["central"]:
                raise _other_parameters(home, line["round"])
    return rows


def _other_parameters(home: Path, number: int) -> ValueError:
    return ValueError(
        f"{home / CENTRAL}: expected the parameters after round {number}, got others; put a copy back, or "
        "move the file away, and the parameters so far"
    )
