"""The long-lived agent: holds the world, the learner and its place in the federation between rounds.

Flower may start a new client process for every message; this process stays, and that client is a bridge
to it. What it knows is on disk after every round, so that a crash loses nothing but time.
"""

import fcntl
import json
import logging
import math
import os
import signal
import socket
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.deploy import files, wire
from fedsarsa.deploy.federation_config import Federation
from fedsarsa.deploy.learner import Held, Learner, WorldError
from fedsarsa.deploy.logs import plain
from fedsarsa.federation.problem import MOST_STEPS

log = logging.getLogger("fedsarsa.deploy.agent")
KIND = "agent state"
STATE, LOCK = "agent.npz", "agent.lock"
BEFORE, AFTER = "before.", "after."  # the last round answered
LONGEST_NAME = 64


class RefusalError(ValueError):
    """The agent does not take part in this round; the server learns why."""


class Agent:
    """Agent ``number`` of a federation, with its state in ``home``.

    Attributes
    ----------
    federation, round : str, int
        The federation it takes part in, "" before the first, and the last round it answered there.
    before : dict or None
        What its learner held before that round; None: it had not begun.
    lost : int
        The round that counted this agent last, if that was none it knew of when it took that round; else 0.
    """

    def __init__(self, settings: Federation, number: int, home: Path) -> None:
        self.terms, self.number, self.path = settings.terms, number, home / STATE
        self.every, self.patience = settings.every, settings.deadline.request
        self.learner, self.personal = Learner(settings, number), settings.rule.personal
        self.federation, self.round = "", 0
        self.asked = self.answer = np.zeros(self.learner.dim)
        self.before: Held | None = None
        self.lost = 0
        if self.path.exists():
            self._load()

    def take_part(self, request: dict[str, Any], theta: Floats) -> Floats:
        """The local parameter after the round that ``request`` describes, from ``theta`` on.

        Under the personal rule ``theta`` holds the agent's parameter, then the others' part of its mixture.
        Where visits count, the answer holds the parameter, then the visits.

        The same round asked for twice, by a server that resumed from its checkpoint, has the same answer:
        the world does not move again. A round whose answer did not count is as if it had not been: the next
        one begins where that one began.
        """
        self._check(request, theta)
        learner, number = self.learner, request["round"]
        anew = request["federation"] != self.federation
        if not anew and number <= self.round:
            if number == self.round and np.array_equal(theta, self.asked):
                return self.answer
            raise RefusalError(f"round {number} is stale: this agent has answered round {self.round}")
        if anew and self.path.exists():  # the server may have been started in a wrong directory
            raise RefusalError(
                f"federation {request['federation']} is not {self.federation}, of which round {self.round} "
                f"is in {self.path}; remove that file to begin anew"
            )
        after = learner.held
        last = request["counted"].get(str(self.number), 0)
        lost = last if last > (0 if anew else self.round) else 0
        if lost:
            told = f"round {lost} was counted, and is not in {self.path}: it is lost here"
            log.warning("agent %d: %s", self.number, told)
        before = None if anew else after if last >= self.round else self.before
        try:
            if before is not None:
                learner.held = before
            elif anew or learner.can_be_saved:
                learner.begin()
            mixture = (request["own"], theta[learner.dim :]) if self.personal else None
            start, begun = theta[: learner.dim], (number - 1) * self.every
            answer = learner.advance(start, begun, self.every, request["until"], mixture)
            self._save(request["federation"], number, theta, answer, before)
        except (OSError, ArithmeticError, WorldError) as error:
            learner.held = after  # as if it had not been asked
            raise RefusalError(str(error)) from None
        self.federation, self.round, self.before = request["federation"], number, before
        self.asked, self.answer, self.lost = theta, answer, lost
        return answer

    def _check(self, request: dict[str, Any], theta: Floats) -> None:
        # ``counted``: agents' numbers, as text, and the last round that counted each of them.
        wanted = {"federation": str, "round": int, "terms": dict, "until": float, "counted": dict}
        wanted |= {"own": float} if self.personal else {}
        for name, kind in wanted.items():
            if type(request.get(name)) is not kind:
                raise RefusalError(f"{name} must be of type {kind.__name__}, got {request.get(name)!r}")
        if type(request["counted"].get(str(self.number), 0)) is not int:
            raise RefusalError(f"counted must hold the numbers of rounds, got {request['counted']!r:.200}")
        for name, own in self.terms.items():
            if request["terms"].get(name) != own:
                raise RefusalError(f"{name} is {own} here, {request['terms'].get(name)} at the server")
        name, last = request["federation"], MOST_STEPS // self.every
        if not 1 <= request["round"] <= last:
            raise RefusalError(f"round must be at least 1 and at most {last}, got {request['round']}")
        if not (name.isascii() and name.isalnum() and len(name) <= LONGEST_NAME):
            raise RefusalError(f"federation must have a name of at most {LONGEST_NAME} letters, got {name!r}")
        size = self.learner.dim * (2 if self.personal else 1)
        if theta.shape != (size,) or not np.isfinite(theta).all():
            raise RefusalError(f"theta must be {size} finite numbers, got {theta.shape[0]}")
        if self.personal and not math.isfinite(request["own"]):
            raise RefusalError(f"own must be a finite number, got {request['own']}")
        if not math.isfinite(request["until"]):
            raise RefusalError(f"until must be a time, got {request['until']}")
        if time.monotonic() > request["until"]:
            raise RefusalError("the round's deadline has passed")

    def _save(self, federation: str, number: int, asked: Floats, answer: Floats, before: Held | None) -> None:
        about = {
            "federation": federation,
            "round": number,
            "number": self.number,
            "begun": before is not None,
            "terms": self.terms,
        }
        arrays = {"asked": asked, "answer": answer}
        for when, held in ((BEFORE, before or {}), (AFTER, self.learner.held)):
            arrays |= {when + name: array for name, array in held.items()}
        files.save(self.path, KIND, about, arrays)

    def _load(self) -> None:
        about, arrays = files.load(self.path, KIND)
        own = {"number": self.number} | self.terms
        given = {"number": about["number"]} | about["terms"]
        for name in own | given:
            if own.get(name) != given.get(name):
                raise ValueError(
                    f"{self.path}: expected the state of an agent whose {name} is {own.get(name)}, got that "
                    f"of one whose {name} is {given.get(name)}; choose another directory, or remove it"
                )
        self.federation, self.round = about["federation"], about["round"]
        self.asked, self.answer = arrays["asked"], arrays["answer"]
        self.before = _part(arrays, BEFORE) if about["begun"] else None
        self.learner.held = _part(arrays, AFTER)


