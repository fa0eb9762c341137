"""Gymnasium environments, stepped here or in processes of their own; closed in any case."""

import multiprocessing
import random
import signal
import statistics
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

import numpy as np

from fedsarsa.worlds.gym import GymWorld, close

PROBE_STEPS = 20  # steps of an environment that are timed
SLOW = 200e-6  # seconds per step from which on a process of its own pays
ENDING = 5.0  # seconds that a process may take to end


@dataclass(frozen=True)
class Failure:
    """An environment that raised: its traceback."""

    report: str


LATER = object()  # answer to a reset: the first observation comes with the next step, whose action is ignored


class Stepper(Protocol):
    """Steps environments. What raises in one of them is answered as a ``Failure``."""

    def reset(self, lanes: Sequence[int], seeds: Sequence[int | None]) -> list[Any]:
        """First observations of the environments of ``lanes``, or ``LATER``."""
        ...

    def step(self, lanes: Sequence[int], actions: Sequence[Any]) -> list[Any]:
        """(observation, reward, terminated, truncated, info) of every one of ``lanes``."""
        ...

    def close(self) -> None:
        """Close all environments."""
        ...


class InProcess:
    """Environments in this process."""

    def __init__(self, worlds: Sequence[GymWorld]) -> None:
        self.environments: list[Any] = []
        try:
            for world in worlds:
                self.environments.append(world.make())
            if len({id(environment.unwrapped) for environment in self.environments}) < len(worlds):
                raise ValueError(
                    "make_env must make a new environment at every call, got one environment for several "
                    f"agents from {', '.join(dict.fromkeys(world.label for world in worlds))}"
                )
        except BaseException:
            self.close()
            raise

    def reset(self, lanes: Sequence[int], seeds: Sequence[int | None]) -> list[Any]:
        """First observations."""
        answers: list[Any] = []
        for lane, seed in zip(lanes, seeds, strict=True):
            try:
                answer = self.environments[lane].reset(seed=seed)
                if isinstance(answer, tuple) and len(answer) == 2:
                    answers.append(answer[0])
                else:
                    answers.append(Failure(f"reset must answer (observation, info), got {answer!r}"))
            except Exception:
                answers.append(Failure(traceback.format_exc()))
        return answers

    def step(self, lanes: Sequence[int], actions: Sequence[Any]) -> list[Any]:
        """What every environment answered."""
        environments, answers = self.environments, []
        for lane, action in zip(lanes, actions, strict=True):
            try:
                answers.append(environments[lane].step(action))
            except Exception:
                answers.append(Failure(traceback.format_exc()))
        return answers

    def close(self) -> None:
        """Close all environments, also after one that does not close: training does not fail for that."""
        close_all(self.environments)
        self.environments = []


def close_all(environments: Sequence[Any]) -> None:
    """Close environments, and warn of those that do not close."""
    for environment in environments:
        close(environment)


