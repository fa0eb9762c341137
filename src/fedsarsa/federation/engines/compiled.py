"""What the compiled engines share: stretches of rounds, threads, and a word about the compiler.

Short rounds lose more to waking threads than they win, so runs belong to one thread from start to end.
Only a federation with long rounds and too few runs beside it is split by its agents.
"""

import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numba.core import event
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.federation.engines.layout import Plan, Stretch, Team
from fedsarsa.federation.problem import RUNNING, Problem, State, Synchronisations
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.step_sizes import step_sizes_at


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class StretchEngine(ABC):
    """Trains stretch by stretch: whole rounds, or a part of one."""

    name: ClassVar[str]

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    @abstractmethod
    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""

    @abstractmethod
    def train(self, state: State, stretch: Stretch, central: Floats, drift: Floats) -> None:
        """Take all steps of a stretch; ``central`` (R, m, d) and ``drift`` (R, m) record the server's."""

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place.

        Either whole rounds, or a part of one round, which may end with its synchronisation.
        """
        problem = self.problem
        stretch = stretch_of(problem, state.t, steps)
        records = stretch.rounds if stretch.synchronises else 0
        central = np.empty((problem.runs, records, problem.features.dim))
        drift = np.empty((problem.runs, records))
        self.train(state, stretch, central, drift)
        learning = state.failed_at == RUNNING
        if stretch.synchronises:
            state.theta[learning] = state.central[learning, None, :]
        state.theta[~learning] = np.nan
        state.t += steps
        return Synchronisations(central, drift)


class CompiledEngine(StretchEngine):
    """Trains whole runs, or the agents of few runs, on ``threads`` threads (all cores if None).

    ``first_agent`` is the number of the problem's first agent in the federation that it is a part of.
    ``long_round`` is the number of agent-steps per thread and round from which on agents are worth splitting.
    """

    name: ClassVar[str] = "cpu"
    long_round: ClassVar[int]

    def __init__(self, problem: Problem, threads: int | None, first_agent: int) -> None:
        super().__init__(problem)
        self.threads = threads or available_cores()
        self.first_agent = U64(first_agent)

    @abstractmethod
    def train_by_runs(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """Train, every run on one thread for the whole stretch."""

    @abstractmethod
    def train_by_agents(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """Train, every round's agents shared out among the threads."""

    @abstractmethod
    def local_steps(self, state: State, step_sizes: Floats, stretch: Stretch) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""

    def step_sizes(self, t: int, steps: int) -> Floats:
        """The step sizes of every schedule, (schedules, steps), from step ``t`` on."""
        return step_sizes_at(self.problem.schedules, np.arange(t, t + steps)) * self.problem.step_factor

    def train(self, state: State, stretch: Stretch, central: Floats, drift: Floats) -> None:
        """Take all steps of a stretch, whichever way is faster."""
        step_sizes = self.step_sizes(stretch.t, stretch.rounds * stretch.steps)
        work = self.problem.agents * self.problem.runs * stretch.steps
        split = self.problem.runs < self.threads and work >= self.long_round * self.threads
        with announced():
            train = self.train_by_agents if split else self.train_by_runs
            train(state, step_sizes, stretch, central, drift)

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


def plan_of(problem: Problem, world: NDArray[np.integer], cached: bool = False) -> Plan:
    """What does not change while training, where ``world`` (N,) are the agents' worlds."""
    return Plan(
        world=world.astype(np.uint32),
        schedule=problem.schedule_of.astype(np.uint32),
        weights=np.array(problem.weights),
        radius=math.inf if problem.radius is None else float(problem.radius),
        offset=-1.0 if problem.average_offset is None else float(problem.average_offset),
        seed=U64(problem.seed),
        cached=cached,
        redraws=problem.redraw_actions,
    )


def server_team(state: State, runs: slice, first_agent: int = U64(0)) -> Team:
    """What the server reads and writes of some runs: views on ``state``. Pairs and caches are left out."""
    nothing = np.empty(0, np.uint32)
    return Team(
        first_run=U64(runs.start or 0),
        first_agent=first_agent,
        theta=state.theta[runs].reshape(-1),
        states=nothing,
        actions=nothing,
        central=state.central[runs],
        weighted_sum=state.weighted_sum[runs],
        progress=state.progress[runs].reshape(-1),
        failed_at=state.failed_at[runs],
        masses=np.empty((0, 0)),
        base=np.empty(0),
    )


ALL = slice(None)  # runs, or agents


def first_failures(seen: Sequence[Integers]) -> Integers:
    """When each run failed first, of what the threads saw: (runs,) each."""
    steps = np.stack(seen)
    first = np.where(steps == RUNNING, np.iinfo(np.int64).max, steps).min(axis=0)
    return np.where((steps == RUNNING).all(axis=0), RUNNING, first)


def stretch_of(problem: Problem, t: int, steps: int) -> Stretch:
    """The stretch of ``steps`` steps from ``t`` on: whole rounds, or a part of one."""
    every = problem.sync_every or problem.steps
    begun = t // every * every
    whole = t == begun and steps % every == 0
    end, last = t + steps, min(begun + every, problem.steps)
    return Stretch(
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

    said = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        if not _Announcer.said:
            _Announcer.said = True
            print("fedsarsa: compiling the cpu engine, once on this machine ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def announced() -> Any:
    """A context in which a wait for the compiler is announced."""
    return event.install_listener("numba:compile", _Announcer())
