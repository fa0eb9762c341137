"""Many problems on one GPU: which of them are trained side by side, and how."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsarsa.engines import cuda_batch, cuda_device
from fedsarsa.engines.compiled import finish_span, span_of
from fedsarsa.engines.cuda import FIRST_SPAN
from fedsarsa.engines.cuda_batch import Batch
from fedsarsa.engines.cuda_memory import SHARE, fitting, run_bytes, world_bytes
from fedsarsa.federation.problem import Problem
from fedsarsa.federation.state import State, Synchronisations
from fedsarsa.federation.training import MOST_RECORDED, recorded_numbers


class TogetherEngine:
    """Trains problems side by side that `batches` has put together, as `CudaFiniteEngine` trains one."""

    name = "cuda"

    @fitting
    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        self.batch = Batch(problems)

    @property
    def first_steps(self) -> int:
        """Steps to take at first, before it is known how long they take."""
        lanes = int(self.batch.first_lane[-1])
        return max(1, FIRST_SPAN // lanes, self.problems[0].sync_every or 1)

    @fitting
    def start(self, states: Sequence[State]) -> None:
        """Draw the first state of every agent, and its first action from Gamma(theta)."""
        self.batch.start(states)

    @fitting
    def advance(self, states: Sequence[State], steps: int, record_every: int) -> list[Synchronisations]:
        """Train every run of every problem for ``steps`` more steps, in place.

        Of all synchronisations of the training every ``record_every``-th is recorded.
        """
        span = span_of(self.problems[0], states[0].t, steps)
        central, drift = self.batch.train(states, span, record_every)
        seen = []
        for place, (problem, state) in enumerate(zip(self.problems, states, strict=True)):
            finish_span(problem, state, span, steps)
            own = self.batch.runs_of(place)
            seen.append(Synchronisations(central[own], drift[own]))
        return seen

    def close(self) -> None:
        """Let go of what is held on the GPU."""
        self.batch.close()


def batches(problems: Sequence[Problem], record_every: int = 1) -> list[list[int]]:
    """Places of problems that are trained side by side, batch by batch.

    Problems of a batch have what kernels are compiled for in common, and their tables but for worlds; they
    have rounds of one length and as many steps. Together they fit into the GPU's memory, and their
    records into the computer's. Problems that need the other engine, or whose policies follow schedules, are
    in no batch.
    """
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, problem in enumerate(problems):
        if problem.at_step(0) is problem and cuda_batch.serves(problem):
            alike.setdefault(_common(problem), []).append(place)
    room = np.array([SHARE * cuda_device.free_memory()[0], MOST_RECORDED])
    found = []
    for places in alike.values():
        batch: list[int] = []
        size = np.zeros(2)
        # Blocks of threads take federations of one size.
        for place in sorted(places, key=lambda one: problems[one].agents):
            problem = problems[place]
            own = np.array([_bytes(problem), 8 * recorded_numbers(problem, record_every)])
            if batch and (size + own > room).any():
                found.append(batch)
                batch, size = [], np.zeros(2)
            batch.append(place)
            size += own
        found.append(batch)
    return found


def _common(problem: Problem) -> tuple[Any, ...]:
    """What a problem must share with others beside which it is trained."""
    shape, tables = cuda_batch.shape_of(problem), cuda_batch.tables_of(problem)
    worlds = tables.worlds
    strides = worlds.states, worlds.reward_state, worlds.reward_action, worlds.reward_next
    choice = tables.choice._replace(parameter=0.0)
    own = {"worlds", "choice", "discount"}
    rest = (value for name, value in tables._asdict().items() if name not in own)
    shared = *strides, worlds.rotation, *choice, *rest
    return shape, problem.sync_every, problem.steps, *map(_hashable, shared)


def _hashable(item: Any) -> Any:
    return (item.dtype.str, item.shape, item.tobytes()) if isinstance(item, np.ndarray) else item


def _bytes(problem: Problem) -> int:
    """About what a problem takes of the GPU's memory, records left out."""
    return world_bytes(problem) + problem.runs * run_bytes(problem)
