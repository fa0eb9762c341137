"""Krum, after Blanchard, El Mhamdi, Guerraoui and Stainer (2017)."""

from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.rule import Server


@dataclass(frozen=True)
class Krum(Server):
    """The parameter of one agent: the one with the least distance to its closest neighbours.

    An agent's score is the sum of the squared distances to the n - ``liars`` - 2 agents closest to it. The
    first of the agents with the lowest score is taken.

    Parameters
    ----------
    liars : int
        Agents that may send anything; at least 2 ``liars`` + 3 agents are needed.
    radius : float, optional
        Of the ball on which the parameter is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``liars`` is no integer of at least 0, or the fleet has too few agents for it.

    Notes
    -----
    With the n - ``liars`` - 2 agents closest to agent i in N(i),

        theta-bar = theta_k,  k = argmin_i sum_(j in N(i)) ||theta_i - theta_j||^2

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Krum(liars=1))
    """

    liars: int = 1
    radius: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "liars", _checks.integer("liars", self.liars, least=0))
        super().__post_init__()

    @property
    def fewest(self) -> int:
        """Agents below which liars could decide."""
        return 2 * self.liars + 3

    def estimate(self, theta: Floats) -> Floats:
        """The parameter (..., d) with the lowest score among (..., n, d)."""
        apart = np.sum((theta[..., :, None, :] - theta[..., None, :, :]) ** 2, axis=-1)
        neighbours = max(1, theta.shape[-2] - self.liars - 2)
        # The closest of all is the agent itself, at distance 0.
        score = np.sort(apart, axis=-1)[..., 1 : neighbours + 1].sum(axis=-1)
        best = score.argmin(axis=-1)
        return np.take_along_axis(theta, best[..., None, None], axis=-2)[..., 0, :]
