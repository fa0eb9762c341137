"""How a round ends: what is recorded of it, and the start that the server rule makes of it."""

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.participation import Present, noise, sent, taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import Context
from fedsarsa.federation.servers.mean import among, average
from fedsarsa.federation.state import (
    RUNNING,
    State,
    Synchronisations,
    begin_mixing,
)


def mean_of(problem: Problem, state: State, t: int, present: Present = None) -> tuple[Floats, Floats]:
    """The weights of the agents who take part in the round of step ``t``, and the mean (R, d) of theirs.

    If no agent takes part, the mean is the server's parameter.
    """
    present = taking_part(problem, round_of(problem, t), present)
    weights = among(problem.weights, present)
    mean = average(weights, state.theta)
    return weights, np.where(weights.any(axis=-1, keepdims=True), mean, state.central)


def round_of(problem: Problem, t: int) -> int:
    """When the round of step ``t`` began."""
    return 0 if problem.sync_every is None else t - t % problem.sync_every


def gather(problem: Problem, state: State, t: int, present: Present = None) -> None:
    """Add the mean of the agents' parameters before step ``t`` to the sum for theta-tilde."""
    if problem.average_offset is not None:
        state.weighted_sum += (problem.average_offset + t) * mean_of(problem, state, t, present)[1]


def synchronise(problem: Problem, state: State, t: int, present: Present = None) -> Floats:
    """End the round of which step ``t`` was the last, in place, as `end_round` does.

    Return the client drift (R,) before it, the weighted mean of ||theta_i - mean||^2; NaN of failed runs.
    """
    drift = drift_of(problem, state, t, present)
    end_round(problem, state, round_of(problem, t), t + 1, state.central, present)
    return np.where(state.failed_at == RUNNING, drift, np.nan)


def drift_of(problem: Problem, state: State, t: int, present: Present = None) -> Floats:
    """The weighted mean (R,) of ||theta_i - mean||^2 after step ``t``, over those who take part."""
    weights, mean = mean_of(problem, state, t, present)
    drift: Floats = (weights * np.sum((state.theta - mean[:, None]) ** 2, axis=2)).sum(axis=1)
    return drift


def recorded(problem: Problem, central: list[Floats], drift: list[Floats]) -> Synchronisations:
    """What was seen at m synchronisations: central parameters (R, d) and drifts (R,)."""
    shape = (len(central), problem.runs)
    return Synchronisations(
        central=np.reshape(central, (*shape, problem.features.dim)).swapaxes(0, 1),
        drift=np.reshape(drift, shape).swapaxes(0, 1),
    )


@np.errstate(over="ignore", invalid="ignore")  # what overflows is reported as failed
def end_round(
    problem: Problem, state: State, begun: int, end: int, before: Floats, present: Present = None
) -> None:
    """Let the server rule end the round of steps ``begun`` to ``end`` - 1, in place.

    ``before`` (R, d) are the server's parameters before it. Runs that have failed are left out, and runs
    whose start is not finite fail.
    """
    server, learning = problem.server, state.failed_at == RUNNING
    runs = slice(None) if learning.all() else np.flatnonzero(learning)  # views, if possible
    if not learning.any():
        return
    before = (state.starts if server.personal else before)[runs]
    present = taking_part(problem, begun, present)
    context = Context(
        t=begun,
        steps=end - begun,
        step_sums=problem.step_sums(begun, end),
        left=state.left[runs],
        shift=state.shift[runs],
        memory={name: array[runs] for name, array in state.memory.items()},
        noise=noise(problem, begun, np.flatnonzero(learning)),
        present=None if present is None else present[runs],
    )
    start = np.asarray(server.combine(before, sent(problem, before, state.theta[runs]), context))
    if start.shape != before.shape:
        raise ValueError(f"server: {server!r} must combine to the shape {before.shape}, got {start.shape}")
    for name, array in context.memory.items():
        state.memory[name][runs] = array
    state.shift[runs] = context.shift
    state.left[:] = 0.0
    if server.personal:
        state.starts[runs] = state.theta[runs] = start
        begin_mixing(problem, state)
        state.central[runs] = average(problem.weights, start)
    else:
        state.central[runs] = start
        state.theta[runs] = start[:, None]
    moving = np.concatenate([state.theta, state.shift], axis=2)
    fail(state, unsound(moving), end - 1)


def is_over(problem: Problem, state: State) -> bool:
    """Whether every agent of every run has stopped, and the round in which the last one did has ended."""
    if state.episodes is None or (state.episodes.stopped_at == RUNNING).any():
        return False
    return state.t == round_of(problem, state.t) or problem.sync_every is None


def open_round(problem: Problem, state: State, directions: Floats) -> None:
    """Let the server rule make the shift of the round that begins, in place, of directions (R, N, d)."""
    learning = state.failed_at == RUNNING
    state.shift[learning] = problem.server.opening(directions[learning])


def unsound(parameters: Floats) -> NDArray[np.bool]:
    """The runs (R,) in which some of the parameters (R, N, n) are not finite."""
    return ~np.array(np.isfinite(parameters).all(axis=(1, 2)))


def fail(state: State, failed: NDArray[np.bool], t: int) -> None:
    """Note runs (R,) whose parameters stopped being finite at step ``t``, if they had not failed before."""
    new = failed & (state.failed_at == RUNNING)
    state.failed_at[new] = t
    state.theta[new] = state.central[new] = np.nan
