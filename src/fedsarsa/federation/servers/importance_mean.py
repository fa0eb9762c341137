"""The mean weighted entry by entry: by how much every agent has learned about it in the round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server
from fedsarsa.learning.exponential import exponential


@dataclass(frozen=True, eq=False)
class ImportanceMean(Server):
    """The mean with a weight per agent and parameter: the product of 1 / (1 - alpha) over its updates.

    With a constant step size and n visits of the round it is (1 - alpha)^-n. Features must have one active
    parameter per pair, and step sizes be below 1. A parameter that nobody updated keeps its value.

    Parameters
    ----------
    radius : float, optional
        Of the ball on which the mean is projected; no projection unless given.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(fs.OneHot(), server=fs.servers.ImportanceMean(), step_size=0.1)
    """

    radius: float | None = None

    leaves: ClassVar[str | None] = "log-weights"

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The weighted mean (R, d) of the agents' parameters (R, N, d)."""
        left = context.where_present(context.left, -np.inf)
        most = left.max(axis=1, keepdims=True)
        # Weights overflow, their logarithms do not: those of the agent that knows most are 1.
        weights = np.exp(left - np.where(np.isfinite(most), most, 0.0))
        total = weights.sum(axis=1)
        mean = np.divide((weights * after).sum(axis=1), total, out=before.copy(), where=total > 0)
        return project(np.where(most[:, 0] == 0, before, mean), self.radius)

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        most, total = over.room[0], over.room[1]
        for j in range(len(over.mean)):
            most[j] = total[j] = over.start[0, j] = 0.0
        for i in range(len(over.left)):
            for j in range(len(over.mean)):
                most[j] = max(most[j], over.left[i, j])
        for i in range(len(over.left)):
            for j in range(len(over.mean)):
                weight = exponential(over.left[i, j] - most[j])
                total[j] += weight
                over.start[0, j] += weight * over.after[i, j]
        for j in range(len(over.mean)):
            over.start[0, j] = over.start[0, j] / total[j] if most[j] > 0.0 else over.before[0, j]
