"""The options of FedSARSA beyond Algorithm ``alg``: checked, and made a problem for episodic worlds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.problem import AnyFleet, Problem
from fedsarsa.learning.boxes import BoxMap, ContinuousFeatures, box_map
from fedsarsa.learning.candidates import Candidates, GridActions
from fedsarsa.learning.features import OneHot
from fedsarsa.learning.policies import FixedPolicy
from fedsarsa.learning.targets import TARGETS, TRACES
from fedsarsa.worlds.control import ControlFleet, ControlWorld
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet, as_fleet
from fedsarsa.worlds.gym import GymFleet, GymWorld

if TYPE_CHECKING:
    from fedsarsa.federation.fedsarsa import FedSARSA

EpisodicFleet = ControlFleet | GymFleet

MOST_RECORDED = 4 * 2**30  # bytes of central parameters that a history may keep
KEPT = 200  # records that are suggested instead


def any_fleet(worlds: AnyFleet | Sequence[FiniteMDP]) -> AnyFleet:
    """A fleet, or the fleet of a list of worlds of one sort."""
    if isinstance(worlds, Fleet | ControlFleet | GymFleet):
        return worlds
    listed: list[Any] = list(worlds) if isinstance(worlds, Sequence) else [worlds]
    for world, fleet in ((ControlWorld, ControlFleet), (GymWorld, GymFleet)):
        if listed and isinstance(listed[0], world):
            return fleet(listed)
    return as_fleet(worlds)


def check_options(algo: "FedSARSA") -> None:
    """Reject options that mean nothing."""
    decay = _checks.number("trace_decay", algo.trace_decay, "a number in [0, 1]")
    if not 0 <= decay <= 1:
        raise ValueError(f"trace_decay must be a number in [0, 1], got {algo.trace_decay!r}")
    _checks.choice("traces", algo.traces, TRACES)
    _checks.choice("target", algo.target, TARGETS)
    for name in ("redraw_actions", "step_per_feature"):
        if not isinstance(getattr(algo, name), bool):
            raise TypeError(f"{name} must be True or False, got {getattr(algo, name)!r}")
    _checks.number("initial_value", algo.initial_value)
    if algo.actions is not None and not isinstance(algo.actions, Candidates):
        raise TypeError(f"actions must be GridActions or RandomActions, got {algo.actions!r}")
    behaviours(algo.behaviour)


def behaviours(given: Any, agents: int | None = None) -> tuple[FixedPolicy, ...]:
    """The policies by which agents act: none, one for all, or one for each of ``agents``."""
    if given is None:
        return ()
    policies = (given,) if isinstance(given, FixedPolicy) else given
    if not isinstance(policies, Sequence) or not all(isinstance(one, FixedPolicy) for one in policies):
        raise TypeError(f"behaviour must be a FixedPolicy, or a list with one per agent, got {given!r}")
    if agents is not None and len(policies) not in {1, agents}:
        raise ValueError(f"behaviour must be one or one per agent ({agents}), got {len(policies)}")
    return tuple(policies)


def option_settings(algo: "FedSARSA") -> dict[str, Any]:
    """The options in words and numbers, for records."""
    names = ("target", "trace_decay", "traces", "step_per_feature", "initial_value")
    named = {name: getattr(algo, name) for name in names}
    return {"candidates": repr(algo.actions), "behaviour": repr(algo.behaviour)} | named


def episodic_problem(algo: "FedSARSA", fleet: EpisodicFleet, common: dict[str, Any]) -> Problem:
    """The training problem of an episodic fleet."""
    candidates, joint = _candidates(algo.actions, fleet)
    fixed = (algo.policy,) if isinstance(algo.policy, FixedPolicy) else ()
    for policy in (*fixed, *behaviours(algo.behaviour)):
        if isinstance(policy.pi, np.ndarray) and policy.pi.ndim > 1:
            raise ValueError(f"pi must not depend on states, of which there is no number here, got {policy}")
        policy.table(1, len(candidates))
    return Problem(
        **common,
        features=_features(algo, fleet, len(candidates), joint),
        candidates=candidates,
        per_number=algo.actions.count if isinstance(algo.actions, GridActions) else None,
        action_bounds=fleet.action_bounds or (0.0, float(len(candidates) - 1)),
    )


def _candidates(actions: Candidates | None, fleet: EpisodicFleet) -> tuple[Floats, bool]:
    """The actions as numbers, and whether features take the action as an input."""
    if fleet.action_count is not None:
        if actions is not None:
            raise ValueError(
                f"actions must be None where worlds have {fleet.action_count} actions, got {actions!r}"
            )
        count = len(fleet.actions(None)) if isinstance(fleet, GymFleet) else fleet.action_count
        return np.arange(float(count)), False
    if actions is None:
        raise ValueError("actions must be GridActions or RandomActions where actions are numbers, got None")
    if isinstance(fleet, GymFleet):
        if isinstance(actions, GridActions):
            return np.arange(float(len(fleet.actions(actions.count)))), False
        if fleet.action_bounds is None or fleet.action_space.dtype.kind in "iu":
            sort = "several numbers" if fleet.action_bounds is None else "a whole number"
            raise ValueError(f"actions must be GridActions where an action is {sort}, got {actions!r}")
    assert fleet.action_bounds is not None
    if isinstance(actions, GridActions):
        return actions.numbers(*fleet.action_bounds), False
    return np.zeros(actions.count), True


def _features(algo: "FedSARSA", fleet: EpisodicFleet, actions: int, joint: bool) -> BoxMap:
    """phi on the fleet's observations."""
    features: Any = algo.features
    low, high = fleet.bounds
    if isinstance(features, OneHot) and isinstance(fleet, GymFleet) and fleet.counts and not joint:
        return features.on_numbers(fleet.first_observation, fleet.counts, actions)
    if not isinstance(features, ContinuousFeatures):
        raise ValueError(
            f"features must be TileCoding, FourierBasis or RBF for continuous observations, got {features!r}"
        )
    if joint:
        assert fleet.action_bounds is not None
        low, high = (*low, fleet.action_bounds[0]), (*high, fleet.action_bounds[1])
    return box_map(features, low, high, actions, joint)


def check_records(problem: Problem, record_every: int) -> None:
    """Say so before central parameters fill the memory."""
    if problem.sync_every is None:
        return
    rounds = problem.steps // problem.sync_every
    needed = 8 * problem.runs * problem.features.dim * (rounds // record_every)
    if needed > MOST_RECORDED:
        raise ValueError(
            f"record_every must leave at most {MOST_RECORDED >> 30} GiB of records, got {needed >> 30} with "
            f"{record_every}; {max(1, rounds // KEPT)} would keep {KEPT} of {problem.features.dim} parameters"
        )
