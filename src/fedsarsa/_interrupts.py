"""Ctrl-C, taken when nothing is half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, taken at a good moment; what was done is in the checkpoint, or stored, where there is one."""


_outermost: threading.Event | None = None


@contextmanager
def held_interrupt() -> Iterator[threading.Event]:
    """Ctrl-C sets the event instead of breaking what is done here in two; a second one is not held.

    Trainings inside such a block, also those in other threads, share its event and end together.
    """
    global _outermost
    if _outermost is not None or threading.current_thread() is not threading.main_thread():
        yield _outermost or threading.Event()
        return
    pressed = _outermost = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        pressed.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
        _outermost = None
