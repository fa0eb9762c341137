"""What agents see and do in a fleet's worlds, as a problem has it: features and actions as numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import AnyFleet
from fedsarsa.learning.actions import Candidates, GridActions
from fedsarsa.learning.continuous_features import BoxMap, ContinuousFeatures, box_map
from fedsarsa.learning.features import FeatureMap, OneHot
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.worlds.contract import ContinuousFleet
from fedsarsa.worlds.control import ControlFleet, ControlWorld
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld

EpisodicFleet = ControlFleet | GymFleet
FLEETS: dict[type, type] = {FiniteMDP: Fleet, ControlWorld: ControlFleet, GymWorld: GymFleet}


def any_fleet(worlds: AnyFleet | Sequence[FiniteMDP]) -> AnyFleet:
    """A fleet, or the fleet of a list of worlds of one sort."""
    if isinstance(worlds, tuple(FLEETS.values())):
        return worlds  # type: ignore[return-value]
    listed: list[Any] = list(worlds) if isinstance(worlds, Sequence) else [worlds]
    for world, fleet in FLEETS.items():
        if fleet is not Fleet and listed and isinstance(listed[0], world):
            made: AnyFleet = fleet(listed)
            return made
    return as_fleet(worlds)  # type: ignore[arg-type]


def spaces(
    features: Any, fixed: Sequence[FixedPolicy], actions: Candidates | None, fleet: Any
) -> dict[str, Any]:
    """The fields of a `Problem` that say what its agents see and do; ``fixed`` policies must fit them."""
    phi: FeatureMap | BoxMap
    if fleet.finite:
        phi, numbers = finite_features(features, fixed, actions, fleet), fleet.candidates(None)
    else:
        numbers, joint = _candidates(actions, fleet)
        for policy in fixed:
            if isinstance(policy.pi, np.ndarray) and policy.pi.ndim > 1:
                raise ValueError(
                    f"pi must not depend on states, as observations here have no state number, got {policy}"
                )
            policy.table(1, len(numbers))
        phi = _episodic_features(features, fleet, len(numbers), joint)
    return {
        "features": phi,
        "candidates": numbers,
        "action_bounds": fleet.action_bounds or (0.0, float(len(numbers) - 1)),
        "per_number": actions.count if isinstance(actions, GridActions) else None,
    }


def finite_features(
    features: Any, fixed: Sequence[FixedPolicy], actions: Candidates | None, world: Fleet | FiniteMDP
) -> FeatureMap:
    """phi on a finite world, or on those of a fleet."""
    for policy in fixed:
        policy.table(world.states, world.actions)
    if actions is not None:
        raise ValueError(f"actions must be None in finite worlds, got {actions!r}")
    on_world: FeatureMap = features.on(world.states, world.actions)
    return on_world


def _candidates(actions: Candidates | None, fleet: ContinuousFleet) -> tuple[Floats, bool]:
    """The actions as numbers, and whether features take the action as an input."""
    if fleet.action_count is not None:
        if actions is not None:
            raise ValueError(
                f"actions must be None where worlds have {fleet.action_count} actions, got {actions!r}"
            )
        return fleet.candidates(None), False
    if actions is None:
        raise ValueError(
            "actions must be GridActions or RandomActions where actions are numbers, in TOML "
            'actions = { kind = "grid", count = 5 }, got None'
        )
    if isinstance(actions, GridActions):
        return fleet.candidates(actions.count), False
    if fleet.undrawn:
        raise ValueError(f"actions must be GridActions where an action is {fleet.undrawn}, got {actions!r}")
    return np.zeros(actions.count), True


def _episodic_features(features: Any, fleet: Any, actions: int, joint: bool) -> BoxMap:
    """phi on the fleet's observations."""
    low, high = fleet.bounds
    if isinstance(features, OneHot) and fleet.counts and not joint:
        return features.on_numbers(fleet.first_observation, fleet.counts, actions)
    if not isinstance(features, ContinuousFeatures):
        raise ValueError(
            f"features must be TileCoding, FourierBasis, RBF, RandomFourier or a function for continuous "
            f'observations, in TOML features = {{ kind = "tile-coding" }}, got {features!r}'
        )
    if joint:
        low, high = (*low, fleet.action_bounds[0]), (*high, fleet.action_bounds[1])
    return box_map(features, low, high, actions, joint)
