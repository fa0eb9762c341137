"""The worlds of N agents, their mean, and how much they differ."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, overload

import numpy as np
import scipy

from fedsarsa._checks import Floats
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.kernels import ShiftKernel


class Fleet(Sequence[FiniteMDP]):
    """The worlds of N agents that share states, actions and discount.

    A sequence: ``len``, index, slice and iterate. Equal worlds are stored once in ``worlds``, and
    ``world_of[i]`` says which of them is agent i's.

    Parameters
    ----------
    worlds : iterable of FiniteMDP
        One per agent.

    Raises
    ------
    TypeError
        One of them is not a FiniteMDP.
    ValueError
        There are none, or they differ in states, actions or discount.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> worlds = [fs.FiniteMDP([[[p, 1 - p], [1 - p, p]]], reward=[0, 1], discount=0.9) for p in (0.5, 0.6)]
    >>> fleet = fs.Fleet(worlds)
    >>> round(fleet.eps_p, 6), fleet.eps_r
    (0.2, 0.0)
    """

    finite: ClassVar[bool] = True
    action_bounds: ClassVar[tuple[float, float] | None] = None

    def __init__(self, worlds: Iterable[FiniteMDP]) -> None:
        places: dict[int, int] = {}
        distinct: dict[bytes, int] = {}
        seen: list[FiniteMDP] = []  # keeps their ids apart
        kept: list[FiniteMDP] = []
        index: list[int] = []
        if not isinstance(worlds, Iterable):
            raise TypeError(f"worlds must be a sequence of FiniteMDP, got {worlds!r}")
        for agent, world in enumerate(worlds):
            if not isinstance(world, FiniteMDP):
                raise TypeError(f"worlds[{agent}] must be a FiniteMDP, got {world!r}")
            if id(world) not in places:
                seen.append(world)
                content = hashlib.sha256(repr((type(world), world.discount)).encode())
                for part in _content(world):
                    content.update(part)
                position = distinct.setdefault(content.digest(), len(kept))
                if position == len(kept):
                    kept.append(world)
                places[id(world)] = position
            index.append(places[id(world)])
        if not kept:
            raise ValueError("worlds must hold at least one FiniteMDP, got none")
        self.worlds = tuple(kept)
        self.world_of = np.array(index)
        self._check_shared()

    def _check_shared(self) -> None:
        first = self.worlds[0]
        for position, world in enumerate(self.worlds):
            for name in ("states", "actions", "discount"):
                expected, got = getattr(first, name), getattr(world, name)
                if got != expected:
                    agent = int(np.argmax(self.world_of == position))
                    raise ValueError(
                        f"worlds must share {name}: agent 0 has {expected}, agent {agent} has {got}"
                    )
        self.states, self.actions, self.discount = first.states, first.actions, first.discount

    def __len__(self) -> int:
        return len(self.world_of)

    @overload
    def __getitem__(self, key: int) -> FiniteMDP: ...
    @overload
    def __getitem__(self, key: slice) -> "Fleet": ...
    def __getitem__(self, key: int | slice) -> "FiniteMDP | Fleet":
        if isinstance(key, slice):
            return Fleet(self.worlds[i] for i in self.world_of[key])
        return self.worlds[int(self.world_of[key])]

    def __iter__(self) -> Iterator[FiniteMDP]:
        return (self.worlds[i] for i in self.world_of)

    @property
    def reward_cap(self) -> float:
        """R, the largest absolute reward of any agent."""
        return max(world.reward_cap for world in self.worlds)

    def central(self) -> FiniteMDP:
        """The central MDP: mean kernel, mean reward and mean start of the agents (Appendix D, ``sec:cmdp``).

        Returns
        -------
        FiniteMDP
            A world of its own, made anew at every call.

        Notes
        -----
        P-bar_a(s, s') = (1/N) sum_i P_a^(i)(s, s'),  r-bar(s, a) = (1/N) sum_i r^(i)(s, a)

        Examples
        --------
        >>> import fedsarsa as fs
        >>> kernels = [[[p, 1 - p], [1 - p, p]] for p in (0.5, 0.7)]
        >>> worlds = [fs.FiniteMDP([kernel], reward=[0, 1], discount=0.9) for kernel in kernels]
        >>> fs.Fleet(worlds).central().transition.round(2).tolist()
        [[[0.6, 0.4], [0.4, 0.6]]]
        """
        share = np.bincount(self.world_of, minlength=len(self.worlds)) / len(self)

        def mean(arrays: Iterable[Floats]) -> Floats:
            total: Floats = sum(weight * array for weight, array in zip(share, arrays, strict=True))
            return total

        kernels = [world.kernel for world in self.worlds]
        shifts = [kernel for kernel in kernels if isinstance(kernel, ShiftKernel)]
        if len(shifts) == len(kernels):
            transition = ShiftKernel(mean(k.P0 for k in shifts), self.actions)
        else:
            transition = mean(world.transition for world in self.worlds)  # type: ignore[assignment]
        # Rewards that depend on the state alone stay so; others are averaged as r(s, a), since the
        # mean of r(s, a, s') over agents is not their mean reward when kernels differ.
        flat = all(world.reward.ndim == 1 for world in self.worlds)
        reward = mean(world.reward if flat else world.expected_reward for world in self.worlds)
        return FiniteMDP(transition, reward, self.discount, mean(world.initial for world in self.worlds))

    @cached_property
    def eps_p(self) -> float:
        """Kernel heterogeneity, Definition 1 (``asmp:ker-het``): max over i, j, s, a of ||P_i - P_j||_1.

        The norm is the paper's total variation, twice the probabilists'; at most 2.
        """
        if len(self.worlds) == 1:
            return 0.0
        kernels = [world.kernel for world in self.worlds]
        # A rotation moves every agent's row alike: action 0 shows all the differences.
        rotated = all(isinstance(kernel, ShiftKernel) for kernel in kernels)
        largest = 0.0
        for action in range(1 if rotated else self.actions):
            matrices = [kernel.matrix(action) for kernel in kernels]
            for state in range(self.states):
                rows = np.stack([matrix[state] for matrix in matrices])
                largest = max(largest, float(scipy.spatial.distance.pdist(rows, "cityblock").max()))
        return largest

    @cached_property
    def eps_r(self) -> float:
        """Reward heterogeneity, Definition 2 (``asmp:r-het``): max over i, j, s, a of |r_i - r_j| / R."""
        lowest = highest = self.worlds[0].expected_reward
        for world in self.worlds[1:]:
            lowest = np.minimum(lowest, world.expected_reward)
            highest = np.maximum(highest, world.expected_reward)
        spread = float((highest - lowest).max())
        return spread / self.reward_cap if spread > 0 else 0.0

    @property
    def action_count(self) -> int:
        """A, the number of actions."""
        return self.actions

    def candidates(self, per_number: int | None = None) -> Floats:  # noqa: ARG002
        """The actions, as numbers."""
        return np.arange(float(self.actions))

    def identity(self) -> str:
        """What distinguishes this fleet from others: a digest of its worlds."""
        digest = hashlib.sha256(repr((self.discount, self.world_of.tolist())).encode())
        for world in self.worlds:
            for part in _content(world):
                digest.update(part)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """The fleet in numbers, for records."""
        return {
            "distinct_worlds": len(self.worlds),
            "states": self.states,
            "actions": self.actions,
            "discount": self.discount,
        }

    def varied(self) -> dict[str, list[Any]]:
        """Nothing: finite worlds differ in tables, not in numbers with a name."""
        return {}

    def __str__(self) -> str:
        measured = f"measured eps_p = {self.eps_p:.4g}, eps_r = {self.eps_r:.4g}"
        return f"{len(self)} agents, discount {self.discount:g}, {measured}"

    def __repr__(self) -> str:
        return (
            f"Fleet(agents={len(self)}, distinct={len(self.worlds)}, states={self.states}, "
            f"actions={self.actions}, discount={self.discount:g})"
        )


def _content(world: FiniteMDP) -> Iterator[bytes]:
    """Kernel, reward and initial distribution of a world, which distinguish it from others."""
    yield repr((world.kernel.shift, world.actions, world.reward.shape)).encode()
    for array in (world.kernel.rows, world.reward, world.initial):
        yield np.ascontiguousarray(array).tobytes()


def as_fleet(fleet: Fleet | Sequence[FiniteMDP]) -> Fleet:
    """A fleet from what functions take for one: a fleet, or the worlds of its agents."""
    if isinstance(fleet, Fleet):
        return fleet
    if not isinstance(fleet, Iterable):
        raise TypeError(f"fleet must be a Fleet or a sequence of FiniteMDP, got {fleet!r}")
    if not getattr(fleet, "finite", True):
        raise TypeError(
            f"fleet must be of finite worlds, which theory and fs.evaluate are for, got {fleet!r:.200}; "
            "fs.rollouts measures returns in other worlds"
        )
    return Fleet(fleet)
