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
    """Refuse a `largest_step` at which no parameter comes to rest."""
    if step >= OVERSHOOTS:
        raise ValueError(
            f"step_size must be small enough for a prediction, got {algo.step_size!r}: times the largest "
            f"squared norm of features it is {step:.3g}; from {OVERSHOOTS:g} on updates overshoot ever more"
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
    off = "and the prediction may be off by more than 10%"
    gaussian = (
        (
            skew,
            SKEWED,
            "temperatures by which Q-values vary x the variance's share of the error are",
            "parameters of a policy that varies with them are no Gaussian",
            "a temperature {ratio} times as high or a step size {square} times as small would bring it there",
        ),
        (
            bend,
            BENT,
            "the noise of the policy changes the curve by a factor of 1 +-",
            "it is averaged over a Gaussian around one mean",
            "a higher temperature, a smaller step size or more agents make it smaller",
        ),
    )
    for value, limit, what, so, change in (
        (
            slowness,
            SLOW,
            "step size x steps that the chain remembers is",
            "parameters move while the chain mixes",
            "a step size {ratio} times as small would bring it there",
        ),
        (
            step * variable,
            LARGE,
            "step size x squared features x the variance's share of the error is",
            "the variance is known to second order in the step size",
            "a step size {ratio} times as small would bring it there",
        ),
        *(() if confirmed else gaussian),
    ):
        if value > limit:
            # Noise goes with the root of the step size.
            then = change.format(ratio=f"{value / limit:.2g}", square=f"{(value / limit) ** 2:.2g}")
            yield f"{what} {value:.3g}, above {limit:g}: {so}, {off}; {then}"
    if problem.radius is not None and projected > PROJECTED and variable > VARIABLE:
        yield (
            f"the central parameter is projected on the ball of radius {problem.radius:g} with a probability "
            f"of up to {projected:.2g}, and noise makes up to {variable:.0%} of the error: projected "
            f"noise is taken for a Gaussian, {off}"
        )
    if reach > 1:
        yield (
            f"agents go up to {reach:.2g} clips in a round: what the server clips is not part of the "
            f"prediction, {off}"
        )
    if not settled:
        yield (
            "where training ends was not found: the floor and the point are those of the last parameters "
            "that were looked at, not of a root"
        )
    for world, one in worlds.items():  # states that are left for ever, as those of episodes that end
        states = len(one.states.chain)
        left = states - sum(len(kept) for kept in recurrent_classes(one.states.chain))
        if left:
            yield (
                f"{left} of {states} states are left for ever (world {world}): the theory speaks of "
                "recurrent states, and the floor leaves out what parameters keep from the others"
            )
            break
    if problem.step.redraw_actions:
        yield (
            "actions are drawn anew at every step: the prediction is of actions that are carried over, whose "
            "noise has the same size but other lags"
        )
