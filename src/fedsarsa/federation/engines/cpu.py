"""The compiled CPU engine: runs in teams, a thread per team.

Short rounds lose more to waking threads than they win, so a team of runs belongs to one thread from
start to end. Only a federation with long rounds and too few runs beside it is split by its agents.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba.core import event

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.federation.engines import lanes
from fedsarsa.federation.engines.lanes import Lanes, Plan, Team
from fedsarsa.federation.problem import RUNNING, Problem, State, Synchronisations
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.policies import Softmax
from fedsarsa.learning.tables import tabulate

TEAM_LANES = 512  # lanes of a team: few enough for their parameters to stay in the cache
LONG_ROUND = 20_000  # agent-steps per thread and round from which on agents are worth splitting
CACHE_COST = 64  # parameters per step of a round whose softmax is still worth handing out


class CpuEngine:
    """Trains a problem on ``threads`` threads (all cores unless given)."""

    def __init__(self, problem: Problem, threads: int | None = None) -> None:
        self.problem = problem
        self.threads = threads or len(os.sched_getaffinity(0))
        self.pace = 4_000_000 * self.threads
        with _announced():
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
            radius=np.inf if problem.radius is None else problem.radius,
            offset=-1.0 if problem.average_offset is None else problem.average_offset,
            seed=U64(problem.seed),
            cached=cached,
        )

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        team = self._team(state, 0, self.problem.runs)
        with _announced():
            lanes.start(self.tables, self.plan, team, self._lanes(self.problem.runs), self._room(team))

    def advance(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place.

        From a synchronisation on (or t = 0), to one or within the next round: the only stretches a
        training asks for.
        """
        problem = self.problem
        every = problem.sync_every
        synchronises = every is not None and steps % every == 0
        length = every if every is not None and synchronises else steps
        rounds = steps // length
        times = np.arange(state.t, state.t + steps)
        step_sizes = np.stack([schedule.at(times) for schedule in problem.schedules])
        seen = rounds if synchronises else 0
        central = np.full((problem.runs, seen, problem.features.dim), np.nan)
        drift = np.full((problem.runs, seen), np.nan)
        split = (
            problem.runs < self.threads
            and problem.agents * problem.runs * length >= LONG_ROUND * self.threads
        )
        with _announced():
            train = self._train_by_agents if split else self._train_by_runs
            train(state, step_sizes, length, rounds, synchronises, central, drift)
        learning = state.failed_at == RUNNING
        if synchronises:
            state.theta[learning] = state.central[learning, None, :]
        state.theta[~learning] = np.nan
        state.t += steps
        return Synchronisations(central, drift)

    def _train_by_runs(
        self,
        state: State,
        step_sizes: Floats,
        length: int,
        rounds: int,
        synchronises: bool,
        central: Floats,
        drift: Floats,
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
                self._lanes(high - low),
                step_sizes,
                state.t,
                length,
                rounds,
                False,
                synchronises,
                self._room(team),
                central[low:high],
                drift[low:high],
            )

        self._map(train, range(0, runs, size))

    def _train_by_agents(
        self,
        state: State,
        step_sizes: Floats,
        length: int,
        rounds: int,
        synchronises: bool,
        central: Floats,
        drift: Floats,
    ) -> None:
        """One team; every round, its lanes are shared out among the threads."""
        team = self._team(state, 0, self.problem.runs)
        rooms = [self._room(team) for _ in range(self.threads)]
        learning, fresh = self._lanes(self.problem.runs), False
        for k in range(rounds):
            edges = np.linspace(0, len(learning.run), self.threads + 1).astype(int)
            column, now = k * length, state.t + k * length

            def steps(
                part: int,
                learning: Lanes = learning,
                edges: Any = edges,
                column: int = column,
                now: int = now,
                fresh: bool = fresh,
            ) -> None:
                lanes.local_steps(
                    self.tables,
                    self.plan,
                    team,
                    learning,
                    int(edges[part]),
                    int(edges[part + 1]),
                    step_sizes,
                    column,
                    now,
                    length,
                    fresh,
                    rooms[part],
                )

            self._map(steps, range(self.threads))
            seen = np.stack([room.failed_at for room in rooms])
            first = np.where(seen == RUNNING, np.iinfo(np.int64).max, seen).min(axis=0)
            rooms[0].failed_at[:] = np.where((seen == RUNNING).all(axis=0), RUNNING, first)
            lanes.settle(
                self.tables,
                self.plan,
                team,
                now,
                length,
                synchronises,
                rooms[0],
                k,
                central,
                drift,
            )
            fresh = synchronises

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
        averaging = self.problem.average_offset is not None
        theta = state.theta[low:high].reshape(-1)
        dim = self.problem.features.dim if self.plan.cached else 0
        rows = dim // int(self.tables.width)
        return Team(
            first_run=U64(low),
            theta=theta,
            states=state.states[low:high].reshape(-1),
            actions=state.actions[low:high].reshape(-1),
            central=state.central[low:high],
            weighted_sum=state.weighted_sum[low:high],
            progress=np.zeros_like(theta) if averaging else np.empty(0),
            failed_at=state.failed_at[low:high],
            masses=np.empty((high - low, dim)),
            ladders=np.empty((high - low, dim + rows)),
            base=np.empty(high - low),
        )

    def _lanes(self, runs: int) -> Lanes:
        """Every agent of every run, agent by agent: neighbours share a world, and its cache lines."""
        agents = np.arange(self.problem.agents, dtype=np.uint64)
        return Lanes(
            run=np.tile(np.arange(runs, dtype=np.uint64), self.problem.agents),
            agent=np.repeat(agents, runs),
        )

    def _room(self, team: Team) -> lanes.Room:
        return lanes.room(self.tables, team)


class _Announcer(event.Listener):
    """Says, once per process, that the wait is for the compiler."""

    said = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002
        if not _Announcer.said:
            _Announcer.said = True
            print("fedsarsa: compiling the cpu engine, once on this machine ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def _announced() -> Any:
    return event.install_listener("numba:compile", _Announcer())
