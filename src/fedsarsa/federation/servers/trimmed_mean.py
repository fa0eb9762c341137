"""The coordinate-wise trimmed mean, after Yin, Chen, Kannan and Bartlett (2018)."""

import math
from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.rule import Server


@dataclass(frozen=True)
class TrimmedMean(Server):
    """The mean without the largest and the smallest values, coordinate by coordinate.

    Parameters
    ----------
    share : float
        Of the agents, cut off at each end; in (0, 0.5). Of n agents, floor(share n) at each end.
    radius : float, optional
        Of the ball on which the mean is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``share`` is outside (0, 0.5), or ``radius`` is not positive.

    Notes
    -----
    With the values of parameter j in order, theta_(1)j <= ... <= theta_(n)j, and c = floor(share n),

        theta-bar_j = (theta_(c+1)j + ... + theta_(n-c)j) / (n - 2 c)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.TrimmedMean(0.2))
    """

    share: float = 0.2
    radius: float | None = None

    def __post_init__(self) -> None:
        share = _checks.number("share", self.share, "a number in (0, 0.5)")
        if not 0 < share < 0.5:
            raise ValueError(f"share must be a number in (0, 0.5), got {self.share!r}")
        object.__setattr__(self, "share", share)
        super().__post_init__()

    @property
    def fewest(self) -> int:
        """Agents below which nothing would be cut off."""
        return math.ceil(1 / self.share)

    def estimate(self, theta: Floats) -> Floats:
        """The mean (..., d) of what is left of parameters (..., n, d)."""
        count = theta.shape[-2]
        cut = int(self.share * count)
        kept: Floats = np.sort(theta, axis=-2)[..., cut : count - cut, :].mean(axis=-2)
        return kept
