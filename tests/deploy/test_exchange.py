"""Messages out and back: whose the time is that is spent looking for them."""

import time
from types import SimpleNamespace

import pytest

from fedsarsa.deploy import exchange, ledger


class SlowGrid:
    """Has the reply to message k at the ``looks[k]``-th look."""

    def __init__(self, looks):
        self.looks, self.times = dict(enumerate(looks)), []

    def push_messages(self, messages):
        return list(messages)

    def pull_messages(self, waiting):
        self.times.append(time.monotonic())
        ready = [name for name in waiting if self.looks[name] <= len(self.times)]
        return [SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=name)) for name in ready]


def test_a_reply_may_have_waited_as_long_as_nobody_looked():
    heard = []
    at_once = exchange.exchange(SlowGrid([1, 1]), [0, 1], 5.0, heard.append)
    assert len(at_once.messages) == 2
    assert at_once.unseen == 0.0
    assert heard == at_once.messages
    late = exchange.exchange(SlowGrid([1, 3]), [0, 1], 5.0, heard.append)
    assert len(late.messages) == 2
    assert late.unseen == exchange.POLL


def test_looks_become_rarer_but_not_rare(monkeypatch):
    monkeypatch.setattr(exchange, "POLL", 0.001)
    monkeypatch.setattr(exchange, "SHARE", 0.5)
    monkeypatch.setattr(exchange, "LONGEST_POLL", 0.1)
    grid = SlowGrid([10**9])
    replies = exchange.exchange(grid, [0], 0.6, lambda message: None)
    assert replies.messages == []
    assert 0.6 <= grid.times[-1] - grid.times[0] < 5.0
    assert replies.unseen == 0.1
    assert len(grid.times) <= 25


def test_looking_is_the_strategys_own_time(settings, server, grid, monkeypatch):
    def slow(grid, messages, deadline, hear):
        return exchange.Replies(list(grid.pull_messages(grid.push_messages(messages))), 100.0)

    monkeypatch.setattr(exchange, "exchange", slow)
    made = server()
    made.train(grid)
    for line in list(ledger.read(made.home))[1:]:
        assert line["strategy_seconds"] == pytest.approx(100.0, abs=10.0)
