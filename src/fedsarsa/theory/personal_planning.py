"""How soon agents reach an error of their own: alone, in one federation, or with personal weights.

A mixture bears more noise than one agent does, so agents that mix may take larger steps: step size and
weights are chosen together. K plays no part in it. Agents that learn alone send their parameters once, when
they mix; and of federations the one that synchronises at every step needs the fewest samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import xarray as xr

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.servers.mixtures import mixture_errors, mixture_weights
from fedsarsa.theory.affine import strides
from fedsarsa.theory.learners import apart
from fedsarsa.theory.personal_mixtures import PersonalWeights, personal_weights
from fedsarsa.theory.planning import MOST_STEPS, candidate_steps
from fedsarsa.theory.planning_problem import LinearisedFederation, PlanningProblem, planning_problem
from fedsarsa.theory.prediction import noted
from fedsarsa.worlds.fleet import Fleet, as_fleet

WAYS = ("alone", "together", "personal")
# How many times as many steps as to first order the whole prediction is given to reach the target.
LATER = (1.0, 1.25, 1.6, 2.0)


@dataclass(frozen=True, eq=False)
class PersonalPlan:
    """A step size and weights with which every agent reaches a target error, and what else it could do.

    Attributes
    ----------
    target : float
        Mean squared distance to the agent's own fixed point to reach.
    step_size, steps : float, int
        One step size for all agents, and the steps T per agent after which the last of those who reach the
        target with personal weights is there.
    mixture : PersonalWeights
        Weights and predicted errors with them.
    table : xarray.Dataset over ``way`` (alone, together, personal) and ``agent``
        ``samples`` until the agent's error is at most the target (inf: never within the steps allowed), with
        the ``step_size`` at which that is soonest for this agent.
    """

    target: float
    step_size: float
    steps: int
    mixture: PersonalWeights
    table: xr.Dataset

    def __repr__(self) -> str:
        return (
            f"PersonalPlan(target {self.target:g}: step_size {self.step_size:g}, steps {self.steps}, largest "
            f"predicted error {self.mixture.personal.max():.4g})"
        )

    def __str__(self) -> str:
        reached = int((self.mixture.personal <= self.target).sum())
        lines = [
            f"To reach a mean squared error of {self.target:g} to the agent's own fixed point:",
            f"  step size           {self.step_size:g}",
            f"  steps T per agent   {self.steps}",
            f"  agents that do      {reached} of {len(self.mixture.personal)}",
            "",
            "  Samples to the target, each with its best step size:",
            "  agent       alone    together    personal",
        ]
        for agent, samples in enumerate(self.table["samples"].transpose("agent", "way").values):
            shown = " ".join(f"{'never' if np.isinf(one) else f'{one:.0f}':>11}" for one in samples)
            lines.append(f"  {agent:<5d} {shown}")
        lines += [f"\n  warning: {note}" for note in self.mixture.warnings]
        return "\n".join(lines)


@single_threaded
def personal_plan(
    fleet: Fleet,
    algo: FedSARSA,
    target: float,
    *,
    most_steps: int = MOST_STEPS,
    step_sizes: Sequence[float] | None = None,
    nonnegative: bool = True,
) -> PersonalPlan:
    """The step size and the weights with which agents reach a target error soonest, and what that saves.

    Settings are compared to first order, as in `plan`; the errors of the answer are those of
    `personal_weights`. Samples are exact to a sixteenth.

    Parameters
    ----------
    fleet : Fleet
    algo : FedSARSA
        Features, policy and weights of the server; its step size is what the plan chooses.
    target : float
        Mean of the squared distance to the agent's own fixed point to reach.
    most_steps : int
        The largest T allowed.
    step_sizes : sequence, optional
        Values to consider. Those at which predictions would warn of slow chains or large steps are left
        out unless they are given.
    nonnegative : bool
        Whether weights must be at least 0.

    Returns
    -------
    PersonalPlan

    Raises
    ------
    ValueError
        No agent reaches the target; the message names the least error that one does reach.

    Notes
    -----
    For every step size alpha and time t it compares, with the error |A_i w|^2 of `personal_weights`,

        the smallest t with min_w |A_i(alpha, t) w|^2 <= target

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet = fs.paper.fleet(3, 0.5, 0.5, states=10, actions=10)
    >>> answer = fs.theory.personal_plan(fleet, fs.FedSARSA(), target=2.0, step_sizes=[0.01, 0.02])
    >>> samples = answer.table["samples"]
    >>> bool((samples.sel(way="personal") <= samples.sel(way="alone")).all())
    True
    """
    fleet, algo = as_fleet(fleet), apart(algo)
    target = _checks.positive("target", target)
    most_steps = _checks.integer("most_steps", most_steps, least=1)
    start = np.zeros(algo.feature_map(fleet).dim)
    # Warnings are those of the answer, which keeps them.
    (problem, points, together), _ = noted(_first_order, fleet, algo, start)
    before = float((points**2).sum(axis=1).max())
    if before <= target:
        raise ValueError(f"target must be below the error before training, {before:.6g}, got {target:g}")
    sizes = candidate_steps(problem, step_sizes)
    found = [_samples(problem, together, size, target, most_steps, nonnegative) for size in sizes]
    samples = np.stack([samples for samples, _ in found])  # (step size, way, world)
    reached = np.isfinite(samples[:, -1])
    if not reached.any():
        least = min(least for _, least in found)
        raise ValueError(
            f"target must be at least {least:.4g}, the smallest error that an agent reaches within "
            f"{most_steps} steps, got {target:g}"
        )
    last = np.max(samples[:, -1], axis=1, where=reached, initial=0.0)
    counts = np.bincount(fleet.world_of, minlength=len(points))
    chosen = min(range(len(sizes)), key=lambda place: (-(reached[place] @ counts), last[place]))
    setting = replace(algo, step_size=sizes[chosen])
    wanted = int(reached[chosen] @ counts)
    for later in LATER:
        steps = min(int(later * last[chosen]), most_steps)
        mixture, _ = noted(partial(personal_weights, nonnegative=nonnegative), fleet, setting, steps)
        if (mixture.personal <= target).sum() >= wanted:
            break
    else:
        raise ValueError(
            f"target must be further from the least error reachable: {target:g} is reached to first order by "
            f"{wanted} of the agents after {last[chosen]:.0f} steps, but not as predicted in full"
        )
    fewest = samples.argmin(axis=0)
    over = ("way", "agent")
    table = xr.Dataset(
        {
            "samples": (over, samples.min(axis=0)[:, fleet.world_of]),
            "step_size": (over, np.asarray(sizes)[fewest][:, fleet.world_of]),
        },
        {"way": list(WAYS), "agent": np.arange(len(fleet))},
    )
    return PersonalPlan(target, sizes[chosen], mixture.steps, mixture, table)


def _first_order(
    fleet: Fleet, algo: FedSARSA, start: Floats
) -> tuple[PlanningProblem, Floats, LinearisedFederation]:
    """What settings are compared with, every world's fixed point (W, d), and all agents together."""
    problem = planning_problem(fleet, algo, start)
    return problem, problem.own_points, problem.linearised(len(fleet))


