"""Gymnasium environments as worlds, one per agent. Importing this file does not need Gymnasium."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, overload

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.worlds import constructors, gym_spaces, gym_wrappers, toy_text, varied
from fedsarsa.worlds.contract import ContinuousFleet, checked_discount
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.gym_spaces import Spaces
from fedsarsa.worlds.gym_wrappers import Wrapper

MOST_ACTIONS = 4096  # combinations of several action numbers


class GymWorld:
    """One agent's environment.

    Parameters
    ----------
    make_env : str, or a callable
        A registered id, or what makes an environment (a class, a function). Where agents differ, give a
        named function what differs as an option, ``GymWorld(make, g=g)``: lambdas in a loop over g would all
        see its last value.
    wrappers : sequence, optional
        Wrappers around the environment, the first one innermost: names in ``gymnasium.wrappers``, tables
        ``{"name": ..., ...}`` with arguments, or callables that wrap an environment.
    **options
        Keyword arguments for ``make_env``.

    ``make_env``, wrappers and options are copied, so that what is changed later changes no world: worlds may
    be made in a loop that changes one dict. What cannot be copied, and what functions refer to, is shared.

    Raises
    ------
    TypeError
        ``make_env`` is neither, or ``wrappers`` are no wrappers.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.GymWorld("CartPole-v1", max_episode_steps=200)
    GymWorld(CartPole-v1(max_episode_steps=200))
    >>> fs.GymWorld("Pendulum-v1", wrappers=["TimeAwareObservation"], g=9.0)
    GymWorld(TimeAwareObservation(Pendulum-v1(g=9.0)))
    """

    def __init__(
        self, make_env: str | Callable[..., Any], *, wrappers: Sequence[Wrapper] = (), **options: Any
    ) -> None:
        if not isinstance(make_env, str) and not callable(make_env):
            raise TypeError(
                f"make_env must be a registered id or a callable that makes an environment, got {make_env!r}"
            )
        self.make_env = constructors.own(make_env)
        self.wrappers = tuple(map(constructors.own, gym_wrappers.checked(wrappers)))
        self.options = {name: constructors.own(value) for name, value in options.items()}

    def _with_options(self, options: dict[str, Any]) -> GymWorld:
        """The same world with other values for some options."""
        made = copy.copy(self)
        made.__dict__.pop("spaces", None)
        made.options = self.options | options
        return made

    def make(self, render_mode: str | None = None) -> Any:
        """A new environment; whoever makes it closes it.

        Parameters
        ----------
        render_mode : str, optional
            As ``gymnasium.make`` takes it; the environment draws nothing unless given.

        Returns
        -------
        gymnasium.Env
            The environment, in its wrappers.

        Raises
        ------
        ValueError, TypeError
            It cannot be made, or what was made is no environment.
        """
        from fedsarsa.worlds._gymnasium import gymnasium

        options = self.options if render_mode is None else self.options | {"render_mode": render_mode}
        try:
            if isinstance(self.make_env, str):
                made: Any = gymnasium.make(self.make_env, **options)
            else:
                made = self.make_env(**options)
        except (gymnasium.error.Error, ImportError, ValueError) as error:
            if not isinstance(self.make_env, str):
                raise
            raise ValueError(f"environment {self.make_env!r} cannot be made: {error}") from error
        except TypeError as error:
            valid = constructors.options_of(self.make_env)
            unknown = [name for name in options if valid is not None and name not in valid]
            if valid is None or not unknown:
                raise
            near = _checks.nearest(unknown[0], valid)
            raise TypeError(
                f"{self.label} has no option {unknown[0]!r}{near}; its options are {', '.join(valid)}"
            ) from error
        if not isinstance(made, gymnasium.Env):
            raise TypeError(f"make_env must make a gymnasium.Env, got {made!r}")
        return gym_wrappers.wrap(made, self.wrappers)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """A new environment, closed in the end."""
        env = self.make()
        try:
            yield env
        finally:
            close(env)

    def make_vector(self, count: int) -> Any:
        """A vector environment of ``count`` of them, where there is one; whoever makes it closes it.

        Parameters
        ----------
        count : int
            Environments in it.

        Returns
        -------
        gymnasium.vector.VectorEnv
            The environments behind one ``step``.

        Raises
        ------
        ValueError
            The environment is no registered id, has wrappers, or offers no vector environment that resets
            in the next step.
        """
        from fedsarsa.worlds._gymnasium import gymnasium

        if not isinstance(self.make_env, str):
            raise ValueError(f"vector must be False: {self.label} is no registered id")
        if self.wrappers:
            raise ValueError(f"vector must be False: {self.label} has wrappers of single environments")
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
        """Observation and action space, checked; one environment is made and closed for it.

        It also shows ``normalising`` wrappers, and the ``time_limit`` of episodes.
        """
        with self.opened() as env:
            observation = gym_spaces.observation_space(env.observation_space, self.label)
            action = gym_spaces.action_space(env.action_space, self.label)
            self.normalising = gym_wrappers.normalising(env)
            self.time_limit = gym_wrappers.time_limit(env)
        return Spaces(observation, action)

    def check_reward(self) -> None:
        """Take a step, and reject an environment whose reward is not one number.

        An environment that raises is left for training to report.
        """
        with self.opened() as env:
            try:
                env.reset(seed=0)
                env.action_space.seed(0)
                reward = env.step(env.action_space.sample())[1]
                count = np.size(reward)
            except Exception:
                return
        if count != 1:
            raise ValueError(
                f"{self.label}: the reward of a step must be one number, got {reward!r}; wrap the "
                "environment in gymnasium.wrappers.TransformReward, with a function that makes it one number"
            )

    def to_finite(self, discount: float = 0.99, ends: str = toy_text.RESTART) -> FiniteMDP:
        """The finite MDP in the environment's own tables (FrozenLake, CliffWalking, Taxi).

        ``ends`` says what follows a termination: "restart", the next episode, or "absorbing", nothing.

        Parameters
        ----------
        discount : float
            Discount factor in (0, 1).
        ends : {"restart", "absorbing"}
            What follows a termination: the next episode, or nothing.

        Returns
        -------
        FiniteMDP
            Its states and actions are those of the environment.

        Raises
        ------
        ValueError
            The environment has no tables, or does not follow them.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fs.GymWorld("FrozenLake-v1").to_finite(discount=0.95)
        FiniteMDP(states=16, actions=4, discount=0.95)
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
        given = [*map(repr, first), *(f"{key}={varied.in_short(value)}" for key, value in options.items())]
        label = name + (f"({', '.join(given)})" if given else "")
        for wrapper in self.wrappers:
            label = f"{gym_wrappers.in_words(wrapper)}({label})"
        return label

    @property
    def constructor(self) -> str:
        """What makes this environment, with its arguments, in words that are the same in every process."""
        return constructors.told(self.make_env) + constructors.told(self.options) + self.wrapped

    @property
    def wrapped(self) -> str:
        """The wrappers in such words; empty where there are none."""
        return constructors.told(self.wrappers) if self.wrappers else ""

    def __repr__(self) -> str:
        return f"GymWorld({self.label})"


