"""MountainCar: an engine too weak for the hill must swing (Moore, 1990), as Gymnasium's MountainCar-v0."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control.world import ControlWorld


class Physics(IntEnum):
    """Places of what the compiled pieces read in ``p``."""

    GRAVITY, FORCE, FRICTION, NOISE, MAX_SPEED = range(5)
    MIN_POSITION, MAX_POSITION, GOAL, GOAL_SPEED, START_LOW, START_HIGH = range(5, 11)


@dataclass(frozen=True)
class MountainCar(ControlWorld):
    """A car in a valley; actions push left, not at all, and right; a reward of -1 per step.

    Parameters
    ----------
    gravity : float
        Acceleration per step on the steepest slope.
    force : float
        Acceleration at full throttle.
    friction : float
        Share of the speed that is lost per step.
    noise : float
        A uniform random acceleration of at most this size is added at every step.
    max_speed : float
        Speeds are clipped to this.
    min_position, max_position : float
        The ends of the valley.
    goal, goal_speed : float
        The episode ends at this position, with at least this speed.
    start_low, start_high : float
        The first position is uniform between these; the car rests.
    time_limit : int
        Steps after which an episode is cut short.

    Raises
    ------
    ValueError, TypeError
        A number is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.MountainCar(force=0.0008).time_limit
    200
    """

    gravity: float = 0.0025
    force: float = 0.001
    friction: float = 0.0
    noise: float = 0.0
    max_speed: float = 0.07
    min_position: float = -1.2
    max_position: float = 0.6
    goal: float = 0.5
    goal_speed: float = 0.0
    start_low: float = -0.6
    start_high: float = -0.4
    time_limit: int = 200

    physics: ClassVar[tuple[IntEnum, ...]] = tuple(Physics)
    gymnasium_id: ClassVar[str] = "MountainCar-v0"
    state_size: ClassVar[int] = 2
    action_count: ClassVar[int | None] = 3
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"friction", "noise"})
    signed: ClassVar[frozenset[str]] = frozenset(
        {"min_position", "max_position", "goal", "goal_speed", "start_low", "start_high"}
    )
    varied: ClassVar[tuple[str, ...]] = ("gravity", "force", "max_speed")

    def __post_init__(self) -> None:
        super().__post_init__()
        places = (self.min_position, self.start_low, self.start_high, self.max_position)
        if not places[0] <= places[1] <= places[2] <= places[3] or not places[0] < places[3]:
            raise ValueError(
                f"{self.label} needs min_position <= start_low <= start_high <= max_position, "
                f"got {', '.join(f'{place:g}' for place in places)}"
            )
        for name, most in (("goal", "max_position"), ("goal_speed", "max_speed")):
            if getattr(self, name) > getattr(self, most):
                raise ValueError(
                    f"{self.label}.{name} must be at most {most}, {getattr(self, most):g}, beyond which the "
                    f"car never is, got {getattr(self, name)!r}"
                )

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Positions and speeds that can occur."""
        return (self.min_position, -self.max_speed), (self.max_position, self.max_speed)

    @property
    def reward_cap(self) -> float:
        """Minus one per step."""
        return 1.0

    def paint(self, canvas: Any) -> None:
        """The track and its flag."""
        canvas.min_position, canvas.max_position = self.min_position, self.max_position
        canvas.goal_position = self.goal

    @staticmethod
    @piece
    def reset(p: Floats, x: Floats, u: float, *_: float) -> None:
        """Draw a first state from a uniform number."""
        low, high = p[Physics.START_LOW], p[Physics.START_HIGH]
        x[0] = low + (high - low) * u
        x[1] = 0.0

    @staticmethod
    @piece
    def step(p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
        """Move the state; return reward and whether the episode is over."""
        return -1.0, move(p, x, action - 1.0, u)

    @staticmethod
    @piece
    def observe(_: Floats, x: Floats, seen: Floats) -> None:
        """The state itself."""
        seen[0], seen[1] = x[0], x[1]


@piece
def move(p: Floats, x: Floats, throttle: float, u: float) -> bool:
    """One step along the track, for this world and its continuous sister; whether the goal is reached."""
    limit, low, high = p[Physics.MAX_SPEED], p[Physics.MIN_POSITION], p[Physics.MAX_POSITION]
    push = throttle * p[Physics.FORCE] + p[Physics.NOISE] * (2.0 * u - 1.0)
    speed = x[1] + (push - p[Physics.GRAVITY] * math.cos(3.0 * x[0]) - p[Physics.FRICTION] * x[1])
    speed = min(max(speed, -limit), limit)
    position = min(max(x[0] + speed, low), high)
    if position == low and speed < 0.0:
        speed = 0.0
    x[0], x[1] = position, speed
    return position >= p[Physics.GOAL] and speed >= p[Physics.GOAL_SPEED]
