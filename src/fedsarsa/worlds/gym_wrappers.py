"""Gymnasium's wrappers by name, and those that give every agent features of its own."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fedsarsa import _checks
from fedsarsa.worlds.contract import NEVER

# A name in gymnasium.wrappers, a table of a name and arguments, or what wraps an environment.
Wrapper = str | Mapping[str, Any] | Callable[[Any], Any]


def checked(wrappers: Any) -> tuple[Wrapper, ...]:
    """``wrappers`` if it is a sequence of wrappers."""
    if isinstance(wrappers, str | Mapping) or not isinstance(wrappers, Sequence):
        raise TypeError(f"wrappers must be a list of names, tables or callables, got {wrappers!r}")
    for place, wrapper in enumerate(wrappers):
        named = isinstance(wrapper, Mapping) and isinstance(wrapper.get("name"), str)
        if not (isinstance(wrapper, str) or named or callable(wrapper)):
            raise TypeError(
                f"wrappers[{place}] must be a name, a table with a name, or a callable, got {wrapper!r}"
            )
    return tuple(wrappers)


def wrap(env: Any, wrappers: Sequence[Wrapper]) -> Any:
    """An environment in its wrappers, the first one innermost."""
    for wrapper in wrappers:
        if not isinstance(wrapper, str | Mapping):
            env = wrapper(env)
            continue
        name, arguments = _named(wrapper)
        try:
            env = _class(name)(env, **arguments)
        except TypeError as error:
            raise ValueError(f"wrapper {in_words(wrapper)} cannot be made: {error}") from error
    return env


def _named(wrapper: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A wrapper's name and arguments."""
    if isinstance(wrapper, str):
        return wrapper, {}
    return wrapper["name"], {key: value for key, value in wrapper.items() if key != "name"}


def _class(name: str) -> Any:
    from fedsarsa.worlds._gymnasium import gymnasium

    known = [one for one in gymnasium.wrappers.__all__ if one[0].isupper()]  # the others are modules
    return getattr(gymnasium.wrappers, _checks.choice("wrapper", name, known))


def in_words(wrapper: Wrapper) -> str:
    """How messages call a wrapper."""
    if not isinstance(wrapper, str | Mapping):
        return str(getattr(wrapper, "__name__", repr(wrapper)))
    name, arguments = _named(wrapper)
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{name}({given})" if given else name


def normalising(env: Any) -> list[str]:
    """Names of the wrappers around an environment that rescale by statistics of this one environment."""
    from fedsarsa.worlds._gymnasium import gymnasium

    kinds = gymnasium.wrappers.NormalizeObservation, gymnasium.wrappers.NormalizeReward
    return [type(one).__name__ for one in _around(env) if isinstance(one, kinds)]


def time_limit(env: Any) -> int:
    """Steps after which an episode is cut; ``NEVER`` where no wrapper or specification says."""
    from fedsarsa.worlds._gymnasium import gymnasium

    inner = [one for one in _around(env) if isinstance(one, gymnasium.wrappers.TimeLimit)]
    limits = [getattr(one, "_max_episode_steps", None) for one in inner]
    limits.append(getattr(env.spec, "max_episode_steps", None))
    return min((int(limit) for limit in limits if limit is not None), default=NEVER)


def _around(env: Any) -> Iterator[Any]:
    """The wrappers around an environment, the outermost first."""
    from fedsarsa.worlds._gymnasium import gymnasium

    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
