"""The weighted mean, projected on a ball: the server of Algorithm ``alg``."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.participation import Present
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server

SUMMED = 4096  # agents whose parameters are summed up at a time, where they have FEW in all runs
FEW = 1000


@dataclass(frozen=True, eq=False)
class Mean(Server):
    """The weighted mean of the agents' parameters.

    Parameters
    ----------
    weights : (N,) array, optional
        They sum to one; 1/N unless given. Where agents are missing, those of the others are scaled up.
    radius : float, optional
        G-bar, the radius of the ball on which the mean is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``weights`` do not sum to one or are not one per agent, or ``radius`` is not positive.

    Notes
    -----
    The server's step of Algorithm ``alg``, with the projection on the ball of radius G-bar:

        theta-bar = Proj(sum_i weights_i theta_i)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Mean(weights=[0.5, 0.25, 0.25], radius=10.0))
    """

    weights: ArrayLike | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights is not None:
            weights = _checks.distribution("weights", self.weights)
            if weights.ndim != 1:
                raise ValueError(f"weights must have shape (N,), got {weights.shape}")
            object.__setattr__(self, "weights", weights)

    def shares(self, agents: int) -> Floats:
        """The weights (N,), or 1/N where none are given."""
        weights = super().shares(agents) if self.weights is None else np.asarray(self.weights)
        if weights.shape != (agents,):
            raise ValueError(f"weights must have shape ({agents},), got {weights.shape}")
        return weights

    def combine(self: Server, before: Floats, after: Floats, context: Context) -> Floats:
        """The next start (R, d) from the last one (R, d) and the agents' parameters (R, N, d)."""
        return project(mean_of_present(self, after, context, before), self.radius)

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        for j in range(len(over.mean)):
            over.start[0, j] = over.mean[j]


def mean_of_present(rule: Server, theta: Floats, context: Context, otherwise: Floats | float = 0.0) -> Floats:
    """The weighted mean (R, d) of ``theta`` (R, N, d) of who took part, ``otherwise`` where nobody did."""
    weights = among(rule.shares(theta.shape[1]), context.present)
    return np.where(weights.any(axis=-1, keepdims=True), average(weights, theta), otherwise)


def among(weights: Floats, present: Present) -> Floats:
    """Weights (N,) scaled up for the agents ``present`` (R, N); zero in a run in which nobody is."""
    if present is None:
        return weights
    kept = np.where(present, weights, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    shared = np.divide(kept, total, out=np.zeros_like(kept), where=total > 0)
    return np.where(present.all(axis=1, keepdims=True), kept, shared)


def average(weights: Floats, theta: Floats) -> Floats:
    """Weighted average (..., d) of parameters (..., N, d), summed agent by agent in their order.

    Every engine sums in this order, so that parameters equal in one engine are equal in all.
    """
    total = np.zeros((*theta.shape[:-2], theta.shape[-1]))
    each = 1 if total.size > FEW else SUMMED  # a step of Python for each agent is dear where it sums little
    for begin in range(0, theta.shape[-2], each):
        some = slice(begin, begin + each)
        terms = weights[..., some, None] * theta[..., some, :]
        terms[..., 0, :] += total
        total = np.add.accumulate(terms, axis=-2)[..., -1, :]  # sum would add in pairs where d = 1
    return total
