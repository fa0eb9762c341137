"""Feature maps on continuous observations: phi(x, a) with norm at most 1.

What a user writes (`TileCoding()`, `FourierBasis()`, `RBF()`) says nothing of the world. ``features.on_box``
gives its basis on inputs in [0, 1]; a `BoxMap` scales a world's observations to that, clips what is
outside (functions of one's own get them as they are), and makes features of pairs in one of two ways:

- *stacked*: every action has parameters of its own; parameter ``j A + a`` belongs to basis function j.
- *joint*: the action is one more input, for actions that are numbers.

A basis function that is zero costs nothing: a map gives the active ones, as indices and values.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats

Integers = NDArray[np.int64]
Bounds = tuple[Sequence[float] | float, Sequence[float] | float]  # one number is for all observations

INPUTS = (2, 3, 4, 6)  # numbers of inputs for which kernels are compiled apart: those of the control worlds
MOST_PARAMETERS = 50_000_000  # 400 MB per agent: beyond, something was chosen by mistake
GRIDDED = 10  # inputs beyond which no grid is of use: an image, say
CROWDED = ", or take RandomFourier, of the size that you choose"


class Coefficients(NamedTuple):
    """A basis as its compiled ``encode`` reads it; see the files of the bases for what each number means."""

    active: int
    weight: float
    bins: Floats
    offsets: Floats
    strides: Integers
    each: int
    slots: int
    points: Floats
    precision: Floats
    function: int


class Basis(ABC):
    """Basis functions of inputs in [0, 1], in NumPy (``active``) and compiled (``encode``).

    ``raw`` ones are functions of observations as they are.
    """

    raw: ClassVar[bool] = False

    @property
    @abstractmethod
    def size(self) -> int:
        """Number of basis functions."""

    @abstractmethod
    def active(self, unit: Floats) -> tuple[Integers, Floats]:
        """Indices of the functions that are not zero at ``unit`` (inputs,), and their values."""

    @abstractmethod
    def constant(self, value: float) -> Floats:
        """Parameters (size,) with which the basis is ``value`` everywhere."""

    @abstractmethod
    def coefficients(self) -> Coefficients:
        """What ``encode`` reads."""

    @property
    def most_active(self) -> int:
        """How many functions ``active`` gives."""
        return self.coefficients().active

    def identity(self) -> list[object]:
        """What distinguishes this basis from others."""
        return [*self.coefficients()]

    @staticmethod
    @abstractmethod
    def encode(c: Coefficients, unit: Floats, index: Integers, value: Floats, /) -> None:
        """Write the indices and values of ``active``: ``c.active`` of them."""


@dataclass(frozen=True, eq=False)
class BoxMap:
    """phi(x, a) on observations between ``low`` and ``high`` (inputs,).

    Attributes
    ----------
    stack : int
        Number of actions with parameters of their own; 1 where the action is the last input.
    joint : bool
        Whether the action is the last input.
    """

    basis: Basis
    low: Floats
    high: Floats
    stack: int
    joint: bool

    @property
    def dim(self) -> int:
        """Number of parameters d."""
        return self.basis.size * self.stack

    @property
    def classes(self) -> None:
        """No two actions have the same features."""
        return None

    @property
    def inputs(self) -> int:
        """How many numbers it reads, the action among them if it is joint."""
        return len(self.low)

    @property
    def most_active(self) -> int:
        """Number of entries of phi that ``active`` gives."""
        return self.basis.most_active

    def scaled(self, inputs: Floats) -> tuple[Floats, bool]:
        """Inputs scaled to [0, 1], and whether any was outside and clipped."""
        if self.basis.raw:
            return inputs, False
        unit = (inputs - self.low) * (1.0 / (self.high - self.low))
        inside = (inputs >= self.low) & (inputs <= self.high)
        clipped = np.where(inputs > self.high, 1.0, 0.0)
        return np.where(inside, np.minimum(unit, 1.0), clipped), not inside.all()

    def active(self, inputs: Floats, action: int, number: float | None = None) -> tuple[Integers, Floats]:
        """Indices and values of phi's entries that are not zero; the action is in ``inputs`` if joint.

        There, a ``number`` takes its place.
        """
        unit, _ = self.scaled(self.with_action(inputs, number))
        index, value = self.basis.active(unit)
        return index * self.stack + (0 if self.joint else action), value

    def with_action(self, inputs: Floats, number: float | None) -> Floats:
        """The inputs, with a ``number`` for the action as the last one if the map is joint."""
        return np.append(inputs[:-1], number) if self.joint and number is not None else inputs

    def values_at(self, theta: Floats, inputs: Floats, numbers: Floats) -> Floats:
        """Q(x, .) of the actions that ``numbers`` (A,) are, at one observation."""
        if self.joint:
            return np.array([summed(theta, *self.active(inputs, 0, number)) for number in numbers])
        index, value = self.active(inputs, 0)
        return np.array([summed(theta, index + a, value) for a in range(self.stack)])

    def outside(self, inputs: Floats, numbers: Floats) -> bool:
        """Whether the observation, or an action, is outside and clipped."""
        return any(self.scaled(self.with_action(inputs, number))[1] for number in numbers)

    def identity(self) -> list[object]:
        """What distinguishes this map from others."""
        return [*self.basis.identity(), self.low, self.high, self.stack, self.joint]

    def constant(self, value: float) -> Floats:
        """Parameters (d,) with which Q is ``value`` everywhere."""
        return np.repeat(self.basis.constant(value), self.stack)


def summed(theta: Floats, index: Integers, value: Floats) -> float:
    """phi'theta, added up in this order, as in every engine: the same ties."""
    return float(np.cumsum(value * theta[index])[-1])


