"""Epsilon-greedy: the best action, and now and then any."""

from dataclasses import dataclass
from typing import ClassVar

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.greedy import SHARE, TIES, Greedy, Tied, shown
from fedsarsa.learning.policies.policy import ALL, Classes, State
from fedsarsa.learning.schedules import Schedule, Scheduled


@dataclass(frozen=True)
class EpsilonGreedy(Scheduled, Tied):
    """Greedy with probability 1 - eps, uniform over all actions with probability eps.

    Parameters
    ----------
    eps : float or schedule
        In [0, 1]. A schedule, such as ``LinearSchedule``, changes it while agents learn; outside training,
        the last value is used.
    ties : {"share", "first"}
        How ties are broken between the best actions, as in ``Greedy``.

    Raises
    ------
    ValueError
        ``eps`` is not in [0, 1], or ``ties`` is neither of the two.

    Notes
    -----
    pi(a | s) = eps / A + (1 - eps) greedy(a | s)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.EpsilonGreedy(0.2).probabilities(np.array([1.0, 2.0]))
    array([0.1, 0.9])
    """

    number: ClassVar[str] = "eps"
    eps: float | Schedule = 0.1
    ties: str = SHARE

    def __post_init__(self) -> None:
        _checks.choice("ties", self.ties, TIES)
        if self.changes:
            self.check_ends()
            return
        object.__setattr__(self, "eps", _checks.fraction("eps", self.eps))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A).

        Parameters
        ----------
        values : (A,) or (S, A) array
            Q(s, .) of one state, or of all of them.
        state : int or slice
            The state's number, where a policy depends on it; all of them unless given.
        classes : (A,) array of int, optional
            Actions with the same number have the same features in every state; no two have unless given.

        Returns
        -------
        array of the shape of ``values``
            pi(. | s), which sums to one along the last axis.
        """
        greedy = Greedy(self.ties).probabilities(values, state, classes)
        eps = self.parameter
        return eps / values.shape[-1] + (1 - eps) * greedy

    def __repr__(self) -> str:
        return f"EpsilonGreedy(eps={self.eps!r}{shown(self.ties, ', ')})"