def _samples(
    problem: PlanningProblem,
    together: LinearisedFederation,
    step_size: float,
    target: float,
    most_steps: int,
    nonnegative: bool,
) -> tuple[Floats, float]:
    """Samples until every world's error is at most the target, (3, W), inf where never; the least one met."""
    points = problem.own_points
    count = np.bincount(problem.fleet.world_of, minlength=len(points))
    samples, least = np.full((len(WAYS), len(points)), np.inf), np.inf
    alone = problem.alone()
    central = strides(together.round(step_size, 1), problem.start, most_steps)
    for done, means, spreads in strides(alone.step(step_size), problem.start, most_steps):
        variances = np.trace(spreads, axis1=1, axis2=2)
        own = ((means - points) ** 2).sum(axis=1) + variances
        _, mean, spread = next(central, (done, np.full_like(means[0], np.inf), spreads[0]))
        federated = ((mean - points) ** 2).sum(axis=1) + np.trace(spread)
        personal = np.full(len(points), np.inf)
        for world in np.flatnonzero(np.isinf(samples[-1])):
            weights = mixture_weights(means, points[world], variances / count, nonnegative)
            personal[world] = mixture_errors(weights, means, points[world], variances / count)
        least = min(least, float(personal.min()))
        for place, errors in enumerate((own, federated, personal)):
            samples[place, np.isinf(samples[place]) & (errors <= target)] = done
        if np.isfinite(samples).all():
            break
    return samples, least
