"""Pendulum: swing a rod up and hold it with little torque, as Gymnasium's Pendulum-v1."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control.world import ControlWorld

FRAME = 500  # pixels across a picture, as Gymnasium's
SHORTEST, LONGEST = 0.2, 2.0  # rods that are drawn in proportion; those beyond would hardly fit


class Physics(IntEnum):
    """Places of what the compiled pieces read in ``p``."""

    FALL, LIFT, TORQUE, FRICTION, NOISE, TIME_STEP, MAX_SPEED, START_ANGLE, START_SPEED = range(9)


@dataclass(frozen=True)
class Pendulum(ControlWorld):
    """A rod at a motor; the action is the torque; the reward is minus a cost, and no state ends it.

    Parameters
    ----------
    gravity, mass, length : float
        Acceleration, and the rod.
    torque : float
        The largest torque; actions beyond are clipped.
    friction : float
        Torque against the rod per unit of its speed.
    noise : float
        A uniform random torque of at most this size is added at every step.
    time_step : float
        Seconds per step.
    max_speed : float
        Speeds are clipped to this.
    start_angle, start_speed : float
        First angle and speed are uniform up to these, in both directions.
    time_limit : int
        Steps after which an episode is cut short.

    Raises
    ------
    ValueError, TypeError
        A number is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.Pendulum(mass=1.5).action_bounds
    (-2.0, 2.0)
    """

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    torque: float = 2.0
    friction: float = 0.0
    noise: float = 0.0
    time_step: float = 0.05
    max_speed: float = 8.0
    start_angle: float = math.pi
    start_speed: float = 1.0
    time_limit: int = 200

    physics: ClassVar[tuple[IntEnum, ...]] = tuple(Physics)
    gymnasium_id: ClassVar[str] = "Pendulum-v1"
    state_size: ClassVar[int] = 2
    action_count: ClassVar[int | None] = None
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"friction", "noise", "start_angle", "start_speed"})
    varied: ClassVar[tuple[str, ...]] = ("gravity", "mass", "length", "torque")

    @property
    def fall(self) -> float:
        """How fast gravity turns a level rod."""
        return 3 * self.gravity / (2 * self.length)

    @property
    def lift(self) -> float:
        """How fast a unit of torque turns the rod."""
        return 3.0 / (self.mass * self.length * self.length)

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Cosine and sine of the angle, and the fastest turn."""
        return (-1.0, -1.0, -self.max_speed), (1.0, 1.0, self.max_speed)

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """The torque."""
        return -self.torque, self.torque

    @property
    def reward_cap(self) -> float:
        """The cost of a rod that hangs, turns at its fastest and is pushed with full torque."""
        turn = max(self.max_speed, self.start_speed)
        return math.pi**2 + 0.1 * turn**2 + 0.001 * self.torque**2

    def paint(self, canvas: Any) -> None:
        """Gymnasium's rod is always as long as its sheet allows: a longer one needs a larger sheet."""
        canvas.screen_dim = 2 * round(FRAME / 2 * min(max(self.length, SHORTEST), LONGEST))

    def draw(self, canvas: Any, action: float | None) -> NDArray[np.uint8]:
        """The middle of the sheet; an arrow shows the torque as a share of the largest."""
        canvas.last_u = None if action is None else 2 * min(max(action / self.torque, -1.0), 1.0)
        sheet = super().draw(canvas, action)
        edge, cut = max(0, (FRAME - len(sheet)) // 2), max(0, (len(sheet) - FRAME) // 2)
        picture = np.full((FRAME, FRAME, 3), 255, np.uint8)
        picture[edge : FRAME - edge, edge : FRAME - edge] = sheet[cut : cut + FRAME, cut : cut + FRAME]
        return picture

    @staticmethod
    @piece
    def reset(p: Floats, x: Floats, u0: float, u1: float, *_: float) -> None:
        """Draw a first state from two uniform numbers."""
        x[0] = -p[Physics.START_ANGLE] + 2.0 * p[Physics.START_ANGLE] * u0
        x[1] = -p[Physics.START_SPEED] + 2.0 * p[Physics.START_SPEED] * u1

    @staticmethod
    @piece
    def step(p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
        """Move the state; return reward and whether the episode is over, which it never is."""
        angle, turn = x[0], x[1]
        dt, fastest = p[Physics.TIME_STEP], p[Physics.MAX_SPEED]
        torque = min(max(action, -p[Physics.TORQUE]), p[Physics.TORQUE])
        from_top = (angle + math.pi) % (2.0 * math.pi) - math.pi
        cost = from_top * from_top + 0.1 * (turn * turn) + 0.001 * (torque * torque)
        pushed = torque - p[Physics.FRICTION] * turn + p[Physics.NOISE] * (2.0 * u - 1.0)
        turn = turn + (p[Physics.FALL] * math.sin(angle) + p[Physics.LIFT] * pushed) * dt
        turn = min(max(turn, -fastest), fastest)
        x[0], x[1] = angle + turn * dt, turn
        return -cost, False

    @staticmethod
    @piece
    def observe(_: Floats, x: Floats, seen: Floats) -> None:
        """Cosine and sine of the angle, and the turn."""
        seen[0], seen[1], seen[2] = math.cos(x[0]), math.sin(x[0]), x[1]
