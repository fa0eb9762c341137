"""More cores than one machine has: blocks of agents, each in an actor of a Ray cluster.

An actor holds the worlds of its block and their compiled tables, and nothing that training changes: what
it computes is a function of what it is sent. So when one is killed, Ray starts it again and sends the same
again, and nothing is lost, or counted twice, but the work of that round.
"""

import itertools
import os
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa._checks import Floats
from fedsarsa._ray import RETRIES, connect, ray, reason
from fedsarsa.federation.engines.compiled import CompiledEngine, first_failures, stretch_of
from fedsarsa.federation.engines.control import ControlEngine
from fedsarsa.federation.engines.cpu import CpuEngine
from fedsarsa.federation.engines.reference import project
from fedsarsa.federation.episodic import EpisodicProblem
from fedsarsa.federation.problem import RUNNING, Problem, State, average, first_state
from fedsarsa.federation.problem import Synchronisations as Seen
from fedsarsa.learning.boxes import Integers


class Part(NamedTuple):
    """What training changes of a block.

    ``arrays`` are those of `shares`; parameters that are the central ones may be missing. ``failed_at`` (R,)
    says, as in `State`, which runs have failed before, and in an answer, which have failed now.
    """

    arrays: dict[str, NDArray[Any]]
    failed_at: Integers


class Block:
    """Some agents of a problem, from ``first_agent`` on: local steps, and no server.

    Every call says in ``held`` where in the object store the problem is; the first one of a life fetches it.
    """

    def __init__(self, first_agent: int) -> None:
        self.first_agent = first_agent

    def process(self) -> int:
        """The process it is in."""
        return os.getpid()

    def start(self, held: list[Any], part: Part) -> Part:
        """Draw the first states and actions."""
        self._awake(held)
        state = self._state(part, 0)
        self.engine.start(state)
        return Part(shares(state, ALL), state.failed_at)

    def steps(self, held: list[Any], part: Part, central: Floats | None, t: int, steps: int) -> Part:
        """``steps`` steps of one round from ``t`` on, from the central parameters (R, d) if given."""
        self._awake(held)
        state = self._state(part, t)
        if central is not None:
            state.theta[:] = central[:, None, :]
        engine = self.engine
        failed_at = engine.local_steps(state, engine.step_sizes(t, steps), stretch_of(self.problem, t, steps))
        return Part(shares(state, ALL), failed_at)

    def _awake(self, held: list[Any]) -> None:
        if not hasattr(self, "engine"):
            self.problem: Problem = ray.get(held[0])
            kind: Any = ControlEngine if isinstance(self.problem, EpisodicProblem) else CpuEngine
            self.engine: CompiledEngine = kind(self.problem, threads=1, first_agent=self.first_agent)

    def _state(self, part: Part, t: int) -> State:
        """The block's state; arrays from the object store cannot be written to, so these are copies."""
        state = first_state(self.problem, np.zeros(self.problem.features.dim))
        state.t = t
        state.failed_at[:] = part.failed_at
        own = shares(state, ALL)
        for name, array in part.arrays.items():
            own[name][:] = array
        return state


