"""What the compiled engines share: spans of rounds, threads, and a word about the compiler.

Short rounds lose more to waking threads than they win, so runs belong to one thread from start to end.
Only a federation with long rounds and too few runs beside it is split by its agents.
"""

import math
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.engines.arrays import Options, RoundSettings, RunView, ServerView, Span
from fedsarsa.federation.engine import Engine
from fedsarsa.federation.participation import Present, taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.rounds import drift_of, end_round
from fedsarsa.federation.servers import FirstDirections, compiled_place
from fedsarsa.federation.state import RUNNING, Episodes, State, Synchronisations
from fedsarsa.learning import step_arrays
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.finite_tables import rows_kept
from fedsarsa.learning.policies import FixedPolicy, Policy
from fedsarsa.learning.step_arrays import AgentState, Model
from fedsarsa.learning.targets import ALL_PAIRS, LEAVES, TARGETS


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class StepSizes(NamedTuple):
    """Those of a span: ``each`` (schedules, steps), and the ``sums`` (rounds, schedules) of whole rounds."""

    each: Floats
    sums: Floats


@np.errstate(over="ignore")  # runs of such step sizes fail
def step_sizes_of(problem: Problem, span: Span) -> StepSizes:
    """The step sizes of a span; where it is the last part of a round, the sums are those of all of it."""
    each = problem.step_sizes(span.t, span.rounds * span.steps)
    sums = each.reshape(len(each), span.rounds, span.steps).sum(axis=2)
    if span.synchronises and span.t > span.begun:
        sums += problem.schedule_sums(span.begun, span.t)[:, None]
    return StepSizes(each, np.ascontiguousarray(sums.T))


class SpanEngine(Engine):
    """Trains span by span: whole rounds, or a part of one."""

    @abstractmethod
    def train(self, state: State, span: Span, central: Floats, drift: Floats) -> None:
        """Take all steps of a span; ``central`` (R, m, d) and ``drift`` (R, m) record the server's."""

    def combine(
        self, state: State, before: Floats, span: Span, k: int, central: Floats, drift: Floats
    ) -> None:
        """Let a server rule that is not compiled end a span's k-th round.

        ``before`` (R, d) are the server's parameters before it; ``central`` (R, m, d) records its result,
        and ``drift`` (R, m) has that of the mean.
        """
        if not span.synchronises or self.problem.compiled_rounds:
            return
        begun, end = span.begun + k * span.steps, span.t + (k + 1) * span.steps
        if self.problem.partial:
            drift[:, k] = drift_of(self.problem, state, end - 1)
        end_round(self.problem, state, begun, end, before)
        central[:, k] = state.central
        drift[state.failed_at != RUNNING, k] = np.nan

    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        span = span_of(problem, state.t, steps)
        records = span.rounds if span.synchronises else 0
        central = np.empty((problem.runs, records, problem.features.dim))
        drift = np.empty((problem.runs, records))
        self.train(state, span, central, drift)
        finish_span(problem, state, span, steps)
        return Synchronisations(central, drift)


def finish_span(problem: Problem, state: State, span: Span, steps: int) -> None:
    """Give agents the central parameter after a synchronisation, and NaN to those of runs that failed."""
    learning = state.failed_at == RUNNING
    if span.synchronises and not problem.server.personal:
        state.theta[learning] = state.central[learning, None, :]
    state.theta[~learning] = np.nan
    state.t += steps


class CompiledEngine(SpanEngine):
    """Trains whole runs, or the agents of few runs.

    ``long_round`` is the number of agent-steps per thread and round from which on agents are worth splitting.
    """

    name: ClassVar[str] = "cpu"
    long_round: ClassVar[int]
    threads: int

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads or available_cores(), U64(first_agent))

    @abstractmethod
    def train_by_runs(
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
    ) -> None:
        """Train, every run on one thread for the whole span."""

    @abstractmethod
    def train_by_agents(
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
    ) -> None:
        """Train, every round's agents shared out among the threads."""

    @abstractmethod
    def local_steps(self, state: State, step_sizes: Floats, span: Span, takes_part: Present) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""

    def takes_part(self, span: Span, k: int) -> Present:
        """Who takes part in a span's k-th round, (R, N); None: everybody."""
        return taking_part(self.problem, span.begun + k * span.steps)

    def train(self, state: State, span: Span, central: Floats, drift: Floats) -> None:
        """Take all steps of a span, whichever way is faster."""
        sizes = step_sizes_of(self.problem, span)
        work = self.problem.agents * self.problem.runs * span.steps
        split = self.problem.runs < self.threads and work >= self.long_round * self.threads
        split |= not self.problem.compiled_rounds  # other rules are called after every round
        with announced():
            train = self.train_by_agents if split else self.train_by_runs
            train(state, sizes, span, central, drift)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads)

    def share_out(self, function: Callable[[int], None], items: Sequence[int]) -> None:
        """Call ``function`` on every item, on the engine's threads where that helps."""
        if self.threads == 1 or len(items) == 1:
            for item in items:
                function(item)
            return
        for _ in self._pool.map(function, items):
            pass


def rows_of(
    episodes: Episodes, actions: NDArray[np.uint32], shift: Floats, left: Floats, runs: slice
) -> AgentState:
    """The rows of the lanes of some runs: views on the state."""
    rows = {"shift": lanes_of(shift[runs]), "left": lanes_of(left[runs])}
    for field in fields(episodes):
        if field.name not in {"physical", "stopped_at"}:
            rows[field.name] = lanes_of(getattr(episodes, field.name)[runs])
    if rows["live_count"].ndim == 2:  # no traces
        rows["live_count"] = rows["live_count"].reshape(0)
    return AgentState(actions=actions[runs].reshape(-1), **rows)


