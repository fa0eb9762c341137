"""Server rules: how the parameters of the agents become the start of the next round. One rule per file.

A rule is a frozen dataclass derived from `Server`. There are three kinds, each with a little more to write:

- A rule of the agents' parameters alone defines ``estimate``: (..., n, d) -> (..., d). `Median` is one.
- A rule that also looks at the start of the round overrides ``combine(before, after, context)``;
  ``context.present`` says who took part in it.
- A rule with a memory makes it in ``memory(runs, agents, dim)``, a dict of arrays that begin with the run,
  and writes into ``context.memory`` in place.

In its class a rule may set ``personal``, to give every agent a start of its own; ``leaves``, to get what
steps leave in ``context.left``; and ``shifts``, to write ``context.shift``, which is added to every direction
of the next round; and ``opens``, to see every agent's first direction before a round (``opening``). All of
this is in checkpoints. A rule that does not take all features or step sizes overrides ``check``.

`federation.rounds.end_round` calls the rule, for every engine. Some rules say the same once more in
``combine_run``: for one run, in loops that compiled engines build into the round.
"""

from typing import Any

from fedsarsa.federation.servers.consensus import Consensus
from fedsarsa.federation.servers.control_variates import ControlVariates
from fedsarsa.federation.servers.first_directions import FirstDirections
from fedsarsa.federation.servers.importance_mean import ImportanceMean
from fedsarsa.federation.servers.krum import Krum
from fedsarsa.federation.servers.mean import Mean
from fedsarsa.federation.servers.mean_direction import MeanDirection
from fedsarsa.federation.servers.median import Median
from fedsarsa.federation.servers.personal import Personal
from fedsarsa.federation.servers.private_mean import PrivateMean
from fedsarsa.federation.servers.rule import Context, Server
from fedsarsa.federation.servers.server_step import ServerStep
from fedsarsa.federation.servers.shared_directions import SharedDirections
from fedsarsa.federation.servers.trimmed_mean import TrimmedMean

__all__ = [
    "RULES",
    "Consensus",
    "Context",
    "ControlVariates",
    "FirstDirections",
    "ImportanceMean",
    "Krum",
    "Mean",
    "MeanDirection",
    "Median",
    "Personal",
    "PrivateMean",
    "Server",
    "ServerStep",
    "SharedDirections",
    "TrimmedMean",
    "check",
    "compiled_place",
]

# By their names in configurations.
RULES: dict[str, type[Server]] = {
    "mean": Mean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "krum": Krum,
    "personal": Personal,
    "server-step": ServerStep,
    "control-variates": ControlVariates,
    "first-directions": FirstDirections,
    "mean-direction": MeanDirection,
    "shared-directions": SharedDirections,
    "importance-mean": ImportanceMean,
    "consensus": Consensus,
    "private-mean": PrivateMean,
}

# Those that engines compile into the round, which know them by their places.
COMPILED = [rule for rule in RULES.values() if rule.combine_run is not None]


def compiled_place(server: Server) -> int:
    """The place in ``COMPILED`` of a rule, or of the one that it has its definition from; -1: in none."""
    known = [(rule.combine, rule.estimate) for rule in COMPILED]
    own = type(server).combine, type(server).estimate
    return known.index(own) if own in known else -1


def check(server: Any, agents: int | None = None) -> None:
    """Reject what is not a server rule, or one that needs more than ``agents`` agents."""
    names = ", ".join(kind.__name__ for kind in RULES.values())
    if not isinstance(server, Server):
        raise TypeError(f"server must be one of {names} of fs.servers, got {server!r}")
    if agents is not None and agents < server.fewest:
        raise ValueError(f"server: {server!r} needs at least {server.fewest} agents, got {agents}")
