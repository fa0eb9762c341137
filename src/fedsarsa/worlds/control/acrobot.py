"""Acrobot: two links that swing from a bar, driven at the joint between them (Sutton, 1996).

The dynamics are those of Sutton and Barto's book, one Runge-Kutta step of fourth order per action, as
Gymnasium's Acrobot-v1 takes.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control.world import ControlWorld

TURN = 2.0 * math.pi
FAR = 100.0  # angles beyond this are wrapped by division, not turn by turn


class Physics(IntEnum):
    """Places of what the compiled pieces read in ``p``."""

    GRAVITY, LENGTH_1, MASS_1, MASS_2, ARM_1, ARM_2, INERTIA, FRICTION = range(8)
    TORQUE, NOISE, TIME_STEP, MAX_SPEED_1, MAX_SPEED_2, HEIGHT, START, ANGLES = range(8, 16)


@dataclass(frozen=True)
class Acrobot(ControlWorld):
    """Two links; actions turn the joint by -torque, 0 and torque; -1 per step until the tip is up.

    Parameters
    ----------
    gravity, length_1, length_2, mass_1, mass_2 : float
        Acceleration, and the links.
    centre_1, centre_2 : float
        Where the links' centres of mass are, as a share of their length.
    inertia : float
        Moment of inertia of each link.
    torque : float
        What an action exerts.
    friction : float
        Torque against each joint per unit of its speed.
    noise : float
        A uniform random torque of at most this size is added at every step.
    height : float
        The episode ends when the tip is this far above the bar, with each link counted as one long.
    angles : bool
        Observe the two angles and their speeds, not cosines and sines of the angles.
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
    >>> fs.control.Acrobot(mass_1=1.2).varied
    ('gravity', 'length_1', 'length_2', 'mass_1', 'mass_2', 'torque')
    """

    gravity: float = 9.8
    length_1: float = 1.0
    length_2: float = 1.0
    mass_1: float = 1.0
    mass_2: float = 1.0
    centre_1: float = 0.5
    centre_2: float = 0.5
    inertia: float = 1.0
    torque: float = 1.0
    friction: float = 0.0
    noise: float = 0.0
    time_step: float = 0.2
    max_speed_1: float = 4 * math.pi
    max_speed_2: float = 9 * math.pi
    height: float = 1.0
    start: float = 0.1
    angles: bool = False
    time_limit: int = 500

    physics: ClassVar[tuple[IntEnum, ...]] = tuple(Physics)
    gymnasium_id: ClassVar[str] = "Acrobot-v1"
    state_size: ClassVar[int] = 4
    action_count: ClassVar[int | None] = 3
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"friction", "noise", "start"})
    signed: ClassVar[frozenset[str]] = frozenset({"height"})
    varied: ClassVar[tuple[str, ...]] = ("gravity", "length_1", "length_2", "mass_1", "mass_2", "torque")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height >= 2:
            raise ValueError(f"Acrobot.height must be below 2, where the tip ends, got {self.height!r}")

    @property
    def arm_1(self) -> float:
        """Distance from the bar to the first link's centre of mass."""
        return self.centre_1 * self.length_1

    @property
    def arm_2(self) -> float:
        """Distance from the joint to the second link's centre of mass."""
        return self.centre_2 * self.length_2

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Angles or their cosines and sines, and the fastest turns."""
        front = (math.pi, math.pi) if self.angles else (1.0, 1.0, 1.0, 1.0)
        high = (*front, self.max_speed_1, self.max_speed_2)
        return tuple(-h for h in high), high

    @property
    def reward_cap(self) -> float:
        """Minus one per step."""
        return 1.0

    def paint(self, canvas: Any) -> None:
        """The links' shares of their length: pictures are two long, and their line is at height 1."""
        half = (self.length_1 + self.length_2) / 2
        canvas.LINK_LENGTH_1, canvas.LINK_LENGTH_2 = self.length_1 / half, self.length_2 / half

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
        """Move the state by one Runge-Kutta step; return reward and whether the episode is over."""
        torque = (action - 1.0) * p[Physics.TORQUE] + p[Physics.NOISE] * (2.0 * u - 1.0)
        dt, fastest_1, fastest_2 = p[Physics.TIME_STEP], p[Physics.MAX_SPEED_1], p[Physics.MAX_SPEED_2]
        half = dt / 2.0
        a, b, v, w = x[0], x[1], x[2], x[3]
        f1, g1 = rates(p, a, b, v, w, torque)
        v2, w2 = v + half * f1, w + half * g1
        f2, g2 = rates(p, a + half * v, b + half * w, v2, w2, torque)
        v3, w3 = v + half * f2, w + half * g2
        f3, g3 = rates(p, a + half * v2, b + half * w2, v3, w3, torque)
        v4, w4 = v + dt * f3, w + dt * g3
        f4, g4 = rates(p, a + dt * v3, b + dt * w3, v4, w4, torque)
        sixth = dt / 6.0
        x[0] = wrapped(a + sixth * (v + 2.0 * v2 + 2.0 * v3 + v4))
        x[1] = wrapped(b + sixth * (w + 2.0 * w2 + 2.0 * w3 + w4))
        x[2] = min(max(v + sixth * (f1 + 2.0 * f2 + 2.0 * f3 + f4), -fastest_1), fastest_1)
        x[3] = min(max(w + sixth * (g1 + 2.0 * g2 + 2.0 * g3 + g4), -fastest_2), fastest_2)
        over = -math.cos(x[0]) - math.cos(x[1] + x[0]) > p[Physics.HEIGHT]
        return 0.0 if over else -1.0, over

    @staticmethod
    @piece
    def observe(p: Floats, x: Floats, seen: Floats) -> None:
        """Angles, or their cosines and sines; then the turns."""
        if p[Physics.ANGLES] == 1.0:
            for i in range(4):
                seen[i] = x[i]
        else:
            seen[0], seen[1], seen[2], seen[3] = (
                math.cos(x[0]),
                math.sin(x[0]),
                math.cos(x[1]),
                math.sin(x[1]),
            )
            seen[4], seen[5] = x[2], x[3]


