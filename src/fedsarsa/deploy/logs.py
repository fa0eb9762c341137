"""What the parts of a deployment log: time, level, part and message, one line each.

Modules log to ``fedsarsa.deploy.PART``; entry points alone say, by `configure`, where that goes.
"""

import logging
import os
import sys
from typing import TextIO

LONGEST = 500  # letters of a stranger's that are repeated
PARTS = logging.getLogger("fedsarsa.deploy")


class Formatter(logging.Formatter):
    """``2026-01-31 12:00:00 INFO agent: message``, without signs that a terminal would obey."""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {part}: {message}", "%Y-%m-%d %H:%M:%S", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line."""
        record.part = record.name.rpartition(".")[2]
        record.message = _printable(record.message)
        return super().formatMessage(record)


class Console(logging.Handler):
    """Writes to standard output."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        put(self.format(record))


def configure(handler: logging.Handler) -> None:
    """Send what the parts log to ``handler``, and to no other one."""
    for other in PARTS.handlers[:]:
        PARTS.removeHandler(other)
        other.close()
    handler.setFormatter(Formatter())
    PARTS.addHandler(handler)
    PARTS.setLevel(logging.INFO)


def put(line: str) -> None:
    """Print at once: others wait for these lines. Where nobody does any more, the work continues."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def new_lines(log: TextIO) -> list[str]:
    """The whole lines that were added to an open file since the last call."""
    lines: list[str] = []
    while True:
        place = log.tell()
        line = log.readline()
        if not line.endswith("\n"):
            log.seek(place)
            return lines
        lines.append(line[:-1])


def plain(text: str) -> str:
    """A stranger's words: not too many, and no signs that a terminal would obey."""
    return _printable(text[:LONGEST])


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
