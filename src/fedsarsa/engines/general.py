"""The compiled engine for control worlds, and for every step that the fast one of finite worlds has not."""

from functools import cache
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.engines import compiled_mean, general_rounds
from fedsarsa.engines.arrays import RunView, Span
from fedsarsa.engines.compiled import (
    ALL,
    CompiledEngine,
    announced,
    first_failures,
    model_of,
    rows_of,
    server_view,
    settings_of,
)
from fedsarsa.engines.general_rounds import FINITE, Learners, RoundWorkspace, Worlds
from fedsarsa.federation.participation import Present
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.choice import renumbered
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.finite_tables import WorldTables, tabulate_worlds
from fedsarsa.learning.policies import Policy
from fedsarsa.learning.step_arrays import step_workspace
from fedsarsa.worlds.control import dynamics
from fedsarsa.worlds.control.world import pack
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


class GeneralEngine(CompiledEngine):
    """Trains a problem."""

    long_round = 2_000

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        with announced():
            self.model, self.worlds = model_of(self.problem), worlds_of(problem)
        self.settings = settings_of(problem, np.arange(problem.agents))

    def start(self, state: State) -> None:
        """Begin every agent's first episode."""
        with announced():
            learners, workspace = self._learners(state, ALL), self._workspace(0)
            general_rounds.start(
                self.worlds, self.model, self.settings, self.first_agent, learners, workspace
            )

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        super().follow(policy)
        self.model = self.model._replace(choice=renumbered(self.model.choice, policy))

    def train_by_runs(
        self, state: State, step_sizes: Floats, span: Span, central: Floats, drift: Floats
    ) -> None:
        """A run is one thread's for the whole span."""

        def train(run: int) -> None:
            own = slice(run, run + 1)
            view, learners = server_view(state, own, self.first_agent), self._learners(state, own)
            workspace = self._workspace(1)
            general_rounds.train(
                self.worlds,
                self.model,
                self.settings,
                view,
                learners,
                step_sizes,
                span,
                workspace,
                central[own],
                drift[own],
            )

        self.share_out(train, range(self.problem.runs))

    def train_by_agents(
        self, state: State, step_sizes: Floats, span: Span, central: Floats, drift: Floats
    ) -> None:
        """Every round, all agents are shared out among the threads."""
        learners = self._learners(state, ALL)
        workspaces = [self._workspace(self.problem.runs) for _ in range(self.threads)]
        edges = np.linspace(0, len(learners.theta), self.threads + 1).astype(int).tolist()
        for k in range(span.rounds):
            view = server_view(state, ALL, self.first_agent, self.takes_part(span, k))

            def steps(part: int, k: int = k, view: RunView = view) -> None:
                self._steps(
                    view, learners, edges[part], edges[part + 1], step_sizes, span, k, workspaces[part]
                )

            self.share_out(steps, range(self.threads))
            workspaces[0].failed_at[:] = first_failures([workspace.failed_at for workspace in workspaces])
            before = state.central.copy()
            compiled_mean.settle(
                self.settings, view, span, k, workspaces[0].failed_at, workspaces[0].spread, central, drift
            )
            self.combine(state, before, span, k, central, drift)

    def local_steps(self, state: State, step_sizes: Floats, span: Span, takes_part: Present) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        view, learners, workspace = (
            server_view(state, ALL, self.first_agent, takes_part),
            self._learners(state, ALL),
            self._workspace(self.problem.runs),
        )
        self._steps(view, learners, 0, len(learners.theta), step_sizes, span, 0, workspace)
        return workspace.failed_at

    def _steps(
        self,
        view: RunView,
        learners: Learners,
        low: int,
        high: int,
        step_sizes: Floats,
        span: Span,
        k: int,
        workspace: RoundWorkspace,
    ) -> None:
        """The local steps of a span's k-th round for lanes ``low`` to ``high``."""
        general_rounds.local_steps(
            self.worlds,
            self.model,
            self.settings,
            view,
            learners,
            low,
            high,
            step_sizes,
            span,
            k,
            workspace,
        )

    def _workspace(self, runs: int) -> RoundWorkspace:
        return RoundWorkspace(
            step_workspace(self.model), np.empty(self.problem.features.dim), np.full(runs, RUNNING, np.int64)
        )

    def _learners(self, state: State, runs: slice) -> Learners:
        assert state.episodes is not None
        theta, progress, physical = state.theta[runs], state.progress[runs], state.episodes.physical[runs]
        lanes = theta.shape[0] * theta.shape[1]
        return Learners(
            agent_state=rows_of(state.episodes, state.actions, runs),
            states=state.states[runs].reshape(-1),
            physical=physical.reshape(lanes, physical.shape[2]),
            theta=theta.reshape(lanes, -1),
            progress=progress.reshape(lanes, progress.shape[2]),
        )


def worlds_of(problem: Problem) -> Worlds:
    """The worlds of a problem, as kernels read them."""
    fleet: Any = problem.fleet
    limits = np.array([world.time_limit for world in fleet])
    none = np.empty(0, np.uint64)
    if problem.finite:
        tables, world = tabulate_worlds(fleet), fleet.world_of.astype(np.uint64)
        return Worlds(FINITE, np.empty((len(fleet), 0)), limits, problem.steps, problem.bins, tables, world)
    kind, physics = dynamics.number(fleet.world), pack(fleet.worlds)
    return Worlds(kind, physics, limits, problem.steps, problem.bins, no_tables(), none)


@cache
def no_tables() -> WorldTables:
    """Tables of a world with one state, where kernels read none."""
    return tabulate_worlds(Fleet([FiniteMDP(np.ones((1, 1, 1)), np.zeros(1), 0.5)]))
