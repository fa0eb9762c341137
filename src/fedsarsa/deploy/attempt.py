"""The askings of a round: who was asked, what came back, and who is left out of it, and why."""

import logging
import time
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message

from fedsarsa.deploy.checks import Examiner, OddOneOutError, RejectedError, Reply
from fedsarsa.deploy.roster import Roster

log = logging.getLogger("fedsarsa.deploy.server")


class Attempt:
    """One asking: the replies of the nodes ``asked``, as far as they have come.

    Attributes
    ----------
    accepted : dict
        The replies that passed every check, by the agent's number and in that order.
    rejected : dict
        Why others did not, by the name of their sender.
    strangers : dict
        Why those cannot take part who learn something else, say, and what they are called. They are counted
        as the agents that they are known as, or else say they are: one that comes back as another node is the
        same.
    sound, missing : set
        The nodes whose reply was accepted, and those without one of any kind.
    """

    def __init__(self, asked: list[int], examiner: Examiner, roster: Roster) -> None:
        self.asked, self.examiner, self.roster = asked, examiner, roster
        self.accepted: dict[int, Reply] = {}
        self.rejected: dict[str, str] = {}
        self.strangers: dict[str, str] = {}
        self.sound: set[int] = set()
        self.missing = set(asked)
        self._believed: dict[int, Reply] = {}

    @property
    def lost(self) -> dict[str, int]:
        """The counted rounds that agents no longer know, by the agents' names."""
        return {f"agent {number}": reply.lost for number, reply in self.accepted.items() if reply.lost}

    def hear(self, message: Message) -> None:
        """Check a reply, and say at once what is wrong with it; whose it is, `close` decides."""
        node = message.metadata.src_node_id
        if node not in self.asked:
            return  # the SuperLink says that somebody is not there
        self.missing.discard(node)
        try:
            self._believed[node] = self.examiner.examine(message)
        except RejectedError as error:
            self._leave_out(node, error)

    def close(self) -> None:
        """Accept the replies of those who are who they say they are, and say who is missing."""
        for node, reply in sorted(self._believed.items()):
            try:
                self.roster.enter(node, reply.number, self.asked)
            except RejectedError as error:
                self._leave_out(node, error)
            else:
                self.sound.add(node)
                self.accepted[reply.number] = reply
        self.accepted = dict(sorted(self.accepted.items()))
        number = self.examiner.number
        for name, lost in self.lost.items():
            log.warning(
                "round %d: %s has lost round %d, which was counted: it resumed from an older state",
                number,
                name,
                lost,
            )
        for node in sorted(self.missing):
            log.warning("round %d: no reply from %s", number, self.roster.name(node))

    def _leave_out(self, node: int, error: RejectedError) -> None:
        name = self.roster.name(node)
        log.warning("round %d: left %s out: %s", self.examiner.number, name, error)
        self.rejected[name] = str(error)
        if isinstance(error, OddOneOutError):
            unknown = self.roster.agent(node) is None and error.says is not None
            self.strangers[f"agent {error.says}" if unknown else name] = f"{name}: {error}"


@dataclass
class Askings:
    """What the askings of one round have come to.

    Attributes
    ----------
    left_out : dict
        What was wrong with the last reply of those who never gave a sound one since, by name; None if there
        was none.
    earlier : dict
        What had been wrong with others before they gave one.
    strangers : dict
        See `Attempt`.
    asked, failed : set
        The nodes asked, and those that gave no sound reply when they were asked.
    begun : float
        When the round before was ready to be written down.
    waited, away : float
        Seconds spent on replies and between askings, and on Flower's list of nodes.
    unseen, bridging : float
        Seconds for which replies lay unseen, and those of the slowest agent of each asking.
    """

    begun: float
    count: int = 0
    left_out: dict[str, str | None] = field(default_factory=dict)
    earlier: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    sent: int = 0
    received: int = 0
    waited: float = 0.0
    away: float = 0.0
    unseen: float = 0.0
    bridging: float = 0.0

    def add(self, attempt: Attempt) -> None:
        """Take in an asking that is closed."""
        replies = attempt.accepted.values()
        self.count += 1
        self.asked |= set(attempt.asked)
        self.failed |= set(attempt.asked) - attempt.sound
        self.received += sum(reply.bytes for reply in replies)
        self.bridging += max((reply.seconds for reply in replies), default=0.0)
        self.left_out |= attempt.rejected
        self.strangers |= attempt.strangers
        for node in attempt.missing:
            self.left_out.setdefault(attempt.roster.name(node), None)
        for node in attempt.sound:
            name = attempt.roster.name(node)
            for known_as in (f"node {node}", name):  # who it is, its sound reply may have told
                self.strangers.pop(known_as, None)
                if known_as in self.left_out:
                    self.earlier[name] = self.left_out.pop(known_as) or "no reply"

    def record(self) -> dict[str, Any]:
        """What a round's line says about them.

        ``seconds`` are all since the round before was ready to be written down; ``server_seconds`` those of
        them in which the server neither waited nor asked Flower.
        """
        seconds = time.perf_counter() - self.begun
        return {
            "askings": self.count,
            "asked": len(self.asked),
            "missing": sorted(name for name, why in self.left_out.items() if why is None),
            "rejected": {name: why for name, why in self.left_out.items() if why is not None},
            "earlier": self.earlier,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "seconds": seconds,
            "server_seconds": seconds - self.waited - self.away + self.unseen,
            "bridge_seconds": self.bridging,
        }
