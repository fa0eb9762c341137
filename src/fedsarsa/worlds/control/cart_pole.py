"""CartPole: keep a pole upright on a cart that is pushed left or right.

The equations are those of Florian, "Correct equations for the dynamics of the cart-pole system" (2007),
without friction at the joint, integrated with Euler steps as Gymnasium's CartPole-v1 does.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control.world import ControlWorld


class Physics(IntEnum):
    """Places of what the compiled pieces read in ``p``."""

    GRAVITY, TOTAL_MASS, POLE_MASS, LENGTH, POLE_MOMENT, FORCE = range(6)
    FRICTION, NOISE, TIME_STEP, POSITION_LIMIT, ANGLE_LIMIT, START = range(6, 12)


@dataclass(frozen=True)
class CartPole(ControlWorld):
    """A cart with a pole; actions push left (0) and right (1); a reward of 1 per step.

    Parameters
    ----------
    gravity, cart_mass, pole_mass : float
        Acceleration and masses.
    length : float
        Half the length of the pole.
    force : float
        What a push exerts.
    friction : float
        Force against the cart per unit of its speed.
    noise : float
        A uniform random force of at most this size is added at every step.
    time_step : float
        Seconds per step.
    position_limit, angle_limit : float
        The episode ends beyond these.
    start : float
        All four numbers of a first state are uniform between -start and start.
    time_limit : int
        Steps after which an episode is cut short.

    Raises
    ------
    ValueError, TypeError
        A number is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.CartPole(length=0.7).length
    0.7
    """

    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    length: float = 0.5
    force: float = 10.0
    friction: float = 0.0
    noise: float = 0.0
    time_step: float = 0.02
    position_limit: float = 2.4
    angle_limit: float = 12 * 2 * math.pi / 360
    start: float = 0.05
    time_limit: int = 500

    physics: ClassVar[tuple[IntEnum, ...]] = tuple(Physics)
    gymnasium_id: ClassVar[str] = "CartPole-v1"
    state_size: ClassVar[int] = 4
    action_count: ClassVar[int | None] = 2
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"friction", "noise", "start"})
    varied: ClassVar[tuple[str, ...]] = ("gravity", "cart_mass", "pole_mass", "length", "force")

    @property
    def total_mass(self) -> float:
        """Mass of cart and pole."""
        return self.pole_mass + self.cart_mass

    @property
    def pole_moment(self) -> float:
        """Mass of the pole times half its length."""
        return self.pole_mass * self.length

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Position and angle up to their limits; speeds that a balanced pole stays below."""
        high = (self.position_limit, 3.0, self.angle_limit, 3.5)
        return tuple(-h for h in high), high

    @property
    def space(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Nothing holds the speeds, nor what one step beyond the limits may reach."""
        high = (math.inf,) * 4
        return tuple(-h for h in high), high

    @property
    def reward_cap(self) -> float:
        """One per step."""
        return 1.0

    def paint(self, canvas: Any) -> None:
        """Length and track."""
        canvas.length, canvas.x_threshold = self.length, self.position_limit

    @staticmethod
    @piece
    def reset(p: Floats, x: Floats, u0: float, u1: float, u2: float, u3: float) -> None:
        """Draw a first state from four uniform numbers."""
        start = p[Physics.START]
        x[0] = -start + 2.0 * start * u0
        x[1] = -start + 2.0 * start * u1
        x[2] = -start + 2.0 * start * u2
        x[3] = -start + 2.0 * start * u3

    @staticmethod
    @piece
    def step(p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
        """Move the state; return reward and whether the episode is over."""
        gravity, length, tau = p[Physics.GRAVITY], p[Physics.LENGTH], p[Physics.TIME_STEP]
        total_mass, pole_mass, pole_moment = (
            p[Physics.TOTAL_MASS],
            p[Physics.POLE_MASS],
            p[Physics.POLE_MOMENT],
        )
        position_limit, angle_limit = p[Physics.POSITION_LIMIT], p[Physics.ANGLE_LIMIT]
        position, speed, angle, turn = x[0], x[1], x[2], x[3]
        push = p[Physics.FORCE] if action == 1.0 else -p[Physics.FORCE]
        push = push - p[Physics.FRICTION] * speed + p[Physics.NOISE] * (2.0 * u - 1.0)
        cos, sin = math.cos(angle), math.sin(angle)

        shared = (push + pole_moment * (turn * turn) * sin) / total_mass
        turn_rate = (gravity * sin - cos * shared) / (
            length * (4.0 / 3.0 - pole_mass * (cos * cos) / total_mass)
        )
        speed_rate = shared - pole_moment * turn_rate * cos / total_mass

        position = position + tau * speed
        angle = angle + tau * turn
        x[0], x[1], x[2], x[3] = position, speed + tau * speed_rate, angle, turn + tau * turn_rate
        inside = -position_limit <= position <= position_limit and -angle_limit <= angle <= angle_limit
        return 1.0, not inside

    @staticmethod
    @piece
    def observe(_: Floats, x: Floats, seen: Floats) -> None:
        """The state itself."""
        for i in range(4):
            seen[i] = x[i]
