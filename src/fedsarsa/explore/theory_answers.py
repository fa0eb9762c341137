"""What theory says of a federation's settings, one part after the other, the quickest first."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedsarsa import theory
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.experiments.config import Config, finite
from fedsarsa.experiments.method_sections import ours
from fedsarsa.experiments.references import settles_elsewhere
from fedsarsa.explore.measurements import RECORDS
from fedsarsa.federation.servers import Personal
from fedsarsa.worlds.fleet import Fleet


@dataclass(frozen=True, eq=False)
class Predicted:
    """The error curve to expect, (t,), where it ends, and why it may be off."""

    mse: xr.DataArray
    bias: float
    floor: float
    warnings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Points:
    """Where parameters settle: every agent's (N, d), the federation's (d,), and the central MDP's (d,)."""

    own: Floats
    federated: Floats
    central: Floats


@dataclass(frozen=True, eq=False)
class Gains:
    """Predicted squared distance to the agent's own point after training, (N,)."""

    alone: Floats
    together: Floats


@dataclass(frozen=True, eq=False)
class ByNumber:
    """Agent 0's predicted error after training, by the number of agents that federate."""

    agents: list[int]
    error: list[float]


@dataclass(frozen=True)
class Unknown:
    """Theory has no answer for this ``part``, and says why."""

    part: type
    why: str


Answer = Predicted | Points | Gains | ByNumber | Unknown


def answers(config: Config, folder: Path = Path()) -> Iterator[Answer]:
    """`Predicted`, `Points`, `Gains` and `ByNumber`; `Unknown` in the place of what theory cannot say."""
    worlds, built = config.build(folder)
    fleet, steps = finite(worlds), config.training.steps
    try:
        algo = ours(built, "theory")
    except ValueError as error:
        yield Unknown(Predicted, str(error))
        return
    parts: list[tuple[type, Callable[[], Any]]] = [
        (Predicted, partial(predicted, fleet, algo, steps)),
        (Points, partial(points, fleet, algo)),
        (Gains, partial(gains, fleet, algo, steps)),
        (ByNumber, partial(by_number, fleet, algo, steps)),
    ]
    for part, compute in parts:
        try:
            with warnings.catch_warnings(action="ignore"):  # predictions carry their own
                yield compute()
        except ValueError as error:
            yield Unknown(part, " ".join([str(error), *getattr(error, "__notes__", [])]))


def predicted(fleet: Fleet, algo: FedSARSA, steps: int) -> Predicted:
    """The predicted curve, at no more points than a trained one has."""
    found = theory.predict(fleet, algo, steps)
    stride = max(1, (len(found.mse) - 1) // RECORDS)
    places = np.unique([*range(0, len(found.mse), stride), len(found.mse) - 1])
    return Predicted(found.mse.isel(t=places), found.bias, found.floor, found.warnings)


def points(fleet: Fleet, algo: FedSARSA) -> Points:
    """The fixed points of the agents, of the federation and of the central MDP.

    Raises
    ------
    ValueError
        Agents settle elsewhere: they follow another path than SARSA's own.
    """
    if settles_elsewhere(algo):
        raise ValueError(
            "where agents settle is known for the sampled and the expected target, without traces and "
            f"without behaviour of their own, got target {algo.target!r}, trace_decay {algo.trace_decay:g}, "
            f"behaviour {algo.behaviour!r}"
        )
    each = np.stack([theory.fixed_point(world, algo.features, algo.policy) for world in fleet.worlds])
    return Points(
        each[fleet.world_of],
        theory.federated_point(fleet, algo.features, algo.policy, algo.weights),
        theory.fixed_point(fleet.central(), algo.features, algo.policy),
    )


def gains(fleet: Fleet, algo: FedSARSA, steps: int) -> Gains:
    """Predicted errors to agents' own points, alone and together; by mixtures, if they are the rule."""
    found, rule = theory.personal_weights(fleet, algo, steps), algo.rule
    if not isinstance(rule, Personal):
        return Gains(found.alone, found.together)
    return Gains(found.alone, found.personal if rule.weights is None else found.error(rule.weights))


def by_number(fleet: Fleet, algo: FedSARSA, steps: int) -> ByNumber:
    """Agent 0's predicted error when the first 1, 2, 3, 5, 8, ... agents federate."""
    counts = [n for n in (1, 2, 3, 5, 8, 13, 20, 40, 80) if n < len(fleet)] + [len(fleet)]
    point = theory.fixed_point(fleet[0], algo.features, algo.policy)
    errors = [float(theory.predict(fleet[:n], algo, steps, point).mse[-1]) for n in counts]
    return ByNumber(counts, errors)


def plane(points: Points, finals: Floats) -> tuple[Points, Floats]:
    """Points and final parameters (run, d) in two dimensions: those in which the points differ most.

    Axes point to where the component that differs most grows: similar settings have similar pictures.
    """
    every = np.vstack([points.own, points.federated, points.central])
    middle = every.mean(axis=0)
    axes = np.linalg.svd(every - middle, full_matrices=False)[2][:2]
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    axes = axes * np.sign(largest)[:, None]
    if len(axes) < 2:
        axes = np.vstack([axes, np.zeros((2 - len(axes), every.shape[1]))])

    def seen(where: Floats) -> Floats:
        return np.asarray((where - middle) @ axes.T)

    flat = Points(seen(points.own), seen(points.federated), seen(points.central))
    return flat, seen(finals)