class ContinuousFeatures(ABC):
    """What a user writes: features that become a basis once the number of inputs is known.

    Attributes
    ----------
    basis : type
        The basis.
    bounds : (low, high) or None
        Bounds of the observations, one number for all or one each; None: the world's.
    """

    basis: ClassVar[type[Basis]]
    bounds: Bounds | None

    @abstractmethod
    def on_box(self, inputs: int) -> Basis:
        """The basis for a number of inputs.

        Parameters
        ----------
        inputs : int
            Numbers in an observation.

        Returns
        -------
        Basis
            Its functions of observations that are scaled to [0, 1].

        Raises
        ------
        ValueError
            The features do not fit so many inputs, or would have too many parameters.
        """

    def on(self, states: int, actions: int) -> Any:
        """Finite worlds have no continuous observations.

        Parameters
        ----------
        states : int
            S, the number of states.
        actions : int
            A, the number of actions.

        Returns
        -------
        never
            It always raises.

        Raises
        ------
        ValueError
            Always: the message names the features of finite worlds.
        """
        raise ValueError(
            f"features must be OneHot, ModuloFeatures or TabularFeatures in a finite world "
            f"({states} states, {actions} actions), got {self!r}"
        )


def box_map(
    features: ContinuousFeatures, low: Sequence[float], high: Sequence[float], actions: int, joint: bool
) -> BoxMap:
    """The map on a world's bounds, or on the features' own; if ``joint``, the action is the last input."""
    if features.bounds is not None:
        observed = len(low) - joint
        lows, highs = (
            [side] * observed if isinstance(side, float | int) else list(side) for side in features.bounds
        )
        if len(lows) != observed:
            raise ValueError(f"bounds must be for {observed} observations, got {len(lows)}")
        low, high = [*lows, *low[observed:]], [*highs, *high[observed:]]
    if features.basis.raw:
        return _raw_map(features, low, high, actions, joint)
    unbounded = [i for i, ends in enumerate(zip(low, high, strict=True)) if not np.isfinite(ends).all()]
    if unbounded:
        raise ValueError(f"observations {unbounded} have no bounds in this world; {_give_bounds(features)}")
    width = [
        i for i, (a, b) in enumerate(zip(low, high, strict=True)) if not (a < b and math.isfinite(b - a))
    ]
    if width:
        raise ValueError(
            f"observations {width} must have low below high and a finite width, got "
            f"{[(low[i], high[i]) for i in width]}; {_give_bounds(features)}"
        )
    basis = features.on_box(len(low))
    stack = 1 if joint else actions
    check_size(features, basis.size, len(low), stack)
    return BoxMap(basis, np.array(low, dtype=float), np.array(high, dtype=float), stack, joint)


