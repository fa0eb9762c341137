"""Fleets of which a server knows what features and checks ask of them, and no world."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from fedsarsa.experiments.section import Count, Section
from fedsarsa.worlds.contract import ContinuousFleet


class RemoteFleet(Section):
    """Finite worlds that the server never sees; it needs their sizes, and a bound on their rewards."""

    finite: ClassVar[bool] = True

    kind: Literal["remote"]
    agents: Count = Field(ge=1)
    states: Count = Field(ge=1)
    actions: Count = Field(ge=1)
    discount: float = Field(gt=0, lt=1)
    reward_cap: float = Field(ge=0)

    def build(self, folder: Path) -> "RemoteFleet":  # noqa: ARG002
        """What can be said of the worlds."""
        return self

    def __len__(self) -> int:
        return self.agents


class RemoteContinuousFleet(Section):
    """Control worlds or environments that the server never sees, with what features and checks ask of them.

    ``low`` and ``high`` bound the observations; ``actions`` is their number, or where an action is a number
    itself, ``action_bounds`` are the lowest and the highest.
    """

    kind: Literal["remote-continuous"]
    agents: Count = Field(ge=1)
    low: list[float]
    high: list[float]
    actions: Count | None = Field(default=None, ge=1)
    action_bounds: list[float] | None = Field(default=None, min_length=2, max_length=2)
    discount: float = Field(gt=0, le=1)
    reward_cap: float = Field(ge=0, allow_inf_nan=True)

    def build(self, folder: Path) -> "UnseenFleet":  # noqa: ARG002
        """What can be said of the worlds."""
        if (self.actions is None) == (self.action_bounds is None):
            raise ValueError(
                "fleet: expected either actions or action_bounds, the lowest and the highest action"
            )
        if len(self.low) != len(self.high):
            raise ValueError(f"fleet.high: expected {len(self.low)} numbers, as in low, got {len(self.high)}")
        observations = (tuple(self.low), tuple(self.high))
        bounds = None if self.action_bounds is None else (self.action_bounds[0], self.action_bounds[1])
        return UnseenFleet(self.agents, observations, self.actions, bounds, self.discount, self.reward_cap)


@dataclass(frozen=True)
class UnseenFleet(ContinuousFleet):
    """A fleet as `ControlFleet` describes it, without its worlds."""

    agents: int
    bounds: tuple[tuple[float, ...], tuple[float, ...]]
    action_count: int | None
    action_bounds: tuple[float, float] | None
    discount: float
    reward_cap: float

    def __len__(self) -> int:
        return self.agents
