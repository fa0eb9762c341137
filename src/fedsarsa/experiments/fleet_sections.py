"""The fleet in TOML: worlds of papers, from a file, control worlds and environments of Gymnasium."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile, ZipFile

import numpy as np
from pydantic import Field

from fedsarsa.experiments.section import (
    Count,
    DerivedSection,
    File,
    PositiveCount,
    Section,
    Seed,
    keys_of,
    unless_given,
)
from fedsarsa.worlds import (
    control,
    garnet,
    paper,
    random_mdps,
    seven_states,
    toy_text,
    two_state,
    windy_cliffs,
)
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld
from fedsarsa.worlds.kernels import ShiftKernel

LARGE = 0.5  # GiB of worlds that take long to make

LEVEL = Annotated[float, Field(ge=0, le=2)]
LIMITS = {
    "agents": PositiveCount,
    "eps_p": LEVEL,
    "eps_r": LEVEL,
    "seed": Seed,
    "scheme": Literal[paper.SCHEMES],
    "states": Annotated[Count, Field(ge=2)],
    "actions": PositiveCount,
    "discount": Annotated[float, Field(ge=0, lt=1)],
    "reward_cap": Annotated[float, Field(gt=0)],
}


@keys_of(paper.fleet, toml_types=LIMITS)
class PaperFleet(DerivedSection):
    """Worlds of the paper's simulations; see ``fedsarsa.paper.fleet``."""

    kind: Literal["paper"] = "paper"

    def build(self, folder: Path = Path()) -> Fleet:
        """Make the fleet."""
        size = 8 * self.agents * self.states**2 / 2**30
        if size > LARGE:
            print(f"fedsarsa: making {self.agents} worlds of {size:.1f} GiB together ...", file=sys.stderr)
        return paper.fleet(**self.arguments(folder))


FRACTION = Annotated[float, Field(ge=0, le=1)]
SIZES = {name: LIMITS[name] for name in ("agents", "seed", "states", "actions", "discount")}


@keys_of(random_mdps.fleet, toml_types=SIZES | {"kappa": FRACTION | None})
class RandomMDPs(DerivedSection):
    """Random worlds of five states; see ``fedsarsa.random_mdps.fleet``."""

    kind: Literal["random-mdps"] = "random-mdps"


@keys_of(windy_cliffs.fleet, toml_types=SIZES | {"kappa": FRACTION | None})
class WindyCliffs(DerivedSection):
    """Cliff walks in the wind; see ``fedsarsa.windy_cliffs.fleet``."""

    kind: Literal["windy-cliffs"] = "windy-cliffs"


@keys_of(garnet.fleet, toml_types=SIZES | {"variant": Literal[tuple(garnet.VARIANTS)]})
class Garnet(DerivedSection):
    """Worlds with few successors; see ``fedsarsa.garnet.fleet``."""

    kind: Literal["garnet"] = "garnet"


@keys_of(two_state.fleet, toml_types=SIZES)
class TwoState(DerivedSection):
    """Two states and many actions; see ``fedsarsa.two_state.fleet``."""

    kind: Literal["two-state"] = "two-state"


@keys_of(seven_states.fleet, toml_types=SIZES | {"restart": FRACTION})
class SevenStates(DerivedSection):
    """Two worlds by turns; see ``fedsarsa.seven_states.fleet``."""

    kind: Literal["seven-states"] = "seven-states"


class FileFleet(Section):
    """Worlds of your own, from an .npz file beside the configuration.

    It holds ``reward`` (N, S), (N, S, A) or (N, S, A, S) and either ``transition`` (N, A, S, S) or
    ``P0`` (N, S, S) whose columns each of ``actions`` actions rotates; ``initial`` (N, S) if wanted.
    """

    kind: Literal["file"]
    path: File
    discount: float
    actions: Count | None = None

    def build(self, folder: Path) -> Fleet:
        """The fleet."""
        path = folder / self.path
        try:
            with ZipFile(path), np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise ValueError(f"fleet.path: expected an .npz file of arrays, got: {error}") from None
        known = {"reward", "transition", "P0", "initial"}
        one_kernel = ("transition" in arrays) != ("P0" in arrays)
        if "reward" not in arrays or not one_kernel or set(arrays) - known:
            raise ValueError(
                f"fleet.path: expected reward, either transition or P0, and maybe initial in {path.name}, "
                f"got {', '.join(sorted(arrays)) or 'nothing'}"
            )
        if "P0" in arrays and self.actions is None:
            raise ValueError("fleet.actions: expected the number of actions that rotate P0, got none")
        agents = len(np.atleast_1d(arrays["reward"]))
        for name, array in arrays.items():
            if array.ndim < 2 or len(array) != agents:
                raise ValueError(
                    f"fleet.path: expected {name} with a first axis of {agents} agents, got {array.shape}"
                )
        return Fleet(self._world(arrays, agent) for agent in range(agents))

    def _world(self, arrays: dict[str, Any], agent: int) -> FiniteMDP:
        own = {name: array[agent] for name, array in arrays.items()}
        try:
            kernel = ShiftKernel(own["P0"], self.actions or 0) if "P0" in own else own["transition"]
            return FiniteMDP(kernel, own["reward"], self.discount, own.get("initial"))
        except (ValueError, TypeError) as error:
            raise ValueError(f"fleet.path: agent {agent}: {error}") from None


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


FleetSection = Annotated[
    PaperFleet
    | RandomMDPs
    | WindyCliffs
    | Garnet
    | TwoState
    | SevenStates
    | FileFleet
    | ControlSection
    | GymSection
    | GymTablesSection,
    Field(discriminator="kind"),
    unless_given("paper"),
]
