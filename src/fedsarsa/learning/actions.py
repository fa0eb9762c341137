"""Candidate actions for worlds whose actions are numbers: policies choose among finitely many."""

from dataclasses import dataclass

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.random import MOST_CANDIDATES


@dataclass(frozen=True)
class GridActions:
    """``count`` actions at equal distances from the lowest to the highest, with parameters of their own.

    Parameters
    ----------
    count : int
        At least 2; where an action is several numbers, so many values of each.

    Raises
    ------
    ValueError, TypeError
        ``count`` is no integer of at least 2.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(fs.TileCoding(), fs.EpsilonGreedy(0.1), actions=fs.GridActions(5))
    """

    count: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _checks.integer("count", self.count, least=2))

    def numbers(self, low: float, high: float) -> Floats:
        """The actions as numbers, from the lowest to the highest.

        Parameters
        ----------
        low, high : float
            Lowest and highest action.

        Returns
        -------
        (count,) array
            Numbers at equal distances.
        """
        return np.linspace(low, high, self.count)


@dataclass(frozen=True)
class RandomActions:
    """``count`` actions drawn afresh, uniformly, at every step; features take the action as an input.

    The policy among them is the same operator as elsewhere; ``fs.theory.improvement`` gives its mean over the
    draws, which for a softmax approaches the softmax over all actions as ``count`` grows.

    Parameters
    ----------
    count : int
        At least 1, at most 2048.

    Raises
    ------
    ValueError, TypeError
        ``count`` is no integer from 1 to 2048.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> algo = fs.FedSARSA(fs.RBF(), fs.Softmax(1.0), actions=fs.RandomActions(8))
    """

    count: int = 8

    def __post_init__(self) -> None:
        count = _checks.integer("count", self.count, least=1)
        if count > MOST_CANDIDATES:
            raise ValueError(f"count must be at most {MOST_CANDIDATES}, got {count}")
        object.__setattr__(self, "count", count)


Candidates = GridActions | RandomActions
