"""A round's messages on their way through Flower: out, and what comes back in time."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

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

    ``hear`` is told of every reply when it comes.
    """
    waiting: set[Any] = set(grid.push_messages(messages)) - {None}
    begun = time.monotonic()
    replies: list[Message] = []
    pause = 0.0
    while True:
        found = list(grid.pull_messages(waiting))
        for message in found:
            hear(message)
        replies += found
        waiting -= {message.metadata.reply_to_message_id for message in found}
        waited = time.monotonic() - begun
        if not waiting or waited >= deadline:
            return Replies(replies, pause)
        pause = min(max(POLL, SHARE * waited), LONGEST_POLL)
        time.sleep(pause)


def request(message: Message) -> str:
    """The question in a message."""
    return str(message.content.config_records["config"]["request"])
