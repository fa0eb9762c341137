"""Sections of configurations for control worlds and environments of Gymnasium."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fedsarsa.experiments.section import DerivedSection, PositiveCount, Seed, keys_of
from fedsarsa.worlds import control, toy_text
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld


@keys_of(
    control.fleet,
    toml_types={"agents": PositiveCount, "vary": dict[str, list[float]], "seed": Seed},
    defaults={"agents": 16, "vary": {}},
)
class ControlSection(DerivedSection):
    """Control worlds whose physics differ; see ``fedsarsa.control.fleet``.

    In ``vary`` a list of two numbers is a range, unless there are two agents; longer lists give the agents'
    own. ``physics`` are shared by all.
    """

    kind: Literal["control"] = "control"
    physics: dict[str, float | int | bool] = Field(default={})

    def build(self, folder: Path = Path()) -> control.ControlFleet:
        """Make the fleet."""
        for name in self.physics.keys() & {*self.key_names}:
            raise ValueError(
                f"fleet.physics must hold physics of {self.world}, got {name} = {self.physics[name]!r}, "
                "which belongs in [fleet]"
            )
        return control.fleet(**(self.arguments(folder) | self.physics))


class Environments(DerivedSection):
    """Environments of Gymnasium by id: ``options`` for all, or ``each``, a table of options per agent."""

    kind: str
    id: str
    agents: PositiveCount | None = None
    options: dict[str, Any] = Field(default={})
    each: list[dict[str, Any]] | None = None

    @property
    def worlds(self) -> list[GymWorld]:
        """The environments of the agents; those that are the same are one world, many times."""
        if (self.each is None) == (self.agents is None):
            raise ValueError(
                "fleet: expected either agents or each, a list of options with one table per agent"
            )
        given = [{}] if self.each is None else self.each
        return [GymWorld(self.id, **(self.options | own)) for own in given] * (self.agents or 1)


@keys_of(GymFleet, without=["worlds"])
class GymSection(Environments):
    """Environments of Gymnasium by id: ``options`` for all, or ``each``, a table of options per agent."""

    kind: Literal["gym"] = "gym"

    def build(self, folder: Path = Path()) -> GymFleet:
        """Make the fleet."""
        return GymFleet(self.worlds, **self.arguments(folder))


@keys_of(GymWorld.to_finite, ["self"], {"ends": Literal[toy_text.RESTART, toy_text.ABSORBING]})
class GymTablesSection(Environments):
    """Finite worlds read from the tables of Toy-text environments (FrozenLake, CliffWalking, Taxi).

    ``options``, ``each`` and ``agents`` are as for environments; ``ends`` as in ``GymWorld.to_finite``.
    """

    kind: Literal["gym-tables"] = "gym-tables"

    def build(self, folder: Path = Path()) -> Fleet:
        """Make the fleet."""
        worlds = self.worlds
        tables = {world: world.to_finite(**self.arguments(folder)) for world in worlds}
        return Fleet(tables[world] for world in worlds)
