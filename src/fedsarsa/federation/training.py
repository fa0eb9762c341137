"""The training loop: spans of steps by an engine, with records, progress and checkpoints between."""

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa._files import NO_ROOM
from fedsarsa._interrupts import Interrupted, held_interrupt
from fedsarsa.federation import checkpoint
from fedsarsa.federation.engine import Engine, Together
from fedsarsa.federation.events import Callback, Stop, tell
from fedsarsa.federation.problem import MOST_STEPS, Problem
from fedsarsa.federation.progress import Progress, reporting
from fedsarsa.federation.rounds import is_over
from fedsarsa.federation.state import RUNNING, State, Synchronisations, first_state

if TYPE_CHECKING:
    from fedsarsa.federation.history import History

CHECKPOINT_SECONDS = 60.0
SPAN_SECONDS = 0.25  # between two looks at progress, interrupts and checkpoints
SPAN_NUMBERS = 4_000_000  # numbers a span may hold: 32 MB
MOST_RECORDED = 4 * 2**30  # bytes of central parameters that a history may keep
LONGEST_REASON = 1000  # letters of why an agent stopped, in an error
REPLAYED = 2_000_000  # bytes of a state that is kept to take steps again, if a callback stops in between
KEPT = 200  # records that are suggested instead


class NoAgentLeftError(RuntimeError):
    """Every agent of every run has stopped, as its environment failed.

    Attributes
    ----------
    history : History or None
        What was learned before; None if that is nothing.
    """

    def __init__(self, why: str, history: "History | None" = None) -> None:
        super().__init__(why)
        self.history = history


def why_nobody_is_left(state: State) -> str | None:
    """The first reason, where every agent of every run has stopped; else None."""
    if not state.reports or state.episodes is None or (state.episodes.stopped_at == RUNNING).any():
        return None
    first = min(state.reports, key=lambda report: int(report["step"]))
    reason = str(first["why"]).strip().splitlines()[-1][:LONGEST_REASON]  # the last line of a traceback
    where = "agent {agent} of run {run} stopped at step {step}: {environment}".format(**first)
    return f"no agent is left: {where}: {reason}"


def _check_first_step(state: State) -> None:
    """Raise where every agent stopped before it had learned anything."""
    why = why_nobody_is_left(state)
    if why is not None and state.episodes is not None and state.episodes.stopped_at.max() == 0:
        raise NoAgentLeftError(why)