def close(env: Any) -> None:
    """Close an environment; one that does not close is warned of, nothing need fail for that."""
    try:
        env.close()
    except Exception as error:
        warnings.warn(f"{env!r} did not close: {error!r}", RuntimeWarning, stacklevel=2)


class GymFleet(ContinuousFleet, Sequence[GymWorld]):
    """The environments of N agents, which share their spaces, and one discount.

    Parameters
    ----------
    worlds : sequence of GymWorld
        One per agent; the same one may appear many times, every agent makes an environment of its own.
    discount : float
        Discount factor in (0, 1]; 0.99, as is usual for episodes, unless given.
    processes : int, optional
        Step environments in so many processes; 0: in this one. Unless given, a few steps are timed, and
        slow environments get a process per core.
    vector : bool
        Step agents with the same id and options as one vector environment, for ids that register one. An
        agent then pauses for a step after every episode, in which its environment resets.
    check : bool
        Let one environment of each kind take a step, to see that rewards are one number. Not done where
        ``processes`` are asked for, whose environments may crash; set it to False where a step moves
        machines.

    Raises
    ------
    ValueError, TypeError
        There are no worlds, their spaces differ or are not handled, or an argument is out of its range.

    Warns
    -----
    UserWarning
        Several worlds use functions that share a variable, so that their environments are the same; or a
        wrapper rescales by statistics of one agent alone.

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fs.GymFleet([fs.GymWorld("CartPole-v1")] * 3)
    GymFleet(CartPole-v1, agents=3, discount=0.99)
    >>> fs.GymFleet([fs.GymWorld("Pendulum-v1", g=g) for g in (9.8, 3.7)])
    GymFleet(Pendulum-v1(g=9.8), Pendulum-v1(g=3.7), agents=2, discount=0.99)
    """

    def __init__(
        self,
        worlds: Iterable[GymWorld],
        discount: float = 0.99,
        processes: int | None = None,
        vector: bool = False,
        check: bool = True,
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
        self.observation_space = gym_spaces.shared("observations", seen, np.minimum, np.maximum)
        self.action_space = gym_spaces.shared("actions", done, np.maximum, np.minimum)
        self.discount = checked_discount(discount)
        self.processes = None if processes is None else _checks.integer("processes", processes, least=0)
        self.vector = _checks.instance("vector", vector, bool, "True or False")
        if self.vector and self.processes:
            raise ValueError(f"processes must be None or 0 with vector=True, got {processes}")
        for world in set(self.worlds) if self.vector else ():
            close(world.make_vector(1))
        if _checks.instance("check", check, bool, "True or False") and not self.processes:
            for world in {(id(one.make_env), one.wrapped): one for one in self.worlds}.values():
                world.check_reward()
        self._warn_of_mistakes()

    def _warn_of_mistakes(self) -> None:
        """Warn of worlds that are the same by mistake, and of features that drift apart."""
        made = [(one.make_env, one.wrappers, one.options) for one in self.worlds]
        for agents, names in constructors.sharing(made):
            warnings.warn(
                f"agents {agents} have the same environment: their functions share {', '.join(names)}, and "
                "see its last value. Where agents should differ, give a named function what differs as an "
                "option, GymWorld(make, g=g), or bind it, lambda r, g=g: r * g. Where they should not, use "
                "one GymWorld many times",
                UserWarning,
                stacklevel=3,
            )
        found = sorted({name for world in self.worlds for name in world.normalising})
        if found and len(self) > 1:
            warnings.warn(
                f"{' and '.join(found)} rescales by each agent's own running mean and deviation: the same "
                "parameter then means something else to every agent, and the server averages them. "
                "Rescale by numbers that all agents share: bounds of the features, RescaleObservation or "
                "TransformReward",
                UserWarning,
                stacklevel=3,
            )

    @classmethod
    def make(
        cls,
        make_env: str | Callable[..., Any],
        agents: int | None = None,
        vary: Mapping[str, Any] | None = None,
        spread: float = 0.0,
        seed: int = 0,
        discount: float = 0.99,
        *,
        wrappers: Sequence[Wrapper] = (),
        processes: int | None = None,
        vector: bool = False,
        check: bool = True,
        **options: Any,
    ) -> GymFleet:
        """Agents in one kind of environment whose constructor arguments differ.

        Parameters
        ----------
        make_env : str, or a callable
            A registered id, or what makes an environment, as for `GymWorld`.
        agents : int, optional
            N; may be left out where ``vary`` holds lists.
        vary : dict, optional
            Options that differ: a tuple ``(low, high)`` draws each agent's uniformly from that range, a list
            gives them agent by agent. Of a list with more than N values the first N count. From a range of
            two whole numbers, whole numbers are drawn for an option that is one by default.
        spread : float
            Draw every float among ``options`` uniformly within this share of its value: 0.2 for 20% up and
            down. Those in ``vary`` are drawn as said there.
        seed : int
            Decides what is drawn. Agent i's options do not depend on how many agents there are.
        discount, processes, vector, check
            As for `GymFleet`.
        wrappers : sequence, optional
            As for `GymWorld`.
        **options
            Keyword arguments that all agents share.

        Returns
        -------
        GymFleet
            The agents' environments.

        Raises
        ------
        ValueError, TypeError
            An environment cannot be made with these options, or a value is out of its range.

        Examples
        --------
        >>> import fedsarsa as fs
        >>> fs.GymFleet.make("Pendulum-v1", agents=2, vary={"g": (8.0, 11.0)}, seed=1)
        GymFleet(Pendulum-v1(g=9.447), Pendulum-v1(g=10.633), agents=2, discount=0.99)
        """
        vary, spread = varied.checked(vary, spread)
        count = varied.count(agents, vary)
        if spread > 0 and not any(isinstance(value, float) for value in options.values()):
            raise ValueError(f"spread must be 0 where no option is a float to spread, got {spread!r}")
        columns: dict[str, list[Any]] = {}
        for name in dict.fromkeys([*options, *vary]):
            # A stream per option, by its name: neither the others nor N change what is drawn.
            rng = np.random.default_rng([_checks.integer("seed", seed, least=0), *name.encode()])
            if name in vary:
                whole = varied.is_whole(constructors.default_of(make_env, name))
                columns[name] = varied.column(name, vary[name], count, rng, whole)
            elif spread > 0 and isinstance(options[name], float):
                columns[name] = varied.around(name, options[name], spread, count, rng)
        each = [{name: column[agent] for name, column in columns.items()} for agent in range(count)]
        world = GymWorld(make_env, wrappers=wrappers, **options)
        worlds = [world._with_options(own) for own in each] if columns else [world] * count
        return cls(worlds, discount, processes, vector, check)

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
        """The largest absolute reward, which environments do not report."""

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
            spaced: Any = gym_spaces.integers if space.dtype.kind in "iu" else np.linspace
            axes = [spaced(low, high, per_number) for low, high in ends]
        if math.prod(len(axis) for axis in axes) > MOST_ACTIONS:
            raise ValueError(
                f"actions must have at most {MOST_ACTIONS} combinations, got more in {space}"
                + (f" with {per_number} values of each number" if per_number else "")
            )
        return [np.array(one, dtype=space.dtype).reshape(space.shape) for one in itertools.product(*axes)]

    def identity(self) -> str:
        """What distinguishes this fleet from others; see ``unsure``."""
        return repr(([world.constructor for world in self.worlds], self.discount, self.vector))

    def unsure(self) -> list[int]:
        """Agents whose constructors have no name of their own: ``identity`` may take them for others."""
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
    def __getitem__(self, key: slice) -> GymFleet: ...
    def __getitem__(self, key: int | slice) -> GymWorld | GymFleet:
        if isinstance(key, slice):
            return GymFleet(self.worlds[key], self.discount, self.processes, self.vector, check=False)
        return self.worlds[key]

    def __iter__(self) -> Iterator[GymWorld]:
        return iter(self.worlds)

    def varied(self) -> dict[str, list[Any]]:
        """The options in which agents differ, agent by agent; None for those who do not give one."""
        names = dict.fromkeys(name for world in self.worlds for name in world.options)
        return varied.differing({name: [one.options.get(name) for one in self.worlds] for name in names})

    def __repr__(self) -> str:
        labels = [world.label for world in self.worlds]
        names = labels[0] if len(set(labels)) == 1 else varied.shortened(labels)
        return f"GymFleet({names}, agents={len(self)}, discount={self.discount:g})"

    def __str__(self) -> str:
        if len({world.label for world in self.worlds}) == 1:
            return repr(self)
        lines = [f"{agent:5}   {world.label}" for agent, world in enumerate(self.worlds)]
        return "\n".join([f"GymFleet(agents={len(self)}, discount={self.discount:g})", "agent", *lines])
