"""How long everything in a round may take: one number of the configuration, shared out once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """The seconds of a round, and who may use how many of them.

    Attributes
    ----------
    seconds : float
        How long the server waits for the replies to a question; ``server.deadline`` in the configuration.
    bridge_share : float
        The share of them that a bridge waits for its agent; the rest is for the ways there and back.
    late_share, latest : float
        The share of the bridge's wait, and the most seconds, that an agent has left to say that it is late.
    grace : float
        Seconds that messages outlive the deadline, so that no reply is lost on its way.
    longest_request : float
        The most seconds that a bridge may take to hand a question to its agent.
    most : float
        Deadlines for which a round is asked again before the server gives up.
    first_pause, longest_pause : float
        Seconds from one asking of a round to the next; they double each time.
    """

    seconds: float
    bridge_share: float = 0.7
    late_share: float = 0.2
    latest: float = 1.0
    grace: float = 5.0
    longest_request: float = 10.0
    most: float = 10.0
    first_pause: float = 1.0
    longest_pause: float = 30.0

    @property
    def bridge(self) -> float:
        """Seconds that a bridge waits for its agent: a hanging one is named before the round is over."""
        return self.bridge_share * self.seconds

    @property
    def agent(self) -> float:
        """Seconds that an agent may work, so that it can say in time that it is late."""
        return self.bridge - min(self.latest, self.late_share * self.bridge)

    @property
    def request(self) -> float:
        """Seconds that an agent waits for a bridge to say what it wants."""
        return min(self.longest_request, self.bridge)

    @property
    def upload(self) -> float:
        """Seconds that the server waits for the parts of a reply that a node has announced."""
        return self.seconds - self.bridge

    @property
    def message(self) -> float:
        """Seconds that a message lives."""
        return self.seconds + self.grace

    @property
    def round(self) -> float:
        """Seconds for which a round is asked again and again."""
        return self.most * self.seconds

    def pause(self, askings: int) -> float:
        """Seconds between the beginnings of the last of ``askings`` and the next one."""
        return min(self.first_pause * 2.0 ** min(askings - 1, 60), self.longest_pause, self.seconds)
