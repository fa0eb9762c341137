"""What every control world has in common: physics that are checked, packed for kernels, and printed."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa import _checks
from fedsarsa._checks import Floats

if TYPE_CHECKING:
    import gymnasium

STATE = 4  # numbers that a state may have
OBSERVATION = 6  # numbers that an observation may have


class ControlWorld(ABC):
    """A world with continuous states: one agent's physics.

    Subclasses are frozen dataclasses; their fields are the physics, the defaults are Gymnasium's. What
    follows from the fields is a property. ``reset``, ``step`` and ``observe`` are compiled pieces on rows of
    numbers: ``p`` is a world's ``packed``, ``x`` (STATE,) its state, ``seen`` (OBSERVATION,) what is seen.

    Attributes
    ----------
    physics : tuple of IntEnum
        Names of the fields and properties in ``packed``, at their places.
    gymnasium_id : str or None
        The Gymnasium environment with the same physics, which draws pictures; None: there is none.
    state_size : int
        Numbers in a state.
    action_count : int or None
        Number of actions; None where actions are numbers in ``action_bounds``.
    may_be_zero : frozenset of str
        Fields that may be zero; all others are positive, those in ``signed`` may have either sign.
    varied : tuple of str
        The fields that ``fleet(spread=...)`` varies.
    """

    physics: ClassVar[tuple[IntEnum, ...]]
    gymnasium_id: ClassVar[str | None] = None
    state_size: ClassVar[int]
    action_count: ClassVar[int | None]
    may_be_zero: ClassVar[frozenset[str]] = frozenset()
    signed: ClassVar[frozenset[str]] = frozenset()
    varied: ClassVar[tuple[str, ...]]

    time_limit: int

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, self._checked(field.name, getattr(self, field.name)))
        if not np.isfinite(self.packed).all():
            raise ValueError(f"{type(self).__name__} must have physics of ordinary size, got {self}")

    def _checked(self, name: str, value: Any) -> Any:
        label = f"{type(self).__name__}.{name}"
        if isinstance(getattr(type(self), name), bool):
            if not isinstance(value, bool):
                raise TypeError(f"{label} must be true or false, got {value!r}")
            return value
        if name == "time_limit":
            return _checks.integer(label, value, least=1)
        if name in self.signed:
            return _checks.number(label, value)
        if name in self.may_be_zero and value == 0:
            return 0.0
        return _checks.positive(label, value)

    @property
    def packed(self) -> tuple[float, ...]:
        """Physics and what follows from them, at the places where the world's compiled pieces read them."""
        return tuple(float(getattr(self, place.name.lower())) for place in self.physics)

    @property
    @abstractmethod
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lowest and highest observation for features; observations beyond are clipped there."""

    @property
    def space(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lowest and highest observation that can occur, infinite where nothing holds it."""
        return self.bounds

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """Lowest and highest action, where actions are numbers."""
        return None

    @property
    @abstractmethod
    def reward_cap(self) -> float:
        """The largest absolute reward."""

    @property
    def label(self) -> str:
        """How messages call this world."""
        return type(self).__name__

    @staticmethod
    @abstractmethod
    def reset(p: Floats, x: Floats, u0: float, u1: float, u2: float, u3: float, /) -> None:
        """Draw a first state from four uniform numbers in [0, 1)."""

    @staticmethod
    @abstractmethod
    def step(p: Floats, x: Floats, action: float, u: float, /) -> tuple[float, bool]:
        """Move the state, with noise from a uniform ``u``; return reward and whether the episode is over."""

    @staticmethod
    @abstractmethod
    def observe(p: Floats, x: Floats, seen: Floats, /) -> None:
        """Write what an agent sees of its state."""

    def begin(self, x: Floats, uniforms: Sequence[float]) -> None:
        """Draw a first state from four uniform numbers; with ``move`` and ``see``, what `World` asks for."""
        self.reset(pack([self])[0], x, *uniforms)

    def move(self, x: Floats, action: float, uniform: float) -> tuple[float, bool]:
        """Move the state; return the reward, and whether the episode is terminated."""
        return self.step(pack([self])[0], x, action, uniform)

    def see(self, x: Floats, seen: Floats) -> None:
        """Write what an agent sees of its state."""
        self.observe(pack([self])[0], x, seen)

    def paint(self, canvas: Any) -> None:  # noqa: B027  # worlds without a picture have nothing to give
        """Give the physics that are seen to Gymnasium's own environment, which draws the picture."""

    def draw(self, canvas: Any, action: float | None) -> NDArray[np.uint8]:  # noqa: ARG002
        """A picture (height, width, 3) of the state in ``canvas``, after ``action``."""
        picture: NDArray[np.uint8] = canvas.render()
        return picture

    def to_gymnasium(self, render_mode: str | None = None) -> "gymnasium.Env[Any, Any]":
        """The world as a Gymnasium environment: the same physics, in float64.

        Parameters
        ----------
        render_mode : {None, "rgb_array"}
            Whether ``render`` draws pictures.

        Returns
        -------
        gymnasium.Env
            Its observations are not clipped.

        Raises
        ------
        ValueError
            ``render_mode`` is another one, or the world has no picture.
        """
        from fedsarsa.worlds.control.environment import ControlEnvironment

        return ControlEnvironment(self, render_mode)


def pack(worlds: Sequence[ControlWorld]) -> Floats:
    """The physics of all agents, which are in one kind of world, a row each."""
    return np.array([world.packed for world in worlds])
