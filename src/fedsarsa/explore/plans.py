"""A plan beside its training: what reaches a target error, and whether it did."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import xarray as xr

from fedsarsa import theory
from fedsarsa.experiments.config import Config, finite
from fedsarsa.experiments.method_sections import ours
from fedsarsa.explore.control_values import Values
from fedsarsa.theory.planning import Plan


@dataclass(frozen=True, eq=False)
class Planned:
    """The N, K, step size and steps that reach a target, what they cost, and what was compared.

    Attributes
    ----------
    choices : xarray.Dataset over ``agents``
        ``steps`` to the target (inf: never), ``least_error`` and ``bias``, each with its best step size.
    helps : int
        How many agents of the whole fleet gain by federating.
    """

    target: float
    agents: int
    sync_every: int
    step_size: float
    steps: int
    rounds: int
    uploads: int
    error: float
    warnings: tuple[str, ...]
    choices: xr.Dataset
    helps: int
    fleet: int

    @property
    def samples(self) -> int:
        """Steps of all agents together."""
        return self.agents * self.steps

    def values(self) -> Values:
        """The values of controls that train this plan."""
        return {
            "fleet.agents": self.agents,
            "algorithm.sync_every": self.sync_every,
            "algorithm.step_size.kind": "constant",
            "algorithm.step_size.value": self.step_size,
            "training.steps": self.steps,
        }

    def sentence(self) -> str:
        """The plan in words."""
        many = {name: f"{getattr(self, name):,}".replace(",", " ") for name in ("steps", "samples", "rounds")}
        messages = f"{self.uploads:,} messages to the server in {many['rounds']} rounds".replace(",", " ")
        if not self.uploads:
            messages = "no messages, as one agent needs no server"
        return (
            f"To reach an error of {self.target:g}, train {self.agents} of {self.fleet} agents with K = "
            f"{self.sync_every} and step size {self.step_size:g} for {many['steps']} steps each: that is "
            f"{many['samples']} samples and {messages}. Theory "
            f"predicts an error of {self.error:.3g} then. If all {self.fleet} agents federated for as many "
            f"steps, {self.helps or 'none'} of them would gain by it."
        )

    def verdict(self, error: float, low: float, high: float) -> str:
        """What training led to, with its 95% interval, beside the target."""
        if low > self.target:
            which = "the target is missed"
        elif high <= self.target:
            which = "the target is reached"
        else:
            which = "the interval reaches from one side of the target to the other"
        return f"Trained: {error:.3g} (95%: {low:.3g} to {high:.3g}); {which}."


def planned(plan: Plan, fleet: int) -> Planned:
    """A plan in the numbers that are shown."""
    return Planned(
        target=plan.target,
        agents=plan.agents,
        sync_every=plan.sync_every,
        step_size=plan.step_size,
        steps=plan.steps,
        rounds=plan.rounds,
        uploads=plan.uploads,
        error=plan.error,
        warnings=plan.warnings,
        choices=plan.choices.min("step_size"),
        helps=int(plan.verdicts["helps"].sum()),
        fleet=fleet,
    )


def plan(config: Config, folder: Path, target: float) -> Iterator[Planned]:
    """Plan for a target error; in a process of its own, as it may take long.

    Raises
    ------
    ValueError
        No setting reaches the target, or theory does not cover these settings.
    """
    fleet, built = config.build(folder)
    with warnings.catch_warnings(action="ignore"):  # the plan has them
        yield planned(theory.plan(finite(fleet), ours(built, "a plan"), target), len(finite(fleet)))
