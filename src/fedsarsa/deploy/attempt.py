"""The askings of a round: who was asked, what came back, and who is left out of it, and why."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message

from fedsarsa.deploy.checks import Examiner, OddOneOutError, RejectedError, Reply
from fedsarsa.deploy.roster import Roster


class Attempt:
    """One asking: the replies of the nodes ``asked``, as far as they have come.

    Attributes
    ----------
    accepted : dict
        The replies that passed every check, and their messages, by the agent's number and in that order.
    rejected : dict
        Why others did not, by the name of their sender.
    strangers : dict
        Why those cannot take part who learn something else, say, and what they are called. They are counted
        as the agents that they are known as, or else say they are: one that comes back as another node is the
        same.
    sound, missing : set
        The nodes whose reply was accepted, and those without one of any kind.
    """

    def __init__(
        self, asked: list[int], examiner: Examiner, roster: Roster, say: Callable[[str], None]
    ) -> None:
        self.asked, self.examiner, self.roster, self.say = asked, examiner, roster, say
        self.accepted: dict[int, tuple[Reply, Message]] = {}
        self.rejected: dict[str, str] = {}
        self.strangers: dict[str, str] = {}
        self.sound: set[int] = set()
        self.missing = set(asked)
        self._verdicts: dict[Message, Reply | RejectedError] = {}
        self._told: set[str] = set()

    @property
    def replies(self) -> list[Reply]:
        """The accepted replies."""
        return [reply for reply, _ in self.accepted.values()]

    @property
    def lost(self) -> dict[str, int]:
        """The counted rounds that agents no longer know, by the agents' names."""
        return {f"agent {reply.number}": reply.lost for reply in self.replies if reply.lost}

    def hear(self, message: Message) -> None:
        """Say at once what is wrong with a reply; whose it is, is looked at with all others."""
        node = message.metadata.src_node_id
        if node in self.asked and isinstance(verdict := self._verdict(message), RejectedError):
            self._tell(self.roster.name(node), str(verdict))

    def gather(self, replies: Iterable[Message]) -> None:
        """Accept the replies that are sound, and say who is left out and who is missing."""
        found = {}
        for message in sorted(replies, key=lambda message: message.metadata.src_node_id):
            node = message.metadata.src_node_id
            if message.has_error() and node not in self.asked:
                continue  # the SuperLink says that somebody is not there
            self.missing.discard(node)
            try:
                verdict = self._verdict(message)
                if isinstance(verdict, RejectedError):
                    raise verdict
                self.roster.enter(node, verdict.number, self.asked)
            except RejectedError as error:
                self._leave_out(node, error)
                continue
            self.sound.add(node)
            found[verdict.number] = verdict, message
        self.accepted = dict(sorted(found.items()))
        for name, reason in self.rejected.items():
            self._tell(name, reason)
        for name, lost in self.lost.items():
            self.say(
                f"round {self.examiner.number}: {name} has lost round {lost}, which was counted: it went on "
                "from an older state"
            )
        for node in sorted(self.missing):
            self.say(f"round {self.examiner.number}: no reply from {self.roster.name(node)}")

    def _verdict(self, message: Message) -> Reply | RejectedError:
        """What the examiner makes of a reply, which it sees once."""
        if message not in self._verdicts:
            try:
                self._verdicts[message] = self.examiner.examine(message)
            except RejectedError as error:
                self._verdicts[message] = error
        return self._verdicts[message]

    def _leave_out(self, node: int, error: RejectedError) -> None:
        name = self.roster.name(node)
        self.rejected[name] = str(error)
        if isinstance(error, OddOneOutError):
            unknown = self.roster.agent(node) is None and error.says is not None
            self.strangers[f"agent {error.says}" if unknown else name] = f"{name}: {error}"

    def _tell(self, name: str, reason: str) -> None:
        """Say, once, who is left out."""
        if name not in self._told:
            self.say(f"round {self.examiner.number}: left {name} out: {reason}")
        self._told.add(name)


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
    own, bridging : float
        Seconds of the strategy's, and of the slowest agent of each asking.
    waited : float
        Seconds spent on replies and between askings.
    """

    count: int = 0
    left_out: dict[str, str | None] = field(default_factory=dict)
    earlier: dict[str, str] = field(default_factory=dict)
    strangers: dict[str, str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    begun: float = field(default_factory=time.perf_counter)
    sent: int = 0
    received: int = 0
    own: float = 0.0
    bridging: float = 0.0
    waited: float = 0.0

    def add(self, attempt: Attempt) -> None:
        """Take in an asking whose replies were gathered."""
        self.count += 1
        self.asked |= set(attempt.asked)
        self.failed |= set(attempt.asked) - attempt.sound
        self.received += sum(reply.bytes for reply in attempt.replies)
        self.bridging += max((reply.seconds for reply in attempt.replies), default=0.0)
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
        """What a round's line tells of them; ``seconds`` are all since the round was first asked."""
        return {
            "askings": self.count,
            "asked": len(self.asked),
            "missing": sorted(name for name, why in self.left_out.items() if why is None),
            "rejected": {name: why for name, why in self.left_out.items() if why is not None},
            "earlier": self.earlier,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "seconds": time.perf_counter() - self.begun,
            "strategy_seconds": self.own,
            "bridge_seconds": self.bridging,
        }
