"""Greedy: the best action, which makes it on-policy federated Q-learning."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.policy import ALL, Classes, State

SHARE, FIRST = TIES = ("share", "first")


class Tied:
    """What greedy policies share: how compiled engines weigh classes of actions that may tie."""

    @staticmethod
    def weigh(choice: Any, state: int, values: Floats, masses: Floats) -> float:  # noqa: ARG004
        """The masses of classes of actions, ``choice.parameter`` being epsilon; their sum."""
        classes, total, best = len(choice.counts), 0.0, values[0]
        for c in range(1, classes):
            best = max(best, values[c])
        tied, leader = 0.0, -1  # actions that share the greedy mass, and the first class of them
        for c in range(classes):
            takes = values[c] == best
            if takes and leader < 0:
                leader = c
            if takes and choice.ties_first:
                takes = choice.alike[c] == choice.alike[leader]
            masses[c] = choice.counts[c] if takes else 0.0
            tied += masses[c]
        floor = choice.parameter / choice.actions
        for c in range(classes):
            mass = floor + (1.0 - choice.parameter) / tied if masses[c] > 0.0 else floor
            masses[c] = choice.counts[c] * mass
            total += masses[c]
        return total


def shown(ties: str, before: str = "") -> str:
    """Ties in a policy's ``repr``; without the default, as in records from before there was a choice."""
    return "" if ties == SHARE else f"{before}ties={ties!r}"


@dataclass(frozen=True)
class Greedy(Tied):
    """The best action: on-policy federated Q-learning.

    Parameters
    ----------
    ties : {"share", "first"}
        How ties are broken, where several actions have exactly the largest value. ``share``: they share
        the mass evenly. ``first``: the first one takes it, together with the actions that have its features
        in every state, which no parameter distinguishes (``ModuloFeatures(5, 5)`` has five such classes of
        actions). The released program does the latter: its ``max`` finds the first class, from which it
        draws an action.

    Raises
    ------
    ValueError
        ``ties`` is neither.

    Notes
    -----
    With ``ties="share"`` and B(s) the set of the best actions,

        pi(a | s) = 1 / |B(s)| if a is in B(s), else 0,  B(s) = argmax_a Q(s, a)

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.Greedy().probabilities(np.array([1.0, 2.0, 2.0]))
    array([0. , 0.5, 0.5])
    """

    parameter: ClassVar[float] = 0.0
    ties: str = SHARE

    def __post_init__(self) -> None:
        _checks.choice("ties", self.ties, TIES)

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
        best = values == values.max(axis=-1, keepdims=True)
        if self.ties == FIRST:
            kinds = np.arange(values.shape[-1]) if classes is None else classes
            best &= kinds == kinds[best.argmax(axis=-1)][..., None]
        return best / best.sum(axis=-1, keepdims=True)

    def __repr__(self) -> str:
        return f"Greedy({shown(self.ties)})"
