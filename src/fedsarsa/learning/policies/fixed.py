"""A fixed policy: federated TD(0)."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.policies.policy import ALL, Classes, State


class FixedPolicy:
    """The same policy whatever was learned: federated TD(0).

    Parameters
    ----------
    pi : (S, A) array, (A,) array, int, or "uniform"
        Probabilities per state, the same probabilities in every state, always one action, or all
        actions alike.

    Raises
    ------
    ValueError
        Rows do not sum to one, or ``pi`` has another shape.

    Notes
    -----
    The policy does not depend on the parameter, so that A and b of its semi-gradient are constant:

        pi(a | s) = Gamma(theta)(a | s) for every theta

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.FixedPolicy([0.25, 0.75]).table(states=2, actions=2)
    array([[0.25, 0.75],
           [0.25, 0.75]])
    """

    parameter: ClassVar[float] = 0.0

    def __init__(self, pi: ArrayLike | int | str = "uniform") -> None:
        self.pi: Floats | int | str
        if isinstance(pi, str):
            self.pi = _checks.choice("pi", pi, ["uniform"])
        elif np.ndim(pi) == 0:
            self.pi = _checks.integer("pi", pi, least=0)  # type: ignore[arg-type]
        else:
            self.pi = _checks.distribution("pi", pi)
            if self.pi.ndim > 2:
                raise ValueError(f"pi must have shape (S, A) or (A,), got {self.pi.shape}")

    def table(self, states: int, actions: int) -> Floats:
        """pi(a|s) written out, (S, A).

        Parameters
        ----------
        states : int
            S, the number of states.
        actions : int
            A, the number of actions.

        Returns
        -------
        (S, A) array
            Probabilities, a row per state.

        Raises
        ------
        ValueError
            The policy does not fit so many states and actions.
        """
        pi = self.pi
        if isinstance(pi, str):
            return np.full((states, actions), 1 / actions)
        if isinstance(pi, int):
            if pi >= actions:
                raise ValueError(f"pi must be an action below {actions}, got {pi}")
            return np.tile(np.eye(actions)[pi], (states, 1))
        if pi.shape not in {(actions,), (states, actions)}:
            raise ValueError(f"pi must have shape ({states}, {actions}) or ({actions},), got {pi.shape}")
        return np.array(np.broadcast_to(pi, (states, actions)))

    def probabilities(self, values: Floats, state: State = ALL, classes: Classes = None) -> Floats:  # noqa: ARG002
        """pi(. | s), whatever ``values`` (A,) or (S, A) are.

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
        if isinstance(self.pi, np.ndarray):
            return self.pi[state] if self.pi.ndim == 2 else np.broadcast_to(self.pi, values.shape)
        return np.broadcast_to(self.table(1, values.shape[-1])[0], values.shape)

    @staticmethod
    def weigh(choice: Any, state: int, values: Floats, masses: Floats) -> float:  # noqa: ARG004
        """The masses of classes of actions, for compiled engines; their sum."""
        classes, total = len(choice.counts), 0.0
        for c in range(classes):
            masses[c] = choice.masses[state * classes + c]
            total += masses[c]
        return total

    def __repr__(self) -> str:
        shown = f"array{self.pi.shape}" if isinstance(self.pi, np.ndarray) else repr(self.pi)
        return f"FixedPolicy({shown})"
