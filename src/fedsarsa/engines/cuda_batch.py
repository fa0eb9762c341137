"""Problems of finite worlds that a GPU trains side by side."""

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._numba import U64
from fedsarsa.engines import cuda_finite
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled import step_sizes_of
from fedsarsa.engines.cuda_arrays import RUNS, Agents, Cells, Federations, Lanes, Records, Shape
from fedsarsa.engines.cuda_device import device_array, grid, limits, rounded, to_device, to_host
from fedsarsa.engines.cuda_layout import fits, split_blocks, threads_for, whole_blocks, widest
from fedsarsa.engines.cuda_server import settle_kernel, settling
from fedsarsa.federation.problem import DOUBLE, SINGLE, Problem
from fedsarsa.federation.servers.mean import average
from fedsarsa.federation.state import RUNNING, State
from fedsarsa.learning.features import Aggregation
from fedsarsa.learning.finite_tables import Tables, tabulate
from fedsarsa.learning.policies import FixedPolicy, Softmax
from fedsarsa.learning.step_sizes import ConstantStep

T = TypeVar("T")

LARGEST_TABLE = 2**32  # entries of a world, which kernels count with 32 bits


def shape_of(problem: Problem) -> Shape:
    """What kernels are compiled for."""
    tables, features = tables_of(problem), problem.finite_worlds[1]
    dense = not isinstance(features, Aggregation)
    return Shape(
        width=int(tables.width),
        policy=tables.choice.policy,
        shifted=bool((tables.worlds.action_size == 0).all()),
        dense=dense,
        cached=isinstance(problem.policy, Softmax) and not dense,
        averaged=problem.average_offset is not None,
        known=int(tables.worlds.reward_next) == 0,
        rotated=bool(tables.actions > tables.worlds.states),
        steady=all(type(one) is ConstantStep for one in problem.schedules),
        even=bool((problem.weights == problem.weights[0]).all()),
        whole=True,
        single=problem.precision == SINGLE,
        threads=0,
    )


_tables: WeakKeyDictionary[Problem, Tables] = WeakKeyDictionary()


def tables_of(problem: Problem) -> Tables:
    """The problem as flat arrays, which are made once."""
    if problem not in _tables:
        fleet, features = problem.finite_worlds
        _tables[problem] = tabulate(fleet, features, problem.policy)
    return _tables[problem]


def bytes_each(shape: Shape, dim: int) -> int:
    """Shared memory that an agent takes: its rows, and a number per thread."""
    return (shape.rows * dim + 1) * (4 if shape.single else 8)


def ordered(problem: Problem) -> bool:
    """Whether means must be summed agent by agent, as in other engines.

    A last bit decides between actions that tie, unless the policy is known to be continuous. In float32 no
    engine has the same numbers anyway.
    """
    return problem.precision == DOUBLE and not isinstance(problem.policy, Softmax | FixedPolicy)


def serves(problem: Problem) -> bool:
    """Whether agents hold pairs, take steps without options, and their mean is all that the server makes.

    Federations of several blocks of threads are summed up block by block.
    """
    if not (problem.holds_pairs and problem.step.plain and not problem.step.redraw_actions):
        return False
    if problem.step.behaviour or not problem.takes_mean:
        return False
    worlds = tables_of(problem).worlds
    if max(worlds.action_size.max() * problem.fleet.action_count, worlds.reward_world) >= LARGEST_TABLE:
        return False
    each = bytes_each(shape_of(problem), problem.features.dim)
    whole = not ordered(problem) or problem.agents <= widest(limits(), each)
    return whole and fits(limits(), each)


