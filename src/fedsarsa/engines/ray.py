"""More cores than one machine has: blocks of agents, each in an actor of a Ray cluster.

An actor holds the worlds of its block and their compiled tables, and nothing that training changes: what
it computes is a function of what it is sent. So when one is killed, Ray starts it again and sends the same
again, and nothing is lost, or counted twice, but the work of that round.
"""

import contextlib
import itertools
import os
import sys
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsarsa import engines
from fedsarsa._checks import Floats
from fedsarsa._ray import RETRIES, check_version, connect, ray, reason
from fedsarsa._version import __version__
from fedsarsa.engines import compiled_server
from fedsarsa.engines.arrays import Span
from fedsarsa.engines.compiled import (
    ALL,
    CompiledEngine,
    SpanEngine,
    first_failures,
    options_of,
    server_view,
    settings_of,
    span_of,
    step_sizes_of,
)
from fedsarsa.federation.participation import NO_FAULTS, Present, taking_part
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.servers import Mean
from fedsarsa.federation.state import State, first_state
from fedsarsa.learning.continuous_features import Integers
from fedsarsa.learning.policies import Policy

PATIENCE = 5.0  # seconds after which it is said what is waited for
COMPILING = "workers compile the cpu engine, once on every machine, or their rounds are long"


class BlockState(NamedTuple):
    """What training changes of a block.

    ``arrays`` are those of `shares`; parameters that are the central ones may be missing. ``failed_at`` (R,)
    says, as in `State`, which runs have failed before, and in an answer, which have failed now.
    """

    arrays: dict[str, NDArray[Any]]
    failed_at: Integers


class AgentBlock:
    """Some agents of a problem, from ``first_agent`` on: local steps, and no server.

    Every call says in ``held`` where in the object store the problem is; the first one of a life fetches it.
    """

    def __init__(self, first_agent: int) -> None:
        self.first_agent = first_agent

    def meet(self, version: str) -> int:
        """The process it is in, if that has this version of fedsarsa."""
        check_version(version)
        return os.getpid()

    def start(self, held: list[Any], part: BlockState) -> BlockState:
        """Draw the first states and actions."""
        self._awake(held)
        state = self._state(part, 0)
        self.engine.start(state)
        return BlockState(shares(state, ALL), state.failed_at)

    def steps(
        self,
        held: list[Any],
        part: BlockState,
        central: Floats | None,
        t: int,
        steps: int,
        takes_part: Present = None,
        policy: Policy | None = None,
    ) -> BlockState:
        """``steps`` steps of one round from ``t`` on, from the central parameters (R, d) if given.

        Of those who take part, (R, n); None: everybody. ``policy`` has a number of its own, if given.
        """
        self._awake(held)
        if policy is not None:
            self.engine.follow(policy)
        state = self._state(part, t)
        if central is not None:
            state.theta[:] = central[:, None, :]
        engine = self.engine
        failed_at = engine.local_steps(
            state, self.problem.step_sizes(t, steps), span_of(self.problem, t, steps), takes_part
        )
        return BlockState(shares(state, ALL), failed_at)

    def _awake(self, held: list[Any]) -> None:
        if not hasattr(self, "engine"):
            self.problem: Problem = ray.get(held[0])
            engine = engines.build("cpu", self.problem, threads=1, first_agent=self.first_agent)
            assert isinstance(engine, CompiledEngine)
            self.engine = engine
            self.room = first_state(self.problem, np.zeros(self.problem.features.dim))

    def _state(self, part: BlockState, t: int) -> State:
        """The block's state: a copy, as arrays from the object store cannot be written to."""
        state = self.room
        state.t = t
        state.failed_at[:] = part.failed_at
        put(part.arrays, state, ALL)
        return state


