"""A parameter for every agent, moved by its own direction and by the mean of all."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.servers.mean import mean_of_present
from fedsarsa.federation.servers.projection import project
from fedsarsa.federation.servers.rule import Context, RoundOfRun, Server


@dataclass(frozen=True, eq=False)
class SharedDirections(Server):
    """Every agent moves by ``own`` times its own change of the round, and (1 - own) times the mean change.

    Parameters
    ----------
    own : float, optional
        In (0, 1]; 1/N unless given. With 1 agents learn alone.
    radius : float, optional
        Of the ball on which every agent's parameter is projected; no projection unless given.

    Raises
    ------
    ValueError, TypeError
        ``own`` is outside (0, 1], or ``radius`` is not positive.

    Notes
    -----
    With the change of agent i in the round, D_i,

        theta_i <- Proj(theta_i + own D_i + (1 - own) mean_j D_j)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(server=fs.servers.SharedDirections(own=0.2), sync_every=1)
    """

    own: float | None = None
    radius: float | None = None

    personal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.own is not None and not 0 < _checks.number("own", self.own) <= 1:
            raise ValueError(f"own must be in (0, 1], got {self.own!r}; FedTD shares all of every change")

    def combine(self, before: Floats, after: Floats, context: Context) -> Floats:
        """The agents' next parameters (R, N, d)."""
        own, change = self._own(after.shape[1]), context.where_present(after - before)
        mean = mean_of_present(self, change, context)[:, None]
        return project(before + own * change + (1 - own) * mean, self.radius)

    def _own(self, agents: int) -> float:
        return 1 / agents if self.own is None else self.own

    def coefficients(self, agents: int) -> Floats:
        """How much an agent's own change counts."""
        return np.array([self._own(agents)])

    @staticmethod
    def combine_run(over: RoundOfRun) -> None:
        """The same for one run, compiled."""
        own = over.coefficients[0]
        for i in range(len(over.after)):
            for j in range(len(over.mean)):
                before, mean_change = over.before[i, j], over.mean[j] - over.mean_before[j]
                over.start[i, j] = before + own * (over.after[i, j] - before) + (1 - own) * mean_change
