"""Sections of configurations for control worlds and environments of Gymnasium."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from fedsarsa.experiments.section import Count, Section
from fedsarsa.learning.actions import Candidates, GridActions, RandomActions
from fedsarsa.learning.fourier import FourierBasis
from fedsarsa.learning.rbf import RBF
from fedsarsa.learning.tile_coding import TileCoding
from fedsarsa.worlds import control
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld


class ControlSection(Section):
    """Control worlds whose physics differ; see ``fedsarsa.control.fleet``.

    In ``vary`` a list of two numbers is a range, unless there are two agents; longer lists give the agents'
    own. ``physics`` are shared by all.
    """

    kind: Literal["control"]
    world: str
    agents: Count = Field(default=16, ge=1)
    vary: dict[str, list[float]] = Field(default={})
    spread: float = 0.0
    seed: int = Field(default=0, ge=0)
    discount: float = 0.99
    physics: dict[str, float | int | bool] = Field(default={})

    def build(self, folder: Path) -> control.ControlFleet:  # noqa: ARG002
        """The fleet."""
        options: dict[str, Any] = self.model_dump(exclude={"kind", "physics"})
        for name in options.keys() & self.physics.keys():
            raise ValueError(
                f"fleet.physics must hold physics of {self.world}, got {name} = {self.physics[name]!r}, "
                "which belongs in [fleet]"
            )
        return control.fleet(**(options | self.physics))


def gym_worlds(
    name: str, agents: int | None, options: dict[str, Any], each: list[dict[str, Any]] | None
) -> list[GymWorld]:
    """The environments of the agents; those that are the same are one world, many times."""
    if (each is None) == (agents is None):
        raise ValueError("fleet: expected either agents or each, a list of options with one table per agent")
    worlds = [GymWorld(name, **(options | own)) for own in ([{}] if each is None else each)]
    return worlds * (agents or 1)


class GymSection(Section):
    """Environments of Gymnasium by id: ``options`` for all, or ``each``, a table of options per agent."""

    kind: Literal["gym"]
    id: str
    agents: Count | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default={})
    each: list[dict[str, Any]] | None = None
    discount: float = 0.99
    processes: Count | None = None
    vector: bool = False

    def build(self, folder: Path) -> GymFleet:  # noqa: ARG002
        """The fleet."""
        worlds = gym_worlds(self.id, self.agents, self.options, self.each)
        return GymFleet(worlds, self.discount, self.processes, self.vector)


class GymTablesSection(Section):
    """Finite worlds read from the tables of Toy-text environments (FrozenLake, CliffWalking, Taxi).

    ``options``, ``each`` and ``agents`` are as for environments; ``ends`` as in ``GymWorld.to_finite``.
    """

    kind: Literal["gym-tables"]
    id: str
    agents: Count | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default={})
    each: list[dict[str, Any]] | None = None
    discount: float = 0.99
    ends: Literal["restart", "absorbing"] = "restart"

    def build(self, folder: Path) -> Fleet:  # noqa: ARG002
        """The fleet."""
        worlds = gym_worlds(self.id, self.agents, self.options, self.each)
        tables = {world: world.to_finite(self.discount, self.ends) for world in worlds}
        return Fleet(tables[world] for world in worlds)


class BoundsSection(Section):
    """Lowest and highest observations."""

    low: list[float]
    high: list[float]


Counts = Count | list[Count]


def pair(bounds: BoundsSection | None) -> Any:
    """Bounds as features take them."""
    return None if bounds is None else (bounds.low, bounds.high)


class TileCodingSection(Section):
    """Displaced grids of tiles."""

    kind: Literal["tile-coding"]
    tilings: Count = 8
    bins: Counts = 8
    bounds: BoundsSection | None = None
    memory: Annotated[int, Field(le=2**31)] | None = None

    def build(self) -> TileCoding:
        """The feature map."""
        return TileCoding(self.tilings, self.bins, pair(self.bounds), self.memory)


class FourierSection(Section):
    """The Fourier basis."""

    kind: Literal["fourier"]
    order: Counts = 3
    bounds: BoundsSection | None = None

    def build(self) -> FourierBasis:
        """The feature map."""
        return FourierBasis(self.order, pair(self.bounds))


class RBFSection(Section):
    """Radial basis functions."""

    kind: Literal["rbf"]
    centres: Counts = 5
    width: float = 0.5
    bounds: BoundsSection | None = None

    def build(self) -> RBF:
        """The feature map."""
        return RBF(self.centres, self.width, pair(self.bounds))


class GridSection(Section):
    """A fixed grid of actions."""

    kind: Literal["grid"]
    count: Count = 5

    def build(self) -> Candidates:
        """The candidates."""
        return GridActions(self.count)


class RandomSection(Section):
    """Actions drawn afresh at every step."""

    kind: Literal["random"]
    count: Count = 8

    def build(self) -> Candidates:
        """The candidates."""
        return RandomActions(self.count)


ActionsSection = Annotated[GridSection | RandomSection, Field(discriminator="kind")]
