"""The coordinate-wise trimmed mean, after Yin, Chen, Kannan and Bartlett (2018)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import checked_radius, of_present, project


@dataclass(frozen=True)
class TrimmedMean:
    """The mean without the largest and the smallest values, coordinate by coordinate.

    Parameters
    ----------
    share : float
        Of the agents, cut off at each end; in (0, 0.5). Of n agents, floor(share n) at each end.
    radius : float, optional
        Of the ball on which the mean is projected; no projection unless given.

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
        object.__setattr__(self, "radius", checked_radius(self.radius))

    @property
    def fewest(self) -> int:
        """Agents below which nothing would be cut off."""
        return math.ceil(1 / self.share)

    def combine(self, before: Floats, after: Floats, present: NDArray[np.bool] | None = None) -> Floats:
        """The next start (R, d) from the last one (R, d) and the agents' parameters (R, N, d)."""
        return project(of_present(self._trimmed, self.fewest, before, after, present), self.radius)

    def _trimmed(self, theta: Floats) -> Floats:
        count = theta.shape[-2]
        cut = int(self.share * count)
        kept: Floats = np.sort(theta, axis=-2)[..., cut : count - cut, :].mean(axis=-2)
        return kept
