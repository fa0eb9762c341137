"""The mean of clipped changes with Gaussian noise: differential privacy, after McMahan et al. (2018)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.projection import of_present, project
from fedsarsa.federation.servers.rule import Context, Server


@dataclass(frozen=True)
class PrivateMean(Server):
    """The mean of clipped changes with Gaussian noise: what differential privacy costs in learning.

    No agent can move the mean far, and the noise hides each of them. A deployment does the same with
    ``privacy = { clip = ..., noise = ... }``, and its accountant adds up epsilon.

    Parameters
    ----------
    clip : float
        Distance from the start of a round to which every agent's change is shortened.
    noise : float
        Every entry of the mean of n agents gets normal noise of standard deviation noise * clip / n.
    radius : float, optional
        Of the ball on which the result is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``clip``, ``noise`` or ``radius`` is not positive.

    Notes
    -----
    With the change of agent i, D_i = theta_i - theta-bar, and z standard normal,

        theta-bar <- Proj(theta-bar + (1/n) sum_i D_i min(1, clip / ||D_i||) + (noise clip / n) z)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> rule = fs.servers.PrivateMean(clip=0.5, noise=1.0)
    >>> rule.deviation(10)
    0.05
    """

    noisy: ClassVar[bool] = True

    clip: float = 1.0
    noise: float = 1.0
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "clip", _checks.positive("clip", self.clip))
        object.__setattr__(self, "noise", _checks.positive("noise", self.noise))

    def deviation(self, agents: int) -> float:
        """Standard deviation of the noise in every parameter of the mean of so many agents.

        Parameters
        ----------
        agents : int
            n, the agents that took part.

        Returns
        -------
        float
            noise clip / n.
        """
        return self.noise * self.clip / agents

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The next start (R, d) from the last one (R, d) and the agents' parameters (R, N, d)."""
        if context.noise.shape != before.shape:
            raise ValueError(f"context must hold noise of shape {before.shape} for {self!r}")
        present, kept = context.present, clipped(after, before[:, None], self.clip)
        mean = of_present(lambda theta: np.mean(theta, axis=-2), self.fewest, before, kept, present)
        count = np.full(len(before), after.shape[1]) if present is None else present.sum(axis=1)
        width = self.deviation(1) / np.maximum(count, 1)
        noisy = mean + width[:, None] * context.noise
        return project(np.where((count > 0)[:, None], noisy, before), self.radius)


def clipped(theta: Floats, before: Floats, clip: float) -> Floats:
    """``theta`` (..., d), brought back to a distance of at most ``clip`` from ``before`` (..., d)."""
    change = theta - before
    length = np.linalg.norm(change, axis=-1, keepdims=True)
    factor = np.divide(clip, length, out=np.ones_like(length), where=length > clip)
    return np.where(length > clip, before + factor * change, theta)
