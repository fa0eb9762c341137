"""The server's memory on disk: a checkpoint to go on from, the central parameters, a line per round."""

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
from fedsarsa.deploy.config import Federation

KIND = "server checkpoint"
CHECKPOINT, CENTRAL, ROUNDS = "checkpoint.npz", "central.f64", "rounds.jsonl"
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
    """

    theta: Floats
    round: int = 0
    federation: str = field(default_factory=lambda: secrets.token_hex(8))
    nodes: dict[int, int] = field(default_factory=dict)
    counted: dict[int, int] = field(default_factory=dict)
    privacy: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """The files of a federation in ``home``."""

    def __init__(self, settings: Federation, home: Path) -> None:
        self.settings, self.home, self.dim = settings, home, settings.dim

    def open(self) -> Standing:
        """Where the federation stands: at its beginning, or at its checkpoint."""
        found = checkpoint(self.home)
        if found is None:
            self._check_age(-1)
            standing = Standing(self.settings.theta0)
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
        standing = Standing(
            arrays["theta"], about["round"], about["federation"], nodes, counted, about["privacy"]
        )
        self._forget_after(standing.round)
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
            with (self.home / ROUNDS).open("ab") as lines:
                _write(lines, json.dumps(record).encode() + b"\n")
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
            {"theta": standing.theta},
        )

    @property
    def _promised(self) -> dict[str, str]:
        """What may not change while a federation lasts."""
        return self.settings.terms | self.settings.averaging

    def _check_age(self, known: int) -> None:
        """Refuse a checkpoint older than the files beside it, which going on from there would cut off."""
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
            kept = [line for line in read(self.home) if line["round"] <= last]
            _files.write_text("".join(json.dumps(line) + "\n" for line in kept), rounds)
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
    """What the checkpoint in ``home`` tells, see `files.load`; None where there is none yet."""
    path = home / CHECKPOINT
    return files.load(path, KIND) if path.exists() else None


def read(home: Path) -> list[dict[str, Any]]:
    """The rounds written so far; an end that a crash cut off, which has no newline, is none."""
    path = home / ROUNDS
    *lines, end = path.read_bytes().split(b"\n") if path.exists() else [b""]
    found = []
    for number, line in enumerate(lines, start=1):
        record = _record(line)
        if record is None:
            raise ValueError(
                f"{path}: line {number}: expected a round as a JSON object with round, {', '.join(FIELDS)}, "
                f"got {line[:60].decode(errors='replace')!r}; mend it, or move the file away, and its history"
            )
        found.append(record)
    last = _record(end)
    return found if last is None else [*found, last]


def _record(line: bytes) -> dict[str, Any] | None:
    """A round's line, if it is one."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or type(record.get("round")) is not int:
        return None
    complete = all(isinstance(record.get(name), kind) for name, kind in FIELDS.items())
    return record if complete or record == {"round": 0} else None


def central(home: Path, dim: int) -> Floats:
    """The central parameters after 0, 1, ... rounds, (rounds + 1, d)."""
    path = home / CENTRAL
    numbers = np.fromfile(path, "<f8") if path.exists() else np.zeros(0)
    return numbers[: len(numbers) // dim * dim].reshape(-1, dim).astype(np.float64)
