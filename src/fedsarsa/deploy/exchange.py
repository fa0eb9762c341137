"""A round's messages on their way through Flower: out, and what comes back in time."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import httpx
from flwr.app import Error, Message
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError, pull_objects
from flwr.superlink.grid import http_grid

POLL = 0.02  # seconds between two looks for replies, at least
SHARE = 0.005  # of the time waited so far: who has waited long looks less often
LONGEST_POLL = 0.25
# Where a look takes longer, pauses are so many times as long: with fifty agents, looking took all of the
# SuperLink's time.
BREATH = 3.0
OVERLOADED = (
    "if this lasts, its machine is frozen or overloaded: more cores, a larger sync_every, or a smaller "
    "server.fraction help"
)

log = logging.getLogger("fedsarsa.deploy.server")
T = TypeVar("T")


def exchange(grid: Grid, messages: list[Message], deadline: float, hear: Callable[[Message], None]) -> float:
    """Send, and pass every reply to ``hear`` when it comes, until all are here or ``deadline`` has passed.

    Replies name the node that sent them as their source, or the SuperLink, which reports by an error that a
    node is away. Where the SuperLink does not do its part now, nothing is there, and the round will be asked
    again. Returned is for how many seconds the last reply may have lain there unseen.
    """
    said: set[str] = set()
    names = passing(lambda: _push(grid, messages), said) or []
    waiting = {name: question for name, question in zip(names, messages, strict=False) if name}
    begun, pause = time.monotonic(), 0.0
    while True:
        looked = time.monotonic()
        for name, question in list(waiting.items()):
            reply = _reply(grid, name, question, said)
            if reply is not None:
                hear(reply)
                del waiting[name]
        waited, look = time.monotonic() - begun, time.monotonic() - looked
        if not waiting or waited >= deadline:
            return pause
        pause = min(max(POLL, SHARE * waited), LONGEST_POLL) if look < LONGEST_POLL else BREATH * look
        time.sleep(pause)


def _push(grid: Grid, messages: list[Message]) -> list[str]:
    """Send one message after another; their names.

    Flower announces all that it is given, and then sends the parts. With fifty at once, nodes ask so often
    for parts that are not there yet that these come late.
    """
    return [name for message in messages for name in grid.push_messages([message])]


def limit_uploads(seconds: float) -> None:
    """Let Flower's grid wait so long for the parts of a reply that a node has announced.

    By itself it waits for three minutes, and fetches nobody else's reply: a node that announces what it
    never sends would stall every round.
    """
    http_grid.pull_objects = partial(  # type: ignore[attr-defined]
        pull_objects, max_time=seconds, initial_backoff=POLL, backoff_cap=LONGEST_POLL
    )


def passing(call: Callable[[], T], said: set[str]) -> T | None:
    """What a call of the SuperLink gives, or None where it cannot answer now, which passes.

    Why it cannot is logged, unless it was ``said`` before.
    """
    try:
        return call()
    except (httpx.TransportError, ObjectPushError) as error:  # the latter: frozen in the middle of a push
        if isinstance(error, httpx.ConnectError):  # it is gone, or another one; a frozen one takes its time
            raise
        why = str(error) or type(error).__name__
    except httpx.HTTPStatusError as error:
        if error.response.status_code < 500:
            raise
        why = f"{error.response.status_code} {error.response.text[:100]}".strip()
    if why not in said:
        log.warning("the SuperLink does not answer, and is asked again: %s; %s", why, OVERLOADED)
    said.add(why)
    return None


def _reply(grid: Grid, name: str, question: Message, said: set[str]) -> Message | None:
    """The reply to one question, if it is there.

    Everything in a message, also whose it is and what it answers, is what its sender wrote. The SuperLink
    knows better: it keeps one reply to a question, and takes that from the node asked alone (`guards`). So
    replies are fetched question by question, which identifies the sender although no sender is believed; that
    questions have secret names is not needed, and not so: who knows a node's number can guess them.
    """
    try:
        found = passing(lambda: list(grid.pull_messages([name])), said)
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
