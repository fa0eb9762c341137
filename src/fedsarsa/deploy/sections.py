"""The TOML of a deployment: a training's, with a ``[server]`` section and worlds elsewhere."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fedsarsa.experiments import config as configs
from fedsarsa.experiments.fleet_sections import ControlSection, FileFleet, GymSection, PaperFleet
from fedsarsa.experiments.section import Count, Section, unless_given
from fedsarsa.federation import servers

YEAR = 365 * 24 * 3600.0  # seconds


class RemoteFleet(Section):
    """Finite worlds that the server never sees; it needs their sizes, and a bound on their rewards."""

    kind: Literal["remote"]
    agents: Count = Field(ge=1)
    states: Count = Field(ge=1)
    actions: Count = Field(ge=1)
    discount: float = Field(gt=0, lt=1)
    reward_cap: float = Field(ge=0)


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

    def build(self) -> "Unseen":
        """What can be said of the worlds."""
        if (self.actions is None) == (self.action_bounds is None):
            raise ValueError(
                "fleet: expected either actions or action_bounds, the lowest and the highest action"
            )
        if len(self.low) != len(self.high):
            raise ValueError(f"fleet.high: expected {len(self.low)} numbers, as in low, got {len(self.high)}")
        bounds = None if self.action_bounds is None else (self.action_bounds[0], self.action_bounds[1])
        return Unseen(self.agents, (tuple(self.low), tuple(self.high)), self.actions, bounds, self.discount)


@dataclass(frozen=True)
class Unseen:
    """A fleet as `ControlFleet` tells of it, without its worlds."""

    agents: int
    bounds: tuple[tuple[float, ...], tuple[float, ...]]
    action_count: int | None
    action_bounds: tuple[float, float] | None
    discount: float

    def __len__(self) -> int:
        return self.agents


class Privacy(Section):
    """Differential privacy: how far one agent may move the average, and the noise that hides it."""

    clip: float = Field(gt=0)
    noise: float = Field(gt=0)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    max_epsilon: float | None = Field(default=None, gt=0)


class Server(Section):
    """What the server does beyond the algorithm.

    ``agents`` is N where the fleet does not say, ``reward_cap`` a bound on the absolute rewards where
    environments do not tell; ``deadline`` the seconds that a round waits for its agents; each round asks
    ``fraction`` of all agents, and at least ``at_least`` and as many as ``rule`` needs.
    """

    agents: Count | None = Field(default=None, ge=1)
    reward_cap: float | None = Field(default=None, ge=0, allow_inf_nan=True)
    deadline: float = Field(default=60.0, gt=0, le=YEAR)
    fraction: float = Field(default=1.0, gt=0, le=1)
    at_least: Count = Field(default=1, ge=1)
    rule: Literal["mean", "median", "trimmed-mean", "krum"] = "mean"
    trim: float = Field(default=0.2, gt=0, lt=0.5)
    malicious: Count = Field(default=1, ge=0)
    privacy: Privacy | None = None

    @property
    def built(self) -> servers.Server:
        """The server rule, without the algorithm's weights and radius."""
        options = {"trimmed-mean": {"share": self.trim}, "krum": {"liars": self.malicious}}
        return servers.RULES[self.rule](**options.get(self.rule, {}))  # type: ignore[arg-type]

    @property
    def fewest(self) -> int:
        """Sound replies below which the rule would not keep out those it is meant to keep out."""
        return self.built.fewest


DeployedFleet = Annotated[
    PaperFleet | FileFleet | ControlSection | GymSection | RemoteFleet | RemoteContinuousFleet,
    Field(discriminator="kind"),
    unless_given("paper"),
]


class Deployment(configs.Config):
    """A whole configuration file."""

    fleet: DeployedFleet = PaperFleet()  # type: ignore[assignment]
    server: Server = Server()
