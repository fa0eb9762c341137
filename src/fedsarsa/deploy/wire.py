"""What bridge and agent say to each other: a JSON header and one vector of float64, never pickles.

    8 bytes   of a request alone: when nobody waits for its answer any more, as float64, big-endian, in
              seconds of the machine's monotonic clock
    8 bytes   lengths of header and vector in bytes, big-endian
    header    JSON object
    vector    little-endian float64

Both are packed by the server, or the agent, and unpacked by the other one; the bridge hands bytes on.

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

LENGTHS = struct.Struct(">II")
UNTIL = struct.Struct(">d")
LONGEST_HEADER = 1 << 16
LONGEST_VECTOR = 1 << 30  # bytes
SOCKET = "agent.sock"  # in an agent's directory
LONGEST_PATH = 100  # the system's limit for the address of a Unix socket is a little above

Floats = NDArray[np.float64]


class BrokenMessageError(ValueError):
    """What came over the socket, or should go, is not a message."""


def packed(vector: Floats) -> bytes:
    """A vector's bytes."""
    return np.asarray(vector, "<f8").tobytes()


def unpacked(content: bytes) -> Floats:
    """The vector of these bytes."""
    if len(content) % 8:
        raise BrokenMessageError(f"expected a vector of float64, got {len(content)} bytes")
    return np.frombuffer(content, "<f8").astype(np.float64)


def read(header: bytes) -> dict[str, Any]:
    """The JSON object in a header."""
    if len(header) > LONGEST_HEADER:
        raise BrokenMessageError(f"expected a header of at most {LONGEST_HEADER} bytes, got {len(header)}")
    try:
        content = json.loads(header)
    except (ValueError, RecursionError):  # nesting may have no end
        content = None
    if not isinstance(content, dict):
        raise BrokenMessageError("expected a header that is a JSON object, got something else")
    return content


def send(connection: socket.socket, header: bytes, vector: bytes) -> None:
    """Send one message."""
    if len(header) > LONGEST_HEADER:
        raise BrokenMessageError(f"header must have at most {LONGEST_HEADER} bytes, got {len(header)}")
    connection.sendall(LENGTHS.pack(len(header), len(vector)) + header + vector)


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """Receive one message: its header and its vector."""
    header, vector = LENGTHS.unpack(_exactly(connection, LENGTHS.size))
    if header > LONGEST_HEADER or vector > LONGEST_VECTOR:
        raise BrokenMessageError(
            f"expected a header of at most {LONGEST_HEADER} bytes and a vector of at most {LONGEST_VECTOR}, "
            f"got {header} and {vector}"
        )
    return _exactly(connection, header), _exactly(connection, vector)


def ask(address: Path, header: bytes, vector: bytes, wait: float, work: float) -> tuple[bytes, bytes]:
    """The answer of the agent, which may ``work`` for so many seconds; a TimeoutError after ``wait``."""
    check_private(address.parent)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(wait)
        connection.connect(str(address))
        # Both sides are on one machine and share its clock: the agent will not begin, or keep, a round
        # that nobody waits for any more, and says so while somebody does.
        connection.sendall(UNTIL.pack(time.monotonic() + work))
        send(connection, header, vector)
        return receive(connection)


def receive_request(connection: socket.socket) -> tuple[bytes, bytes, float]:
    """Receive what `ask` sends: header, vector, and until when an answer is waited for."""
    (until,) = UNTIL.unpack(_exactly(connection, UNTIL.size))
    return *receive(connection), until


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
    """Reject a folder that somebody else owns or can look into."""
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder}: expected a directory")
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionError(
            f"{folder}: expected a directory that only its owner, you, can open (chmod 700), "
            f"got mode {stat.S_IMODE(found.st_mode):o} of user {found.st_uid}"
        )


def check_socket(path: Path) -> None:
    """Reject a path that is too long for the address of a Unix socket, or that Flower cannot be given."""
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
