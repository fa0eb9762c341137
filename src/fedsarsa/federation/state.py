"""Where a training stands: parameters, what agents hold, and what was seen at the server."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import MEMORY, Floats
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers.mean import average
from fedsarsa.federation.servers.rule import Memory
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.worlds.control.world import OBSERVATION, STATE

RUNNING = -1  # in State.failed_at: parameters are finite so far


@dataclass(eq=False)
class Episodes:
    """What every agent holds, and how its episodes went; arrays begin with (R, N).

    Attributes
    ----------
    physical : (R, N, STATE)
        States of control worlds.
    seen : (R, N, inputs)
        Observations, and one place for the action where features take it as an input.
    numbers : (R, N)
        The actions held, as numbers.
    places, value : (R, N, active)
        Features of the pair held that are not zero.
    trace, live, live_count : (R, N, d), (R, N, d), (R, N)
        Eligibility traces, the places where they are not zero, and how many those are; empty without traces.
    own, others : (R, N), (R, N, d)
        Agents act by ``own`` theta + ``others``; ``others`` is empty where they act by theta.
    elapsed, gain : (R, N)
        Steps and rewards of the present episode so far.
    clipped : (R, N)
        Observations that were outside the features' bounds.
    stopped_at : (R, N)
        Number of steps after which an agent stopped, as its environment failed; -1 otherwise.
    episodes, returns, lengths : (R, N, bins)
        Number, summed return and summed length of the episodes that ended in each bin of time.
    steps, rewards : (R, N, bins)
        Number and summed reward of the steps in each bin of time.
    """

    physical: Floats
    seen: Floats
    numbers: Floats
    places: Integers
    value: Floats
    trace: Floats
    live: Integers
    live_count: Integers
    own: Floats
    others: Floats
    elapsed: Integers
    gain: Floats
    clipped: Integers
    stopped_at: Integers
    episodes: Integers
    returns: Floats
    lengths: Integers
    steps: Integers
    rewards: Floats

    def taught(self, begun: int) -> NDArray[np.bool]:
        """Whose parameters count at the server, (R, N): agents that have not stopped up to step ``begun``.

        An agent that stops brings what it has learned in that round into one more average.
        """
        taught: NDArray[np.bool] = (self.stopped_at == RUNNING) | (self.stopped_at > begun)
        return taught


@dataclass(eq=False)
class State:
    """Where a training stands after ``t`` steps; with the problem, all that is needed to resume.

    Attributes
    ----------
    theta : (R, N, d)
        Local parameters.
    states, actions : (R, N) uint32
        The pair (s, a) each agent holds.
    central : (R, d)
        The server's parameter.
    weighted_sum, progress : (R, d), (R, N, d)
        For theta-tilde: the sum of (a + t) theta-bar_t over past time steps. The cpu engine adds a round when
        it is over and gathers what the round's updates bring to it in ``progress``; the reference engine
        adds every step. Empty without theta-tilde.
    starts : (R, N, d)
        Where agents began the round, if the server rule is personal; (R, 0, d) if it is not.
    shift, left : (R, N, d)
        What is added to the direction of every step of the round, and what its steps have left for the
        server; (R, N, 0) where there is no such thing.
    memory : dict of arrays that begin with R
        What the server rule keeps.
    failed_at : (R,) int64
        Step at which a run's parameters stopped being finite; such a run is not continued.
    episodes : Episodes or None
        What agents hold beyond (s, a); None where that is all.
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
    starts: Floats
    shift: Floats
    left: Floats
    memory: Memory
    episodes: Episodes | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)


def acting_of(state: State) -> tuple[Floats, Floats]:
    """What agents act by: ``own`` (R, N) theta + ``others`` (R, N, d), which is empty where it is theta."""
    shape = state.theta.shape[:2]
    if state.episodes is None:
        return np.ones(shape), np.empty((*shape, 0))
    return state.episodes.own, state.episodes.others


def begin_mixing(problem: Problem, state: State) -> None:
    """Take what agents act by in the next round from the server rule, if they do not act by theta."""
    if problem.server.mixes:
        own, others = acting_of(state)
        own[:], others[:] = problem.server.acting(state.starts, state.memory)