def _part(arrays: files.Arrays, when: str) -> Held:
    """What the learner held ``when``."""
    return {name.removeprefix(when): array for name, array in arrays.items() if name.startswith(when)}


def serve(settings: Federation, number: int, home: Path) -> None:
    """Answer the bridge until SIGTERM or Ctrl-C."""
    home = files.private_directory(home)
    address = home / wire.SOCKET
    wire.check_socket(address)
    with (home / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{home}: another agent is running here; expected a directory of its own"
            ) from None
        agent = Agent(settings, number, home)
        agent.learner.warm()
        address.unlink(missing_ok=True)  # left by a process that was killed: the lock says it is gone
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            before = os.umask(0o177)
            try:
                listener.bind(str(address))
            finally:
                os.umask(before)
            listener.listen()
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            done = f", resuming after round {agent.round}" if agent.round else ""
            if agent.round and not agent.learner.can_be_saved:
                done += ", with a new episode: environments cannot be saved"
            try:
                log.info("agent %d listens on %s%s", number, address, done)
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        answer(agent, connection)
            except KeyboardInterrupt:
                log.info("agent %d stops after round %d", number, agent.round)
            finally:
                agent.learner.close()
                address.unlink(missing_ok=True)


def reply(agent: Agent, request: bytes, theta: bytes, until: float) -> tuple[dict[str, Any], bytes]:
    """What the agent says to a request: the header of its reply, and its parameters unless it refuses."""
    header = {"agent": agent.number, "terms": agent.terms}
    try:
        answer = agent.take_part(wire.read(request) | {"until": until}, wire.unpacked(theta))
    except (RefusalError, wire.BrokenMessageError) as refusal:
        refused = {"refused": plain(str(refusal)), "federation": agent.federation, "answered": agent.round}
        return header | refused, b""
    header |= {"round": agent.round, "federation": agent.federation, "lost": agent.lost}
    return header, wire.packed(answer)


def answer(agent: Agent, connection: socket.socket) -> None:
    """Answer one request; whatever is wrong with it, the agent lives on."""
    said = ""
    try:
        if _peer(connection) != os.getuid():
            raise wire.BrokenMessageError("expected a bridge of the same user")
        connection.settimeout(agent.patience)
        header, theta = reply(agent, *wire.receive_request(connection))
        said = header.get("refused") or f"round {agent.round}: {agent.every} steps"
        ended, gain = agent.learner.episodes
        if ended and "refused" not in header:
            said += f", {ended} episodes with a mean return of {gain:.6g}"
        wire.send(connection, json.dumps(header).encode(), theta)
    except (OSError, wire.BrokenMessageError) as error:
        said = "; ".join([*([said] if said else []), f"no answer: {error}"])
    log.info("agent %d: %s", agent.number, plain(said))


def _peer(connection: socket.socket) -> int:
    """The user at the other end, where the system reports it; the socket's permissions keep others out."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.getuid()
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return int(user)