class Batch:
    """Trains problems that differ in fleets and numbers alone."""

    def __init__(self, problems: Sequence[Problem], first_agent: int = 0) -> None:
        self.problems, self.first_agent = list(problems), first_agent
        first = self.problems[0]
        self.dim, self.shape = first.features.dim, shape_of(first)
        tables = [tables_of(problem) for problem in self.problems]
        sizes = np.array([problem.agents for problem in self.problems])
        runs = np.array([problem.runs for problem in self.problems])
        self.cell = np.repeat(np.arange(len(sizes)), runs)
        self.edges = np.cumsum([0, *runs])
        self.first_lane = np.cumsum([0, *sizes[self.cell]])
        each = bytes_each(self.shape, self.dim)
        self.threads = threads_for(
            limits(), each, self.shape.registers, sizes[self.cell], whole=ordered(first)
        )
        self.shape = self.shape._replace(threads=self.threads, whole=bool(sizes.max() <= self.threads))
        if not self.shape.whole:
            self.blocks, self.owned = split_blocks(sizes[self.cell], self.threads)
        else:
            self.blocks = whole_blocks(sizes[self.cell], self.threads)
        self.tables = self._sent(joined(tables))
        self.cells = self._sent(cells_of(self.problems, first_agent))
        self.agents = self._sent(self._agents(tables))
        self.device_blocks = to_device(self.blocks)
        self.projects = any(problem.radius is not None for problem in self.problems)

    def _sent(self, item: T) -> T:
        """What steps read, on the GPU in the precision of the shape."""
        return to_device(rounded(item) if self.shape.single else item)

    def _agents(self, tables: list[Tables]) -> Agents:
        worlds = np.cumsum([0, *(len(one.worlds.alias_start) for one in tables)])
        schedules = np.cumsum([0, *(len(problem.schedules) for problem in self.problems)])
        return Agents(
            world=np.concatenate(
                [
                    problem.finite_worlds[0].world_of.astype(np.uint64) + U64(start)
                    for problem, start in zip(self.problems, worlds, strict=False)
                ]
            ),
            weight=np.concatenate([np.array(problem.weights) for problem in self.problems]),
            schedule=np.concatenate(
                [
                    problem.schedule_of.astype(np.uint64) + U64(start)
                    for problem, start in zip(self.problems, schedules, strict=False)
                ]
            ),
        )

    def follow(self, problems: Sequence[Problem]) -> None:
        """Act by the policies of the same problems with other numbers."""
        self.problems = list(problems)
        self.cells = self._sent(cells_of(self.problems, self.first_agent))

    def close(self) -> None:
        """Let go of what kernels hold on the GPU."""
        for kernel in (*self.kernels, settle_kernel(self.shape.averaged, self.shape.single)):
            kernel.forget()

    def runs_of(self, place: int) -> slice:
        """The runs of a problem among those of all."""
        return slice(int(self.edges[place]), int(self.edges[place + 1]))

    @cached_property
    def kernels(self) -> cuda_finite.Kernels:
        """Those of the shape; the one that starts knows nothing of blocks."""
        start = cuda_finite.kernels(self.shape._replace(threads=0, whole=True)).start
        return cuda_finite.kernels(self.shape)._replace(start=start)

    def _federations(self, states: Sequence[State]) -> Federations:
        failed = np.concatenate([state.failed_at for state in states])
        return Federations(
            cell=self.cell.astype(np.uint64),
            run=(np.arange(len(self.cell)) - self.edges[self.cell]).astype(np.uint64),
            first_lane=self.first_lane[:-1].astype(np.uint64),
            central=np.concatenate([state.central for state in states]),
            weighted_sum=np.concatenate([state.weighted_sum for state in states]),
            failed_at=unsigned_failures(failed),
        )

    def _lanes(self, states: Sequence[State], with_theta: bool) -> Lanes:
        def flat(name: str, *more: int) -> NDArray[Any]:
            return np.concatenate([getattr(state, name).reshape(-1, *more) for state in states])

        none = np.zeros((1, self.dim))
        return Lanes(
            states=flat("states"),
            actions=flat("actions"),
            theta=flat("theta", self.dim) if with_theta else none,
            progress=flat("progress", self.dim) if with_theta and self.shape.averaged else none,
        )

    def start(self, states: Sequence[State]) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        lanes, federations = (
            to_device(self._lanes(states, with_theta=True)),
            to_device(self._federations(states)),
        )
        owner = to_device(np.repeat(np.arange(len(self.cell)), np.diff(self.first_lane)).astype(np.uint64))
        self.kernels.start.launch(
            *grid(len(owner)), 0, self.tables, self.cells, self.agents, federations, lanes, owner
        )
        self._bring_pairs(states, lanes)
        self.close()

    def _bring_pairs(self, states: Sequence[State], lanes: Lanes) -> None:
        for name in ("states", "actions"):
            flat, at = to_host(getattr(lanes, name)), 0
            for state in states:
                own = getattr(state, name)
                own[:] = flat[at : at + own.size].reshape(own.shape)
                at += own.size

    def train(self, states: Sequence[State], span: Span, record_every: int = 1) -> tuple[Floats, Floats]:
        """All steps of a span, in place; central parameters (F, m, d) and drifts (F, m) after its rounds.

        Of all synchronisations of the training every ``record_every``-th is recorded.
        """
        fresh = span.begun == span.t > 0
        keeps = not (fresh and span.synchronises)
        lanes = to_device(self._lanes(states, with_theta=keeps))
        federations = to_device(self._federations(states))
        sizes, columns = self._step_sizes(span)
        # Synchronisations since the last one that was recorded, before this span.
        since = span.begun // (self.problems[0].sync_every or 1) % record_every
        recorded = (since + span.rounds) // record_every if span.synchronises else 0
        records = empty_records(
            len(self.cell), recorded, self.dim, 1 if self.shape.whole else len(self.blocks.first)
        )
        device_span = unsigned(span)
        shared = bytes_each(self.shape, self.dim) * self.threads

        def take(span: Span, column: int, fresh: bool) -> None:
            self.kernels.rounds.launch(
                len(self.blocks.first),
                self.threads,
                shared,
                self.tables,
                self.cells,
                self.agents,
                federations,
                self.device_blocks,
                lanes,
                sizes,
                U64(columns),
                U64(column),
                span,
                np.bool(fresh),
                np.bool(self.projects),
                U64(record_every),
                U64(since),
                records,
            )

        if self.shape.whole or not span.synchronises:
            take(device_span, 0, fresh)
        else:
            settle, owned = settle_kernel(self.shape.averaged, self.shape.single), to_device(self.owned)
            for k in range(span.rounds):
                column = k * span.steps
                own = device_span._replace(
                    t=U64(span.t + column), begun=U64(span.begun + column), rounds=U64(1)
                )
                take(own, column, fresh or k > 0)
                row, later = divmod(since + k + 1, record_every)
                settle.launch(
                    len(self.cell),
                    *settling(),
                    self.cells,
                    federations,
                    owned,
                    device_span,
                    U64(k),
                    np.bool(self.projects),
                    np.bool(later == 0),
                    U64(max(row - 1, 0)),
                    records,
                )
        self._bring_pairs(states, lanes)
        self._bring(states, federations, lanes, span)
        self.close()
        return to_host(records.central), to_host(records.drift)

    def _step_sizes(self, span: Span) -> tuple[Any, int]:
        """Step sizes (schedules, n), flat on the GPU, and n: the steps of the span, or 1 for all of them."""
        each = np.concatenate([step_sizes_of(problem, span).each for problem in self.problems])
        if self.shape.steady:
            each = each[:, :1]
        return self._sent(each.ravel()), each.shape[1]

    def _bring(self, states: Sequence[State], federations: Federations, lanes: Lanes, span: Span) -> None:
        """Bring everything but pairs back to the computer's memory."""
        failed = to_host(federations.failed_at)
        central, total = to_host(federations.central), to_host(federations.weighted_sum)
        local = not span.synchronises
        theta = to_host(lanes.theta) if local else None
        progress = to_host(lanes.progress) if local and self.shape.averaged else None
        for place, (problem, state) in enumerate(zip(self.problems, states, strict=True)):
            own = self.runs_of(place)
            lanes_of = slice(self.first_lane[own.start], self.first_lane[own.stop])
            state.central[:], state.weighted_sum[:] = central[own], total[own]
            bring_failures(state, failed[own])
            if theta is not None:
                state.theta[:] = theta[lanes_of].reshape(state.theta.shape)
            if progress is not None:
                state.progress[:] = progress[lanes_of].reshape(state.progress.shape)
                if span.ends:
                    add_progress(problem, state, span.begun, span.t + span.steps)


