"""How long everything in a round may take: one number of the configuration, shared out once."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """The seconds of a round (``server.deadline``), and who may use how many of them."""

    seconds: float  # that the server waits for the replies to a question
    bridge_share: float = 0.7  # of them: for the agent; the rest is for the ways there and back
    late_share: float = 0.2  # of the agent's: to say in time that it is late, at most ``latest`` seconds
    latest: float = 1.0
    longest_request: float = 10.0  # seconds that a bridge may take to hand a question to its agent
    grace: float = 5.0  # seconds that messages outlive the deadline, so that no reply is lost on its way
    most: float = 10.0  # deadlines for which a round is asked again before the server gives up
    first_pause: float = 1.0  # seconds from one asking of a round to the next; they double each time
    longest_pause: float = 30.0

    @property
    def bridge(self) -> float:
        """Seconds that a bridge waits for its agent: a hanging one is named before the round is over."""
        return self.bridge_share * self.seconds

    @property
    def agent(self) -> float:
        """Seconds that an agent may work."""
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
