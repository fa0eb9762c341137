"""A mixture for every agent: each keeps its own parameter, and listens to the agents that help it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.participation import Present
from fedsarsa.federation.servers.mixtures import (
    completed,
    estimate,
    estimated_weights,
    weights_by_visits,
)
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, Memory, Server
from fedsarsa.learning.targets import VISITS

OWN, MIXTURE = ACTS = ("own", "mixture")
SAMPLES = 32  # parameters of every agent that are kept; when there are so many, every second one is dropped
RECENT = 0.65  # of them: from the latest the weights are learned, as the first are on their way
REFRESH = 4  # samples from one estimate of the weights to the next
LATE = 0.5  # of the time before them: who joined later is on its way when the others have arrived
MOST = 0.5  # of the noise: an agent whose mean is known less well stays with its own parameter


@dataclass(frozen=True, eq=False)
class Personal(Server):
    """Every agent keeps its own parameter and gets a mixture of all agents', with weights of its own.

    The server never changes an agent's parameter theta_i. At the end of a round it makes the mixtures
    sum_j w_ij theta_j. Their errors to the agents' own fixed points are smaller than those of theta_i where
    other agents' parameters are near, and no larger where they are not.

    Weights are learned from the parameters that agents send anyway. The server keeps up to 32 of each agent,
    spread over the training so far, and estimates noise, correlation and distances from the latest two thirds
    of them (`mixtures.estimate`). An agent listens to itself alone until its mean is known.

    Parameters
    ----------
    act : {"own", "mixture"}
        What agents act by: theta_i, or their mixture. In the mixture theta_i is the present one, and the
        others' are those of the last synchronisation.
    weights : (N, N) array, optional
        Weights that are known, such as those of ``fs.theory.personal_weights``, a row per agent that sums to
        one; learned unless given.
    radius : float, optional
        Of the ball on which the agents' parameters are projected; no projection unless given.
    visits : bool
        Whether agents also send how often they visited each feature, d more numbers per round. An agent then
        takes what it has not learned from those who have (`mixtures.completed`), and distances count where
        the agent goes (`mixtures.weights_by_visits`). Meant for features such as tiles, of which each agent
        sees only some.

    Raises
    ------
    ValueError, TypeError
        ``act`` is another word, ``weights`` are no (N, N) array whose rows sum to one, or
        ``radius`` is not positive.

    Notes
    -----
    Agent i keeps theta_i and gets the mixture sum_j w_ij theta_j. Its weights w_i minimise the estimated
    error to its own fixed point,

        |sum_j w_j m_j - m_i|^2 + sum_j w_j^2 v_j,  with sum_j w_j = 1 and w >= 0,

    where m_j estimates the mean of theta_j, and v_j the noise in it.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=100)
    >>> fleet = fs.paper.fleet(agents=4, eps_p=0.5, eps_r=0.5)
    >>> algo.train(fleet, steps=20_000, runs=2).personal.dims
    ('run', 't', 'agent', 'd')
    """

    act: str = OWN
    weights: ArrayLike | None = None
    radius: float | None = None
    visits: bool = False

    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.choice("act", self.act, ACTS)
        if not isinstance(self.visits, bool):
            raise TypeError(f"visits must be True or False, got {self.visits!r}")
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=float)
            if weights.ndim != 2 or weights.shape[0] != weights.shape[1]:
                raise ValueError(f"weights must have shape (N, N), got {weights.shape}")
            sums = weights.sum(axis=1)
            if not np.allclose(sums, 1.0, rtol=0, atol=1e-9):
                agent = int(np.abs(sums - 1).argmax())
                raise ValueError(
                    f"weights must sum to one for every agent, got {sums[agent]} for agent {agent}"
                )
            object.__setattr__(self, "weights", weights)

    @property
    def mixes(self) -> bool:
        """Whether agents act by their mixture."""
        return self.act == MIXTURE

    @property
    def leaves(self) -> str | None:
        """Visits of every feature, if they count."""
        return VISITS if self.visits else None

    def shares(self, agents: int) -> Floats:
        """1/N each; also rejects weights of another number of agents."""
        if self.weights is not None and np.shape(self.weights) != (agents, agents):
            raise ValueError(f"weights must have shape ({agents}, {agents}), got {np.shape(self.weights)}")
        return super().shares(agents)

    def memory(self, runs: int, agents: int, dim: int) -> Memory:
        """The weights (R, N, N), samples (R, n, N, d) to learn them from, and any visits (R, N, d)."""
        learned = self.weights is None
        weights = np.eye(agents) if learned else np.asarray(self.weights)
        return {
            "weights": np.tile(weights, (runs, 1, 1)),
            "samples": np.zeros((runs, SAMPLES if learned else 0, agents, dim)),
            "visits": np.zeros((runs, agents, dim if self.visits else 0)),
            "joined": np.zeros((runs, agents), np.int64),
            "count": np.zeros(runs, np.int64),
            "rounds": np.zeros(runs, np.int64),
            "spacing": np.ones(runs, np.int64),
        }

    def mixtures(self, starts: Floats, memory: Memory) -> Floats:
        """Every agent's mixture (R, N, d) of the parameters of the last synchronisation."""
        tables = completed(starts, memory["visits"]) if self.visits else starts
        mixed: Floats = memory["weights"] @ tables
        return mixed

    def acting(self, starts: Floats, memory: Memory) -> tuple[Floats, Floats]:
        """The weight (R, N) of the agents' own parameters, and the rest (R, N, d) of their mixtures."""
        own = np.diagonal(memory["weights"], axis1=1, axis2=2)
        return own, self.mixtures(starts, memory) - own[..., None] * starts

    def personal_records(self, starts: Floats, memory: Memory) -> dict[str, Floats]:
        """The mixtures and their weights."""
        return {"personal": self.mixtures(starts, memory), "weights": memory["weights"]}

    def remark(self, memory: Memory) -> str | None:
        """That no agent has come to listen to another, if so."""
        weights = memory["weights"]
        agents = weights.shape[1]
        known = self.weights is not None or self.visits  # with visits, others fill what an agent has not seen
        if known or agents == 1 or (weights != np.eye(agents)).any():
            return None
        rounds = int(memory["rounds"][0])
        why = "parameters are too noisy to be compared after so few, or worlds differ too much"
        if rounds < REFRESH:
            why = f"weights are learned from round {REFRESH} on"
        return f"every agent listens to itself alone after {rounds} rounds: {why}"

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The agents' own parameters (R, N, d), from which `personal_records` makes their mixtures."""
        own, memory = project(context.where_present(after, before), self.radius), context.memory
        if self.visits:
            memory["visits"] += context.where_present(context.left)
        if self.weights is None:
            remember(memory, own, context.present)
        return own


