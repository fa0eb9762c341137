"""A training problem, checked and complete, and the state of its training: what engines work on."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import MEMORY, Floats
from fedsarsa.learning.features import FeatureMap
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.step_sizes import Schedule
from fedsarsa.worlds.fleet import Fleet

if TYPE_CHECKING:
    from fedsarsa.federation.episodic import Episodes

MOST_STEPS = 10**14  # per agent: years of computing, and far from what 64 bits can count
RUNNING = -1  # in State.failed_at: parameters are finite so far


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything that decides a training, for ``runs`` federations of one fleet.

    Attributes
    ----------
    schedule_of : (N,) int
        Which of ``schedules`` is agent i's step size.
    weights : (N,)
        The server's weights, 1/N unless given.
    average_offset : float or None
        The a in the weights a + t of theta-tilde; None: no such average is kept.
    """

    fleet: Fleet
    features: FeatureMap
    policy: Policy
    schedules: list[Schedule]
    schedule_of: NDArray[np.int64]
    sync_every: int | None
    radius: float | None
    weights: Floats
    redraw_actions: bool
    average_offset: float | None
    steps: int
    runs: int
    seed: int

    @property
    def agents(self) -> int:
        """N."""
        return len(self.fleet)

    @property
    def step_factor(self) -> float:
        """What step sizes are multiplied by."""
        return 1.0

    def first_episodes(self) -> "Episodes | None":
        """Room for what agents hold in episodic worlds, before the first step; None elsewhere."""
        return None


@dataclass(eq=False)
class State:
    """Where a training stands after ``t`` steps; with the problem, all that is needed to go on.

    Attributes
    ----------
    theta : (R, N, d)
        Local parameters.
    states, actions : (R, N) uint32
        The pair (s, a) each agent holds.
    central : (R, d)
        The server's parameter at the last synchronisation; after the last step the weighted average of the
        local ones. (The reference engine keeps that average at every step.)
    weighted_sum, progress : (R, d), (R, N, d)
        For theta-tilde: the sum of (a + t) theta-bar_t over past time steps. The cpu engine adds a round when
        it is over and gathers what the round's updates bring to it in ``progress``; the reference engine
        adds every step. Empty without theta-tilde.
    failed_at : (R,) int64
        Step at which a run's parameters stopped being finite; such a run is not continued.
    episodes : Episodes or None
        What agents hold in episodic worlds, in place of ``states``.
    reports : list of dict
        Of agents whose environments failed: run, agent, step, environment and why.
    """

    t: int
    theta: Floats
    states: NDArray[np.uint32]
    actions: NDArray[np.uint32]
    central: Floats
    weighted_sum: Floats
    progress: Floats
    failed_at: NDArray[np.int64]
    episodes: "Episodes | None" = None
    reports: list[dict[str, Any]] = field(default_factory=list)


@dataclass(eq=False)
class Synchronisations:
    """What an engine saw at the synchronisations of a stretch of steps.

    Attributes
    ----------
    central : (R, m, d)
        Central parameter after each of the m synchronisations; NaN once a run has failed.
    drift : (R, m)
        Client drift: weighted mean of ||theta_i - average||^2 just before each of them.
    """

    central: Floats
    drift: Floats


def first_state(problem: Problem, theta0: Floats) -> State:
    """The state before the first step, without the first states and actions (engines draw those)."""
    try:
        if 8 * problem.runs * problem.agents * problem.features.dim > MEMORY:
            raise MemoryError
        return _first_state(problem, theta0)
    except MemoryError as error:
        runs, agents, dim = problem.runs, problem.agents, problem.features.dim
        raise ValueError(
            f"runs must leave local parameters that fit into memory, got {runs}: {runs} x {agents} agents x "
            f"{dim} parameters are {8 * runs * agents * dim / 2**30:.1f} GiB, and three times that with "
            "traces; train fewer runs at a time, or with features of fewer parameters"
        ) from error


def _first_state(problem: Problem, theta0: Floats) -> State:
    runs, agents, dim = problem.runs, problem.agents, problem.features.dim
    theta = np.array(np.broadcast_to(theta0, (runs, agents, dim)), order="C")
    return State(
        t=0,
        theta=theta,
        states=np.zeros((runs, agents), np.uint32),
        actions=np.zeros((runs, agents), np.uint32),
        central=np.stack([average(problem.weights, theta[run]) for run in range(runs)]),
        weighted_sum=np.zeros((runs, dim)),
        progress=np.zeros((runs, agents, dim if problem.average_offset is not None else 0)),
        failed_at=np.full(runs, RUNNING, np.int64),
        episodes=problem.first_episodes(),
    )


def average(weights: Floats, theta: Floats) -> Floats:
    """Weighted average (d,) of local parameters (N, d), summed agent by agent in their order.

    Every engine sums in this order, so that parameters equal in one engine are equal in all.
    """
    total = np.zeros(theta.shape[1])
    for weight, own in zip(weights, theta, strict=True):
        total += weight * own
    return total
