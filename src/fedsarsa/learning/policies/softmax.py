"""Softmax: better actions are likelier."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.policy import ALL, Classes, State


@dataclass(frozen=True)
class Softmax:
    """pi(a|s) proportional to exp(Q(s, a) / temperature); Lipschitz, as Assumption ``asmp:lip`` asks.

    Parameters
    ----------
    temperature : float
        Positive. The lower, the greedier.

    Raises
    ------
    ValueError
        ``temperature`` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.Softmax(1.0).probabilities(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """

    temperature: float = 100.0

    @property
    def parameter(self) -> float:
        """The one number of the policy."""
        return self.temperature

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", _checks.positive("temperature", self.temperature))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
        """pi(. | s) for ``values`` (A,) of one state, or all of them for (S, A)."""
        weights = np.exp((values - values.max(axis=-1, keepdims=True)) / self.temperature)
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
