"""A round's messages on their way through Flower: out, and what comes back in time."""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import httpx
from flwr.app import Error, Message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.superlink.grid import http_grid

POLL = 0.02  # seconds between two looks for replies, at least
SHARE = 0.005  # of the time waited so far: who has waited long looks less often
LONGEST_POLL = 0.25


class Replies(NamedTuple):
    """What came back, and how long the last of it may have lain there unseen."""

    messages: list[Message]
    unseen: float


def exchange(
    grid: Grid, messages: list[Message], deadline: float, hear: Callable[[Message], None]
) -> Replies:
    """Send, and gather replies until all are here or ``deadline`` seconds have passed.

    ``hear`` is told of every reply when it comes. Replies name the node that sent them as their source, or
    the SuperLink, which tells by an error that a node is away.
    """
    pushed = zip(grid.push_messages(messages), messages, strict=False)
    waiting = {name: question for name, question in pushed if name}
    begun = time.monotonic()
    replies: list[Message] = []
    pause = 0.0
    while True:
        for name, question in list(waiting.items()):
            reply = _reply(grid, name, question)
            if reply is not None:
                hear(reply)
                replies.append(reply)
                del waiting[name]
        waited = time.monotonic() - begun
        if not waiting or waited >= deadline:
            return Replies(replies, pause)
        pause = min(max(POLL, SHARE * waited), LONGEST_POLL)
        time.sleep(pause)


def limit_uploads(seconds: float) -> None:
    """Let Flower's grid wait so long for the parts of a reply that a node has announced.

    By itself it waits for three minutes, and fetches nobody else's reply: a node that announces what it
    never sends would stall every round.
    """
    http_grid.pull_objects = partial(  # type: ignore[attr-defined]
        pull_objects, max_time=seconds, initial_backoff=POLL, backoff_cap=LONGEST_POLL
    )


def _reply(grid: Grid, name: str, question: Message) -> Message | None:
    """The reply to one question, if it is there.

    Everything in a message, also whose it is and what it answers, is what its sender wrote. The SuperLink
    knows better: it keeps one reply to a question, and takes that from the node asked alone (`guards`). So
    replies are fetched question by question, which tells the sender although no sender is believed; that
    questions have secret names is not needed, and not so: who knows a node's number can guess them.
    """
    try:
        found = list(grid.pull_messages([name]))
    except httpx.HTTPError:
        raise  # of the SuperLink, and no node's fault
    except Exception:  # a node's bytes went through Flower's readers, which may stumble over anything
        return _error(question, "its reply cannot be read")
    if not found:
        return None
    source = found[0].metadata.src_node_id
    if source != question.metadata.dst_node_id and not (found[0].has_error() and source == SUPERLINK_NODE_ID):
        return _error(question, "its reply names another node as its sender")
    return found[0]


def _error(question: Message, reason: str) -> Message:
    """What stands for a reply that is none: an error of the node that was asked."""
    return Message(Error(ErrorCode.UNKNOWN, reason), reply_to=question)


def request(message: Message) -> str:
    """The question in a message."""
    return str(message.content.config_records["config"]["request"])
