"""Feature maps phi(s, a) of finite worlds, with norm at most 1 as the theory asks.

What a user writes (`OneHot()`, `ModuloFeatures(5, 5)`, `TabularFeatures(table)`) says nothing of the
world. ``features.on(states, actions)`` gives the map on that world, in one of two forms that every
engine understands: `Aggregation` (one active parameter per pair) or `DenseTable`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.learning.continuous_features import BoxMap, ContinuousFeatures, check_size
from fedsarsa.learning.function_features import FunctionFeatures
from fedsarsa.learning.tile_coding import Tiles

# Norms may exceed one by this much: rounding in a table that was normalised elsewhere.
NORM_TOLERANCE = 1e-9


class OnStates:
    """What maps on numbered states have in common: one input, which is never outside."""

    joint: ClassVar[bool] = False
    inputs: ClassVar[int] = 1

    def outside(self, inputs: Floats, numbers: Floats) -> bool:  # noqa: ARG002
        """Whether the state is outside."""
        return False

    def identity(self) -> list[object]:
        """What distinguishes this map from others."""
        return [type(self).__name__, *vars(self).values()]


@dataclass(frozen=True, eq=False)
class Aggregation(OnStates):
    """phi(s, a) = e_j with j = rows[s] * width + columns[a]: pairs that share a parameter are one.

    Attributes
    ----------
    rows : (S,) int
        Group of each state.
    columns : (A,) int
        Group of each action, below ``width``.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    width: int

    def __post_init__(self) -> None:
        _checks.fits("features", f"{self.dim} of them", 8 * self.dim, "parameters")

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return (int(self.rows.max()) + 1) * self.width

    @property
    def classes(self) -> NDArray[np.int64]:
        """Class of each action, (A,): those of one group have the same features in every state."""
        return self.columns

    @property
    def order(self) -> NDArray[np.int64]:
        """Actions in the order in which policies draw them: group by group, (A,)."""
        return np.argsort(self.columns, kind="stable")

    @property
    def most_active(self) -> int:
        """Number of entries of phi that ``active`` gives."""
        return 1

    def values(self, theta: Floats) -> Floats:
        """Q(s, a) = phi(s, a)'theta of every pair, (S, A)."""
        return theta[self.rows[:, None] * self.width + self.columns]

    def values_at(self, theta: Floats, inputs: Floats, numbers: Floats | None = None) -> Floats:  # noqa: ARG002
        """Q(s, .) of all actions, (A,); ``inputs`` holds the state's number."""
        return theta[self.rows[int(inputs[0])] * self.width + self.columns]

    def constant(self, value: float) -> Floats:
        """Parameters (d,) with which Q is ``value`` everywhere."""
        return np.full(self.dim, value)

    def active(
        self,
        inputs: Floats,
        action: int,
        number: float | None = None,  # noqa: ARG002
    ) -> tuple[NDArray[np.int64], Floats]:
        """Indices and values of phi's entries that are not zero; ``inputs`` holds the state's number."""
        row = self.rows[int(inputs[0])]
        return np.array([row * self.width + self.columns[action]]), np.ones(1)


@dataclass(frozen=True, eq=False)
class DenseTable(OnStates):
    """phi(s, a) = table[s, a], any vectors, (S, A, d)."""

    table: Floats

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return self.table.shape[2]

    @property
    def classes(self) -> NDArray[np.int64]:
        """Class of each action, (A,): those of one class have the same features in every state."""
        return _alike(self)

    @property
    def order(self) -> NDArray[np.int64]:
        """Actions in the order in which policies draw them, (A,)."""
        return np.arange(self.table.shape[1])

    @property
    def most_active(self) -> int:
        """Number of entries of phi that ``active`` gives."""
        return self.dim

    # Sums run over parameters in their order, here and in every engine: values that are equal in one
    # engine are then equal in all, and greedy policies break the same ties.
    def values(self, theta: Floats) -> Floats:
        """Q(s, a) = phi(s, a)'theta of every pair, (S, A)."""
        return _summed(self.table, theta)

    def values_at(self, theta: Floats, inputs: Floats, numbers: Floats | None = None) -> Floats:  # noqa: ARG002
        """Q(s, .) of all actions, (A,); ``inputs`` holds the state's number."""
        return _summed(self.table[int(inputs[0])], theta)

    def constant(self, value: float) -> Floats:
        """Parameters (d,) with which Q is ``value`` everywhere: for vectors of any kind, only 0."""
        if value != 0:
            raise ValueError(
                f"initial_value must be 0 with TabularFeatures, got {value}; give theta0 instead"
            )
        return np.zeros(self.dim)

    def active(
        self,
        inputs: Floats,
        action: int,
        number: float | None = None,  # noqa: ARG002
    ) -> tuple[NDArray[np.int64], Floats]:
        """Indices and values of phi's entries; ``inputs`` holds the state's number."""
        return np.arange(self.dim), self.table[int(inputs[0]), action]


