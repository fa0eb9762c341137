"""Messages out and back: whose the time is that is spent looking for them."""

import time
from dataclasses import replace
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError
from flwr.superlink.grid import http_grid

from fedsarsa.deploy import exchange, ledger
from tests.deploy.federations import reference
from tests.deploy.grids import assert_central


class Clock:
    """Time that passes in sleep alone."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class SlowGrid:
    """Has the reply to message k at the ``looks[k]``-th look."""

    def __init__(self, looks):
        self.looks, self.times = {f"question {k}": look for k, look in enumerate(looks)}, []
        self.questions = [SimpleNamespace(metadata=SimpleNamespace(dst_node_id=name)) for name in self.looks]

    def push_messages(self, messages):
        return [message.metadata.dst_node_id for message in messages]

    def pull_messages(self, names):
        (name,) = names
        self.times.append(exchange.time.monotonic())
        self.looks[name] -= 1
        return [] if self.looks[name] > 0 else [SimpleNamespace(metadata=SimpleNamespace(src_node_id=name))]


def exchanged(grid, deadline):
    """What came back, and how long the last of it may have lain there unseen."""
    heard = []
    unseen = exchange.exchange(grid, grid.questions, deadline, heard.append)
    return heard, unseen


def test_a_reply_may_have_waited_as_long_as_nobody_looked(monkeypatch):
    monkeypatch.setattr(exchange, "time", Clock())
    heard, unseen = exchanged(SlowGrid([1, 1]), 5.0)
    assert (len(heard), unseen) == (2, 0.0)
    heard, unseen = exchanged(SlowGrid([1, 3]), 5.0)
    assert (len(heard), unseen) == (2, exchange.POLL)


def test_looks_become_rarer_but_not_rare(monkeypatch):
    monkeypatch.setattr(exchange, "POLL", 0.001)
    monkeypatch.setattr(exchange, "SHARE", 0.5)
    monkeypatch.setattr(exchange, "LONGEST_POLL", 0.1)
    monkeypatch.setattr(exchange, "time", Clock())
    grid = SlowGrid([10**9])
    heard, unseen = exchanged(grid, 0.6)
    assert heard == []
    pauses = np.diff(grid.times)
    np.testing.assert_allclose(pauses, np.clip(np.multiply(0.5, grid.times[:-1]), 0.001, 0.1))
    assert 0.6 <= grid.times[-1] < 0.7
    assert unseen == 0.1


def test_looks_that_take_long_leave_the_superlink_time_for_others(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(exchange, "time", clock)
    grid = SlowGrid([4] * 5)
    pull = grid.pull_messages

    def slowly(names):
        clock.sleep(0.1)
        return pull(names)

    grid.pull_messages = slowly
    heard, _ = exchanged(grid, 60.0)
    assert len(heard) == 5
    assert clock.now == pytest.approx(4 * 0.5 + 3 * exchange.BREATH * 0.5)


TROUBLE = {
    "frozen": (
        httpx.ConnectTimeout("_ssl.c:1011: The handshake operation timed out"),
        "_ssl.c:1011: The han",
    ),
    "frozen in a push": (ObjectPushError("00", 1, "one"), "push session may have expired"),
    "gone": (httpx.ReadError(""), "ReadError"),
    "locked": (
        httpx.HTTPStatusError("", request=None, response=httpx.Response(500, text="database is locked")),
        "500 database is locked",
    ),
}


@pytest.mark.parametrize("call", ["push_messages", "pull_messages", "get_node_ids"])
@pytest.mark.parametrize("trouble", TROUBLE)
def test_a_superlink_in_trouble_is_asked_again(settings, server, grid, monkeypatch, call, trouble):
    settings.deadline = replace(settings.deadline, first_pause=0.001)
    made = server()
    error, words = TROUBLE[trouble]
    asked, original = [], getattr(grid, call)

    def sometimes(*arguments):
        asked.append(call)
        if len(asked) % 5 == 1:  # a round asks three agents, one after another
            raise error
        return original(*arguments)

    monkeypatch.setattr(grid, call, sometimes)
    made.train(grid)
    assert_central(made, settings, reference(settings))
    told = [
        line for line in made.said if line.startswith("the SuperLink does not answer, and is asked again")
    ]
    assert words in told[0]
    assert "server.fraction" in told[0]


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired"),
        httpx.HTTPStatusError("401", request=None, response=httpx.Response(401)),
    ],
)
def test_what_does_not_pass_is_not_asked_again(server, grid, monkeypatch, error):
    made = server()

    def refuse():
        raise error

    monkeypatch.setattr(grid, "get_node_ids", refuse)
    with pytest.raises(httpx.HTTPError):
        made.train(grid)


def test_looking_is_the_servers_own_time(settings, server, grid, monkeypatch):
    def slow(grid, messages, deadline, hear):
        for reply in grid.pull_messages(grid.push_messages(messages)):
            hear(reply)
        return 1e6

    monkeypatch.setattr(exchange, "exchange", slow)
    made = server()
    made.train(grid)
    for line in list(ledger.read(made.home))[1:]:
        assert line["server_seconds"] == pytest.approx(1e6, abs=300.0)


def test_a_reply_that_is_announced_and_never_sent_does_not_stall(monkeypatch):
    announced = Message(metadata=Metadata(message_id="reply", reply_to_message_id="question", src_node_id=7))
    link = SimpleNamespace(
        PullMessages=lambda request: PullAppMessagesResponse(
            messages_list=[announced], message_object_trees=[ObjectTree(object_id="reply")]
        ),
        PullObject=lambda request: PullObjectResponse(object_found=True, object_available=False),
    )
    grid = http_grid.HttpGrid(token="c0ffee")
    grid._client, grid._run = link, SimpleNamespace(run_id=1)
    monkeypatch.setattr(http_grid, "pull_objects", http_grid.pull_objects)
    exchange.limit_uploads(0.1)
    begun = time.monotonic()
    (reply,) = grid.pull_messages(["question"])
    assert time.monotonic() - begun < 60.0  # Flower's own patience is minutes
    assert reply.has_error()
    assert reply.metadata.src_node_id == SUPERLINK_NODE_ID  # its node counts as missing
