"""The coordinate-wise median, after Yin, Chen, Kannan and Bartlett (2018)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import checked_radius, of_present, project


@dataclass(frozen=True)
class Median:
    """The median of the agents' parameters, coordinate by coordinate.

    Fewer than half of the agents cannot move it beyond the values of the others.

    Parameters
    ----------
    radius : float, optional
        Of the ball on which the median is projected; no projection unless given.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.Median())
    """

    radius: float | None = None

    fewest = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", checked_radius(self.radius))

    def combine(self, before: Floats, after: Floats, present: NDArray[np.bool] | None = None) -> Floats:
        """The next start (R, d) from the last one (R, d) and the agents' parameters (R, N, d)."""
        return project(
            of_present(partial(np.median, axis=-2), self.fewest, before, after, present), self.radius
        )
