"""The fast path of finite worlds, for steps without options: runs in teams, a thread per team."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.engines import lanes, server
from fedsarsa.federation.engines.compiled import (
    CompiledEngine,
    announced,
    first_failures,
    plan_of,
    server_team,
)
from fedsarsa.federation.engines.layout import Lanes, Stretch, Team, room
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.policies import Softmax
from fedsarsa.learning.tables import tabulate

TEAM_LANES = 512  # lanes of a team: few enough for their parameters to stay in the cache
CACHE_COST = 64  # parameters per step of a round whose softmax is still worth handing out


class CpuEngine(CompiledEngine):
    """Trains a problem."""

    long_round = 20_000

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        with announced():
            self.tables = tabulate(problem.fleet, problem.features, problem.policy)
        cached = (
            isinstance(problem.policy, Softmax)
            and isinstance(problem.features, Aggregation)
            and problem.features.dim <= CACHE_COST * (problem.sync_every or problem.steps)
        )
        self.plan = plan_of(problem, problem.fleet.world_of, cached)

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

    def train_by_runs(
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

        self.share_out(train, range(0, runs, size))

    def train_by_agents(
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

            self.share_out(steps, range(self.threads))
            rooms[0].failed_at[:] = first_failures([own.failed_at for own in rooms])
            before = state.central.copy()
            own = rooms[0]
            server.settle(plan, team, stretch, k, own.failed_at, own.spread, central, drift)
            self.combine(state, before, stretch, k, central, drift)
            lanes.weigh_central(tables, plan, team, stretch, own)

    def local_steps(self, state: State, step_sizes: Floats, stretch: Stretch) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        tables, runs = self.tables, self.problem.runs
        team, learning = self._team(state, 0, runs), self._lanes(state, 0, runs)
        working = room(tables, team)
        count = len(learning.run)
        lanes.local_steps(tables, self.plan, team, learning, 0, count, step_sizes, stretch, 0, working)
        return working.failed_at

    def _team(self, state: State, low: int, high: int) -> Team:
        """The arrays of runs ``low`` to ``high``: views on ``state``."""
        dim = self.problem.features.dim if self.plan.cached else 0
        return server_team(state, slice(low, high), self.first_agent)._replace(
            states=state.states[low:high].reshape(-1),
            actions=state.actions[low:high].reshape(-1),
            masses=np.empty((high - low, dim)),
            base=np.empty(high - low),
        )

    def _lanes(self, state: State, low: int, high: int) -> Lanes:
        """Every agent of the runs that have not failed; neighbours share a world, and its cache lines."""
        runs = np.flatnonzero(state.failed_at[low:high] == RUNNING).astype(np.uint64)
        agents = np.arange(self.problem.agents, dtype=np.uint64)
        return Lanes(run=np.tile(runs, len(agents)), agent=np.repeat(agents, len(runs)))
