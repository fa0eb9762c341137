"""Softmax: better actions are likelier."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.policy import ALL, Classes, State
from fedsarsa.learning.schedules import Schedule, Scheduled


@dataclass(frozen=True)
class Softmax(Scheduled):
    """pi(a|s) proportional to exp(Q(s, a) / temperature); Lipschitz, as Assumption 2 (``asmp:lip``) asks.

    Parameters
    ----------
    temperature : float or schedule
        Positive. The lower, the greedier. A schedule, such as ``LinearSchedule``, lowers it while agents
        learn; outside training, the last value is used.

    Raises
    ------
    ValueError
        ``temperature`` is not positive.

    Notes
    -----
    The policy is Lipschitz in total variation, with the constant 1 / temperature:

        pi(a | s) = exp(Q(s, a) / temperature) / sum_b exp(Q(s, b) / temperature)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.Softmax(1.0).probabilities(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """

    number: ClassVar[str] = "temperature"
    temperature: float | Schedule = 100.0

    def __post_init__(self) -> None:
        if self.changes:
            self.check_ends()
            return
        object.__setattr__(self, "temperature", _checks.positive("temperature", self.temperature))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
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
        weights = np.exp((values - values.max(axis=-1, keepdims=True)) / self.parameter)
        return weights / weights.sum(axis=-1, keepdims=True)

    @staticmethod
    def weigh(choice: Any, state: int, values: Floats, masses: Floats) -> float:  # noqa: ARG004
        """The masses of classes of actions, for compiled engines; their sum."""
        classes, total, best = len(choice.counts), 0.0, values[0]
        for c in range(1, classes):
            best = max(best, values[c])
        for c in range(classes):
            masses[c] = choice.counts[c] * math.exp((values[c] - best) / choice.parameter)
            total += masses[c]
        return total
