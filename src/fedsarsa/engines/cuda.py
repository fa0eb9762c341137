"""Engines for NVIDIA GPUs, written with numba-cuda."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.engines import cuda_general
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled import ALL, SpanEngine, lanes_of, model_of, rows_of, step_sizes_of
from fedsarsa.engines.cuda_arrays import Federations, Records
from fedsarsa.engines.cuda_batch import (
    Batch,
    add_progress,
    bring_failures,
    cells_of,
    empty_records,
    ordered,
    unsigned,
    unsigned_failures,
)
from fedsarsa.engines.cuda_device import device_array, grid, to_device, to_host
from fedsarsa.engines.cuda_general import COLUMNS, Training, shape_of
from fedsarsa.engines.cuda_memory import fitting
from fedsarsa.engines.cuda_server import settle_kernel, settling
from fedsarsa.engines.general import worlds_of
from fedsarsa.engines.general_rounds import Learners
from fedsarsa.federation.participation import Present, taking_part
from fedsarsa.federation.problem import DOUBLE, Problem
from fedsarsa.federation.rounds import drift_of, end_round
from fedsarsa.federation.state import RUNNING, Episodes, State, Synchronisations, first_episodes
from fedsarsa.learning.choice import renumbered
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.policies import Policy

FIRST_SPAN = 20_000_000  # agent-steps before it is known how long they take
PART = 1024  # agents whose parameters one block sums up


class CudaEngine(SpanEngine):
    """What both engines share."""

    name: ClassVar[str] = "cuda"

    @property
    def problems(self) -> list[Problem]:
        """Those that it trains."""
        return [self.problem]

    @property
    def first_steps(self) -> int:
        """Steps to take at first, before it is known how long they take."""
        few = FIRST_SPAN // (self.problem.agents * self.problem.runs)
        return max(1, few, self.problem.sync_every or 1)

    @fitting
    def take_steps(self, state: State, steps: int) -> Synchronisations:
        """Train every run for ``steps`` more steps, in place."""
        return super().take_steps(state, steps)


class CudaFiniteEngine(CudaEngine):
    """Trains a problem of finite worlds whose agents hold pairs, with parameters in shared memory."""

    @fitting
    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        self.batch = Batch([self.problem], first_agent)

    @fitting
    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        self.batch.start([state])

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        super().follow(policy)
        self.batch.follow([self.problem])

    def close(self) -> None:
        """Let go of what is held on the GPU."""
        self.batch.close()

    def train(self, state: State, span: Span, central: Floats, drift: Floats) -> None:
        """Take all steps of a span."""
        central[:], drift[:] = self.batch.train([state], span)


class CudaGeneralEngine(CudaEngine):
    """Trains a problem of any compiled world, with every option of the step, and any server rule."""

    @fitting
    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        problem = self.problem
        if problem.precision != DOUBLE:
            raise ValueError(
                f"precision must be {DOUBLE!r} here, got {problem.precision!r}, which is for finite worlds, "
                "steps and the mean of Algorithm 1 of the paper, and parameters that fit into a GPU's shared "
                "memory"
            )
        self.model, self.worlds = model_of(problem), to_device(worlds_of(problem))
        self.device_model = to_device(self.model)
        held = first_episodes(replace(problem, runs=1))
        shape = shape_of(self.model, self.worlds.kind, held.seen.shape[-1], held.physical.shape[-1])
        self.kernels = cuda_general.kernels(shape)
        self.on_device = problem.takes_mean
        # Sums of parts are faster, and differ in their last bits from sums in order.
        self.parts = 1 if ordered(problem) else -(-problem.agents // PART)
        self.cells = to_device(cells_of([problem], first_agent))

    def follow(self, policy: Policy) -> None:
        """Act by the policy with another number from now on."""
        super().follow(policy)
        self.model = self.model._replace(choice=renumbered(self.model.choice, policy))
        self.device_model = self.device_model._replace(
            choice=self.device_model.choice._replace(parameter=float(policy.parameter))
        )

    @fitting
    def start(self, state: State) -> None:
        """Begin every agent's first episode."""
        learners, failed = self._learners(state), to_device(unsigned_failures(state.failed_at))
        self._take_round(learners, to_device(np.zeros((1, 1))), failed, None, 0)
        self._bring(state, learners, theta=False)
        self.close()

    def train(self, state: State, span: Span, central: Floats, drift: Floats) -> None:
        """Take all steps of a span."""
        problem = self.problem
        settles = self.on_device and span.synchronises
        fresh = settles and span.begun == span.t > 0
        learners, federations = self._learners(state, empty=fresh), self._federations(state)
        sizes = to_device(step_sizes_of(problem, span).each)
        records = empty_records(
            problem.runs, span.rounds if settles else 0, problem.features.dim, problem.runs * self.parts
        )
        for k in range(span.rounds):
            if settles and (fresh or k > 0):
                self.kernels.broadcast.launch(
                    *grid(learners.theta.size), 0, federations.central, problem.agents, learners.theta
                )
            present = taking_part(problem, span.begun + k * span.steps)
            self._take_round(learners, sizes, federations.failed_at, span, k, present)
            if settles:
                self._settle(federations, learners, records, span, k)
                continue
            before = state.central.copy()
            self._bring(state, learners, theta=True)
            bring_failures(state, to_host(federations.failed_at))
            self._end_round(state, before, span, k, central, drift)
            if k + 1 < span.rounds:
                learners, federations = self._learners(state), self._federations(state)
        if settles:
            self._bring(state, learners, theta=False)
            central[:], drift[:] = to_host(records.central), to_host(records.drift)
            state.central[:] = to_host(federations.central)
            state.weighted_sum[:] = to_host(federations.weighted_sum)
            bring_failures(state, to_host(federations.failed_at))
        self.close()

    def close(self) -> None:
        """Let go of what is held on the GPU."""
        for kernel in (*self.kernels, settle_kernel(self.problem.average_offset is not None)):
            kernel.forget()

    def _federations(self, state: State) -> Federations:
        runs = np.arange(self.problem.runs, dtype=np.uint64)
        return to_device(
            Federations(
                cell=np.zeros_like(runs),
                run=runs,
                first_lane=runs * U64(self.problem.agents),
                central=state.central,
                weighted_sum=state.weighted_sum,
                failed_at=unsigned_failures(state.failed_at),
            )
        )

    def _take_round(
        self,
        learners: Learners,
        sizes: Any,
        failed_at: Any,
        span: Span | None,
        k: int,
        present: Present = None,
    ) -> None:
        """The steps of a span's k-th round; without a span, the beginning of the first episodes."""
        problem = self.problem
        agents = np.ones((problem.runs, problem.agents), np.bool) if present is None else present
        training = Training(
            weights=np.array(problem.weights),
            schedule=problem.schedule_of.astype(np.uint64),
            seed=U64(problem.seed),
            stream=U64(self.first_agent),
            offset=float(problem.average_offset or 0.0),
            present=agents.ravel(),
        )
        self.kernels.round.launch(
            *grid(problem.runs * problem.agents),
            0,
            self.worlds,
            self.device_model,
            to_device(training),
            learners,
            sizes,
            span or Span(0, 0, 0, 0, 0, ends=False, synchronises=False),
            k,
            span is None,
            failed_at,
        )

    def _settle(
        self,
        federations: Federations,
        learners: Learners,
        records: Records,
        span: Span,
        k: int,
    ) -> None:
        """End a round on the GPU, where the server takes the mean."""
        problem, parts = self.problem, self.parts
        self.kernels.sums.launch(
            problem.runs * parts * -(-problem.features.dim // COLUMNS),
            grid(1)[1],
            0,
            to_device(np.array(problem.weights)),
            federations,
            learners.theta,
            learners.progress,
            parts,
            records,
        )
        owned = np.arange(problem.runs + 1, dtype=np.uint64) * U64(parts)
        settle_kernel(problem.average_offset is not None).launch(
            problem.runs,
            *settling(),
            self.cells,
            federations,
            to_device(owned),
            unsigned(span),
            U64(k),
            problem.radius is not None,
            True,
            U64(k),
            records,
        )

    def _end_round(
        self, state: State, before: Floats, span: Span, k: int, central: Floats, drift: Floats
    ) -> None:
        """End a round, or a part of one, in NumPy: average, and apply the server rule."""
        problem = self.problem
        begun, end = span.begun + k * span.steps, span.t + (k + 1) * span.steps
        if span.ends and problem.average_offset is not None:
            add_progress(problem, state, begun, end)
        if span.synchronises:
            drift[:, k] = drift_of(problem, state, end - 1)
            end_round(problem, state, begun, end, before)
            central[:, k] = state.central
            drift[state.failed_at != RUNNING, k] = np.nan

    def _rows(self, state: State) -> Learners:
        """What agents hold, a row each: views on ``state``, but for what a pair decides."""
        episodes = held_pairs(self.problem, state) if state.episodes is None else state.episodes
        return Learners(
            agent_state=rows_of(episodes, state.actions, state.shift, state.left, ALL),
            states=state.states.reshape(-1),
            physical=lanes_of(episodes.physical),
            theta=lanes_of(state.theta),
            progress=lanes_of(state.progress),
        )

    def _learners(self, state: State, empty: bool = False) -> Learners:
        """The same on the GPU; parameters are ``empty`` where the server sends them."""
        rows = self._rows(state)
        if not empty:
            return to_device(rows)
        small = to_device(rows._replace(theta=rows.theta[:0], progress=rows.progress[:0]))
        return small._replace(
            theta=device_array(rows.theta.shape), progress=to_device(np.zeros_like(rows.progress))
        )

    def _bring(self, state: State, learners: Learners, theta: bool) -> None:
        """Bring what agents hold back into ``state``, with their parameters or without."""
        host = self._rows(state)
        kept = [(getattr(host, name), getattr(learners, name)) for name in ("states", "physical")]
        kept += zip(host.agent_state, learners.agent_state, strict=True)
        if theta:
            kept += [(getattr(host, name), getattr(learners, name)) for name in ("theta", "progress")]
        for array, device in kept:
            if array.size:
                array[...] = to_host(device)


def held_pairs(problem: Problem, state: State) -> Episodes:
    """What agents hold where the state has their pairs (s, a) alone."""
    _, features = problem.finite_worlds
    episodes, s, a = first_episodes(problem), state.states, state.actions
    episodes.seen[:, :, 0], episodes.numbers[:] = s, a
    if isinstance(features, Aggregation):
        places = np.asarray(features.rows)[s] * features.width + np.asarray(features.columns)[a]
        episodes.places[:, :, 0], episodes.value[:] = places, 1.0
    else:
        episodes.places[:], episodes.value[:] = np.arange(features.dim), features.table[s, a]
    return episodes
