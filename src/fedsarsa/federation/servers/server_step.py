"""A step of the server along the agents' mean change: federated averaging with a step size of its own."""

from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mean import mean_of_present
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server


@dataclass(frozen=True, eq=False)
class ServerStep(Server):
    """The start of the last round, moved by ``size`` times the mean change of the agents.

    Size 1 is the mean; larger ones extrapolate, and may diverge where the mean does not.

    Parameters
    ----------
    size : float
        Positive.
    radius : float, optional
        Of the ball on which the result is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``size`` or ``radius`` is not positive.

    Notes
    -----
    theta-bar <- Proj(theta-bar + size mean_i (theta_i - theta-bar))

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.ServerStep(0.5))
    """

    size: float = 1.0
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.positive("size", self.size)

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The next start (R, d) from the last one (R, d) and the agents' parameters (R, N, d)."""
        change = mean_of_present(self, after - before[:, None], context)
        return project(before + self.size * change, self.radius)

    def coefficients(self, agents: int) -> Floats:  # noqa: ARG002
        """The step size."""
        return np.array([self.size])

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        for j in range(len(over.mean)):
            over.start[0, j] = over.before[0, j] + over.coefficients[0] * (over.mean[j] - over.before[0, j])