@piece
def rates(
    p: Floats, angle_1: float, angle_2: float, turn_1: float, turn_2: float, torque: float
) -> tuple[float, float]:
    """How fast the two turns change."""
    g, inertia, friction = p[Physics.GRAVITY], p[Physics.INERTIA], p[Physics.FRICTION]
    l1, m1, m2 = p[Physics.LENGTH_1], p[Physics.MASS_1], p[Physics.MASS_2]
    c1, c2 = p[Physics.ARM_1], p[Physics.ARM_2]
    cos, sin = math.cos(angle_2), math.sin(angle_2)
    d1 = m1 * (c1 * c1) + m2 * (l1 * l1 + c2 * c2 + 2.0 * l1 * c2 * cos) + inertia + inertia
    d2 = m2 * (c2 * c2 + l1 * c2 * cos) + inertia
    phi2 = m2 * c2 * g * math.cos(angle_1 + angle_2 - math.pi / 2.0)
    phi1 = (
        -m2 * l1 * c2 * (turn_2 * turn_2) * sin
        - 2.0 * m2 * l1 * c2 * turn_2 * turn_1 * sin
        + (m1 * c1 + m2 * l1) * g * math.cos(angle_1 - math.pi / 2.0)
        + phi2
        + friction * turn_1
    )
    drive = torque - friction * turn_2 + d2 / d1 * phi1 - m2 * l1 * c2 * (turn_1 * turn_1) * sin - phi2
    rate_2 = drive / (m2 * (c2 * c2) + inertia - d2 * d2 / d1)
    return -(d2 * rate_2 + phi1) / d1, rate_2


@piece
def wrapped(angle: float) -> float:
    """The same angle between -pi and pi."""
    if not -FAR < angle < FAR:  # also what is not a number, which no loop would bring back
        return angle - TURN * math.floor((angle + math.pi) / TURN)
    while angle > math.pi:
        angle -= TURN
    while angle < -math.pi:
        angle += TURN
    return angle
