"""Who takes part in a round, and what they send: what a deployment has and the paper's algorithm has not.

The server asks some of the agents; of those, some are absent: they have dropped out, or are late. An agent
that is not counted in a round is as if it had not been asked, as in a deployment: its world does not move.
Liars take part, and send something else than what they learned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats

if TYPE_CHECKING:
    from fedsarsa.federation.problem import Problem

Present = NDArray[np.bool] | None  # (R, N): who took part; None: everybody
ABSENCE = 1  # what else than the choice of agents a round's random numbers are for
NOISE = 2


@dataclass(frozen=True)
class Faults:
    """What goes wrong with agents in a deployment, to be rehearsed: some are absent, some lie.

    Parameters
    ----------
    absent : float
        Probability in [0, 1) that an agent drops out of a round that asks it, or is late. The round counts
        without the agent, whose world does not move.
    liars : sequence of int
        Agents that send before + lie (after - before) in every round, instead of what they learned.
    lie : float
        What they multiply their change by: -1 sends the opposite, 100 far too much.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or of another kind.

    Examples
    --------
    One agent in ten misses a round, and agent 3 works against the others:

    >>> import fedsarsa as fs
    >>> faults = fs.Faults(absent=0.1, liars=[3], lie=-5.0)
    >>> algo = fs.FedSARSA(server=fs.servers.Median(), participation=0.5, faults=faults)
    """

    absent: float = 0.0
    liars: Sequence[int] = ()
    lie: float = -1.0

    def __post_init__(self) -> None:
        absent = _checks.number("absent", self.absent, "a number in [0, 1)")
        if not 0 <= absent < 1:
            raise ValueError(f"absent must be a number in [0, 1), got {self.absent!r}")
        if isinstance(self.liars, str) or not isinstance(self.liars, Sequence | np.ndarray):
            raise TypeError(f"liars must be a sequence of agents' numbers, got {self.liars!r}")
        liars = tuple(_checks.integer("liars", one, least=0) for one in self.liars)
        if len(set(liars)) != len(liars):
            raise ValueError(f"liars must be different agents, got {self.liars!r}")
        object.__setattr__(self, "absent", absent)
        object.__setattr__(self, "liars", liars)
        object.__setattr__(self, "lie", _checks.number("lie", self.lie))


NO_FAULTS = Faults()


def sample_size(share: float, agents: int, least: int) -> int:
    """How many agents a round asks: a ``share`` of all, and at least ``least``."""
    # The share as it was written: 0.07 of 100 agents are 7, and 0.07 * 100 is a little more.
    return min(agents, max(least, math.ceil(Fraction(repr(share)) * agents)))


def sample(seed: int, number: int, run: int, among: NDArray[np.integer], size: int) -> list[int]:
    """Those of ``among`` whom round ``number`` of a run asks, counted from 1; the same whenever asked."""
    if size >= len(among):
        return [int(one) for one in among]
    rng = np.random.default_rng([seed, number, run])
    return sorted(rng.choice(among, size, replace=False).tolist())


def taking_part(problem: "Problem", begun: int, present: Present = None) -> Present:
    """Who takes part in the round that begins at step ``begun``, (R, N), of those who are ``present``."""
    if not problem.partial:
        return present
    counted = _counted(problem, begun)
    return counted if present is None else counted & present


@lru_cache(maxsize=4)  # engines ask several times in a round
def _counted(problem: "Problem", begun: int) -> NDArray[np.bool]:
    """Who is asked and not absent, (R, N)."""
    assert problem.sync_every is not None
    number, everybody = begun // problem.sync_every + 1, np.arange(problem.agents)
    counted = np.zeros((problem.runs, problem.agents), np.bool)
    for run in range(problem.runs):
        counted[run, sample(problem.seed, number, run, everybody, problem.asked or problem.agents)] = True
        if problem.faults.absent > 0:
            rng = np.random.default_rng([problem.seed, number, run, ABSENCE])
            counted[run] &= rng.random(problem.agents) >= problem.faults.absent
    counted.setflags(write=False)
    return counted


def sent(problem: "Problem", before: Floats, theta: Floats) -> Floats:
    """What agents send, (R, N, d), who began with ``before`` (R, d) or (R, N, d) and have ``theta``."""
    liars = list(problem.faults.liars)
    if not liars:
        return theta
    told = theta.copy()
    start = before[:, liars] if before.ndim == 3 else before[:, None]
    told[:, liars] = start + problem.faults.lie * (theta[:, liars] - start)
    return told


def noise(problem: "Problem", begun: int, runs: NDArray[np.integer]) -> Floats:
    """Standard normal numbers (R, d) for what a server rule adds after the round that began at ``begun``."""
    if not problem.server.noisy:
        return np.empty((len(runs), 0))
    return np.stack(
        [
            np.random.default_rng([problem.seed, begun, int(run), NOISE]).standard_normal(
                problem.features.dim
            )
            for run in runs
        ]
    )