class Processes:
    """Environments shared out among ``count`` processes, each of which steps its own one after another."""

    def __init__(self, worlds: Sequence[GymWorld], count: int) -> None:
        # Forked where the system can: constructors then need not be sent. The children run environments only.
        methods = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
        self.owner = [lane * count // len(worlds) for lane in range(len(worlds))]
        self.place = [lane - self.owner.index(self.owner[lane]) for lane in range(len(worlds))]
        self.labels = [world.label for world in worlds]
        self.pipes: list[Any] = []
        self.children: list[Any] = []
        seed = int(np.random.randint(2**31))  # noqa: NPY002  # whoever seeds that gets the same again
        try:
            for part in range(count):
                ours, theirs = context.Pipe()
                own = [world for world, owner in zip(worlds, self.owner, strict=True) if owner == part]
                self.pipes.append(ours)
                child = context.Process(
                    target=_serve, args=(theirs, own, self.pipes, [seed, part]), daemon=True
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # that threads are not forked
                    child.start()
                theirs.close()
                self.children.append(child)
            for part, pipe in enumerate(self.pipes):
                try:
                    answer = pipe.recv()
                except (EOFError, OSError):
                    answer = Failure(self._end_of(part))
                if isinstance(answer, Failure):
                    raise RuntimeError(
                        f"an environment could not be made ({self._own(part)}):\n{answer.report}"
                    )
        except BaseException:
            self.close()
            raise

    def reset(self, lanes: Sequence[int], seeds: Sequence[int | None]) -> list[Any]:
        """First observations."""
        return self._ask("reset", lanes, seeds)

    def step(self, lanes: Sequence[int], actions: Sequence[Any]) -> list[Any]:
        """What every environment answered."""
        return self._ask("step", lanes, actions)

    def _ask(self, what: str, lanes: Sequence[int], arguments: Sequence[Any]) -> list[Any]:
        """Send every process what its lanes are asked, then gather the answers in the order of ``lanes``."""
        parts: dict[int, list[int]] = {}
        for k, lane in enumerate(lanes):
            parts.setdefault(self.owner[lane], []).append(k)
        answers: list[Any] = [None] * len(lanes)
        sent = []
        for part, ks in parts.items():
            message = (what, [self.place[lanes[k]] for k in ks], [arguments[k] for k in ks])
            try:
                self.pipes[part].send(message)
                sent.append((part, ks))
            except OSError:
                self._lost(part, ks, answers)
        for part, ks in sent:
            try:
                for k, answer in zip(ks, self.pipes[part].recv(), strict=True):
                    answers[k] = answer
            except (EOFError, OSError):
                self._lost(part, ks, answers)
        return answers

    def _lost(self, part: int, ks: list[int], answers: list[Any]) -> None:
        """Note a process that died under its environments."""
        for k in ks:
            answers[k] = Failure(self._end_of(part))

    def _end_of(self, part: int) -> str:
        """What is known of a process that died: not which of its environments ended it."""
        child, count = self.children[part], self.owner.count(part)
        child.join(ENDING)
        shared = f"; any of the {count} environments in it may have done that: {self._own(part)}"
        return f"the environment's process ended with exit code {child.exitcode}{shared if count > 1 else ''}"

    def _own(self, part: int) -> str:
        """The names of a process's environments, each once."""
        own = (label for label, owner in zip(self.labels, self.owner, strict=True) if owner == part)
        return ", ".join(dict.fromkeys(own))

    def close(self) -> None:
        """Ask every process to close its environments; end those that do not."""
        for pipe in self.pipes:
            try:
                pipe.send(None)
            except OSError:
                continue
        for pipe, child in zip(self.pipes, self.children, strict=False):
            child.join(ENDING)
            if child.is_alive():
                child.terminate()
                child.join()
            pipe.close()
        self.pipes, self.children = [], []


def _serve(pipe: Connection, worlds: list[GymWorld], others: list[Connection], seed: list[int]) -> None:
    """A process's work: make environments, answer until told to stop, close.

    ``others`` are the parent's ends of all pipes: while a child holds one, no child would see the parent go.
    ``seed`` is this process's own: forked ones have the parent's random states, all the same.
    """
    random.seed(repr(seed))
    np.random.seed(seed)  # noqa: NPY002
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent takes interrupts, between two spans
    for other in others:
        other.close()
    try:
        own = InProcess(worlds)
    except Exception:
        pipe.send(Failure(traceback.format_exc()))
        return
    pipe.send("ready")
    try:
        while (message := pipe.recv()) is not None:
            what, lanes, arguments = message
            answers = own.reset(lanes, arguments) if what == "reset" else own.step(lanes, arguments)
            answers = [_without_info(answer) for answer in answers]
            try:
                pipe.send(answers)
            except Exception:  # an answer that cannot be pickled, whatever its class raised: nothing was sent
                pipe.send([_sendable(answer) for answer in answers])
    except EOFError:
        pass  # the parent is gone
    finally:
        own.close()


def _without_info(answer: Any) -> Any:
    """A step's answer without its last part, of which nobody learns and which may be large."""
    return (*answer[:4], None) if isinstance(answer, tuple) and len(answer) == 5 else answer


def _sendable(answer: Any) -> Any:
    """An answer that can be pickled, or why it cannot."""
    try:
        ForkingPickler.dumps(answer)
    except Exception:
        return Failure(traceback.format_exc(chain=False))
    return answer


def stepper(worlds: Sequence[GymWorld], processes: int | None, cores: int) -> Stepper:
    """Environments of ``worlds``: here, or in processes where they are slow or processes were asked for."""
    count = processes
    if count is None:
        count = cores if cores > 1 and len(worlds) > 1 and _slow(worlds) else 0
    return Processes(worlds, min(count, len(worlds))) if count else InProcess(worlds)


def _slow(worlds: Sequence[GymWorld]) -> bool:
    """Whether a step of any kind of environment is slow; kinds with one name may differ, as lambdas do."""
    kinds = {(id(world.make_env), world.constructor): world for world in worlds}
    return any(_seconds(world) > SLOW for world in kinds.values())


def _seconds(world: GymWorld) -> float:
    """How long a step takes, with actions drawn at random; 0 if it fails, which training will report.

    The median: the first step may take long, and so may any while others use the machine.
    """
    with world.opened() as env:
        try:
            env.reset(seed=0)
            env.action_space.seed(0)
            taken = []
            for _ in range(PROBE_STEPS):
                action, begun = env.action_space.sample(), time.perf_counter()
                _, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    env.reset()
                taken.append(time.perf_counter() - begun)
            return statistics.median(taken)
        except Exception:
            return 0.0
