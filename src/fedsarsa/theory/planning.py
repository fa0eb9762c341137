"""What to train with: N, K and step size for a target error, and whether federating helps each agent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from fedsarsa import _checks
from fedsarsa._blas import single_threaded
from fedsarsa.algorithm import FedSARSA, plain
from fedsarsa.theory.planning_problem import (
    PlanningProblem,
    choices,
    fastest_settings,
    planning_problem,
    verdicts,
)
from fedsarsa.theory.prediction import noted, predict
from fedsarsa.theory.return_gaps import error_for_gap
from fedsarsa.worlds.fleet import Fleet, as_fleet

MOST_STEPS = 1_000_000
PERIODS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
STEP_SIZES = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SLACK = 0.1
TRIES = 8  # settings, best first, that are predicted in full before slower ones are looked at
MOST_TRIES = 24  # settings after which no slower ones are looked at
LATER = 4  # how many times as many steps as to first order a setting is given
UNSEEN = (
    "noise moves the policies, and following single trainings to the target would take too long: some may "
    "learn late, and the mean error may then be above the target"
)
MARGIN = 0.05  # share by which the predicted error should be below the target, as predictions are not exact


@dataclass(frozen=True, eq=False)
class Plan:
    """A setting that reaches a target error, and what federating is worth to each agent.

    Attributes
    ----------
    agents, sync_every, step_size : int, int, float
        N (the first agents of the fleet), K, and a constant step size.
    steps, rounds, uploads : int
        Steps T per agent, synchronisations, and parameters sent by all agents together.
    error : float
        The predicted error after ``steps``, at most ``target``. Where noise moves policies by much, it is the
        mean error of particles that follow single trainings, if that is larger.
    gap : float or None
        The mean return gap for which ``target`` is the error that is allowed, if one was given.
    warnings : tuple of str
        Why the prediction of this setting may be off; empty when all is well.
    choices : xarray.Dataset over ``agents`` and ``step_size``
        ``steps`` until the target (inf: never) and ``least_error`` within the steps allowed, when agents
        synchronise at every step; ``bias`` by ``agents``, below which no step size leads.
    verdicts : xarray.Dataset over ``agent``
        Per agent of the whole fleet, errors measured to its own fixed point after ``steps`` of its samples:
        ``federated`` (all agents, ``sync_every``) and ``alone``, each with its best step size; ``helps``; and
        ``switch_error``, ``switch_steps``: the error and sample count beyond which training alone is better,
        and it should personalise (inf and 0: from the start; 0 and inf: not within the steps allowed).
    """

    target: float
    agents: int
    sync_every: int
    step_size: float
    steps: int
    error: float
    warnings: tuple[str, ...]
    choices: xr.Dataset
    verdicts: xr.Dataset
    gap: float | None = None

    @property
    def rounds(self) -> int:
        """Synchronisations."""
        return self.steps // self.sync_every

    @property
    def uploads(self) -> int:
        """Parameters sent by all agents together; none by an agent that is alone."""
        return self.agents * self.rounds if self.agents > 1 else 0

    def __repr__(self) -> str:
        return (
            f"Plan(target {self.target:g}: agents {self.agents}, sync_every {self.sync_every}, "
            f"step_size {self.step_size:g}, steps {self.steps}, predicted error {self.error:.4g})"
        )

    def __str__(self) -> str:
        lines = [
            f"To reach a mean squared error of {self.target:.4g}"
            + ("" if self.gap is None else f", at which greedy returns are {self.gap:g} below the optimum")
            + ":",
            f"  agents N            {self.agents}",
            f"  local steps K       {self.sync_every}",
            f"  step size           {self.step_size:g}",
            f"  steps T per agent   {self.steps}",
            f"  rounds, uploads     {self.rounds}, {self.uploads}",
            f"  predicted error     {self.error:.4g}",
            "",
            "  N       steps to target   least error        bias",
        ]
        for row in self.choices.min("step_size").to_dataframe().itertuples():
            steps, least = "never" if np.isinf(row.steps) else f"about {row.steps:.0f}", row.least_error
            chosen = row.Index == self.agents
            if chosen:  # predicted in full, with its K; the others to first order, with K = 1
                steps, least = f"{self.steps}", min(least, self.error)
            mark = "   this plan" if chosen else ""
            lines.append(f"  {row.Index:<7d} {steps:>15}   {least:11.4g} {row.bias:11.4g}{mark}")
        lines += ["", f"  After {self.steps} samples each, errors to the agent's own fixed point:"]
        lines.append("  agent   federated       alone   verdict")
        for row in self.verdicts.to_dataframe().itertuples():
            only = self.verdicts.sizes["agent"] == 1
            words = "learns alone, as the only agent" if only else _verdict(row, self.steps)
            lines.append(f"  {row.Index:<5d} {row.federated:11.4g} {row.alone:11.4g}   {words}")
        lines += [f"\n  warning: {note}" for note in self.warnings]
        return "\n".join(lines)


@single_threaded
def plan(
    fleet: Fleet,
    algo: FedSARSA,
    target: float | None = None,
    *,
    gap: float | None = None,
    reference: ArrayLike | None = None,
    most_steps: int = MOST_STEPS,
    agents: Sequence[int] | None = None,
    periods: Sequence[int] = PERIODS,
    step_sizes: Sequence[float] | None = None,
    slack: float = SLACK,
) -> Plan:
    """The N, K and step size that reach a target error: smallest T first, then least communication.

    Among the settings whose T is within ``slack`` of the smallest, the one with the fewest uploads N T / K is
    taken. Settings are compared to first order; T and the error of the answer are those of `predict`, with
    its warnings. Settings whose prediction has none are preferred. Where noise moves policies by much, a few
    trainings learn late, and T is when particles that follow single trainings reach the target, too.

    Parameters
    ----------
    fleet : Fleet
        The agents' worlds.
    algo : FedSARSA
        Features, policy and weights; its step size and K are what the plan chooses.
    target : float, optional
        Mean of ||theta-bar_T - reference||^2 to reach.
    gap : float, optional
        Return gap to reach, instead of a target: how far the agents' mean discounted return may be below
        their optimum, when they act greedily by the central parameter. It is turned into the error that costs
        as much when parameters are as likely off in every direction.
    reference : (d,), optional
        Agent 0's fixed point unless given.
    most_steps : int
        The largest T allowed.
    agents : sequence of int, optional
        Values of N to consider, the first agents of the fleet: 1, 2, 5, 10, ... and all of them unless given.
    periods, step_sizes : sequences, optional
        Values of K and of the step size to consider. Step sizes at which predictions would warn of slow
        chains or large steps are left out unless they are given.
    slack : float
        Share by which T may exceed the smallest.

    Returns
    -------
    Plan
        The setting, what was compared, and what federating is worth to each agent.

    Raises
    ------
    ValueError
        No setting reaches the target or the gap; the message names the least that one does reach.

    Notes
    -----
    Over the settings (N, K, alpha), with the error that `predict` gives after T steps,

        minimise T subject to E||theta-bar_T - reference||^2 <= target, then N T / K

    Examples
    --------
    >>> import fedsarsa as fs
    >>> fleet, algo = fs.paper.fleet(4, 0.1, 0.1, states=10, actions=10), fs.FedSARSA()
    >>> answer = fs.theory.plan(fleet, algo, 2.0, agents=[1, 4], periods=[1, 10], step_sizes=[0.01, 0.02])
    >>> answer.error <= 2.0
    True
    """
    fleet, algo = as_fleet(fleet), plain(algo)
    if (target is None) == (gap is None):
        raise ValueError(f"expected either target or gap, got {target!r} and {gap!r}")
    most_steps = _checks.integer("most_steps", most_steps, least=1)
    if _checks.number("slack", slack) < 0:
        raise ValueError(f"slack must be at least 0, got {slack!r}")
    counts = _counts(len(fleet)) if agents is None else _listed("agents", agents, len(fleet))
    periods = _listed("periods", periods, most_steps)
    dim = algo.feature_map(fleet).dim
    given = None if reference is None else _checks.vector("reference", reference, dim)
    problem, said = noted(planning_problem, fleet, algo, given)
    before = float(((problem.start - problem.reference) ** 2).sum())
    if gap is not None:
        gap = _checks.positive("gap", gap)
        target = error_for_gap(fleet, algo, problem.reference, gap, before)
    target = _checks.positive("target", target)
    if before <= target:
        raise ValueError(f"target must be below the error before training, {before:.6g}, got {target:g}")
    sizes = candidate_steps(problem, step_sizes)
    federations = problem.federations(counts)
    table = choices(problem, federations, sizes, target, most_steps)
    search = _Search(problem, target, most_steps)
    while search.answer is None:
        # Settings that reach the target fastest to first order; slower ones where none does in full.
        settings = fastest_settings(problem, federations, table, periods, target, slack, search.tried)
        if not settings and not (1 + slack) * float(table["steps"].min()) < most_steps:
            # To first order no other setting does: the way there may be longer or shorter than that.
            settings = [(n, min(periods), alpha, 0) for n in federations for alpha in sizes]
            settings = [one for one in settings if one[:3] not in search.tried]
            if not settings:
                break
        search.look_at(settings)
        if search.sound or len(search.tried) >= MOST_TRIES:
            break
        slack = 2 * slack + 1
    if search.answer is None and search.fallback is None:
        search.look_at_all(
            [(n, min(periods), alpha, 0) for n in reversed(federations) for alpha in sorted(sizes)[::-1]]
        )
    best = search.answer or search.fallback
    if best is not None:
        best = best._replace(warnings=(*said, *best.warnings))
        worth = verdicts(problem, best.sync_every, sizes, best.steps, most_steps)
        return Plan(target, *best[:-1], table, worth, gap)
    least = table["least_error"].min("step_size").clip(max=before)
    best_row = int(np.argmin(least.values))
    must, got = "target must be", f"{target:g}"
    if gap is not None:
        must, got = "gap must allow an error that is", f"{gap:g}, which allows {target:.4g}"
    if float(least[best_row]) <= target:
        raise ValueError(
            f"{must} further from the least reachable: {target:.4g} is reached to first order, "
            f"but by none of the {len(search.tried)} settings that were predicted in full, got {got}"
        )
    raise ValueError(
        f"{must} at least {float(least[best_row]):.4g}, the smallest error reachable within "
        f"{most_steps} steps (by {int(least.agents[best_row])} of the agents), got {got}"
    )


class _Setting(NamedTuple):
    """A setting that reaches the target, by its prediction."""

    agents: int
    sync_every: int
    step_size: float
    steps: int
    error: float
    warnings: tuple[str, ...]
    stirred: bool  # whether noise moves policies


class _Search:
    """Settings predicted in full: the first that keeps its promise without a warning, or else the fastest."""

    def __init__(self, problem: PlanningProblem, target: float, most_steps: int) -> None:
        self.problem, self.target, self.most_steps = problem, target, most_steps
        self.tried: set[tuple[int, int, float]] = set()
        self.answer: _Setting | None = None
        self.fallback: _Setting | None = None

    @property
    def sound(self) -> bool:
        """Whether a setting reaches the target without a warning, if later than to first order."""
        return self.fallback is not None and not self.fallback.warnings

    def look_at_all(self, settings: Sequence[tuple[int, int, float, int]]) -> None:
        """Predict settings for as long as they may take, until one reaches the target without a warning."""
        for one in settings:
            if not self.sound:
                self.look_at([one])

    def look_at(self, settings: Sequence[tuple[int, int, float, int]]) -> None:
        """Predict settings (N, K, step size, steps to first order) until one is the answer, a few at most."""
        for agents, period, alpha, steps in settings[:TRIES]:
            self.tried.add((agents, period, alpha))
            most = min(LATER * steps or self.most_steps, self.most_steps) // period * period
            found = self._predicted(agents, period, alpha, most)
            if found is not None and found.stirred and (not found.warnings or self._better(found)):
                found = self._with_stragglers(found, most)
            if found is None:
                continue
            if not found.warnings and found.steps <= max(2 * steps, period):
                self.answer = found
                return
            if self._better(found):
                self.fallback = found

    def _better(self, found: _Setting) -> bool:
        """Whether a setting is the best so far."""
        best = self.fallback
        return best is None or (bool(found.warnings), found.steps) < (bool(best.warnings), best.steps)

    def _predicted(self, agents: int, period: int, alpha: float, most_steps: int) -> _Setting | None:
        """A setting and when it reaches the target; None where it does not, or has no prediction."""
        problem = self.problem
        steps, errors = problem.curve(agents, period, alpha, most_steps)
        goal = (1 - MARGIN) * self.target
        goal = goal if (errors <= goal).any() else self.target
        if not (errors <= goal).any():
            return None
        horizon = int(steps[np.argmax(errors <= goal)]) // -period * -period
        with warnings.catch_warnings(action="ignore"):  # they are the setting's own
            try:
                prediction = predict(
                    problem.fleet[:agents], problem.setting(agents, period, alpha), horizon, problem.reference
                )
            except ValueError:  # it diverges
                return None
        reached = np.flatnonzero(prediction.mse.values <= goal)
        place = int(reached[0]) if len(reached) else len(prediction.mse) - 1
        error = float(prediction.mse[place])
        if error > self.target:
            return None
        return _Setting(
            agents, period, alpha, place * period, error, prediction.warnings, prediction.bend > 0
        )

    def _with_stragglers(self, found: _Setting, most_steps: int) -> _Setting | None:
        """The setting, trained until particles reach the target, too; None where they do not.

        Where noise moves policies, a few trainings learn late. They hardly change the mean and the variance
        of a Gaussian, but while the error falls the mean error is largely theirs.
        """
        steps = 0
        setting = found.agents, found.sync_every, found.step_size
        for steps, error in self.problem.particle_errors(*setting, most_steps):
            if steps >= found.steps and error <= self.target:
                return found._replace(steps=steps, error=max(error, found.error))
        return None if steps == most_steps else found._replace(warnings=(*found.warnings, UNSEEN))


def candidate_steps(problem: PlanningProblem, given: Sequence[float] | None) -> list[float]:
    """Step sizes to consider: those given, or those at which predictions need not warn."""
    if given is not None:
        return [_checks.positive("step_sizes", alpha) for alpha in _sequence("step_sizes", given)]
    largest = problem.largest_step()
    return [alpha for alpha in STEP_SIZES if alpha <= largest] or [STEP_SIZES[0]]


def _counts(agents: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... below ``agents``, and ``agents``."""
    series = (digit * 10**power for power in range(len(str(agents))) for digit in (1, 2, 5))
    return [*(n for n in series if n < agents), agents]


def _sequence(name: str, values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple, range, np.ndarray)) or len(values) == 0:
        raise TypeError(f"{name} must be a list with at least one value, got {values!r}")
    return list(values)


def _listed(name: str, values: Any, most: int) -> list[int]:
    """Whole numbers from 1 to ``most``; larger ones are an error that names them."""
    numbers = [_checks.integer(name, value, least=1) for value in _sequence(name, values)]
    if min(numbers) > most or (name == "agents" and max(numbers) > most):
        raise ValueError(f"{name} must be at most {most}, got {max(numbers)}")
    return numbers


def _verdict(row: Any, steps: int) -> str:
    """A verdict in words, from a row of the table, for an agent that stands at ``steps`` samples."""
    known = 0 < row.switch_steps < np.inf
    until = f"{row.switch_steps:.0f} samples (error {row.switch_error:.3g})" if known else ""
    if row.helps:
        later = known and row.switch_steps > steps
        return (
            f"gains by federating up to {until}, then should train alone" if later else "gains by federating"
        )
    if known and row.switch_steps <= steps:
        return f"gained up to {until}; its own data are better now"
    return "is better off alone"