class RayEngine:
    """Trains a problem on ``threads`` actors (as many as the cluster has cores, unless given).

    It uses the Ray that this process is connected to, else the cluster that RAY_ADDRESS names, else one
    that it starts on this machine and that ends with the process.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, problem: Problem, threads: int | None = None) -> None:
        self.problem = problem
        connect()
        cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
        blocks = max(1, min(threads or cores, problem.agents))
        edges = np.linspace(0, problem.agents, blocks + 1).astype(int).tolist()
        self.parts = [slice(low, high) for low, high in itertools.pairwise(edges)]
        # Ray starts what was killed, however often, and makes each call again, RETRIES times: calls have no
        # effects of their own.
        share = min(1.0, cores / blocks)
        actor: Any = ray.remote(num_cpus=share, max_restarts=-1, max_task_retries=RETRIES)(Block)
        self.blocks = [actor.remote(part.start) for part in self.parts]
        # In lists, or Ray would send the problems themselves with every call.
        self.held = [[ray.put(_cut(problem, part))] for part in self.parts]

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        calls = [
            block.start.remote(held, self._part(state, part, True))
            for block, held, part in zip(self.blocks, self.held, self.parts, strict=True)
        ]
        self._take(state, calls)

    @np.errstate(over="ignore", invalid="ignore")  # parameters that overflow are found and reported
    def advance(self, state: State, steps: int) -> Seen:
        """Train every run for ``steps`` more steps, in place."""
        problem = self.problem
        central, drift = [], []
        end = state.t + steps
        while state.t < end:
            every = problem.sync_every or problem.steps
            length = min(end - state.t, every - state.t % every)
            # At the beginning of a round everybody has the central parameter, which travels once.
            fresh = problem.sync_every is not None and state.t % every == 0 and state.t > 0
            shared = ray.put(state.central) if fresh else None
            calls = [
                block.steps.remote(held, self._part(state, part, not fresh), shared, state.t, length)
                for block, held, part in zip(self.blocks, self.held, self.parts, strict=True)
            ]
            failed = self._take(state, calls)
            stretch = stretch_of(problem, state.t, length)
            state.t += length
            moved = [
                self._settle(state, run, failed[run], stretch.begun, stretch.ends, stretch.synchronises)
                for run in range(problem.runs)
            ]
            if stretch.synchronises:
                central.append(state.central.copy())
                drift.append(moved)
        shape = (len(central), problem.runs)
        return Seen(
            central=np.reshape(central, (*shape, problem.features.dim)).swapaxes(0, 1),
            drift=np.reshape(drift, shape).swapaxes(0, 1),
        )

    def _part(self, state: State, part: slice, with_theta: bool) -> Part:
        """What a block needs to know; parameters that are the central ones are left out."""
        arrays = shares(state, part)
        if not with_theta:
            del arrays["theta"]
        return Part(arrays, state.failed_at)

    def _take(self, state: State, calls: list[Any]) -> Integers:
        """Put the blocks' answers in their places; the step at which each run failed."""
        answers = [self._answer(call, part, state.t) for call, part in zip(calls, self.parts, strict=True)]
        for part, answer in zip(self.parts, answers, strict=True):
            own = shares(state, part)
            for name, array in answer.arrays.items():
                own[name][:] = array
        return first_failures([answer.failed_at for answer in answers])

    def _answer(self, call: Any, part: slice, t: int) -> Part:
        try:
            answer: Part = ray.get(call)
        except ray.exceptions.RayActorError as error:
            raise ValueError(
                f"engine ray: the worker of agents {part.start} to {part.stop - 1} died at the steps from "
                f"{t} on, and again when started anew (up to {RETRIES} times): {reason(error)}"
            ) from None
        return answer

    def _settle(
        self, state: State, run: int, failed: int, begun: int, ends: bool, synchronises: bool
    ) -> float:
        """What the server does for one run, as in the reference engine; the drift it sees."""
        problem, theta, moved = self.problem, state.theta[run], np.nan
        if state.failed_at[run] == RUNNING:
            state.failed_at[run] = failed
        if state.failed_at[run] == RUNNING and ends:
            if problem.average_offset is not None:
                steps = state.t - begun
                weight = steps * (problem.average_offset + begun + 0.5 * (steps - 1))
                state.weighted_sum[run] += weight * state.central[run]
                state.weighted_sum[run] += average(problem.weights, state.progress[run])
                state.progress[run] = 0.0
            state.central[run] = average(problem.weights, theta)
            if synchronises:
                moved = float(problem.weights @ np.sum((theta - state.central[run]) ** 2, axis=1))
                theta[:] = state.central[run] = project(state.central[run], problem.radius)
                if not np.isfinite(state.central[run]).all():
                    state.failed_at[run] = state.t - 1
        if state.failed_at[run] != RUNNING:
            theta[:] = state.central[run] = moved = np.nan
        return moved


def shares(state: State, agents: slice) -> dict[str, NDArray[Any]]:
    """What training changes of some agents: views on the state's arrays, (R, n, ...) each, by their names."""
    own = {name: getattr(state, name) for name in ("theta", "states", "actions", "progress")}
    if state.episodes is not None:
        own |= vars(state.episodes)
    return {name: array[:, agents] for name, array in own.items()}


ALL = slice(None)


def _cut(problem: Problem, part: slice) -> Problem:
    """The problem of some agents."""
    return replace(
        problem,
        fleet=problem.fleet[part],
        schedule_of=problem.schedule_of[part],
        weights=problem.weights[part],
    )
