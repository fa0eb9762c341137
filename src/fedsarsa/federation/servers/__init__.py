"""Server rules: how the parameters of the agents become the start of the next round. One rule per file."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.krum import Krum
from fedsarsa.federation.servers.mean import Mean
from fedsarsa.federation.servers.median import Median
from fedsarsa.federation.servers.trimmed_mean import TrimmedMean

__all__ = ["RULES", "Krum", "Mean", "Median", "Server", "TrimmedMean", "check"]


@runtime_checkable
class Server(Protocol):
    """A server rule: a frozen dataclass with the radius of its projection and the agents it needs."""

    @property
    def radius(self) -> float | None:
        """Of the ball on which the result is projected; None: it is not."""

    @property
    def fewest(self) -> int:
        """Agents below which the rule cannot work."""

    def combine(self, before: Floats, after: Floats, present: NDArray[np.bool] | None = None) -> Floats:
        """The next start, for all runs at once.

        Parameters
        ----------
        before : (R, d)
            The server's parameter before the round.
        after : (R, N, d)
            The agents' parameters after it.
        present : (R, N) bool, optional
            Who took part; everybody unless given.

        Returns
        -------
        (R, d) array
            The parameter with which all agents begin the next round.
        """


# By their names in configurations.
RULES: dict[str, type[Server]] = {
    "mean": Mean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "krum": Krum,
}


def check(server: Any, agents: int | None = None) -> None:
    """Reject what is not a server rule, or one that needs more than ``agents`` agents."""
    names = ", ".join(kind.__name__ for kind in RULES.values())
    if isinstance(server, type) or not isinstance(server, Server):
        raise TypeError(f"server must be one of {names} of fs.servers, got {server!r}")
    if agents is not None and agents < server.fewest:
        raise ValueError(f"server: {server!r} needs at least {server.fewest} agents, got {agents}")
