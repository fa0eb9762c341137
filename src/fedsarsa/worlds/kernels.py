"""Transition kernels P_a(s, s') of finite worlds: written out, or one matrix rotated by the action."""

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._checks import Floats


class DenseKernel:
    """A kernel given entry by entry.

    Parameters
    ----------
    array : (A, S, S)
        ``array[a, s, t]`` is the probability of moving from s to t under action a.
    """

    shift: ClassVar[int] = 0

    def __init__(self, array: ArrayLike) -> None:
        self.array = _checks.distribution("transition", array)
        shape = self.array.shape
        if self.array.ndim != 3 or shape[1] != shape[2] or 0 in shape:
            raise ValueError(f"transition must have shape (A, S, S), got {shape}")
        self.actions: int = shape[0]
        self.states: int = shape[1]

    @property
    def rows(self) -> Floats:
        """Every distribution that can be drawn, (A S, S): row a S + s."""
        return self.array.reshape(-1, self.states)

    def matrix(self, action: int) -> Floats:
        """P_a as an (S, S) matrix.

        Parameters
        ----------
        action : int
            The action a.

        Returns
        -------
        (S, S) array
            Row s holds the probabilities of moving from s.
        """
        matrix: Floats = self.array[action]
        return matrix

    def under(self, policy: Floats) -> Floats:
        """State transition matrix (S, S) when actions follow ``policy`` (S, A).

        Parameters
        ----------
        policy : (S, A) array
            pi(a | s).

        Returns
        -------
        (S, S) array
            sum_a pi(a | s) P_a(s, s').
        """
        chain: Floats = np.einsum("sa,ast->st", policy, self.array)
        return chain

    def expect(self, values: Floats) -> Floats:
        """E[values(s') | s, a], shape (S, A), for ``values`` (S,).

        Parameters
        ----------
        values : (S,) array
            A number for every state.

        Returns
        -------
        (S, A) array
            sum_s' P_a(s, s') values(s').
        """
        expected: Floats = (self.array @ values).T
        return expected


class ShiftKernel:
    """One matrix whose columns the action rotates: P_a(s, s') = P0(s, (s' - a) mod S).

    Parameters
    ----------
    P0 : (S, S)
        The matrix of action 0.
    actions : int
        Number of actions A, counted from 0.

    Raises
    ------
    ValueError
        ``P0`` is not square, its rows do not sum to one, or there is no action.

    Notes
    -----
    Only P0 is stored, S^2 numbers in place of A S^2:

        P_a(s, s') = P0(s, (s' - a) mod S)

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.ShiftKernel([[0.9, 0.1], [0.2, 0.8]], actions=2).matrix(1)
    array([[0.1, 0.9],
           [0.8, 0.2]])
    """

    shift: ClassVar[int] = 1

    def __init__(self, P0: ArrayLike, actions: int) -> None:
        self.P0 = _checks.distribution("P0", P0)
        if self.P0.ndim != 2 or self.P0.shape[0] != self.P0.shape[1] or self.P0.size == 0:
            raise ValueError(f"P0 must have shape (S, S), got {self.P0.shape}")
        self.states: int = self.P0.shape[0]
        self.actions = _checks.integer("actions", actions, least=1)

    @property
    def rows(self) -> Floats:
        """Every distribution that is drawn from, (S, S); the action then rotates what was drawn."""
        return self.P0

    def matrix(self, action: int) -> Floats:
        """P_a as an (S, S) matrix.

        Parameters
        ----------
        action : int
            The action a.

        Returns
        -------
        (S, S) array
            Row s holds the probabilities of moving from s.
        """
        return np.roll(self.P0, action, axis=1)

    def under(self, policy: Floats) -> Floats:
        """State transition matrix (S, S) when actions follow ``policy`` (S, A).

        Parameters
        ----------
        policy : (S, A) array
            pi(a | s).

        Returns
        -------
        (S, S) array
            sum_a pi(a | s) P_a(s, s').
        """
        result, twice = np.zeros_like(self.P0), np.hstack([self.P0, self.P0])
        for action in range(self.actions):
            first = -action % self.states  # ``matrix(action)`` is a window on ``twice``
            result += policy[:, action, None] * twice[:, first : first + self.states]
        return result

    def expect(self, values: Floats) -> Floats:
        """E[values(s') | s, a], shape (S, A), for ``values`` (S,).

        Parameters
        ----------
        values : (S,) array
            A number for every state.

        Returns
        -------
        (S, A) array
            sum_s' P_a(s, s') values(s').
        """
        reached = np.add.outer(np.arange(self.states), np.arange(self.actions)) % self.states
        expected: Floats = self.P0 @ values[reached]
        return expected


Kernel = DenseKernel | ShiftKernel