@lru_cache(maxsize=128)  # the reference engine asks at every step
def _alike(features: DenseTable) -> NDArray[np.int64]:
    """The first action with the same features in every state, for each action, (A,)."""
    first: dict[bytes, int] = {}
    vectors = np.moveaxis(features.table, 1, 0) + 0.0  # no -0.0, which is 0.0 in other bytes
    return np.array([first.setdefault(own.tobytes(), a) for a, own in enumerate(vectors)])


def _summed(vectors: Floats, theta: Floats) -> Floats:
    """vectors (..., d) times theta (d,), added up from the first parameter to the last."""
    total = vectors[..., 0] * theta[0]
    for j in range(1, len(theta)):
        total = total + vectors[..., j] * theta[j]
    return total


FeatureMap = Aggregation | DenseTable


class FiniteFeatures(ABC):
    """What a user writes: features that become a map once the world is known."""

    @abstractmethod
    def on(self, states: int, actions: int) -> FeatureMap:
        """The map on a world of ``states`` states and ``actions`` actions.

        Parameters
        ----------
        states : int
            S, the number of states.
        actions : int
            A, the number of actions.

        Returns
        -------
        Aggregation or DenseTable
            phi(s, a) of every pair, which engines and theory read.

        Raises
        ------
        ValueError
            The features do not fit so many states and actions.
        """


@dataclass(frozen=True)
class OneHot(FiniteFeatures):
    """One parameter per pair (tabular SARSA): d = S A.

    Raises
    ------
    ValueError
        With ``on``, where the parameters do not fit into memory.

    Notes
    -----
    phi(s, a) is the unit vector of the pair:

        phi_j(s, a) = 1 if j = s A + a, else 0

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.OneHot().on(states=4, actions=3).dim
    12
    """

    def on(self, states: int, actions: int) -> Aggregation:
        """The map on a world of ``states`` states and ``actions`` actions."""
        return Aggregation(np.arange(states), np.arange(actions), actions)

    def on_numbers(self, first: Floats, counts: Sequence[int], actions: int) -> BoxMap:
        """The map on observations of whole numbers, ``counts`` of each from ``first`` on, the last fastest.

        Parameters are those of the finite world whose states are the combinations. One grid of tiles, each
        with a whole number at its centre.
        """
        bins = np.array(counts, dtype=float) - 1
        tiles = Tiles(bins, offsets=np.full((1, len(bins)), 0.5), slots=0)
        check_size(self, tiles.size, len(bins), actions)
        low = np.zeros(len(bins)) + first
        return BoxMap(tiles, low, low + np.maximum(bins, 1.0), actions, joint=False)


