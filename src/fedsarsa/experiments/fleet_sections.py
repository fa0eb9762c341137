"""The fleet in TOML: worlds of papers, from a file, control worlds and Gymnasium environments."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union
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
    built,
    keys_of,
    sections,
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


OF_PAPERS = sections(
    {
        "random-mdps": random_mdps.fleet,
        "windy-cliffs": windy_cliffs.fleet,
        "garnet": garnet.fleet,
        "two-state": two_state.fleet,
        "seven-states": seven_states.fleet,
    },
    SIZES | {"kappa": FRACTION | None, "restart": FRACTION, "variant": Literal[tuple(garnet.VARIANTS)]},
)


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


class Range(Section):
    """Where an agent's value is drawn from, uniformly."""

    low: int | float
    high: int | float

    def build(self, folder: Path) -> tuple[float, float]:  # noqa: ARG002
        """Return the range as fleets take it."""
        return self.low, self.high


VARY = {"agents": PositiveCount | None, "vary": dict[str, Range | list[Any]], "seed": Seed}
AGENTS = 16  # unless lists say how many


def _varied(arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The arguments of a fleet whose ``vary`` holds ranges and lists."""
    vary = {name: built(given, folder) for name, given in arguments["vary"].items()}
    agents = arguments["agents"]
    if agents is None and not any(isinstance(given, list) for given in vary.values()):
        agents = AGENTS
    return arguments | {"vary": vary, "agents": agents}


def _check_apart(key: str, given: dict[str, Any], taken: tuple[str, ...], world: str) -> None:
    """Reject options of a world by names that keys of the fleet have."""
    for name in given.keys() & {*taken}:
        raise ValueError(
            f"fleet.{key} must hold {key} of {world}, got {name} = {given[name]!r}, which belongs in [fleet]"
        )


@keys_of(control.fleet, toml_types=VARY, defaults={"vary": {}})
class ControlSection(DerivedSection):
    """Control worlds whose physics differ; see ``fedsarsa.control.fleet``.

    In ``vary`` a table ``{ low = 0.4, high = 0.6 }`` is a range from which every agent's value is drawn, and
    a list gives the agents' own, of which there may be more than agents. Unless ``agents`` are given, there
    are as many as a list has values, or 16. ``physics`` are shared by all.
    """

    kind: Literal["control"] = "control"
    physics: dict[str, float | int | bool] = Field(default={})

    def build(self, folder: Path = Path()) -> control.ControlFleet:
        """Make the fleet."""
        _check_apart("physics", self.physics, self.key_names, self.world)
        return control.fleet(**(_varied(self.arguments(folder), folder) | self.physics))


class Environments(DerivedSection):
    """Gymnasium environments by id: ``options`` for all, or ``each``, a table of options per agent."""

    kind: str
    id: str
    agents: PositiveCount | None = None
    options: dict[str, Any] = Field(default={})
    each: list[dict[str, Any]] | None = None

    def worlds(self) -> list[GymWorld]:
        """The environments of the agents; those that are the same are one world, many times."""
        if (self.each is None) == (self.agents is None):
            raise ValueError(
                "fleet: expected either agents or each, a list of options with one table per agent"
            )
        wrappers = getattr(self, "wrappers", ())
        given = [{}] if self.each is None else self.each
        made = [GymWorld(self.id, wrappers=wrappers, **(self.options | own)) for own in given]
        return made * (self.agents or 1)

    def find_modules(self, folder: Path) -> None:
        """Let the id ``module:Name-v0`` find a module in ``folder`` or in the working directory."""
        for place in (str(folder.absolute()), str(Path.cwd())) if ":" in self.id else ():
            if place not in sys.path:
                sys.path.append(place)  # last: a file of the user's there hides no installed module


@keys_of(
    GymFleet.make,
    without=["make_env", "discount", "processes", "vector", "check"],
    toml_types=VARY | {"wrappers": list[str | dict[str, Any]]},
    defaults={"vary": {}, "wrappers": []},
)
class VariedEnvironments(Environments):
    """Gymnasium environments by id, in wrappers; ``vary`` and ``spread`` are as for control worlds."""


@keys_of(GymFleet, without=["worlds"])
class GymSection(VariedEnvironments):
    """Gymnasium environments by id; see ``fedsarsa.GymFleet.make``.

    ``options`` are those of all agents. Agents differ by ``vary``, by ``spread``, or by ``each``, a table of
    options per agent. ``wrappers`` are names in ``gymnasium.wrappers``, or tables with a ``name`` and
    arguments.
    """

    kind: Literal["gym"] = "gym"

    def build(self, folder: Path = Path()) -> GymFleet:
        """Make the fleet."""
        self.find_modules(folder)
        if not self.vary and self.spread == 0:
            return GymFleet(self.worlds(), **self.arguments(folder))
        if self.each is not None:
            raise ValueError("fleet: expected either each, or vary and spread, got both")
        names = ("agents", "vary", "spread", "seed", "wrappers")
        _check_apart("options", self.options, (*names, *self.key_names), self.id)
        drawn = {name: getattr(self, name) for name in names}
        arguments = _varied(drawn, folder) | self.arguments(folder)
        return GymFleet.make(self.id, **arguments, **self.options)


@keys_of(GymWorld.to_finite, ["self"], {"ends": Literal[toy_text.RESTART, toy_text.ABSORBING]})
class GymTablesSection(Environments):
    """Finite worlds read from the tables of Toy-text environments (FrozenLake, CliffWalking, Taxi).

    ``options``, ``each`` and ``agents`` are as for environments; ``ends`` as in ``GymWorld.to_finite``.
    """

    kind: Literal["gym-tables"] = "gym-tables"

    def build(self, folder: Path = Path()) -> Fleet:
        """Make the fleet."""
        self.find_modules(folder)
        worlds = self.worlds()
        tables = {world: world.to_finite(**self.arguments(folder)) for world in worlds}
        return Fleet(tables[world] for world in worlds)


KINDS = (PaperFleet, *OF_PAPERS.values(), FileFleet, ControlSection, GymSection, GymTablesSection)
if TYPE_CHECKING:
    FleetSection = DerivedSection
else:
    FleetSection = Annotated[Union[KINDS], Field(discriminator="kind"), unless_given("paper")]  # noqa: UP007
