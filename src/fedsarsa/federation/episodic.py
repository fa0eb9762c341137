"""Trainings in episodic worlds: the problem, and what its state holds beyond that of finite worlds."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa.federation.problem import RUNNING, Problem
from fedsarsa.learning import episodic_layout
from fedsarsa.learning.boxes import BoxMap, Integers
from fedsarsa.learning.policies import Policy
from fedsarsa.worlds.control import ControlFleet
from fedsarsa.worlds.control.world import OBSERVATION, STATE

if TYPE_CHECKING:
    from fedsarsa.worlds.gym import GymFleet

BINS = 200  # stretches of time in which episodes are summed up

ACCUMULATING, REPLACING = "accumulating", "replacing"
TRACES = (ACCUMULATING, REPLACING)


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
    elapsed, gain : (R, N)
        Steps and rewards of the present episode so far.
    clipped : (R, N)
        Observations that were outside the features' bounds.
    stopped_at : (R, N)
        Number of steps after which an agent stopped, as its environment failed; -1 otherwise.
    episodes, returns, lengths : (R, N, bins)
        Number, summed return and summed length of the episodes that ended in each bin of time.
    """

    physical: Floats
    seen: Floats
    numbers: Floats
    places: Integers
    value: Floats
    trace: Floats
    live: Integers
    live_count: Integers
    elapsed: Integers
    gain: Floats
    clipped: Integers
    stopped_at: Integers
    episodes: Integers
    returns: Floats
    lengths: Integers

    def taught(self, begun: int) -> NDArray[np.bool]:
        """Whose parameters count at the server, (R, N): agents that have not stopped up to step ``begun``.

        An agent that stops brings what it has learned in that round into one more average.
        """
        taught: NDArray[np.bool] = (self.stopped_at == RUNNING) | (self.stopped_at > begun)
        return taught


@dataclass(frozen=True, eq=False, kw_only=True)
class EpisodicProblem(Problem):
    """A problem whose worlds have continuous observations and episodes.

    Attributes
    ----------
    candidates : (A,)
        The actions as numbers; where features are joint, and in Gymnasium, only their number matters.
    per_number : int or None
        How many values each number of an action may have among the candidates, where they are a grid.
    trace_decay, traces : float, str
        lambda, and whether traces are accumulating or replacing.
    expected : bool
        Whether the target holds the policy's mean value, not that of the drawn action.
    step_per_feature : bool
        Whether step sizes are divided by the number of active features.
    """

    fleet: "ControlFleet | GymFleet"  # type: ignore[assignment]
    features: BoxMap  # type: ignore[assignment]
    candidates: Floats
    per_number: int | None
    action_bounds: tuple[float, float]
    trace_decay: float
    traces: str
    expected: bool
    step_per_feature: bool

    @property
    def bins(self) -> int:
        """In how many bins of time episodes are summed up."""
        return min(BINS, self.steps)

    @property
    def active(self) -> int:
        """Number of features of a pair that are not zero."""
        return self.features.basis.coefficients().active

    @property
    def step_factor(self) -> float:
        """What step sizes are multiplied by."""
        return 1 / self.active if self.step_per_feature else 1.0

    def model(self, policy: Policy | None = None) -> episodic_layout.Model:
        """What compiled pieces read of the problem, with its own policy or another."""
        return episodic_layout.model(
            self.features,
            policy or self.policy,
            self.candidates,
            self.action_bounds,
            self.fleet.discount,
            self.trace_decay,
            self.traces == REPLACING,
            self.expected,
        )

    def first_episodes(self) -> Episodes:
        """Room for what agents hold, before the first step."""
        shape = (self.runs, self.agents)
        dim = self.features.dim if self.trace_decay > 0 else 0
        inputs = max(len(self.features.low), OBSERVATION + 1)

        def zeros(*more: int, kind: type = float) -> NDArray[Any]:
            return np.zeros((*shape, *more), kind)

        return Episodes(
            physical=zeros(STATE),
            seen=zeros(inputs),
            numbers=zeros(),
            places=zeros(self.active, kind=np.int64),
            value=zeros(self.active),
            trace=zeros(dim),
            live=zeros(dim, kind=np.int64),
            live_count=zeros(kind=np.int64) if dim else np.zeros((*shape, 0), np.int64),
            elapsed=zeros(kind=np.int64),
            gain=zeros(),
            clipped=zeros(kind=np.int64),
            stopped_at=np.full(shape, RUNNING, np.int64),
            episodes=zeros(self.bins, kind=np.int64),
            returns=zeros(self.bins),
            lengths=zeros(self.bins, kind=np.int64),
        )

    def marks(self) -> list[object]:
        """All that decides a training beyond what finite problems have, for the checkpoint's fingerprint."""
        basis = self.features.basis.coefficients()
        return [
            self.fleet.identity(),
            *basis,
            self.features.low,
            self.features.high,
            self.features.stack,
            self.features.joint,
            self.candidates,
            self.action_bounds,
            self.trace_decay,
            self.traces,
            self.expected,
            self.step_per_feature,
        ]


def flock(episodes: Episodes, actions: NDArray[np.uint32], runs: slice) -> episodic_layout.Flock:
    """The rows of the lanes of some runs: views on the state."""
    rows = {}
    for field in fields(episodes):
        if field.name not in {"physical", "stopped_at"}:
            own = getattr(episodes, field.name)[runs]
            lanes = own.shape[0] * own.shape[1]
            rows[field.name] = own.reshape(lanes if own.ndim == 2 else (lanes, own.shape[2]))
    if rows["live_count"].ndim == 2:  # no traces
        rows["live_count"] = rows["live_count"].reshape(0)
    return episodic_layout.Flock(actions=actions[runs].reshape(-1), **rows)


def variables(problem: EpisodicProblem, episodes: Episodes, failed_at: Integers) -> dict[str, Any]:
    """How episodes went, labelled for a history; of runs that failed, in the bins before they did.

    Until a failure is noticed, some engines take more steps than others. What they see then is not told.
    """
    dims = ("run", "agent", "bin")
    last = np.where(failed_at == RUNNING, problem.bins, failed_at * problem.bins // problem.steps)
    told = np.arange(problem.bins) < last[:, None, None]
    return {
        "episodes": (dims, np.where(told, episodes.episodes, 0)),
        "returns": (dims, np.where(told, episodes.returns, 0.0)),
        "lengths": (dims, np.where(told, episodes.lengths, 0)),
        "bin_end": ("bin", -(-np.arange(1, problem.bins + 1) * problem.steps // problem.bins)),
        "clipped": (("run", "agent"), np.where(failed_at[:, None] == RUNNING, episodes.clipped, 0)),
        "stopped_at": (("run", "agent"), episodes.stopped_at),
    }
