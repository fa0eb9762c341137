"""The compiled engine for control worlds, and for agents of finite worlds that hold more than a pair."""

from functools import cache
from typing import Any

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.engines import compiled_server, general_rounds
from fedsarsa.engines.arrays import AHEAD, BLOCK, RoundSettings, RunView, Span
from fedsarsa.engines.compiled import (
    ALL,
    CompiledEngine,
    StepSizes,
    announced,
    first_failures,
    lanes_of,
    model_of,
    options_of,
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
from fedsarsa.learning.step_arrays import Model, step_workspace
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
        self.options = options_of(problem)

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
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
    ) -> None:
        """A run is one thread's for the whole span."""

        def train(run: int) -> None:
            own = slice(run, run + 1)
            view, learners = server_view(state, own, self.first_agent), self._learners(state, own)
            workspace = self._workspace(1)
            general_rounds.train(
                *self.fixed,
                view,
                learners,
                self.options,
                sizes.each,
                sizes.sums,
                span,
                workspace,
                central[own],
                drift[own],
            )

        self.share_out(train, range(self.problem.runs))

    def train_by_agents(
        self, state: State, sizes: StepSizes, span: Span, central: Floats, drift: Floats
    ) -> None:
        """Every round, all agents are shared out among the threads."""
        learners = self._learners(state, ALL)
        workspaces = [self._workspace(self.problem.runs) for _ in range(self.threads)]
        edges = np.linspace(0, len(learners.theta), self.threads + 1).astype(int).tolist()
        for k in range(span.rounds):
            view = server_view(state, ALL, self.first_agent, self.takes_part(span, k))

            def steps(part: int, k: int = k, view: RunView = view) -> None:
                general_rounds.local_steps(
                    *self.fixed,
                    view,
                    learners,
                    edges[part],
                    edges[part + 1],
                    sizes.each,
                    span,
                    k,
                    workspaces[part],
                )

            self.share_out(steps, range(self.threads))
            workspaces[0].failed_at[:] = first_failures([workspace.failed_at for workspace in workspaces])
            before = state.central.copy()
            compiled_server.settle(
                self.settings,
                self.options,
                view,
                span,
                k,
                sizes.sums,
                workspaces[0].failed_at,
                central,
                drift,
            )
            self.combine(state, before, span, k, central, drift)

    def local_steps(self, state: State, step_sizes: Floats, span: Span, takes_part: Present) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        view, learners, workspace = (
            server_view(state, ALL, self.first_agent, takes_part),
            self._learners(state, ALL),
            self._workspace(self.problem.runs),
        )
        last = len(learners.theta)
        general_rounds.local_steps(*self.fixed, view, learners, 0, last, step_sizes, span, 0, workspace)
        return workspace.failed_at

    @property
    def fixed(self) -> tuple[Worlds, Model, RoundSettings]:
        """What does not change while training."""
        return self.worlds, self.model, self.settings

    def _workspace(self, runs: int) -> RoundWorkspace:
        return RoundWorkspace(
            step=step_workspace(self.model),
            runs=np.empty(BLOCK, np.uint64),
            streams=np.empty(BLOCK, np.uint64),
            firsts=np.empty(AHEAD * BLOCK, np.uint64),
            seconds=np.empty(AHEAD * BLOCK, np.uint64),
            failed_at=np.full(runs, RUNNING, np.int64),
        )

    def _learners(self, state: State, runs: slice) -> Learners:
        assert state.episodes is not None
        return Learners(
            agent_state=rows_of(state.episodes, state.actions, state.shift, state.left, runs),
            states=state.states[runs].reshape(-1),
            physical=lanes_of(state.episodes.physical[runs]),
            theta=lanes_of(state.theta[runs]),
            progress=lanes_of(state.progress[runs]),
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
