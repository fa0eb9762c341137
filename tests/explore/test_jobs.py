"""Newer work replaces older work, in threads and in processes."""

import os
import queue
import threading
import time

import pytest

from fedsarsa.explore.jobs import Latest, StoppedError, in_process


def count(numbers):
    yield from range(numbers)


def wait_for_ever(path):
    yield os.getpid()
    time.sleep(600)


def complain():
    yield 1
    raise ValueError("no such thing")


def vanish():
    os._exit(3)
    yield 1


def test_results_arrive_in_order_and_errors_too():
    seen = queue.Queue()
    latest = Latest()

    def work(stopped):
        yield 1
        yield 2
        raise ValueError("enough")

    latest.submit(work, seen.put)
    assert [seen.get(timeout=10), seen.get(timeout=10)] == [1, 2]
    assert str(seen.get(timeout=10)) == "enough"
    latest.close()


def test_newer_work_replaces_older_work():
    seen, begun = queue.Queue(), threading.Event()
    latest = Latest()

    def old(stopped):
        begun.set()
        while not stopped():
            time.sleep(0.001)
        yield "old"

    latest.submit(old, seen.put)
    assert begun.wait(10)
    for number in range(5):
        latest.submit(lambda stopped, number=number: iter([number]), seen.put)
    last = seen.get(timeout=10)
    while last != 4:
        assert last != "old"
        last = seen.get(timeout=10)
    latest.stop()
    latest.close()
    latest._thread.join(10)
    assert not latest._thread.is_alive()


@pytest.mark.slow
def test_a_process_answers_raises_and_is_ended():
    assert list(in_process(count, 3, stopped=lambda: False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="no such thing"):
        list(in_process(complain, stopped=lambda: False))
    with pytest.raises(RuntimeError, match="vanish ended without an answer"):
        list(in_process(vanish, stopped=lambda: False))
    stop = threading.Event()
    answers = in_process(wait_for_ever, "", stopped=stop.is_set)
    process = next(answers)
    stop.set()
    with pytest.raises(StoppedError):
        next(answers)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
