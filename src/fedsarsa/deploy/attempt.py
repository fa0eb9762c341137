"""One asking of a round: who was asked, what came back, and who is left out of it, and why."""

from collections.abc import Callable, Iterable

from flwr.app import Message

from fedsarsa.deploy.checks import Examiner, OddOneOutError, RejectedError, Reply
from fedsarsa.deploy.roster import Roster


class Attempt:
    """The replies of the nodes ``asked``, as far as they have come.

    Attributes
    ----------
    accepted : dict
        The replies that passed every check, and their messages, by the agent's number and in that order.
    rejected : dict
        Why others did not, by the name of their sender.
    strangers : dict
        Why nodes that learn something else do.
    sound, missing : set
        The nodes whose reply was accepted, and those without one of any kind.
    """

    def __init__(
        self, asked: list[int], examiner: Examiner, roster: Roster, say: Callable[[str], None]
    ) -> None:
        self.asked, self.examiner, self.roster, self.say = asked, examiner, roster, say
        self.accepted: dict[int, tuple[Reply, Message]] = {}
        self.rejected: dict[str, str] = {}
        self.strangers: dict[int, str] = {}
        self.sound: set[int] = set()
        self.missing = set(asked)
        self._told: set[str] = set()

    @property
    def replies(self) -> list[Reply]:
        """The accepted replies."""
        return [reply for reply, _ in self.accepted.values()]

    def hear(self, message: Message) -> None:
        """Say at once what is wrong with a reply, which will be looked at again with the others."""
        node = message.metadata.src_node_id
        if node not in self.asked:
            return
        try:
            self.examiner.examine(message)
        except RejectedError as error:
            self._tell(self.roster.name(node), str(error))

    def gather(self, replies: Iterable[Message]) -> None:
        """Examine all replies, and say who is left out and who is missing."""
        found = {}
        for message in sorted(replies, key=lambda message: message.metadata.src_node_id):
            node = message.metadata.src_node_id
            if message.has_error() and node not in self.asked:
                continue  # the SuperLink says that somebody is not there
            self.missing.discard(node)
            try:
                reply = self.examiner.examine(message)
                self.roster.enter(node, reply.number, self.asked)
            except RejectedError as error:
                self.rejected[self.roster.name(node)] = str(error)
                if isinstance(error, OddOneOutError):
                    self.strangers[node] = str(error)
                continue
            self.sound.add(node)
            found[reply.number] = reply, message
        self.accepted = dict(sorted(found.items()))
        for name, reason in self.rejected.items():
            self._tell(name, reason)
        for node in sorted(self.missing):
            self.say(f"round {self.examiner.number}: no reply from {self.roster.name(node)}")

    def _tell(self, name: str, reason: str) -> None:
        """Say, once, who is left out."""
        if name not in self._told:
            self.say(f"round {self.examiner.number}: left {name} out: {reason}")
        self._told.add(name)