def add_progress(problem: Problem, state: State, begun: int, end: int) -> None:
    """Add the steps of a round to the sum for theta-tilde, before the central parameter changes."""
    assert problem.average_offset is not None
    weight = (end - begun) * (problem.average_offset + begun + 0.5 * (end - begun - 1))
    state.weighted_sum += weight * state.central + average(problem.weights, state.progress)
    state.progress[:] = 0.0


def cells_of(problems: Sequence[Problem], first_agent: int) -> Cells:
    """Problems as kernels read them."""
    agents = np.array([problem.agents for problem in problems])
    parameter = np.array([float(problem.policy.parameter) for problem in problems])
    return Cells(
        agents=agents.astype(np.uint64),
        first_agent=np.cumsum([0, *agents[:-1]]).astype(np.uint64),
        stream=np.full(len(agents), first_agent, np.uint64),
        seed=np.array([problem.seed for problem in problems], np.uint64),
        discount=np.array([float(problem.fleet.discount) for problem in problems]),
        parameter=parameter,
        inverse=1.0 / np.where(parameter > 0, parameter, 1.0),
        offset=np.array([float(one.average_offset or 0.0) for one in problems]),
        radius=np.array([math.inf if one.radius is None else float(one.radius) for one in problems]),
    )


def empty_records(federations: int, rounds: int, dim: int, parts: int) -> Records:
    """Room for what is recorded after each of some rounds, and for sums over ``parts`` of federations."""
    return Records(
        central=device_array((federations, rounds, dim)),
        drift=device_array((federations, rounds)),
        parts=device_array((parts, 3, dim)),
    )


