"""The compiled CPU engine: runs in teams, a thread per team.

Short rounds lose more to waking threads than they win, so a team of runs belongs to one thread from
start to end. Only a federation with long rounds and too few runs beside it is split by its agents.
"""

import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from numba.core import event

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.federation.engines import lanes
from fedsarsa.federation.engines.layout import Lanes, Plan, Stretch, Team, room
from fedsarsa.federation.problem import RUNNING, Problem, State, Synchronisations
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.policies import Softmax
from fedsarsa.learning.step_sizes import step_sizes_at
from fedsarsa.learning.tables import tabulate

TEAM_LANES = 512  # lanes of a team: few enough for their parameters to stay in the cache
LONG_ROUND = 20_000  # agent-steps per thread and round from which on agents are worth splitting
CACHE_COST = 64  # parameters per step of a round whose softmax is still worth handing out


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CpuEngine:
    """Trains a problem on ``threads`` threads (all cores unless given).

    ``first_agent`` is the number of the problem's first agent in the federation that it is a part of.
    """

    name: ClassVar[str] = "cpu"

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        self.problem = problem
        self.first_agent = first_agent
        self.threads = threads or available_cores()
        with announced():
            self.tables = tabulate(problem.fleet, problem.features, problem.policy)
        cached = (
            isinstance(problem.policy, Softmax)
            and isinstance(problem.features, Aggregation)
            and problem.features.dim <= CACHE_COST * (problem.sync_every or problem.steps)
        )
        self.plan = Plan(
            world=problem.fleet.world_of.astype(np.uint32),
            schedule=problem.schedule_of.astype(np.uint32),
            weights=np.array(problem.weights),
            radius=math.inf if problem.radius is None else float(problem.radius),
            offset=-1.0 if problem.average_offset is None else float(problem.average_offset),
            seed=U64(problem.seed),
            cached=cached,
            redraws=problem.redraw_actions,
        )

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        team = self._team(state, 0, self.problem.runs)
        with announced():
            lanes.start(
                self.tables,
                self.plan,
                team,
                self._lanes(state, 0, self.problem.runs),
                room(self.tables, team),
            )

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place.

        Either whole rounds, or a part of one round, which may end with its synchronisation.
        """
        problem = self.problem
        stretch = stretch_of(problem, state.t, steps)
        times = np.arange(state.t, state.t + steps)
        step_sizes = step_sizes_at(problem.schedules, times)
        records = stretch.rounds if stretch.synchronises else 0
        central = np.empty((problem.runs, records, problem.features.dim))
        drift = np.empty((problem.runs, records))
        work = problem.agents * problem.runs * stretch.steps
        split = problem.runs < self.threads and work >= LONG_ROUND * self.threads
        with announced():
            train = self._train_by_agents if split else self._train_by_runs
            train(state, step_sizes, stretch, central, drift)
        learning = state.failed_at == RUNNING
        if stretch.synchronises:
            state.theta[learning] = state.central[learning, None, :]
        state.theta[~learning] = np.nan
        state.t += steps
        return Synchronisations(central, drift)

    def _train_by_runs(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """Teams of runs, each on one thread for the whole stretch."""
        runs = self.problem.runs
        size = max(1, min(TEAM_LANES // self.problem.agents, -(-runs // self.threads)))

        def train(low: int) -> None:
            high = min(low + size, runs)
            team = self._team(state, low, high)
            lanes.train(
                self.tables,
                self.plan,
                team,
                self._lanes(state, low, high),
                step_sizes,
                stretch,
                room(self.tables, team),
                central[low:high],
                drift[low:high],
            )

        self._map(train, range(0, runs, size))

    def _train_by_agents(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """One team; every round, its lanes are shared out among the threads."""
        tables, plan = self.tables, self.plan
        team = self._team(state, 0, self.problem.runs)
        rooms = [room(tables, team) for _ in range(self.threads)]
        learning = self._lanes(state, 0, self.problem.runs)
        edges = np.linspace(0, len(learning.run), self.threads + 1).astype(int).tolist()
        for k in range(stretch.rounds):

            def steps(part: int, k: int = k) -> None:
                low, high = edges[part], edges[part + 1]
                lanes.local_steps(
                    tables, plan, team, learning, low, high, step_sizes, stretch, k, rooms[part]
                )

            self._map(steps, range(self.threads))
            seen = np.stack([own.failed_at for own in rooms])
            first = np.where(seen == RUNNING, np.iinfo(np.int64).max, seen).min(axis=0)
            rooms[0].failed_at[:] = np.where((seen == RUNNING).all(axis=0), RUNNING, first)
            lanes.settle(tables, plan, team, stretch, k, rooms[0], central, drift)

    def _map(self, function: Callable[[int], None], items: range) -> None:
        """Call ``function`` on every item, on the engine's threads where that helps."""
        if self.threads == 1 or len(items) == 1:
            for item in items:
                function(item)
            return
        with ThreadPoolExecutor(self.threads) as pool:
            for _ in pool.map(function, items):
                pass

    def _team(self, state: State, low: int, high: int) -> Team:
        """The arrays of runs ``low`` to ``high``: views on ``state``."""
        theta = state.theta[low:high].reshape(-1)
        dim = self.problem.features.dim if self.plan.cached else 0
        return Team(
            first_run=U64(low),
            first_agent=U64(self.first_agent),
            theta=theta,
            states=state.states[low:high].reshape(-1),
            actions=state.actions[low:high].reshape(-1),
            central=state.central[low:high],
            weighted_sum=state.weighted_sum[low:high],
            progress=state.progress[low:high].reshape(-1),
            failed_at=state.failed_at[low:high],
            masses=np.empty((high - low, dim)),
            base=np.empty(high - low),
        )

    def _lanes(self, state: State, low: int, high: int) -> Lanes:
        """Every agent of the runs that have not failed; neighbours share a world, and its cache lines."""
        runs = np.flatnonzero(state.failed_at[low:high] == RUNNING).astype(np.uint64)
        agents = np.arange(self.problem.agents, dtype=np.uint64)
        return Lanes(run=np.tile(runs, len(agents)), agent=np.repeat(agents, len(runs)))


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