def _give_bounds(features: ContinuousFeatures) -> str:
    """How to give bounds, in Python and in TOML."""
    return (
        f"give {type(features).__name__}(bounds=(low, high)), with a number per observation in each; "
        "in TOML, bounds = [[...], [...]]"
    )


def _raw_map(
    features: ContinuousFeatures, low: Sequence[float], high: Sequence[float], actions: int, joint: bool
) -> BoxMap:
    """The map of features that take observations as they are, whatever their bounds."""
    if joint:
        raise ValueError(f"actions must be GridActions with features of your own, got {features!r}")
    basis = features.on_box(len(low))
    check_size(features, basis.size, len(low), actions)
    return BoxMap(basis, np.array(low, dtype=float), np.array(high, dtype=float), actions, joint)


def check_size(features: Any, size: int, inputs: int, stack: int) -> None:
    """Reject a basis of ``size`` functions that has too many parameters."""
    if size * stack > MOST_PARAMETERS:
        advice = ", or hash them into fewer, as memory=100_000 does"
        if getattr(features, "memory", 0) is not None:  # features that cannot hash, or do already
            advice = ""
        raise ValueError(
            f"{features!r} has {many(size * stack)} parameters for {inputs} inputs and {stack} "
            f"actions; at most {MOST_PARAMETERS}: observe fewer numbers, ask for less of each"
            + (CROWDED if inputs > GRIDDED else advice)
        )


def checked_bounds(bounds: Bounds | None) -> Bounds | None:
    """Bounds as two tuples of numbers, low below high."""
    if bounds is None:
        return None
    if not isinstance(bounds, Sequence | np.ndarray) or isinstance(bounds, str) or len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {bounds!r}")
    low, high = (_checks.real_array("bounds", side) for side in bounds)
    if low.shape != high.shape or low.ndim > 1 or not (low < high).all():
        raise ValueError(f"bounds must have low below high for every observation, got {bounds!r}")
    if low.ndim == 0:
        return float(low), float(high)
    return tuple(low.tolist()), tuple(high.tolist())


def per_input(name: str, given: Any, least: int) -> int | tuple[int, ...]:
    """One count for every input, or one for all."""
    if isinstance(given, (list, tuple, np.ndarray)):
        return tuple(_checks.integer(name, one, least) for one in given)
    return _checks.integer(name, given, least)


def spread_out(name: str, given: int | tuple[int, ...], inputs: int) -> list[int]:
    """One count per input."""
    counts = [given] * inputs if isinstance(given, int) else list(given)
    if len(counts) != inputs:
        raise ValueError(f"{name} must be one number or {inputs} of them, got {list(counts)}")
    return counts


NOTHING = np.empty((0, 0))
NONE = np.empty((0, 0), np.int64)


def coefficients(
    active: int,
    weight: float,
    bins: Floats | None = None,
    offsets: Floats = NOTHING,
    strides: Integers = NONE,
    each: int = 0,
    slots: int = 0,
    points: Floats = NOTHING,
    precision: Floats | None = None,
    function: int = 0,
) -> Coefficients:
    """Coefficients of which a basis needs only some."""
    empty = np.empty(0)
    return Coefficients(
        active,
        weight,
        empty if bins is None else bins,
        offsets,
        strides,
        each,
        slots,
        points,
        empty if precision is None else precision,
        function,
    )


def grid(features: ContinuousFeatures, axes: Sequence[Floats]) -> Floats:
    """All combinations of the numbers on the axes, (n, inputs), the last axis fastest."""
    count = math.prod(len(axis) for axis in axes)
    if count * len(axes) > MOST_PARAMETERS:
        raise ValueError(
            f"{features!r} has {many(count)} functions of {len(axes)} inputs; "
            f"at most {MOST_PARAMETERS // len(axes)}: observe fewer numbers, ask for less of each"
            + (CROWDED if len(axes) > GRIDDED else "")
        )
    points, period = np.empty((count, len(axes))), count
    for i, axis in enumerate(axes):
        points[:, i] = np.resize(np.repeat(axis, period // len(axis)), count)
        period //= len(axis)
    return points


def many(count: int) -> str:
    """A count as people write it, however large."""
    return str(count) if count < 10**15 else f"about 10^{math.log10(count):.0f}"
