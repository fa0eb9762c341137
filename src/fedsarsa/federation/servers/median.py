"""The coordinate-wise median, after Yin, Chen, Kannan and Bartlett (2018)."""

from dataclasses import dataclass

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.rule import Server


@dataclass(frozen=True)
class Median(Server):
    """The median of the agents' parameters, coordinate by coordinate.

    Fewer than half of the agents cannot move it beyond the values of the others.

    Parameters
    ----------
    radius : float, optional
        Of the ball on which the median is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``radius`` is not positive.

    Notes
    -----
    theta-bar_j = median_i theta_ij for every parameter j

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Median())
    """

    radius: float | None = None

    @property
    def fewest(self) -> int:
        """Agents below which one could decide."""
        return 3

    def estimate(self, theta: Floats) -> Floats:
        """The median (..., d) of parameters (..., n, d)."""
        middle: Floats = np.median(theta, axis=-2)
        return middle