class RayEngine(SpanEngine):
    """Trains a problem on ``threads`` actors (as many as the cluster has cores, unless given).

    It uses the Ray that this process is connected to, else the cluster that RAY_ADDRESS names, else one
    that it starts on this machine and that ends with the process.
    """

    name: ClassVar[str] = "ray"

    def __init__(self, problem: Problem, threads: int | None = None, first_agent: int = 0) -> None:
        super().__init__(problem, threads, first_agent)
        connect()
        cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
        blocks = max(1, min(threads or cores, problem.agents))
        edges = np.linspace(0, problem.agents, blocks + 1).astype(int).tolist()
        self.parts = [slice(low, high) for low, high in itertools.pairwise(edges)]
        self.settings = settings_of(problem, np.arange(problem.agents))
        self.options = options_of(problem)
        # Ray starts what was killed, however often, and makes each call again, RETRIES times: calls have no
        # effects of their own. Actors ask for a core to begin with and then hold none, so that those of
        # others, or of a training that was given up, are not waited for.
        actor: Any = ray.remote(max_restarts=-1, max_task_retries=RETRIES, scheduling_strategy="SPREAD")(
            AgentBlock
        )
        self.blocks = [actor.remote(first_agent + part.start) for part in self.parts]
        # In lists, or Ray would send the problems themselves with every call.
        self.held = [[ray.put(_cut(problem, part))] for part in self.parts]
        self.awake = False  # nothing is left to compile, or that was said
        try:
            self._meet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the actors, unless Ray has ended before them."""
        if not ray.is_initialized():
            return
        for block in self.blocks:
            with contextlib.suppress(ray.exceptions.RayError):  # of a Ray that is no more
                ray.kill(block)

    def start(self, state: State) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        calls = [
            block.start.remote(held, self._part(state, part, True))
            for block, held, part in zip(self.blocks, self.held, self.parts, strict=True)
        ]
        self.awake = say_if_late(calls, COMPILING)
        self._take(state, calls, 0)

    def train(self, state: State, span: Span, central: Floats, drift: Floats) -> None:
        """Take all steps of a span: in every round, actors take theirs, and then comes the server."""
        view, sums = server_view(state, ALL), step_sizes_of(self.problem, span).sums
        for k in range(span.rounds):
            t = span.t + k * span.steps
            # At the beginning of a round everybody may have the central parameter, which travels once.
            fresh = self.settings.common and t > 0 and t == span.begun + k * span.steps
            shared = ray.put(state.central) if fresh else None
            counted = taking_part(self.problem, span.begun + k * span.steps)
            calls = [
                block.steps.remote(
                    held,
                    self._part(state, part, not fresh),
                    shared,
                    t,
                    span.steps,
                    None if counted is None else counted[:, part],
                    self.problem.policy if self.scheduled else None,
                )
                for block, held, part in zip(self.blocks, self.held, self.parts, strict=True)
            ]
            if not self.awake:
                say_if_late(calls, COMPILING)
                self.awake = True
            failed_at = self._take(state, calls, t)
            before = state.central.copy()
            compiled_server.settle(
                self.settings, self.options, view, span, k, sums, failed_at, central, drift
            )
            self.combine(state, before, span, k, central, drift)

    def _meet(self) -> None:
        """Wait until every actor is there, with a word if that takes long, and has the same fedsarsa."""
        calls = [block.meet.remote(__version__) for block in self.blocks]
        say_if_late(
            calls, f"waiting for {len(calls)} workers to start; the cluster may have no free core or memory"
        )
        try:
            ray.get(calls)
        except ray.exceptions.RayTaskError as error:
            raise ValueError(str(error.cause)) from None
        except ray.exceptions.RayActorError as error:
            raise ValueError(
                f"engine ray: its workers do not start ({reason(error)}); expected fedsarsa {__version__} on "
                "every machine of the cluster"
            ) from None

    def _part(self, state: State, part: slice, with_theta: bool) -> BlockState:
        """What a block needs to know; parameters that are the central ones are left out."""
        arrays = shares(state, part)
        if not with_theta:
            del arrays["theta"]
        return BlockState(arrays, state.failed_at)

    def _take(self, state: State, calls: list[Any], t: int) -> Integers:
        """Put the blocks' answers in their places; the step at which each run failed."""
        answers = [self._answer(call, part, t) for call, part in zip(calls, self.parts, strict=True)]
        for part, answer in zip(self.parts, answers, strict=True):
            put(answer.arrays, state, part)
        return first_failures([answer.failed_at for answer in answers])

    def _answer(self, call: Any, part: slice, t: int) -> Any:
        who = f"engine ray: the worker of agents {part.start} to {part.stop - 1}"
        try:
            return ray.get(call)
        except ray.exceptions.RayTaskError as error:
            raise ValueError(f"{who} says: {reason(error)}") from None
        except (ray.exceptions.RayActorError, ray.exceptions.OutOfMemoryError) as error:
            raise ValueError(
                f"{who} died at the steps from {t} on, and again when started anew (up to {RETRIES} times): "
                f"{reason(error)}"
            ) from None


def say_if_late(calls: list[Any], what: str) -> bool:
    """Wait a while for answers; say why they are late, if they are, and whether."""
    _, late = ray.wait(calls, num_returns=len(calls), timeout=PATIENCE)
    if late:
        print(f"fedsarsa: {what} ...", file=sys.stderr)
    return bool(late)


def shares(state: State, agents: slice) -> dict[str, NDArray[Any]]:
    """What training changes of some agents: views on the state's arrays, (R, n, ...) each, by their names."""
    own = {name: getattr(state, name) for name in ("theta", "states", "actions", "progress", "shift", "left")}
    if state.episodes is not None:
        own |= vars(state.episodes)
    return {name: array[:, agents] for name, array in own.items()}


def put(arrays: dict[str, NDArray[Any]], state: State, agents: slice) -> None:
    """Write what `shares` has given, or some of it, back into a state."""
    own = shares(state, agents)
    for name, array in arrays.items():
        own[name][:] = array


def _cut(problem: Problem, part: slice) -> Problem:
    """The problem of some agents."""
    behaviour = problem.step.behaviour
    if len(behaviour) > 1:
        behaviour = behaviour[part]
    return replace(
        problem,
        fleet=problem.fleet[part],
        schedule_of=problem.schedule_of[part],
        server=Mean(),  # the server is here, and says who takes part
        asked=None,
        faults=NO_FAULTS,
        step=replace(problem.step, behaviour=behaviour),
    )
