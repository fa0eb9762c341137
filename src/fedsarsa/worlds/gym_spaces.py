"""The spaces of Gymnasium environments: which are handled, and what agents have in common."""

from typing import Any, NamedTuple

import numpy as np


class Spaces(NamedTuple):
    """What an environment says of its observations and actions."""

    observation: Any
    action: Any


def observation_space(space: Any, label: str) -> Any:
    """The space, if observations of it can be learned from; the error names a wrapper for others."""
    from fedsarsa.worlds._gymnasium import gymnasium

    known = gymnasium.spaces
    handled = known.Box, known.Discrete, known.MultiDiscrete, known.MultiBinary
    if isinstance(space, handled):
        return space
    wrapper = "TransformObservation, with a function that makes an array of it, and its Box"
    parts = _parts(space)
    counted = [part for part in parts.values() if isinstance(part, gymnasium.spaces.Discrete)]
    if parts and len(counted) == len(parts):
        counts, starts = ([int(getattr(part, name)) for part in counted] for name in ("n", "start"))
        wrapper = (
            "TransformObservation, with a function that makes an array of it (np.array, of a Tuple), and "
            f"MultiDiscrete({counts}, start={starts}), for which there is OneHot()"
        )
    elif parts and _flattens(space):
        wrapper = "FlattenObservation, as in GymWorld(..., wrappers=['FlattenObservation'])"
    elif isinstance(space, gymnasium.spaces.Dict):
        usable = [name for name, part in parts.items() if isinstance(part, handled) or _flattens(part)]
        if usable:
            wrapper = (
                f"FilterObservation to keep the numbers, and FlattenObservation: GymWorld(..., wrappers=["
                f"{{'name': 'FilterObservation', 'filter_keys': {usable}}}, 'FlattenObservation'])"
            )
    raise ValueError(
        f"{label}: observations must be Box, Discrete, MultiDiscrete or MultiBinary, got {space}; "
        f"wrap the environment in gymnasium.wrappers.{wrapper}"
    )


def _parts(space: Any) -> dict[Any, Any]:
    """The spaces inside a Dict or a Tuple, by name or place."""
    from fedsarsa.worlds._gymnasium import gymnasium

    if isinstance(space, gymnasium.spaces.Dict):
        return dict(space.spaces)
    return dict(enumerate(space)) if isinstance(space, gymnasium.spaces.Tuple) else {}


def _flattens(space: Any) -> bool:
    """Whether FlattenObservation makes an array of it; spaces of other packages may not say."""
    try:
        return bool(space.is_np_flattenable)
    except NotImplementedError:
        return False


def action_space(space: Any, label: str) -> Any:
    """The space, if its actions can be chosen from; the error names a wrapper for others."""
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


def shared(name: str, spaces: list[Any], lower: Any, upper: Any) -> Any:
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


def integers(low: int, high: int, count: int) -> list[int]:
    """Up to ``count`` integers at nearly equal distances from ``low`` to ``high``, each of them once."""
    steps = min(count - 1, high - low)
    return [low + (2 * k * (high - low) + steps) // (2 * steps) for k in range(steps + 1)] if steps else [low]
