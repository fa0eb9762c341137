"""Which agent lives behind which Flower node, and who may say so."""

from collections.abc import Collection
from dataclasses import dataclass

from fedsarsa.deploy.checks import RejectedError


@dataclass(frozen=True)
class Roster:
    """The agents behind nodes.

    Attributes
    ----------
    nodes : dict
        Without keys: which agent each node was, as far as it has replied; kept up to date here.
    keys : dict or None
        Which agent's key each node has: a node is that agent, whatever it was before. Without keys, agents
        are who they say they are, one node each.
    """

    nodes: dict[int, int]
    keys: dict[int, int] | None

    def agent(self, node: int) -> int | None:
        """Whose node this is, as far as that is known."""
        return (self.nodes if self.keys is None else self.keys).get(node)

    def name(self, node: int) -> str:
        """What to call a node."""
        number = self.agent(node)
        return f"node {node}" if number is None else f"agent {number}"

    def absent(self, present: Collection[int]) -> list[str]:
        """Who has a key and is not behind one of these nodes; without keys, nobody knows."""
        absent = sorted(number for node, number in (self.keys or {}).items() if node not in present)
        return [f"agent {number}" for number in absent]

    def enter(self, node: int, number: int, asked: Collection[int]) -> None:
        """Let a node be agent ``number``, if no other of those ``asked`` is that agent."""
        if self.keys is not None:
            if self.keys.get(node) != number:
                raise RejectedError(
                    f"it has the key of agent {self.keys.get(node)}, and says it is agent {number}"
                )
            return
        known = self.nodes.get(node)
        if known is not None and known != number:
            raise RejectedError(f"it was agent {known} before, and says it is agent {number}")
        holder = next((other for other, taken in self.nodes.items() if taken == number), node)
        if holder != node:
            if holder in asked:
                raise RejectedError(f"agent {number} is another node's")
            del self.nodes[holder]  # a SuperNode that comes back has another name
        self.nodes[node] = number
