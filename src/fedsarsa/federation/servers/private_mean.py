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
    """The mean of what agents send, none of whom can move it far, with noise that hides each of them.

    It is what ``privacy = { clip = ..., noise = ... }`` does over Flower, where an accountant adds up
    epsilon; here it shows what privacy costs in learning.

    Parameters
    ----------
    clip : float
        An agent's parameter counts up to this distance from where its round began.
    noise : float
        Every parameter of the mean of n agents gets a normal number of standard deviation noise clip / n.
    radius : float, optional
        Of the ball on which the result is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``clip``, ``noise`` or ``radius`` is not positive.

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
        """Standard deviation of the noise in every parameter of the mean of so many agents."""
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
