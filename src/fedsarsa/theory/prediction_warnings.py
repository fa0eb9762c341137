"""Why a prediction may be off: how far its assumptions are stretched, and where that gets a warning."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.federation.problem import Problem
from fedsarsa.theory.federation_model import FederationModel
from fedsarsa.theory.linearisation import Linearisation
from fedsarsa.theory.stationary import recurrent_classes

# Limits beyond which a prediction carries a warning. Tests and `fedsarsa bench` measure what they are worth.
# Step size x steps that the chain remembers: semi-gradients then keep a slope of their own for so long that
# orders beyond the second count.
SLOW = 0.2
# Step size x squared norm of features x the variance's share of the error: the variance is of second order.
LARGE, OVERSHOOTS = 0.1, 2.0
# Relative change of the curve by averaging worlds over noise, or by trainings that it leads to other roots;
# standard deviation of a Q-value in temperatures x the variance's share of the error then: a Gaussian is too
# simple for that.
BENT, SKEWED = 0.13, 0.6
# Probability of a projection in a round, and the variance's share: projected noise is no Gaussian.
PROJECTED, VARIABLE = 0.01, 0.1


def slowness(problem: Problem, model: FederationModel, worlds: Mapping[int, Linearisation]) -> float:
    """Largest step size times steps that the chain remembers, of any agent."""
    remembered = [worlds[w].states.relaxation - 1 for w in model.groups.world.tolist()]
    return float((_largest(problem)[model.groups.schedule] * remembered).max())


def largest_step(problem: Problem, model: FederationModel) -> float:
    """Largest step size times the largest squared norm of features."""
    return float(_largest(problem).max() * (model.classes.phi**2).sum(axis=2).max())


def _largest(problem: Problem) -> Floats:
    """The largest step size of every schedule."""
    return np.array([schedule.at(np.arange(problem.steps)).max() for schedule in problem.schedules])


def check_step(algo: FedSARSA, step: float) -> None:
    """Reject a `largest_step` at which no parameter comes to rest."""
    if step >= OVERSHOOTS:
        raise ValueError(
            f"step_size must be small enough for a prediction, got {algo.step_size!r}: times the largest "
            f"squared norm of features it is {step:.3g}; from {OVERSHOOTS:g} on, updates overshoot ever more"
        )


def largest_share(parts: Iterable[float], totals: Iterable[float]) -> float:
    """The largest of parts / totals, nothing being no part of nothing."""
    return max(part / total if total > 0 else 0.0 for part, total in zip(parts, totals, strict=True))


def notes(
    problem: Problem,
    worlds: Mapping[int, Linearisation],
    *,
    slowness: float,
    step: float,
    variable: float,
    skew: float,
    bend: float,
    projected: float,
    confirmed: bool = False,
    settled: bool = True,
    reach: float = 0.0,
) -> Iterator[str]:
    """A sentence for every reason why the prediction may be off.

    ``step`` is the `largest_step`, ``variable`` the largest share of the error that is variance, ``reach``
    how far agents go in a round, in clips of a private mean; the others are those of ``PredictedMoments``.
    """
    off = "may be off by more than 10%"
    gaussian = (
        (
            skew,
            SKEWED,
            "noise moves Q-values too far for this temperature",
            "the Gaussian approximation",
            "Raise the temperature {ratio} times or reduce the step size {square} times.",
        ),
        (
            bend,
            BENT,
            "noise in the policy changes the curve too much",
            "the Gaussian approximation",
            "Raise the temperature, reduce the step size or add agents.",
        ),
    )
    for value, limit, what, doubtful, change in (
        (
            slowness,
            SLOW,
            "parameters move while the chain still mixes: step size times mixing steps is too large",
            "the prediction",
            "Reduce the step size {ratio} times.",
        ),
        (
            step * variable,
            LARGE,
            "step size times squared features times the variance's share of the error is too large",
            "the variance, which is computed to second order in the step size,",
            "Reduce the step size {ratio} times.",
        ),
        *(() if confirmed else gaussian),
    ):
        if value > limit:
            # Noise goes with the root of the step size.
            advice = change.format(ratio=f"{value / limit:.2g}", square=f"{(value / limit) ** 2:.2g}")
            then = advice if np.isfinite(value) else "No step size is small enough."
            yield f"{what} ({value:.3g}, limit {limit:g}), so {doubtful} {off}. {then}"
    if problem.radius is not None and projected > PROJECTED and variable > VARIABLE:
        yield (
            f"the central parameter is projected onto the ball of radius {problem.radius:g} with a "
            f"probability of up to {projected:.2g}, and noise makes up to {variable:.0%} of the error, so "
            f"the Gaussian approximation {off}. Choose a larger radius or reduce the step size."
        )
    if reach > 1:
        yield (
            f"agents move by up to {reach:.2g} clips in a round, but the prediction leaves out clipping, so "
            f"it {off}. Raise clip or reduce the step size."
        )
    if not settled:
        yield (
            "the mean path does not converge: floor and point are those of its last parameter, not of a root"
        )
    for world, one in worlds.items():  # states that are left for ever, as those of episodes that end
        states = len(one.states.chain)
        left = states - sum(len(kept) for kept in recurrent_classes(one.states.chain))
        if left:
            yield (
                f"{left} of {states} states are left for ever (world {world}): the theory covers "
                "recurrent states, so the floor leaves out what parameters keep from the others"
            )
            break
    if problem.step.redraw_actions:
        yield (
            "actions are drawn anew at every step, but the prediction is for actions that are carried over: "
            "their noise has the same size and other lags"
        )
