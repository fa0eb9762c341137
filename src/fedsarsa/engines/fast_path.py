"""The fast path of finite worlds, where agents hold a pair: runs side by side, a thread for some of them."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.engines import compiled_server, fast_path_rounds
from fedsarsa.engines.arrays import Lanes, RunView, Span, Workspace, cells_of, new_workspace
from fedsarsa.engines.compiled import (
    CompiledEngine,
    StepSizes,
    announced,
    first_failures,
    options_of,
    server_view,
    settings_of,
)
from fedsarsa.federation.participation import Present
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.choice import renumbered
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.finite_tables import tabulate
from fedsarsa.learning.policies import Policy, Softmax
from fedsarsa.learning.targets import SHARED_CHAIN

VIEW_LANES = 512  # lanes of a view: few enough for their parameters to stay in the cache
CACHE_COST = 64  # parameters per step of a round whose softmax is still worth handing out


class FastPathEngine(CompiledEngine):
    """Trains a problem."""

    long_round = 20_000

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        fleet, features = problem.finite_worlds
        with announced():
            self.tables = tabulate(fleet, features, self.problem.policy, problem.step.behaviour)
        cached = (
            isinstance(problem.policy, Softmax)
            and not problem.step.behaviour
            and isinstance(features, Aggregation)
            and features.dim <= CACHE_COST * (problem.sync_every or problem.steps)
        )
        self.settings = settings_of(problem, fleet.world_of, cached)
        self.options = options_of(problem)
        self.opens_rounds = self.options is not None and self.options.opens

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        view, lanes = self._view(state, 0, self.problem.runs), self._lanes(state, 0, self.problem.runs)
        with announced():
            fast_path_rounds.start(
                self.tables,
                self.settings,
                view,
                lanes,
                self._workspace(view, 0),
            )

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        super().follow(policy)
        self.tables = self.tables._replace(choice=renumbered(self.tables.choice, policy))

    def train_by_runs(
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
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
                self.options,
                view,
                lanes,
                sizes.each,
                sizes.sums,
                span,
                self._workspace(view, len(lanes.run)),
                central[low:high],
                drift[low:high],
            )

        self.share_out(train, range(0, runs, size))

    def train_by_agents(
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
    ) -> None:
        """One view; every round, its lanes are shared out among the threads."""
        tables, settings, options = self.tables, self.settings, self.options
        view = self._view(state, 0, self.problem.runs)
        count = self.problem.runs * self.problem.agents
        workspaces = [self._workspace(view, count) for _ in range(self.threads)]

        def steps(k: int, opening: bool, takes_part: Present) -> None:
            lanes = self._lanes(state, 0, self.problem.runs, takes_part)
            edges = np.linspace(0, len(lanes.run), self.threads + 1).astype(int).tolist()

            def some(part: int) -> None:
                low, high = edges[part], edges[part + 1]
                fast_path_rounds.local_steps(
                    tables,
                    settings,
                    options,
                    view,
                    lanes,
                    low,
                    high,
                    sizes.each,
                    span,
                    k,
                    opening,
                    workspaces[part],
                )

            self.share_out(some, range(self.threads))

        for k in range(span.rounds):
            if self.opens_rounds and span.t == span.begun:
                state.shift[:] = 0.0
                steps(k, True, None)
                compiled_server.exchange_directions(settings, view)
            steps(k, False, self.takes_part(span, k))
            workspaces[0].failed_at[:] = first_failures([own.failed_at for own in workspaces])
            before = state.central.copy()
            own = workspaces[0]
            compiled_server.settle(
                settings, options, view, span, k, sizes.sums, own.failed_at, central, drift
            )
            self.combine(state, before, span, k, central, drift)
            fast_path_rounds.weigh_central(tables, settings, view, span, own.exponentials)

    def local_steps(self, state: State, step_sizes: Floats, span: Span, takes_part: Present) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        tables, runs = self.tables, self.problem.runs
        view, learning = self._view(state, 0, runs), self._lanes(state, 0, runs, takes_part)
        count = len(learning.run)
        working = self._workspace(view, count)
        fast_path_rounds.local_steps(
            tables, self.settings, self.options, view, learning, 0, count, step_sizes, span, 0, False, working
        )
        return working.failed_at

    def _workspace(self, view: RunView, lanes: int) -> Workspace:
        return new_workspace(self.tables, self.options, view, lanes)

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
        shared = self.problem.step.sampling == SHARED_CHAIN
        return Lanes(run, agent, np.zeros_like(agent) if shared else agent + self.first_agent)
