"""Fleets of control worlds: who got which physics."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, overload

import numpy as np

from fedsarsa import _checks
from fedsarsa.worlds import varied
from fedsarsa.worlds.contract import ContinuousFleet, checked_discount
from fedsarsa.worlds.control.registry import WORLDS
from fedsarsa.worlds.control.world import ControlWorld


class ControlFleet(ContinuousFleet, Sequence[ControlWorld]):
    """The worlds of N agents: one kind of world, physics of their own, one discount.

    A sequence: ``len``, index, slice and iterate; printed, it is a table of each agent's physics.

    Parameters
    ----------
    worlds : iterable of ControlWorld
        One per agent.
    discount : float
        Discount factor in (0, 1]; 0.99, as is usual for episodes, unless given.

    Raises
    ------
    ValueError, TypeError
        There are none, they are of different kinds, or ``discount`` is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.ControlFleet([fs.control.CartPole(length=0.4), fs.control.CartPole(length=0.6)])
    ControlFleet(CartPole, agents=2, discount=0.99, length=[0.4, 0.6])
    """

    def __init__(self, worlds: Iterable[ControlWorld], discount: float = 0.99) -> None:
        self.worlds = list(worlds)
        for agent, world in enumerate(self.worlds):
            if not isinstance(world, ControlWorld):
                raise TypeError(f"worlds[{agent}] must be a control world, got {world!r}")
        if not self.worlds:
            raise ValueError("worlds must hold at least one control world, got none")
        self.world = type(self.worlds[0])
        for agent, world in enumerate(self.worlds):
            for name, expected, got in (
                ("kind", self.world.__name__, type(world).__name__),
                ("observation", len(self.worlds[0].bounds[0]), len(world.bounds[0])),
            ):
                if expected != got:
                    raise ValueError(f"worlds must share {name}: agent 0 has {expected}, agent {agent} {got}")
        self.discount = checked_discount(discount)

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The smallest box that holds every agent's ``bounds``."""
        lows, highs = zip(*(world.bounds for world in self.worlds), strict=True)
        return tuple(np.min(lows, axis=0).tolist()), tuple(np.max(highs, axis=0).tolist())

    @property
    def action_count(self) -> int | None:
        """Number of actions; None where actions are numbers."""
        return self.world.action_count

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """Lowest and highest action of any agent; agents with less clip it."""
        each = [world.action_bounds for world in self.worlds if world.action_bounds is not None]
        return (min(low for low, _ in each), max(high for _, high in each)) if each else None

    @property
    def reward_cap(self) -> float:
        """The largest absolute reward of any agent."""
        return max(float(world.reward_cap) for world in self.worlds)

    def identity(self) -> str:
        """All that distinguishes this fleet from others."""
        return repr((self.worlds, self.discount))

    def describe(self) -> dict[str, Any]:
        """The fleet in words and numbers, for records."""
        return {
            "world": self.world.__name__,
            "discount": self.discount,
            "physics": self.varied(),
        }

    def varied(self) -> dict[str, list[Any]]:
        """The physics in which agents differ, agent by agent."""
        names = [field.name for field in fields(self.world)]  # type: ignore[arg-type]
        return varied.differing({name: [getattr(world, name) for world in self.worlds] for name in names})

    def __len__(self) -> int:
        return len(self.worlds)

    @overload
    def __getitem__(self, key: int) -> ControlWorld: ...
    @overload
    def __getitem__(self, key: slice) -> "ControlFleet": ...
    def __getitem__(self, key: int | slice) -> "ControlWorld | ControlFleet":
        if isinstance(key, slice):
            return ControlFleet(self.worlds[key], self.discount)
        return self.worlds[key]

    def __iter__(self) -> Iterator[ControlWorld]:
        return iter(self.worlds)

    def __repr__(self) -> str:
        return f"{self._summary()}{varied.in_words(self.varied())})"

    def _summary(self) -> str:
        return f"ControlFleet({self.world.__name__}, agents={len(self)}, discount={self.discount:g}"

    def __str__(self) -> str:
        differing = self.varied()
        if not differing:
            return f"{self!r}: the same physics for all\n{self.worlds[0]}"
        return f"{self._summary()})\n{varied.table(differing)}"


def fleet(
    world: str,
    agents: int | None = None,
    vary: Mapping[str, Any] | None = None,
    spread: float = 0.0,
    seed: int = 0,
    discount: float = 0.99,
    **physics: Any,
) -> ControlFleet:
    """Agents in one kind of world whose physics differ.

    Parameters
    ----------
    world : str
        One of ``WORLDS``: Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum.
    agents : int, optional
        N; may be left out where ``vary`` holds lists.
    vary : dict, optional
        Physics that differ: a tuple ``(low, high)`` draws each agent's uniformly from that range (whole
        numbers for ``time_limit``), a list gives them agent by agent. Of a list with more than N values the
        first N count.
    spread : float
        Draw every physical quantity in the world's ``varied`` uniformly within this share of its value:
        0.2 for 20% up and down. Those in ``vary`` are drawn as said there.
    seed : int
        Decides what is drawn. Agent i's physics do not depend on how many agents there are.
    discount : float
        Discount factor in (0, 1]; 0.99, as is usual for episodes, unless given.
    **physics
        Physics that all agents share.

    Returns
    -------
    ControlFleet
        The agents' worlds.

    Raises
    ------
    ValueError, TypeError
        There is no such world or quantity, or a value is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.control.fleet("CartPole", agents=3, vary={"length": (0.4, 0.6)}, seed=1)
    ControlFleet(CartPole, agents=3, discount=0.99, length=[0.40281, 0.42732, 0.49119])
    """
    kind = WORLDS[_checks.choice("world", world, WORLDS)]
    valid = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    vary, spread = varied.checked(vary, spread)
    for name in [*vary, *physics]:
        if name not in valid:
            hint = _checks.nearest(name, valid)
            raise ValueError(f"{world} has no {name!r}{hint}; its physics are {', '.join(valid)}")
    count = varied.count(agents, vary)
    base = kind(**physics)
    columns: dict[str, list[Any]] = {}
    for place, name in enumerate(valid):
        # A stream per quantity and draws agent by agent: neither the others nor N change what is drawn.
        rng = np.random.default_rng([_checks.integer("seed", seed, least=0), place])
        if name in vary:
            whole = varied.is_whole(getattr(base, name))
            columns[name] = varied.column(name, vary[name], count, rng, whole)
        elif spread > 0 and name in kind.varied:
            columns[name] = varied.around(name, getattr(base, name), spread, count, rng)
    worlds = []
    for agent in range(count):
        try:
            worlds.append(replace(base, **{name: column[agent] for name, column in columns.items()}))  # type: ignore[type-var]
        except (ValueError, TypeError) as error:
            raise type(error)(f"agent {agent}: {error}") from None
    return ControlFleet(worlds, discount)
