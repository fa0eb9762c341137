"""MountainCarContinuous: the engine's power is a number, and costs; as Gymnasium's v0, in float64."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control.mountain_car import check_places, move
from fedsarsa.worlds.control.world import ControlWorld

KIND = 2


@dataclass(frozen=True)
class MountainCarContinuous(ControlWorld):
    """A car in a valley; the action is its throttle in [-1, 1].

    The reward is ``prize`` at the goal, less ``cost`` times the squared action at every step.

    Attributes
    ----------
    power : float
        Acceleration at full throttle.
    friction : float
        Share of the speed that is lost per step.
    noise : float
        A uniform random acceleration of at most this size is added at every step.
    goal, goal_speed : float
        The episode ends at this position, with at least this speed.
    start_low, start_high : float
        The first position is uniform between these; the car rests.
    """

    gravity: float = 0.0025
    power: float = 0.0015
    friction: float = 0.0
    noise: float = 0.0
    max_speed: float = 0.07
    min_position: float = -1.2
    max_position: float = 0.6
    goal: float = 0.45
    goal_speed: float = 0.0
    start_low: float = -0.6
    start_high: float = -0.4
    prize: float = 100.0
    cost: float = 0.1
    time_limit: int = 999

    kind: ClassVar[int] = KIND
    gymnasium_id: ClassVar[str] = "MountainCarContinuous-v0"
    state_size: ClassVar[int] = 2
    action_count: ClassVar[int | None] = None
    may_be_zero: ClassVar[frozenset[str]] = frozenset({"friction", "noise", "cost"})
    signed: ClassVar[frozenset[str]] = frozenset(
        {"min_position", "max_position", "goal", "goal_speed", "start_low", "start_high", "prize"}
    )
    varied: ClassVar[tuple[str, ...]] = ("gravity", "power", "max_speed")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_places(self)

    @property
    def packed(self) -> tuple[float, ...]:
        """Physics in the order that ``step`` reads."""
        return (
            self.gravity,
            self.power,
            self.friction,
            self.noise,
            self.max_speed,
            self.min_position,
            self.max_position,
            self.goal,
            self.goal_speed,
            self.start_low,
            self.start_high,
            self.prize,
            self.cost,
        )

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Positions and speeds that can occur."""
        return (self.min_position, -self.max_speed), (self.max_position, self.max_speed)

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """The throttle."""
        return -1.0, 1.0

    def paint(self, canvas: Any) -> None:
        """The track and its flag."""
        canvas.min_position, canvas.max_position = self.min_position, self.max_position
        canvas.goal_position = self.goal


@piece
def step(p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
    """Move the state; return reward and whether the episode is over. Starts are those of ``mountain_car``."""
    push = min(max(action, -1.0), 1.0) * p[1] + p[3] * (2.0 * u - 1.0)
    move(x, push, p[0], p[2], p[4], p[5], p[6])
    over = x[0] >= p[7] and x[1] >= p[8]
    reward = p[11] if over else 0.0
    return reward - action * action * p[12], over
