"""The fast path of finite worlds, for steps without options: runs side by side, a thread for some of them."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.engines import compiled_mean, fast_path_rounds
from fedsarsa.engines.arrays import Lanes, RunView, Span, cells_of, new_workspace
from fedsarsa.engines.compiled import (
    CompiledEngine,
    announced,
    first_failures,
    server_view,
    settings_of,
)
from fedsarsa.federation.participation import Present
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.finite_tables import tabulate
from fedsarsa.learning.policies import Softmax

VIEW_LANES = 512  # lanes of a view: few enough for their parameters to stay in the cache
CACHE_COST = 64  # parameters per step of a round whose softmax is still worth handing out


class FastPathEngine(CompiledEngine):
    """Trains a problem."""

    long_round = 20_000

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        fleet, features = problem.finite_worlds
        with announced():
            self.tables = tabulate(fleet, features, problem.policy)
        cached = (
            isinstance(problem.policy, Softmax)
            and isinstance(features, Aggregation)
            and features.dim <= CACHE_COST * (problem.sync_every or problem.steps)
        )
        self.settings = settings_of(problem, fleet.world_of, cached)

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        view, lanes = self._view(state, 0, self.problem.runs), self._lanes(state, 0, self.problem.runs)
        with announced():
            fast_path_rounds.start(
                self.tables,
                self.settings,
                view,
                lanes,
                new_workspace(self.tables, view, 0),
            )

    def train_by_runs(
        self, state: State, step_sizes: Floats, span: Span, central: Floats, drift: Floats
    ) -> None:
        """Some runs at a time, each on one thread for the whole span."""
        runs = self.problem.runs
        size = max(1, min(VIEW_LANES // self.problem.agents, -(-runs // self.threads)))

        def train(low: int) -> None:
            high = min(low + size, runs)
            view, lanes = self._view(state, low, high), self._lanes(state, low, high)
            fast_path_rounds.train(
                self.tables,
                self.settings,
                view,
                lanes,
                step_sizes,
                span,
                new_workspace(self.tables, view, len(lanes.run)),
                central[low:high],
                drift[low:high],
            )

        self.share_out(train, range(0, runs, size))

    def train_by_agents(
        self, state: State, step_sizes: Floats, span: Span, central: Floats, drift: Floats
    ) -> None:
        """One view; every round, its lanes are shared out among the threads."""
        tables, settings = self.tables, self.settings
        view = self._view(state, 0, self.problem.runs)
        lanes = self.problem.runs * self.problem.agents
        workspaces = [new_workspace(tables, view, lanes) for _ in range(self.threads)]
        for k in range(span.rounds):
            learning = self._lanes(state, 0, self.problem.runs, self.takes_part(span, k))
            edges = np.linspace(0, len(learning.run), self.threads + 1).astype(int).tolist()

            def steps(part: int, k: int = k, learning: Lanes = learning, edges: list[int] = edges) -> None:
                low, high = edges[part], edges[part + 1]
                fast_path_rounds.local_steps(
                    tables, settings, view, learning, low, high, step_sizes, span, k, workspaces[part]
                )

            self.share_out(steps, range(self.threads))
            workspaces[0].failed_at[:] = first_failures([own.failed_at for own in workspaces])
            before = state.central.copy()
            own = workspaces[0]
            compiled_mean.settle(settings, view, span, k, own.failed_at, own.spread, central, drift)
            self.combine(state, before, span, k, central, drift)
            fast_path_rounds.weigh_central(tables, settings, view, span, own)

    def local_steps(self, state: State, step_sizes: Floats, span: Span, takes_part: Present) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        tables, runs = self.tables, self.problem.runs
        view, learning = self._view(state, 0, runs), self._lanes(state, 0, runs, takes_part)
        count = len(learning.run)
        working = new_workspace(tables, view, count)
        fast_path_rounds.local_steps(
            tables, self.settings, view, learning, 0, count, step_sizes, span, 0, working
        )
        return working.failed_at

    def _view(self, state: State, low: int, high: int) -> RunView:
        """The arrays of runs ``low`` to ``high``: views on ``state``."""
        cells = cells_of(self.tables) if self.settings.cached else 0
        return server_view(state, slice(low, high), self.first_agent)._replace(
            states=state.states[low:high].reshape(-1),
            actions=state.actions[low:high].reshape(-1),
            masses=np.empty((high - low, cells)),
            base=np.empty(high - low),
        )

    def _lanes(self, state: State, low: int, high: int, takes_part: Present = None) -> Lanes:
        """Who takes steps in the runs that have not failed; neighbours share a world, and its cache lines."""
        runs = np.flatnonzero(state.failed_at[low:high] == RUNNING).astype(np.uint64)
        agents = np.arange(self.problem.agents, dtype=np.uint64)
        run, agent = np.tile(runs, len(agents)), np.repeat(agents, len(runs))
        if takes_part is not None:
            listed = takes_part[low:high][run, agent]
            run, agent = run[listed], agent[listed]
        return Lanes(run, agent)
