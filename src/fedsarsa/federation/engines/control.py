"""The compiled engine for control worlds: a run is a thread's."""

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.federation import episodic
from fedsarsa.federation.engines import control_lanes, server
from fedsarsa.federation.engines.compiled import CompiledEngine, announced, first_failures
from fedsarsa.federation.engines.control_lanes import Bench, Control, Herd
from fedsarsa.federation.engines.layout import Stretch, Team
from fedsarsa.federation.episodic import EpisodicProblem
from fedsarsa.federation.problem import RUNNING, State
from fedsarsa.learning.boxes import Integers
from fedsarsa.learning.episodic_layout import desk
from fedsarsa.worlds.control import ControlFleet
from fedsarsa.worlds.control.world import pack


class ControlEngine(CompiledEngine):
    """Trains a problem on ``threads`` threads (all cores unless given).

    ``first_agent`` is the number of the problem's first agent in the federation that it is a part of.
    """

    long_round = 2_000
    problem: EpisodicProblem

    def __init__(self, problem: EpisodicProblem, threads: int | None = None, first_agent: int = 0) -> None:
        fleet = problem.fleet
        assert isinstance(fleet, ControlFleet)
        super().__init__(problem, threads, first_agent)
        self.model = problem.model()
        self.control = Control(
            kind=fleet.world.kind,
            physics=pack(fleet.worlds),
            limits=np.array([world.time_limit for world in fleet]),
            steps=problem.steps,
            bins=problem.bins,
        )
        self.plan = self.plan_for(np.arange(problem.agents))

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
            team, herd = self._team(state, own), self._herd(state, own)
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
        team, herd = self._team(state, ALL), self._herd(state, ALL)
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
            server.settle(
                self.plan, team, stretch, k, benches[0].failed_at, benches[0].spread, central, drift
            )

    def local_steps(self, state: State, step_sizes: Floats, stretch: Stretch) -> Integers:
        """A round, or a part of one, without its server, in place; when each run failed in it, (R,)."""
        team, herd, bench = self._team(state, ALL), self._herd(state, ALL), self._bench(self.problem.runs)
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
            flock=episodic.flock(state.episodes, state.actions, runs),
            physical=physical.reshape(lanes, -1),
            theta=theta.reshape(lanes, -1),
            progress=progress.reshape(lanes, progress.shape[2]),
        )

    def _team(self, state: State, runs: slice) -> Team:
        """What the server reads and writes: views on ``state``."""
        nothing = np.empty(0, np.uint32)
        return Team(
            first_run=U64(runs.start or 0),
            first_agent=self.first_agent,
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


ALL = slice(None)
