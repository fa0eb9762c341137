"""Environments of Gymnasium as worlds, one per agent. Importing this file does not need Gymnasium."""

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NamedTuple, overload

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds import constructors, toy_text
from fedsarsa.worlds.contract import ContinuousFleet, checked_discount
from fedsarsa.worlds.finite import FiniteMDP

MOST_ACTIONS = 4096  # combinations of several action numbers


class Spaces(NamedTuple):
    """What an environment says of its observations and actions."""

    observation: Any
    action: Any


class GymWorld:
    """One agent's environment.

    Parameters
    ----------
    make_env : str, or a callable
        A registered id, or what makes an environment (a class, a function).
    **options
        Keyword arguments for it.

    Raises
    ------
    TypeError
        ``make_env`` is neither.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.GymWorld("CartPole-v1", max_episode_steps=200)
    GymWorld(CartPole-v1(max_episode_steps=200))
    """

    def __init__(self, make_env: str | Callable[..., Any], **options: Any) -> None:
        if not isinstance(make_env, str) and not callable(make_env):
            raise TypeError(
                f"make_env must be a registered id or a callable that makes an environment, got {make_env!r}"
            )
        self.make_env = make_env
        self.options = options

    def make(self, render_mode: str | None = None) -> Any:
        """A new environment; whoever makes it closes it."""
        from fedsarsa.worlds._gymnasium import gymnasium

        options = self.options if render_mode is None else self.options | {"render_mode": render_mode}
        if isinstance(self.make_env, str):
            try:
                return gymnasium.make(self.make_env, **options)
            except (gymnasium.error.Error, ImportError, ValueError) as error:
                raise ValueError(f"environment {self.make_env!r} cannot be made: {error}") from error
        made = self.make_env(**options)
        if not isinstance(made, gymnasium.Env):
            raise TypeError(f"make_env must make a gymnasium.Env, got {made!r}")
        return made

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A new environment, closed in the end."""
        env = self.make()
        try:
            yield env
        finally:
            close(env)

    def make_vector(self, count: int) -> Any:
        """A vector environment of ``count`` of them, where there is one; whoever makes it closes it."""
        from fedsarsa.worlds._gymnasium import gymnasium

        if not isinstance(self.make_env, str):
            raise ValueError(f"vector must be False: {self.label} is no registered id")
        try:
            made = gymnasium.make_vec(self.make_env, count, "vector_entry_point", **self.options)
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            raise ValueError(f"vector must be False: {self.label} offers none: {error}") from error
        mode = made.metadata.get("autoreset_mode")
        if mode is not gymnasium.vector.AutoresetMode.NEXT_STEP:
            close(made)
            raise ValueError(
                f"vector must be False: {self.label} resets in mode {mode}, NEXT_STEP is expected"
            )
        return made

    @cached_property
    def spaces(self) -> Spaces:
        """Observation and action space, checked; one environment is made and closed for it."""
        with self.opened() as env:
            observation, action = env.observation_space, env.action_space
        return Spaces(_observations(observation, self.label), _actions(action, self.label))

    def to_finite(self, discount: float = 0.99, ends: str = toy_text.RESTART) -> FiniteMDP:
        """The finite MDP in the environment's own tables (FrozenLake, CliffWalking, Taxi): see ``tables``.

        ``ends`` says what follows a termination: "restart", the next episode, or "absorbing", nothing.
        """
        return toy_text.finite(self, discount, ends)

    @property
    def label(self) -> str:
        """How messages call this environment."""
        made: Any = self.make_env
        options, first = self.options, ()
        if isinstance(made, partial):  # which is never one of another partial
            made, options, first = made.func, made.keywords | options, made.args
        name = made if isinstance(made, str) else getattr(made, "__name__", repr(made))
        given = [*map(repr, first), *(f"{key}={value!r}" for key, value in options.items())]
        return name + (f"({', '.join(given)})" if given else "")

    @property
    def constructor(self) -> str:
        """What makes this environment, with its arguments, in words that are the same in every process."""
        return constructors.told(self.make_env) + constructors.told(self.options)

    def __repr__(self) -> str:
        return f"GymWorld({self.label})"


def close(env: Any) -> None:
    """Close an environment; one that does not close is warned of, nothing need fail for that."""
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"{env!r} did not close: {error!r}", RuntimeWarning, stacklevel=2)


def _observations(space: Any, label: str) -> Any:
    from fedsarsa.worlds._gymnasium import gymnasium

    handled = gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete
    if isinstance(space, (*handled, gymnasium.spaces.MultiBinary)):
        return space
    nested = isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple)
    parts = list(space.values() if isinstance(space, gymnasium.spaces.Dict) else space) if nested else []
    if parts and all(isinstance(part, gymnasium.spaces.Discrete) for part in parts):
        counts, starts = ([int(getattr(part, name)) for part in parts] for name in ("n", "start"))
        wrapper = (
            "TransformObservation, with a function that makes an array of it (np.array, of a Tuple), and "
            f"MultiDiscrete({counts}, start={starts}), for which there is OneHot()"
        )
    elif nested and space.is_np_flattenable:
        wrapper = "FlattenObservation, as in GymWorld(lambda: FlattenObservation(gym.make(...)))"
    else:
        wrapper = "TransformObservation, with a function that makes an array of it, and its Box"
    raise ValueError(
        f"{label}: observations must be Box, Discrete, MultiDiscrete or MultiBinary, got {space}; "
        f"wrap the environment in gymnasium.wrappers.{wrapper}"
    )


def _actions(space: Any, label: str) -> Any:
    from fedsarsa.worlds._gymnasium import gymnasium

    if isinstance(space, gymnasium.spaces.Box) and not np.isfinite([space.low, space.high]).all():
        raise ValueError(
            f"{label}: actions must be bounded, got {space}; wrap the environment in "
            "gymnasium.wrappers.TransformAction with a Box of the actions that are of use"
        )
    if isinstance(space, (gymnasium.spaces.Box, gymnasium.spaces.Discrete, gymnasium.spaces.MultiDiscrete)):
        return space
    raise ValueError(
        f"{label}: actions must be Discrete, MultiDiscrete or Box, got {space}; "
        "wrap the environment in gymnasium.wrappers.TransformAction with a Discrete space"
    )


def _shared(name: str, spaces: list[Any], lower: Any, upper: Any) -> Any:
    """The space of all agents: the same, or boxes of one shape whose bounds are put together."""
    first = spaces[0]
    for agent, space in enumerate(spaces):
        boxes = hasattr(first, "low") and hasattr(space, "low") and type(space) is type(first)
        if space != first and not (boxes and space.shape == first.shape and space.dtype == first.dtype):
            raise ValueError(f"worlds must share {name}: agent 0 has {first}, agent {agent} {space}")
    if all(space == first for space in spaces):
        return first
    low = lower.reduce([space.low for space in spaces])
    high = upper.reduce([space.high for space in spaces])
    if not (low <= high).all():
        raise ValueError(f"worlds must share {name}, got bounds that leave nothing in common")
    return type(first)(low, high, dtype=first.dtype)


def _integers(low: int, high: int, count: int) -> list[int]:
    """Up to ``count`` integers at nearly equal distances from ``low`` to ``high``, each of them once."""
    steps = min(count - 1, high - low)
    return [low + (2 * k * (high - low) + steps) // (2 * steps) for k in range(steps + 1)] if steps else [low]


class GymFleet(ContinuousFleet, Sequence[GymWorld]):
    """The environments of N agents, which share their spaces, and one discount.

    Parameters
    ----------
    worlds : sequence of GymWorld
        One per agent; the same one may appear many times, every agent makes an environment of its own.
    discount : float
        Discount factor in (0, 1].
    processes : int, optional
        Step environments in so many processes; 0: in this one. Unless given, a few steps are timed, and
        slow environments get a process per core.
    vector : bool
        Step agents with the same id and options as one vector environment, for ids that register one. An
        agent then pauses for a step after every episode, in which its environment resets.

    Raises
    ------
    ValueError, TypeError
        There are no worlds, their spaces differ or are not handled, or an argument is out of its range.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.GymFleet([fs.GymWorld("CartPole-v1")] * 3)
    GymFleet(CartPole-v1, agents=3, discount=0.99)
    """

    def __init__(
        self,
        worlds: Iterable[GymWorld],
        discount: float = 0.99,
        processes: int | None = None,
        vector: bool = False,
    ) -> None:
        self.worlds = list(worlds)
        if not self.worlds:
            raise ValueError("worlds must hold at least one GymWorld, got none")
        for agent, world in enumerate(self.worlds):
            if not isinstance(world, GymWorld):
                raise TypeError(f"worlds[{agent}] must be a GymWorld, got {world!r}")
            try:
                world.spaces  # noqa: B018
            except Exception as error:
                error.add_note(f"This is worlds[{agent}], {world.label}.")
                raise
        seen, done = ([world.spaces[which] for world in self.worlds] for which in (0, 1))
        # Bounds may differ as physics do: features reach over all observations, actions are open to all.
        self.observation_space = _shared("observations", seen, np.minimum, np.maximum)
        self.action_space = _shared("actions", done, np.maximum, np.minimum)
        self.discount = checked_discount(discount)
        self.processes = None if processes is None else _checks.integer("processes", processes, least=0)
        self.vector = _checks.instance("vector", vector, bool, "True or False")
        if self.vector and self.processes:
            raise ValueError(f"processes must be None or 0 with vector=True, got {processes}")
        for world in set(self.worlds) if self.vector else ():
            close(world.make_vector(1))

    @property
    def counts(self) -> list[int] | None:  # type: ignore[override]
        """How many values each number of an observation has; None where they are continuous."""
        kind, space = type(self.observation_space).__name__, self.observation_space
        if kind == "Discrete":
            return [int(space.n)]
        if kind == "MultiDiscrete":
            return [int(n) for n in np.ravel(space.nvec)]
        return [2] * int(np.prod(space.shape)) if kind == "MultiBinary" else None

    @property
    def first_observation(self) -> Floats:
        """The lowest value of every number of a discrete observation."""
        return np.ravel(np.asarray(getattr(self.observation_space, "start", 0), dtype=float))

    @property
    def bounds(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Lowest and highest observation; infinite where the environment gives no bound."""
        if self.counts is not None:
            low = np.broadcast_to(self.first_observation - 0.5, len(self.counts))
            return tuple(low.tolist()), tuple((low + self.counts).tolist())
        space = self.observation_space
        low, high = (np.ravel(side).astype(float) for side in (space.low, space.high))
        return tuple(low.tolist()), tuple(high.tolist())

    @property
    def action_count(self) -> int | None:
        """Number of actions; None where actions are numbers."""
        kind = type(self.action_space).__name__
        if kind == "Discrete":
            return int(self.action_space.n)
        return math.prod(np.ravel(self.action_space.nvec).tolist()) if kind == "MultiDiscrete" else None

    @property
    def action_bounds(self) -> tuple[float, float] | None:
        """Lowest and highest action, where an action is one number."""
        if self.action_count is not None or np.prod(self.action_space.shape) != 1:
            return None
        return float(np.min(self.action_space.low)), float(np.max(self.action_space.high))

    @property
    def reward_cap(self) -> None:
        """The largest absolute reward, which environments do not tell."""

    @property
    def undrawn(self) -> str | None:  # type: ignore[override]
        """What an action is, where it is not one real number."""
        if self.action_bounds is None:
            return "several numbers"
        return "a whole number" if self.action_space.dtype.kind in "iu" else None

    def candidates(self, per_number: int | None) -> Floats:
        """The places of the ``actions``, as numbers."""
        return np.arange(float(len(self.actions(per_number))))

    def actions(self, per_number: int | None) -> list[Any]:
        """Every action as the environment wants it; up to ``per_number`` values of each number of a Box."""
        space = self.action_space
        if type(space).__name__ == "Discrete":
            return [int(space.start) + a for a in range(int(space.n))]
        if type(space).__name__ == "MultiDiscrete":
            starts = np.ravel(space.start).tolist()
            axes = [range(a, a + int(n)) for a, n in zip(starts, np.ravel(space.nvec), strict=True)]
        else:
            ends = zip(np.ravel(space.low).tolist(), np.ravel(space.high).tolist(), strict=True)
            spaced: Any = _integers if space.dtype.kind in "iu" else np.linspace
            axes = [spaced(low, high, per_number) for low, high in ends]
        if math.prod(len(axis) for axis in axes) > MOST_ACTIONS:
            raise ValueError(
                f"actions must have at most {MOST_ACTIONS} combinations, got more in {space}"
                + (f" with {per_number} values of each number" if per_number else "")
            )
        return [np.array(one, dtype=space.dtype).reshape(space.shape) for one in itertools.product(*axes)]

    def identity(self) -> str:
        """What tells this fleet from others; see ``unsure``."""
        return repr(([world.constructor for world in self.worlds], self.discount, self.vector))

    def unsure(self) -> list[int]:
        """Agents whose constructors have no name of their own: ``identity`` may not tell them from others."""
        return [i for i, world in enumerate(self.worlds) if constructors.unsure(world.constructor)]

    def describe(self) -> dict[str, Any]:
        """The fleet in words and numbers, for records."""
        labels = [world.label for world in self.worlds]
        return {"environments": labels, "discount": self.discount, "vector": self.vector}

    def __len__(self) -> int:
        return len(self.worlds)

    @overload
    def __getitem__(self, key: int) -> GymWorld: ...
    @overload
    def __getitem__(self, key: slice) -> "GymFleet": ...
    def __getitem__(self, key: int | slice) -> "GymWorld | GymFleet":
        if isinstance(key, slice):
            return GymFleet(self.worlds[key], self.discount, self.processes, self.vector)
        return self.worlds[key]

    def __iter__(self) -> Iterator[GymWorld]:
        return iter(self.worlds)

    def __repr__(self) -> str:
        names = ", ".join(sorted({world.label for world in self.worlds}))
        return f"GymFleet({names}, agents={len(self)}, discount={self.discount:g})"
