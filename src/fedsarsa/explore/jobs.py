"""Computations that a newer one replaces: in a thread, or in a process that can be ended at any moment."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from fedsarsa.experiments import workers

REPORT_SECONDS = 0.2  # between two words about progress
POLL_SECONDS = 0.05  # between two looks at whether a process's work is still wanted
NICENESS = 5  # of the processes: trainings and the page go first
# What the processes import before they are asked for anything.
BEHIND_THEORY = (
    "fedsarsa.cli",
    "fedsarsa.experiments.references",
    "fedsarsa.explore.theory_answers",
    "scipy.interpolate",
)

Stopped = Callable[[], bool]
Work = Callable[[Stopped], Iterator[Any]]
Deliver = Callable[[Any], None]


@dataclass(frozen=True)
class Progress:
    """The share of a training that is done."""

    share: float


class StoppedError(Exception):
    """The computation is no longer wanted."""


class Latest:
    """A thread that does the newest work it was given; work before that is stopped.

    Work is a function of ``stopped`` that yields results.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: tuple[Work, Deliver] | None = None
        self._stop = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Work, deliver: Deliver, patient: bool = False) -> None:
        """Do ``work`` as soon as what is being done has stopped, or has ended by itself if ``patient``.

        ``deliver`` gets every result in the thread, also the error that ends the work, unless it was stopped.
        """
        with self._changed:
            if not patient:
                self._stop.set()
            self._waiting = work, deliver
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Stop what is being done, and forget what waits."""
        with self._changed:
            self._stop.set()
            self._waiting = None

    def close(self) -> None:
        """Stop, and end the thread."""
        with self._changed:
            self._closed = True
            self._stop.set()
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None or self._closed)
                if self._closed or self._waiting is None:
                    return
                (work, deliver), self._waiting = self._waiting, None
                stop = self._stop = threading.Event()
            try:
                for result in work(stop.is_set):
                    if stop.is_set():
                        break
                    deliver(result)
            except StoppedError:
                pass
            except Exception as error:  # whatever it is, the page shows it
                if not stop.is_set():
                    deliver(error)


def reporter(deliver: Deliver) -> Callable[[float], None]:
    """A function to call with the share that is done, which delivers `Progress` now and then."""
    said = time.monotonic()

    def report(share: float) -> None:
        nonlocal said
        if time.monotonic() - said > REPORT_SECONDS:
            said = time.monotonic()
            deliver(Progress(share))

    return report


def in_process(function: Callable[..., Iterator[Any]], *arguments: Any, stopped: Stopped) -> Iterator[Any]:
    """What a generator function yields in a process of its own, which is ended when ``stopped``.

    Raises
    ------
    StoppedError
        It was ended.
    Exception
        What the function raised.
    """
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, function, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        while True:
            while not ours.poll(POLL_SECONDS):
                if stopped():
                    raise StoppedError
            try:
                kind, value = ours.recv()
            except EOFError:
                raise RuntimeError(f"{function.__name__} ended without an answer") from None
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        process.kill()
        process.join()
        process.close()
        ours.close()


def prepare() -> None:
    """Start what processes are forked from, while this process continues."""
    workers.prepare(*BEHIND_THEORY)


def _send(to: Connection, function: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> None:
    """Send what a generator function yields; its own process runs this."""
    workers.attend()
    os.nice(NICENESS)
    with suppress(BrokenPipeError):  # nobody wants it any more
        try:
            for value in function(*arguments):
                to.send(("value", value))
            to.send(("end", None))
        except (ValueError, TypeError, ArithmeticError) as error:
            to.send(("error", type(error)(str(error))))
