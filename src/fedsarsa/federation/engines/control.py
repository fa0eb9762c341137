"""The compiled engine for control worlds, and for every step that the fast one of finite worlds has not."""

from functools import cache

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.federation.engines import control_lanes, server
from fedsarsa.federation.engines.compiled import (
    ALL,
    CompiledEngine,
    announced,
    first_failures,
    model_of,
    plan_of,
    rows_of,
    server_team,
)
from fedsarsa.federation.engines.control_lanes import FINITE, Bench, Control, Herd
from fedsarsa.federation.engines.layout import Stretch
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.boxes import BoxMap, Integers
from fedsarsa.learning.episodic_layout import desk
from fedsarsa.learning.features import OneHot
from fedsarsa.learning.policies import Greedy
from fedsarsa.learning.tables import Tables, tabulate
from fedsarsa.worlds.control import ControlFleet
from fedsarsa.worlds.control.world import pack
from fedsarsa.worlds.finite import FiniteMDP
from fedsarsa.worlds.fleet import Fleet


class ControlEngine(CompiledEngine):
    """Trains a problem."""

    long_round = 2_000

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        with announced():
            self.model, self.control = model_of(problem), control_of(problem)
        self.plan = plan_of(problem, np.arange(problem.agents))

    def start(self, state: State) -> None:
        """Begin every agent's first episode."""
        with announced():
            herd, bench = self._herd(state, ALL), self._bench(0)
            control_lanes.start(self.control, self.model, self.plan, self.first_agent, herd, bench)

    def train_by_runs(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """A run is one thread's for the whole stretch."""

        def train(run: int) -> None:
            own = slice(run, run + 1)
            team, herd = server_team(state, own, self.first_agent), self._herd(state, own)
            bench = self._bench(1)
            control_lanes.train(
                self.control,
                self.model,
                self.plan,
                team,
                herd,
                step_sizes,
                stretch,
                bench,
                central[own],
                drift[own],
            )

        self.share_out(train, range(self.problem.runs))

    def train_by_agents(
        self, state: State, step_sizes: Floats, stretch: Stretch, central: Floats, drift: Floats
    ) -> None:
        """Every round, all agents are shared out among the threads."""
        team, herd = server_team(state, ALL, self.first_agent), self._herd(state, ALL)
        benches = [self._bench(self.problem.runs) for _ in range(self.threads)]
        edges = np.linspace(0, len(herd.theta), self.threads + 1).astype(int).tolist()
        for k in range(stretch.rounds):

            def steps(part: int, k: int = k) -> None:
                low, high = edges[part], edges[part + 1]
                control_lanes.local_steps(
                    self.control,
                    self.model,
                    self.plan,
                    team,
                    herd,
                    low,
                    high,
                    step_sizes,
                    stretch,
                    k,
                    benches[part],
                )

            self.share_out(steps, range(self.threads))
            benches[0].failed_at[:] = first_failures([bench.failed_at for bench in benches])
            before = state.central.copy()
            server.settle(
                self.plan, team, stretch, k, benches[0].failed_at, benches[0].spread, central, drift
            )
            self.combine(state, before, stretch, k, central, drift)

    def local_steps(self, state: State, step_sizes: Floats, stretch: Stretch) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        team, herd, bench = (
            server_team(state, ALL, self.first_agent),
            self._herd(state, ALL),
            self._bench(self.problem.runs),
        )
        lanes = len(herd.theta)
        control_lanes.local_steps(
            self.control, self.model, self.plan, team, herd, 0, lanes, step_sizes, stretch, 0, bench
        )
        return bench.failed_at

    def _bench(self, runs: int) -> Bench:
        return Bench(desk(self.model), np.empty(self.problem.features.dim), np.full(runs, RUNNING, np.int64))

    def _herd(self, state: State, runs: slice) -> Herd:
        assert state.episodes is not None
        theta, progress, physical = state.theta[runs], state.progress[runs], state.episodes.physical[runs]
        lanes = theta.shape[0] * theta.shape[1]
        return Herd(
            flock=rows_of(state.episodes, state.actions, runs),
            states=state.states[runs].reshape(-1),
            physical=physical.reshape(lanes, physical.shape[2]),
            theta=theta.reshape(lanes, -1),
            progress=progress.reshape(lanes, progress.shape[2]),
        )


def control_of(problem: Problem) -> Control:
    """The worlds of a problem, as kernels read them."""
    fleet, agents = problem.fleet, problem.agents
    if isinstance(fleet, Fleet):
        assert not isinstance(problem.features, BoxMap)
        return Control(
            kind=FINITE,
            physics=np.empty((agents, 0)),
            limits=np.full(agents, np.iinfo(np.int64).max),  # they never end
            steps=problem.steps,
            bins=problem.bins,
            tables=tabulate(fleet, problem.features, problem.policy),
            world=fleet.world_of.astype(np.uint64),
        )
    assert isinstance(fleet, ControlFleet)
    return Control(
        kind=fleet.world.kind,
        physics=pack(fleet.worlds),
        limits=np.array([world.time_limit for world in fleet]),
        steps=problem.steps,
        bins=problem.bins,
        tables=no_tables(),
        world=np.empty(0, np.uint64),
    )


@cache
def no_tables() -> Tables:
    """Tables of a world with one state, where kernels read none."""
    return tabulate(Fleet([FiniteMDP(np.ones((1, 1, 1)), np.zeros(1))]), OneHot().on(1, 1), Greedy())
