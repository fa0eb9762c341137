"""The mean weighted entry by entry: by how much every agent has learned about it in the round."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

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

    Raises
    ------
    ValueError, TypeError
        ``radius`` is not positive. When it trains: features have several active parameters per pair, or a
        step size is 1 or more.

    Notes
    -----
    Over the updates of parameter j that agent i has made in the round,

        theta-bar_j = sum_i w_ij theta_ij / sum_i w_ij,  w_ij = product of 1 / (1 - alpha_t)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(fs.OneHot(), server=fs.servers.ImportanceMean(), step_size=0.1)
    """

    radius: float | None = None

    leaves: ClassVar[str | None] = "log-weights"

    def check(self, problem: Any) -> None:
        """Reject features whose updates cannot be counted, and step sizes of 1 or more."""
        if problem.features.most_active > 1:
            raise ValueError(
                "features must have one active parameter per pair with ImportanceMean, as updates of an "
                f"entry cannot be counted otherwise, got {problem.features.most_active}; Mean takes any"
            )
        if problem.largest_step_size >= 1:
            raise ValueError(
                "step_size must be below 1 with ImportanceMean, whose weights (1 - alpha)^-n are infinite or "
                f"change sign otherwise, got {problem.largest_step_size:g}; Mean takes larger ones"
            )

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
        most, total, low = over.room[0], over.room[1], over.room[2]
        for j in range(len(over.mean)):
            most[j], low[j] = 0.0, math.inf
        for i in range(len(over.left)):
            for j in range(len(over.mean)):
                left = over.left[i, j]
                most[j] = left if left > most[j] else most[j]  # max() would not be vectorised
                low[j] = left if (left != 0.0) & (left < low[j]) else low[j]
        between = 0  # none where agents have taken one step: two weights per parameter are then enough
        for j in range(len(over.mean)):
            between += (low[j] != most[j]) & (low[j] != math.inf)
            total[j], over.start[0, j], low[j] = 0.0, 0.0, exponential(-most[j])
        for i in range(len(over.left)):
            if between == 0:
                for j in range(len(over.mean)):
                    weight = 1.0 if over.left[i, j] == most[j] else low[j]
                    total[j] += weight
                    over.start[0, j] += weight * over.after[i, j]
            else:
                for j in range(len(over.mean)):
                    weight = exponential(over.left[i, j] - most[j])
                    total[j] += weight
                    over.start[0, j] += weight * over.after[i, j]
        for j in range(len(over.mean)):
            over.start[0, j] = over.start[0, j] / total[j] if most[j] > 0.0 else over.before[0, j]
