"""What a policy is."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats

State = int | slice  # one state, or slice(None) for all of them
ALL = slice(None)
# (A,): actions with the same number have the same features in every state. None: no two have.
Classes = NDArray[np.int64] | None


@runtime_checkable
class Policy(Protocol):
    """A policy improvement operator Gamma: a map from the values Q(s, .) to probabilities pi(. | s).

    ``probabilities`` is all that the reference engine and theory know of it. ``weigh`` says the same for
    compiled engines, in what Numba understands; they compile it.
    """

    @property
    def parameter(self) -> float:
        """The one number that ``weigh`` reads."""

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

    @staticmethod
    def weigh(choice: Any, state: int, values: Floats, masses: Floats) -> float:
        """Fill ``masses`` (C,) with the mass of every class of actions, up to a factor; return their sum.

        ``choice`` is a `fedsarsa.learning.choice.Choice`: class c has ``choice.counts[c]`` actions, each of
        the value ``values[c]``. ``state`` counts where a policy depends on it, and is 0 elsewhere.
        """