def remember(memory: Memory, own: Floats, present: Present) -> None:
    """Keep a sample of the parameters (R, N, d) now and then, and now and then learn weights from them.

    All runs have come as far: samples are taken at the same rounds.
    """
    memory["rounds"] += 1
    rounds, spacing, count = (int(memory[name][0]) for name in ("rounds", "spacing", "count"))
    memory["joined"][(memory["joined"] == 0) & (True if present is None else present)] = rounds
    if rounds % spacing:
        return
    memory["samples"][:, count] = own
    count += 1
    if count % REFRESH == 0:
        recent = round(RECENT * count)
        samples = memory["samples"][:, count - recent : count]
        since = rounds - (recent - 1) * spacing  # the round of the first of them
        there = (memory["joined"] > 0) & (memory["joined"] <= max(1, LATE * since))
        for run, kept in enumerate(samples):
            memory["weights"][run] = learned(kept, memory["visits"][run], there[run])
    if count == SAMPLES:
        count //= 2
        memory["samples"][:, :count] = memory["samples"][:, 1::2]
        memory["spacing"] *= 2
    memory["count"][:] = count


def learned(samples: Floats, visits: Floats, there: NDArray[np.bool]) -> Floats:
    """The weights (N, N) of one run from samples (n, N, d), and from visits (N, d) unless they are empty.

    An agent that was not ``there`` (N,) in time listens to itself alone, and nobody to it.
    """
    weights = np.eye(len(there))
    known = np.flatnonzero(there)
    if len(known) > 1:
        seen, visited = samples[:, known], visits[known]
        weights[np.ix_(known, known)] = (
            weights_by_visits(seen, visited, MOST) if visits.size else estimated_weights(estimate(seen), MOST)
        )
    return weights
