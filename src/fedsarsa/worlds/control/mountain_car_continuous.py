"""MountainCarContinuous: the engine's throttle is a number, and costs; as Gymnasium's v0, in float64."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from fedsarsa._checks import Floats
from fedsarsa._numba import piece
from fedsarsa.worlds.control import mountain_car
from fedsarsa.worlds.control.mountain_car import MountainCar


class Physics(IntEnum):
    """Places in ``p`` after those of MountainCar."""

    PRIZE, COST = range(len(mountain_car.Physics), len(mountain_car.Physics) + 2)


@dataclass(frozen=True)
class MountainCarContinuous(MountainCar):
    """The car of MountainCar; the action is its throttle in [-1, 1].

    The reward is ``prize`` at the goal, less ``cost`` times the squared action at every step.

    Parameters
    ----------
    prize, cost : float
        See above. All other parameters are those of `MountainCar`.

    Raises
    ------
    ValueError, TypeError
        A number is out of its range, or of another kind.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.MountainCarContinuous(cost=0.2).action_bounds
    (-1.0, 1.0)
    """

    force: float = 0.0015
    goal: float = 0.45
    time_limit: int = 999
    prize: float = 100.0
    cost: float = 0.1

    physics: ClassVar[tuple[IntEnum, ...]] = (*MountainCar.physics, *Physics)
    gymnasium_id: ClassVar[str] = "MountainCarContinuous-v0"
    action_count: ClassVar[int | None] = None
    may_be_zero: ClassVar[frozenset[str]] = MountainCar.may_be_zero | {"cost"}
    signed: ClassVar[frozenset[str]] = MountainCar.signed | {"prize"}

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """The throttle."""
        return -1.0, 1.0

    @property
    def reward_cap(self) -> float:
        """The prize less the cost, or the cost alone."""
        return max(abs(self.prize), abs(self.prize - self.cost), self.cost)

    @staticmethod
    @piece
    def step(p: Floats, x: Floats, action: float, u: float) -> tuple[float, bool]:
        """Move the state; return reward and whether the episode is over."""
        over = mountain_car.move(p, x, min(max(action, -1.0), 1.0), u)
        reward = p[Physics.PRIZE] if over else 0.0
        return reward - action * action * p[Physics.COST], over
