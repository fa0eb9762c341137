"""Epsilon-greedy: the best action, and now and then any."""

from dataclasses import dataclass

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.greedy import SHARE, TIES, Greedy, Tied, shown
from fedsarsa.learning.policies.policy import ALL, Classes, State


@dataclass(frozen=True)
class EpsilonGreedy(Tied):
    """Greedy with probability 1 - eps, uniform over all actions with probability eps.

    Parameters
    ----------
    eps : float
        In [0, 1].
    ties : {"share", "first"}
        Who takes the greedy mass where several actions are best, as in ``Greedy``.

    Raises
    ------
    ValueError
        ``eps`` is not in [0, 1], or ``ties`` is neither of the two.

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.EpsilonGreedy(0.2).probabilities(np.array([1.0, 2.0]))
    array([0.1, 0.9])
    """

    eps: float = 0.1
    ties: str = SHARE

    @property
    def parameter(self) -> float:
        """The one number of the policy."""
        return self.eps

    def __post_init__(self) -> None:
        eps = _checks.number("eps", self.eps, "a number in [0, 1]")
        if not 0 <= eps <= 1:
            raise ValueError(f"eps must be a number in [0, 1], got {self.eps!r}")
        object.__setattr__(self, "eps", eps)
        _checks.choice("ties", self.ties, TIES)

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A)."""
        greedy = Greedy(self.ties).probabilities(values, state, classes)
        return self.eps / values.shape[-1] + (1 - self.eps) * greedy

    def __repr__(self) -> str:
        return f"EpsilonGreedy(eps={self.eps!r}{shown(self.ties, ', ')})"