def unsigned(span: Span) -> Span:
    """A span whose numbers meet unsigned ones in kernels."""
    numbers = {name: U64(getattr(span, name)) for name in ("t", "steps", "rounds", "begun", "left")}
    return span._replace(**numbers)


def unsigned_failures(failed_at: NDArray[np.int64]) -> NDArray[np.uint64]:
    """When runs failed, as kernels note it."""
    return np.where(failed_at == RUNNING, RUNS, failed_at.astype(np.uint64))


def bring_failures(state: State, failed_at: NDArray[np.uint64]) -> None:
    """Note when runs failed, which ends their parameters."""
    state.failed_at[:] = np.where(failed_at == RUNS, RUNNING, failed_at.astype(np.int64))
    state.central[state.failed_at != RUNNING] = np.nan


def joined(tables: Sequence[Tables]) -> Tables:
    """The tables of all problems as one: their worlds, one after another.

    Worlds of several fleets often have the same kernel, as their rewards alone differ: it is kept once, so
    that it stays in the GPU's cache.
    """
    first = tables[0].worlds
    if len(tables) == 1:
        return tables[0]
    known: dict[bytes, int] = {}
    rows: list[NDArray[np.uint64]] = []
    starts, size = [], 0
    for worlds in (one.worlds for one in tables):
        for low, high in itertools.pairwise([*worlds.alias_start.tolist(), len(worlds.alias)]):
            content = worlds.alias[low:high].tobytes()
            if content not in known:
                known[content] = size
                rows.append(worlds.alias[low:high])
                size += high - low
            starts.append(known[content])
    alias_start = np.array(starts, np.uint64)
    return tables[0]._replace(
        worlds=first._replace(
            alias=np.concatenate(rows),
            alias_start=alias_start,
            kernel_start=alias_start + U64(first.states),
            action_size=np.concatenate([one.worlds.action_size for one in tables]),
            turns=np.concatenate([one.worlds.turns for one in tables]),
            reward=np.concatenate([one.worlds.reward for one in tables]),
        )
    )
