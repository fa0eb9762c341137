"""Processes beside this one, for work that holds Python's lock."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver


def prepare(*modules: str) -> None:
    """Start the server that processes are forked from; it imports ``modules`` meanwhile."""
    forkserver.set_forkserver_preload(list(modules))
    forkserver.ensure_running()


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes for work that threads would not speed up; they end with this one, however it ends."""
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(count, context, initializer=attend) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def attend() -> None:
    """Leave Ctrl-C to the parent, and end when it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
