"""What bridge and agent say to each other: a JSON header and one vector of float64, never pickles.

    4 bytes   length of the header, big-endian
    header    JSON object; "numbers" is the length of the vector
    vector    little-endian float64

This file and ``bridge.py`` travel in the Flower app as well, so that the short-lived client process need
not import the whole package: they import nothing else of it.
"""

import json
import os
import socket
import stat
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = struct.Struct(">I")
LONGEST_HEADER = 1 << 16
SOCKET = "agent.sock"  # in an agent's directory
MOST_NUMBERS = 1 << 27  # a gigabyte
TO_SAY_SO, SHARE_TO_SAY_SO = 1.0, 0.2  # seconds, and share of the patience, for an agent that is late
LONGEST_REASON = 500  # letters of a stranger's that are repeated
LONGEST_PATH = 100  # the system's limit for the address of a Unix socket is a little above

Floats = NDArray[np.float64]


class BrokenMessageError(ValueError):
    """What came over the socket, or should go, is not a message."""


def send(connection: socket.socket, header: dict[str, Any], vector: Floats) -> None:
    """Send one message."""
    head = json.dumps(header | {"numbers": len(vector)}).encode()
    if len(head) > LONGEST_HEADER:
        raise BrokenMessageError(f"header must have at most {LONGEST_HEADER} bytes, got {len(head)}")
    connection.sendall(LENGTH.pack(len(head)) + head + np.asarray(vector, "<f8").tobytes())


def receive(connection: socket.socket) -> tuple[dict[str, Any], Floats]:
    """Receive one message."""
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    if length > LONGEST_HEADER:
        raise BrokenMessageError(f"expected a header of at most {LONGEST_HEADER} bytes, got {length}")
    try:
        header = json.loads(_exactly(connection, length))
        numbers = header["numbers"]
    except (ValueError, KeyError, TypeError, RecursionError):  # nesting may have no end
        raise BrokenMessageError("expected a header in JSON that tells the length of its vector") from None
    if type(numbers) is not int or not 0 <= numbers <= MOST_NUMBERS:
        raise BrokenMessageError(f"expected a vector of at most {MOST_NUMBERS} numbers, got {numbers!r}")
    vector = np.frombuffer(_exactly(connection, 8 * numbers), "<f8").astype(np.float64)
    return header, vector


def ask(address: Path, request: dict[str, Any], vector: Floats) -> tuple[dict[str, Any], Floats]:
    """The agent's answer, within the ``patience`` seconds that the request leaves."""
    check_private(address.parent)
    patience = float(request["patience"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience)
        connection.connect(str(address))
        # Both sides are on one machine and share its clock: the agent will not begin, or keep, a round
        # that nobody waits for any more, and says so while somebody does.
        until = time.monotonic() + patience - min(TO_SAY_SO, SHARE_TO_SAY_SO * patience)
        send(connection, request | {"until": until}, vector)
        return receive(connection)


def plain(text: str) -> str:
    """A stranger's words for a log: not too many, and no signs that a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:LONGEST_REASON])


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise BrokenMessageError("the other side hung up in the middle of a message")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def check_private(folder: Path) -> None:
    """Refuse a folder that somebody else owns or can look into."""
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder}: expected a directory")
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(
            f"{folder}: expected a directory that only its owner, you, can open (chmod 700), "
            f"got mode {stat.S_IMODE(found.st_mode):o} of user {found.st_uid}"
        )


def check_socket(path: Path) -> None:
    """Refuse a path that is too long for the address of a Unix socket, or that Flower cannot be told."""
    if any(sign in str(path) for sign in "\"'\\") or not str(path).isprintable():
        raise ValueError(
            f"{str(path)!r}: expected a path without quotes, backslashes and unprintable signs, which "
            "Flower's node configuration cannot hold; choose another directory"
        )
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise ValueError(
            f"{path}: expected a path of at most {LONGEST_PATH} bytes, the system's limit for sockets; "
            "choose a shorter directory"
        )