def lanes_of(array: NDArray[Any]) -> NDArray[Any]:
    """An array (R, N, ...) with a row per lane, (R N, ...)."""
    return array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])


def model_of(problem: Problem, policy: Policy | None = None) -> Model:
    """What compiled steps read of a problem, with its own policy or another."""
    fleet = problem.fleet
    return step_arrays.model(
        problem.features,
        policy or problem.policy,
        problem.candidates,
        problem.order,
        problem.action_bounds,
        fleet.discount,
        problem.step,
        fleet.states,
    )


def settings_of(problem: Problem, world: NDArray[np.integer], cached: bool = False) -> RoundSettings:
    """What does not change while training, where ``world`` (N,) are the agents' worlds."""
    return RoundSettings(
        world=world.astype(np.uint32),
        schedule=problem.schedule_of.astype(np.uint32),
        weights=np.array(problem.weights),
        radius=math.inf if problem.radius is None else float(problem.radius),
        offset=-1.0 if problem.average_offset is None else float(problem.average_offset),
        seed=U64(problem.seed),
        common=not problem.server.personal,
        cached=cached,
        redraws=problem.step.redraw_actions,
        independent=problem.step.independent,
    )


def options_of(problem: Problem) -> Options | None:
    """What a problem has beyond Algorithm ``alg``; None where that is nothing, or is not compiled."""
    step, rule = problem.step, compiled_place(problem.server) if problem.compiled_rounds else -1
    if step.plain and (rule < 0 or problem.takes_mean):
        return None
    return Options(
        rule=rule,
        coefficients=problem.server.coefficients(problem.agents),
        opens=type(problem.server).opening is FirstDirections.opening,
        plain=step.plain,
        target=TARGETS.index(step.target),
        leaves=LEAVES.index(step.leaves),
        all_pairs=step.sampling == ALL_PAIRS,
        ahead=step.ahead if step.windowed else 0,
        ratios=ratios_of(problem),
    )


def ratios_of(problem: Problem) -> Floats:
    """pi / behaviour of every behaviour policy, in rows as those of `Tables`; empty without ratios."""
    if not problem.step.ratios:
        return np.empty(0)
    assert isinstance(problem.policy, FixedPolicy)
    policies = problem.policy, *problem.step.behaviour
    sizes = rows_kept(problem.fleet.states, policies), len(problem.order)
    own, *acting = (one.table(*sizes) for one in policies)
    each = [np.divide(own, one, out=np.zeros(sizes), where=one > 0) for one in acting or [own]]
    return np.ravel(each)


def server_view(state: State, runs: slice, first_agent: int = U64(0), takes_part: Present = None) -> RunView:
    """What the server reads and writes of some runs: views on ``state``. Pairs and caches are left out."""
    nothing, theta, central = np.empty(0, np.uint32), state.theta[runs], state.central[runs]
    agents, dim = theta.shape[1:]
    personal = state.starts.shape[1] > 0
    return RunView(
        first_run=U64(runs.start or 0),
        first_agent=first_agent,
        theta=theta.reshape(-1),
        states=nothing,
        actions=nothing,
        central=central,
        weighted_sum=state.weighted_sum[runs],
        progress=state.progress[runs].reshape(-1),
        shift=state.shift[runs].reshape(-1),
        left=state.left[runs].reshape(-1),
        failed_at=state.failed_at[runs],
        masses=np.empty((0, 0)),
        base=np.empty(0),
        takes_part=np.ravel(np.ones(theta.shape[:2], np.bool) if takes_part is None else takes_part[runs]),
        server=ServerView(
            theta=theta,
            left=state.left[runs],
            shift=state.shift[runs],
            starts=state.starts[runs] if personal else central.reshape(-1, 1, dim),
            mean=np.empty(dim),
            spread=np.empty(dim),
            start=np.empty((agents if personal else 1, dim)),
            step_sums=np.empty(agents),
            room=np.empty((3, dim)),
        ),
    )


ALL = slice(None)  # runs, or agents


def first_failures(seen: Sequence[Integers]) -> Integers:
    """When each run failed first, of what the threads saw: (runs,) each."""
    steps = np.stack(seen)
    first = np.where(steps == RUNNING, np.iinfo(np.int64).max, steps).min(axis=0)
    return np.where((steps == RUNNING).all(axis=0), RUNNING, first)


def span_of(problem: Problem, t: int, steps: int) -> Span:
    """The span of ``steps`` steps from ``t`` on: whole rounds, or a part of one."""
    every = problem.sync_every or problem.steps
    begun = t // every * every
    whole = t == begun and steps % every == 0
    end, last = t + steps, min(begun + every, problem.steps)
    return Span(
        t=t,
        steps=every if whole else steps,
        rounds=steps // every if whole else 1,
        begun=begun,
        left=0 if whole else last - end,
        ends=whole or end == last,
        synchronises=problem.sync_every is not None and end % every == 0,
    )


class _Announcer(event.Listener):
    """Says, once per process, that the wait is for the compiler."""

    unsaid: ClassVar[list[str]] = [
        "fedsarsa: compiling the cpu engine, kept for later trainings of this kind ..."
    ]

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        with suppress(IndexError):  # of two threads, one finds it
            print(_Announcer.unsaid.pop(), file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def announced() -> Any:
    """A context in which a wait for the compiler is announced."""
    return event.install_listener("numba:compile", _Announcer())
