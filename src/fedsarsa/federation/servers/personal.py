"""A mixture for every agent: each keeps its own parameter, and listens to the agents that help it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mixtures import Estimates, estimate, estimated_weights
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, Memory, Server

OWN, MIXTURE = ACTS = ("own", "mixture")
SAMPLES = 32  # parameters of every agent that are kept; when there are so many, every second one is dropped
RECENT = 0.65  # of them: from the latest the weights are learned, as the first are on their way
REFRESH = 8  # samples from one estimate of the weights to the next
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

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Personal(), sync_every=100)
    >>> fleet = fs.paper.fleet(agents=4, eps_p=0.5, eps_r=0.5)
    >>> algo.train(fleet, steps=1000, runs=2).personal.dims
    ('run', 't', 'agent', 'd')
    """

    act: str = OWN
    weights: ArrayLike | None = None
    radius: float | None = None

    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.choice("act", self.act, ACTS)
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

    def shares(self, agents: int) -> Floats:
        """1/N each; also rejects weights of another number of agents."""
        if self.weights is not None and np.shape(self.weights) != (agents, agents):
            raise ValueError(f"weights must have shape ({agents}, {agents}), got {np.shape(self.weights)}")
        return super().shares(agents)

    def memory(self, runs: int, agents: int, dim: int) -> Memory:
        """The weights (R, N, N), and samples (R, n, N, d) to learn them from."""
        learned = self.weights is None
        weights = np.eye(agents) if learned else np.asarray(self.weights)
        return {
            "weights": np.tile(weights, (runs, 1, 1)),
            "samples": np.zeros((runs, SAMPLES if learned else 0, agents, dim)),
            "count": np.zeros(runs, np.int64),
            "rounds": np.zeros(runs, np.int64),
            "spacing": np.ones(runs, np.int64),
        }

    def acting(self, starts: Floats, memory: Memory) -> tuple[Floats, Floats]:
        """The weight (R, N) of the agents' own parameters, and the rest (R, N, d) of their mixtures."""
        own = np.diagonal(memory["weights"], axis1=1, axis2=2)
        others = memory["weights"] * (1 - np.eye(own.shape[1]))
        return own, others @ starts

    def personal_records(self, starts: Floats, memory: Memory) -> dict[str, Floats]:
        """The mixtures and their weights."""
        return {"personal": memory["weights"] @ starts, "weights": memory["weights"]}

    def combine(
        self,
        before: Floats,
        after: Floats,
        present: NDArray[np.bool] | None = None,
        context: Context | None = None,
    ) -> Floats:
        """The agents' own parameters (R, N, d), from which `personal_records` makes their mixtures."""
        own = project(after if present is None else np.where(present[..., None], after, before), self.radius)
        assert context is not None
        memory = context.memory
        if self.weights is None:
            remember(memory, own)
        return own


def remember(memory: Memory, own: Floats) -> None:
    """Keep a sample of the parameters (R, N, d) now and then, and now and then learn weights from them.

    All runs have come as far: samples are taken at the same rounds.
    """
    memory["rounds"] += 1
    rounds, spacing, count = (int(memory[name][0]) for name in ("rounds", "spacing", "count"))
    if rounds % spacing:
        return
    memory["samples"][:, count] = own
    count += 1
    if count % REFRESH == 0:
        samples = memory["samples"][:, count - round(RECENT * count) : count]
        estimates = estimate(samples)
        for run in range(len(own)):
            memory["weights"][run] = estimated_weights(Estimates(*(one[run] for one in estimates)), MOST)
    if count == SAMPLES:
        count //= 2
        memory["samples"][:, :count] = memory["samples"][:, 1::2]
        memory["spacing"] *= 2
    memory["count"][:] = count