@dataclass(eq=False)
class Synchronisations:
    """What an engine saw at the synchronisations of a span of steps.

    Attributes
    ----------
    central : (R, m, d)
        Central parameter after each of the m synchronisations; NaN once a run has failed.
    drift : (R, m)
        Client drift: weighted mean of ||theta_i - average||^2 just before each of them.
    personal : dict of arrays that begin with (R, m)
        What `Server.personal_records` gives after each of them; filled by the training loop.
    """

    central: Floats
    drift: Floats
    personal: dict[str, Floats] = field(default_factory=dict)


def joined(seen: list[Synchronisations]) -> Synchronisations:
    """What an engine saw in spans that follow each other."""
    central = np.concatenate([one.central for one in seen], axis=1)
    return Synchronisations(central, np.concatenate([one.drift for one in seen], axis=1))


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
    state = State(
        t=0,
        theta=theta,
        states=np.zeros((runs, agents), np.uint32),
        actions=np.zeros((runs, agents), np.uint32),
        central=average(problem.weights, theta),
        weighted_sum=np.zeros((runs, dim)),
        progress=np.zeros((runs, agents, dim if problem.average_offset is not None else 0)),
        failed_at=np.full(runs, RUNNING, np.int64),
        starts=theta.copy() if problem.server.personal else np.empty((runs, 0, dim)),
        shift=np.zeros((runs, agents, dim if problem.step.shifted else 0)),
        left=np.zeros((runs, agents, dim if problem.step.leaves else 0)),
        memory=problem.server.memory(runs, agents, dim),
        episodes=None if problem.holds_pairs else first_episodes(problem),
    )
    begin_mixing(problem, state)
    return state


def first_episodes(problem: Problem) -> Episodes:
    """Room for what agents hold, before the first step."""
    shape = (problem.runs, problem.agents)
    step, dim = problem.step, problem.features.dim
    traced = dim if step.trace_decay > 0 else 0
    inputs = 1 if problem.finite else max(problem.features.inputs, OBSERVATION + 1)
    active = problem.features.most_active

    def zeros(*more: int, kind: type = float) -> NDArray[Any]:
        return np.zeros((*shape, *more), kind)

    return Episodes(
        physical=zeros(0 if problem.finite else STATE),
        seen=zeros(inputs),
        numbers=zeros(),
        places=zeros(active, kind=np.int64),
        value=zeros(active),
        trace=zeros(traced),
        live=zeros(traced, kind=np.int64),
        live_count=zeros(kind=np.int64) if traced else np.zeros((*shape, 0), np.int64),
        own=np.ones(shape),
        others=zeros(dim if step.mixes else 0),
        elapsed=zeros(kind=np.int64),
        gain=zeros(),
        clipped=zeros(kind=np.int64),
        stopped_at=np.full(shape, RUNNING, np.int64),
        episodes=zeros(problem.bins, kind=np.int64),
        returns=zeros(problem.bins),
        lengths=zeros(problem.bins, kind=np.int64),
        steps=zeros(problem.bins, kind=np.int64),
        rewards=zeros(problem.bins),
    )


def variables(problem: Problem, episodes: Episodes, failed_at: Integers, t: int) -> dict[str, Any]:
    """How episodes went up to step ``t``, for a history; of runs that failed, in the bins before they did.

    Until a failure is noticed, some engines take more steps than others. What they see then is not recorded.
    """
    dims = ("run", "agent", "bin")
    last = np.where(failed_at == RUNNING, problem.bins, failed_at * problem.bins // problem.steps)
    bins = -(-t * problem.bins // problem.steps)
    told = np.arange(bins) < last[:, None, None]
    ends = np.minimum(-(-np.arange(1, bins + 1) * problem.steps // problem.bins), t)
    return {
        "episodes": (dims, np.where(told, episodes.episodes[:, :, :bins], 0)),
        "returns": (dims, np.where(told, episodes.returns[:, :, :bins], 0.0)),
        "lengths": (dims, np.where(told, episodes.lengths[:, :, :bins], 0)),
        "steps": (dims, np.where(told, episodes.steps[:, :, :bins], 0)),
        "rewards": (dims, np.where(told, episodes.rewards[:, :, :bins], 0.0)),
        "bin_end": ("bin", ends),
        "clipped": (("run", "agent"), np.where(failed_at[:, None] == RUNNING, episodes.clipped, 0)),
        "stopped_at": (("run", "agent"), episodes.stopped_at),
    }