def train(
    problem: Problem,
    engine: Engine,
    theta0: Floats,
    record_every: int,
    progress: Progress,
    path: Path | None,
    callbacks: list[Callback],
    extendable: bool = True,
) -> tuple[State, Synchronisations, str | None]:
    """Train to the end, or from the checkpoint at ``path`` to the end; the records begin with t = 0.

    The end is saved, too, if the training is to be ``extendable``.

    Where one of the ``callbacks`` stops it, there are records up to then alone, and the reason. Where no
    agent is left, there are records up to the round in which the last one stopped. What a callback raises is
    raised once the training is saved.
    """
    # Only where a checkpoint is read or written: short trainings would feel the time it takes.
    mark = cache(lambda: checkpoint.fingerprint(problem, engine.name, theta0, record_every) | engine.identity)
    state, records = first_state(problem, theta0), _empty(problem, record_every)
    if path is not None and path.exists():
        state = checkpoint.load(path, mark(), problem, records)
    else:
        engine.start(state)
        records.central[:, 0], records.drift[:, 0] = state.central, np.nan
        _note_personal(problem, records, record_every, state)
    saved, span = time.monotonic(), engine.first_steps
    stride = problem.steps + 1 if problem.sync_every is None else problem.sync_every * record_every
    known = state.t // stride + 1
    if callbacks and stride > problem.steps:
        warnings.warn(
            f"callback is called once, at t = 0: it is called at synchronisations that are recorded, and "
            f"{problem.steps} steps with sync_every={problem.sync_every} and record_every={record_every} "
            "have none",
            UserWarning,
            stacklevel=4,
        )
    stop: Stop | None = None
    if state.t == 0:
        stop = tell(callbacks, problem, state, records, range(1), stride)
    _check_first_step(state)
    with held_interrupt() as interrupted, reporting(problem, state.t, progress) as report:
        while state.t < problem.steps and stop is None and not interrupted.is_set():
            if is_over(problem, state):
                break
            begun = time.monotonic()
            length = span_length(problem, state.t, span, record_every)
            before = None
            if callbacks and state.t // stride < (state.t + length - 1) // stride:  # beyond the next record
                if engine.can_be_saved and _bytes(state) <= REPLAYED:
                    before = copy.deepcopy(state)
                else:
                    length = stride - state.t % stride
            seen, told = engine.advance(state, length), known
            _check_first_step(state)
            known = _note(problem, records, record_every, state.t, seen)
            _note_personal(problem, records, record_every, state)
            stop = tell(callbacks, problem, state, records, range(told, known), stride) if callbacks else None
            if stop is not None:
                if stop.place * stride < state.t:  # the same steps again, up to this record
                    assert before is not None
                    engine.advance(before, stop.place * stride - before.t)
                    state = before
                known = stop.place + 1
            report(state.t)
            ended = time.monotonic()
            span = adapted(span, ended - begun)
            last = interrupted.is_set() or stop is not None
            done = state.t == problem.steps
            due = last or extendable if done else last or ended - saved > CHECKPOINT_SECONDS
            if path is not None and due:
                try:
                    checkpoint.save(path, mark(), state, records, known, problem.steps)
                except OSError as error:
                    if stop is not None and stop.error is not None:
                        stop.error.add_note(f"The training is not saved: {error}")
                    elif last or error.errno not in NO_ROOM:
                        raise
                    else:
                        then = "it continues, and saves again in a minute"
                        if done:
                            then = "it cannot be extended"
                        warnings.warn(f"{error}; training is not saved: {then}", RuntimeWarning, stacklevel=3)
                saved = time.monotonic()
    if stop is not None and stop.error is not None:
        raise stop.error
    # What is over and not saved is kept by the caller, who looks at Ctrl-C then.
    if interrupted.is_set() and stop is None and (extendable or state.t < problem.steps):
        raise Interrupted(f"interrupted after {state.t} of {problem.steps} steps")
    remark = problem.server.remark(state.memory)
    if remark is not None:
        warnings.warn(f"{type(problem.server).__name__}: {remark}", RuntimeWarning, stacklevel=3)
    if state.t < problem.steps:
        records = Synchronisations(
            records.central[:, :known],
            records.drift[:, :known],
            {name: array[:, :known] for name, array in records.personal.items()},
        )
    return state, records, None if stop is None else stop.why