@dataclass(frozen=True)
class ModuloFeatures(FiniteFeatures):
    """One parameter per (s mod d1, a mod d2): the paper's feature map, d = d1 d2.

    Parameters
    ----------
    d1, d2 : int
        At least 1, and at most the number of states and of actions.

    Raises
    ------
    ValueError, TypeError
        ``d1`` or ``d2`` is no integer of at least 1, or a world has fewer states or actions.

    Notes
    -----
    Pairs whose state and action agree modulo d1 and d2 share a parameter:

        phi_j(s, a) = 1 if j = (s mod d1) d2 + (a mod d2), else 0

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.ModuloFeatures(5, 5).on(states=100, actions=100).dim
    25
    """

    d1: int = 5
    d2: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "d1", _checks.integer("d1", self.d1, least=1))
        object.__setattr__(self, "d2", _checks.integer("d2", self.d2, least=1))

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return self.d1 * self.d2

    def on(self, states: int, actions: int) -> Aggregation:
        """The map on a world of ``states`` states and ``actions`` actions.

        Raises
        ------
        ValueError
            The world has fewer than ``d1`` states or ``d2`` actions.
        """
        if self.d1 > states or self.d2 > actions:
            raise ValueError(
                f"ModuloFeatures({self.d1}, {self.d2}) needs at least {self.d1} states and "
                f"{self.d2} actions, got a world with {states} and {actions}"
            )
        return Aggregation(np.arange(states) % self.d1, np.arange(actions) % self.d2, self.d2)


class TabularFeatures(FiniteFeatures):
    """Any feature vectors, one per pair.

    Parameters
    ----------
    table : (S, A, d)
        phi(s, a). Norms above 1 are rejected.
    normalise : bool
        Divide the whole table by its largest norm instead, when that is above 1.

    Raises
    ------
    ValueError
        ``table`` has another shape, is not finite, or holds a norm above 1.

    Notes
    -----
    The value of a pair is linear in the parameter:

        Q(s, a) = sum_j table[s, a, j] theta_j

    Examples
    --------
    >>> import numpy as np
    >>> import fedsarsa as fs
    >>> fs.TabularFeatures(np.eye(6).reshape(3, 2, 6))
    TabularFeatures(shape=(3, 2, 6))
    """

    def __init__(self, table: ArrayLike, normalise: bool = False) -> None:
        array = _checks.real_array("table", table)
        if array.ndim != 3 or 0 in array.shape:
            raise ValueError(f"table must have shape (S, A, d), got {array.shape}")
        largest = np.abs(array).max()
        # Squares of large entries would overflow: norms in units of the largest entry.
        norms = np.linalg.norm(array / max(largest, 1.0), axis=2) * max(largest, 1.0)
        if norms.max() > 1 + NORM_TOLERANCE:
            if not normalise:
                state, action = np.unravel_index(np.argmax(norms), norms.shape)
                raise ValueError(
                    f"table must have feature norms of at most 1, got {norms.max():.6g} at state "
                    f"{state}, action {action}; normalise=True divides the table by it"
                )
            array = array / norms.max()
            array.setflags(write=False)
        self.table: Floats = array

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return self.table.shape[2]

    def on(self, states: int, actions: int) -> DenseTable:
        """The map on a world of ``states`` states and ``actions`` actions.

        Raises
        ------
        ValueError
            The table is for other numbers of states and actions.
        """
        if self.table.shape[:2] != (states, actions):
            raise ValueError(
                f"features have a table for {self.table.shape[0]} states and "
                f"{self.table.shape[1]} actions, got a world with {states} and {actions}"
            )
        return DenseTable(self.table)

    def __repr__(self) -> str:
        return f"TabularFeatures(shape={self.table.shape})"


# The features of finite worlds, one line each; those of continuous observations are in ``bases``.
FINITE: dict[str, type[FiniteFeatures]] = {
    "ModuloFeatures": ModuloFeatures,
    "OneHot": OneHot,
    "TabularFeatures": TabularFeatures,
}
Features = FiniteFeatures | ContinuousFeatures


def checked(features: Any) -> Features:
    """Features, or those of a function of one's own; reject what is neither."""
    if callable(features) and not isinstance(features, (*Features.__args__, type)):
        return FunctionFeatures(features)
    if not isinstance(features, Features):
        raise TypeError(
            f"features must be OneHot(), ModuloFeatures or TabularFeatures, got {features!r}; "
            "for continuous observations TileCoding, FourierBasis, RBF, RandomFourier or a function"
        )
    return features
