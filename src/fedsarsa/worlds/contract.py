"""What every world and every fleet answers, whatever its kind."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol, overload

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats

NEVER = int(np.iinfo(np.int64).max)  # the time limit of worlds that do not end


class World(Protocol):
    """One agent's world, as the reference engine moves it. ``x`` is a row of numbers that holds the state."""

    @property
    def time_limit(self) -> int:
        """Steps after which an episode is cut short; ``NEVER`` where there are no episodes."""

    def begin(self, x: Any, uniforms: Sequence[float]) -> None:
        """Draw a first state from uniform numbers in [0, 1)."""

    def move(self, x: Any, action: float, uniform: float) -> tuple[float, bool]:
        """Move the state; return the reward, and whether the episode is terminated."""

    def see(self, x: Any, seen: Floats) -> None:
        """Write what an agent sees of its state."""


class AnyFleet(Protocol):
    """The worlds of N agents: a sequence of worlds that share what learning asks of them."""

    discount: float

    @property
    def finite(self) -> bool:
        """Whether states and actions are numbered, and episodes never end."""

    @property
    def states(self) -> int:
        """The number of states; 1 where they are not numbered."""

    @property
    def action_count(self) -> int | None:
        """Number of actions; None where actions are numbers."""

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """Lowest and highest action, where an action is one number."""

    def candidates(self, per_number: int | None) -> Floats:
        """The actions that policies choose from, as numbers; a grid of ``per_number`` where actions are."""

    def identity(self) -> str:
        """What distinguishes this fleet from others."""

    def describe(self) -> dict[str, Any]:
        """The fleet in words and numbers, for records."""

    def varied(self) -> dict[str, list[Any]]:
        """The physics or options in which agents differ, agent by agent."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, key: int, /) -> Any: ...
    @overload
    def __getitem__(self, key: slice, /) -> "AnyFleet": ...
    def __iter__(self) -> Iterator[Any]: ...


class ContinuousFleet:
    """What fleets of worlds with observations, not numbered states, have in common.

    Attributes
    ----------
    bounds : (low, high)
        Lowest and highest observation.
    action_count : int or None
        Number of actions; None where actions are numbers.
    action_bounds : (low, high) or None
        Lowest and highest action, where an action is one number.
    counts : list of int or None
        How many values each number of an observation has; None where they are continuous.
    undrawn : str or None
        What an action is, where actions cannot be drawn uniformly from ``action_bounds``.
    """

    finite: ClassVar[bool] = False
    states: ClassVar[int] = 1
    counts: list[int] | None = None
    undrawn: str | None = None

    bounds: Any
    action_count: Any
    action_bounds: Any

    def candidates(self, per_number: int | None) -> Floats:
        """The actions that policies choose from, as numbers; a grid of ``per_number`` where actions are."""
        if self.action_count is not None:
            return np.arange(float(self.action_count))
        assert per_number is not None
        low, high = self.action_bounds
        return np.linspace(low, high, per_number)


def checked_discount(discount: float) -> float:
    """``discount`` if episodes can be discounted by it."""
    checked = _checks.number("discount", discount, "a number in (0, 1]")
    if not 0 < checked <= 1:
        raise ValueError(f"discount must be a number in (0, 1], got {discount!r}")
    return checked