def train_together(
    problems: Sequence[Problem],
    engine: Together,
    starts: Sequence[Floats],
    record_every: int,
    report: Callable[[int], None],
    paths: Sequence[Path],
) -> list[tuple[State, Synchronisations]]:
    """Train problems side by side that have rounds of one length and as many steps.

    ``report`` gets how many agent-steps are done since it was last called. After Ctrl-C, ``paths``, if given,
    have the checkpoints of all problems, from which each can resume alone.
    """
    first, numbers = problems[0], sum(problem.runs for problem in problems) * problems[0].features.dim
    lanes = sum(problem.runs * problem.agents for problem in problems)
    states = [first_state(problem, start) for problem, start in zip(problems, starts, strict=True)]
    records = [_empty(problem, record_every) for problem in problems]
    engine.start(states)
    for state, kept in zip(states, records, strict=True):
        kept.central[:, 0], kept.drift[:, 0] = state.central, np.nan
    t, known, span = 0, 1, engine.first_steps
    with held_interrupt() as interrupted:
        while t < first.steps and not interrupted.is_set():
            begun = time.monotonic()
            length = span_length(first, t, span, numbers=-(-numbers // record_every))
            told = known
            for kept, seen in zip(records, engine.advance(states, length, record_every), strict=True):
                known = told + seen.central.shape[1]
                kept.central[:, told:known], kept.drift[:, told:known] = seen.central, seen.drift
            t = states[0].t
            report(length * lanes)
            span = adapted(span, time.monotonic() - begun)
    if t < first.steps:
        for problem, start, state, kept, path in zip(problems, starts, states, records, paths, strict=False):
            mark = checkpoint.fingerprint(problem, engine.name, start, record_every)
            checkpoint.save(path, mark, state, kept, known, problem.steps)
        raise Interrupted(f"interrupted after {t} of {first.steps} steps")
    return list(zip(states, records, strict=True))


def _bytes(state: State) -> int:
    """How large a state is."""
    arrays = [*vars(state).values(), *(vars(state.episodes).values() if state.episodes else ())]
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def span_length(
    problem: Problem, t: int, wanted: int, record_every: int = 1, numbers: int | None = None
) -> int:
    """Steps to take at once from ``t``: about ``wanted``, whole rounds if one fits, else a part of one.

    An engine gives so many ``numbers`` a round; unless given, the parameters of all runs. With a personal
    server rule, a span ends with the next record, as parameters of every agent are recorded.
    """
    # What a span holds in memory: step sizes of every schedule, records of every round.
    wanted = min(wanted, max(1, SPAN_NUMBERS // len(problem.schedules)))
    left, every = problem.steps - t, problem.sync_every
    if every is None:
        return min(wanted, left)
    if problem.server.personal:
        stride = every * record_every
        wanted = min(wanted, stride - t % stride)
    to_next = every - t % every
    rounds = min(wanted // every, left // every)
    if to_next < every or rounds == 0:
        return min(wanted, to_next, left)
    numbers = numbers or problem.runs * int(problem.features.dim)
    return min(rounds, max(1, SPAN_NUMBERS // numbers)) * every


def adapted(span: int, seconds: float) -> int:
    """The length of the next span, so that it takes about ``SPAN_SECONDS``."""
    factor = SPAN_SECONDS / max(seconds, 1e-6)
    # Spans that end with every record are short, however long they may be.
    return max(1, int(min(span * min(max(factor, 0.1), 10.0), MOST_STEPS)))


def _empty(problem: Problem, record_every: int) -> Synchronisations:
    """Room for t = 0 and every ``record_every``-th synchronisation."""
    count = problem.steps // (problem.sync_every * record_every) if problem.sync_every is not None else 0
    shape = (problem.runs, count + 1)
    personal = {}
    if problem.server.personal:
        sizes = problem.agents, problem.features.dim
        none = problem.server.personal_records(np.empty((0, *sizes)), problem.server.memory(0, *sizes))
        personal = {name: np.empty((*shape, *array.shape[1:])) for name, array in none.items()}
    return Synchronisations(np.empty((*shape, problem.features.dim)), np.empty(shape), personal)


def _note(
    problem: Problem, records: Synchronisations, record_every: int, end: int, seen: Synchronisations
) -> int:
    """Record those of the synchronisations up to ``end`` that are due; how many records there are then."""
    last = end // problem.sync_every if problem.sync_every is not None else 0
    first = last - seen.central.shape[1] + 1  # synchronisations are counted from 1
    due = slice(-first % record_every, None, record_every)
    known = last // record_every + 1
    central, drift = seen.central[:, due], seen.drift[:, due]
    records.central[:, known - central.shape[1] : known] = central
    records.drift[:, known - drift.shape[1] : known] = drift
    return known


def _note_personal(problem: Problem, records: Synchronisations, record_every: int, state: State) -> None:
    """Record what a personal server rule has for every agent, if due; NaN of runs that have failed."""
    place, more = divmod(state.t, (problem.sync_every or problem.steps + 1) * record_every)
    if more or not records.personal:
        return
    failed = state.failed_at != RUNNING
    for name, array in problem.server.personal_records(state.starts, state.memory).items():
        records.personal[name][:, place] = array
        records.personal[name][failed, place] = np.nan


def numbers_of_a_record(problem: Problem) -> int:
    """How many numbers every run records after a synchronisation."""
    dim = int(problem.features.dim)
    return dim + (problem.agents * (dim + problem.agents) if problem.server.personal else 0)


def recorded_numbers(problem: Problem, record_every: int) -> int:
    """How many numbers a training records in all, of all runs."""
    rounds = 0 if problem.sync_every is None else problem.steps // problem.sync_every
    return problem.runs * numbers_of_a_record(problem) * (rounds // record_every)


def check_records(problem: Problem, record_every: int) -> None:
    """Say so before central parameters fill the memory."""
    if problem.sync_every is None:
        return
    rounds = problem.steps // problem.sync_every
    numbers = numbers_of_a_record(problem)
    each = 8 * problem.runs * numbers
    needed = 8 * recorded_numbers(problem, record_every)
    if needed > MOST_RECORDED:
        keep = min(KEPT, MOST_RECORDED // each)
        better = (
            f"{-(-rounds // keep)} would keep {rounds // -(-rounds // keep)}"
            if keep
            else "not even one fits: train fewer runs at a time, or with features of fewer parameters"
        )
        raise ValueError(
            f"record_every must leave at most {MOST_RECORDED >> 30} GiB of records, {numbers} numbers in "
            f"each of {problem.runs} runs, got {needed / 2**30:.3g} GiB with {record_every}; {better}"
        )
