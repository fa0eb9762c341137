"""Starting other programs, and leaving none of them behind."""

import contextlib
import ctypes
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from fedsarsa import _files
from fedsarsa.deploy.guards import SECRET_FILE

COLOUR = re.compile("\x1b\\[[0-9;]*m")
PATIENCE = 5.0  # seconds between asking a program to end and ending it
MARK = "FEDSARSA_DEPLOYMENT"
CLAIM = "processes.lock"  # in a directory, while its programs run
LIBC = ctypes.CDLL(None)
SET_PARENT_DEATH_SIGNAL = 1


class Processes:
    """Programs with a common end: leaving the ``with`` block stops them and whatever they started.

    Flower's parts start others in sessions of their own, which can outlive them. All inherit a mark in
    their environment, by which they are found.
    """

    def __init__(self, home: Path, poll: float = 0.2) -> None:
        self.home, self.mark = home, secrets.token_hex(8)
        self.logs = home / "logs"
        self.logs.mkdir(mode=0o700, exist_ok=True)
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.begun: dict[str, int] = {}  # where in its log a program's words begin
        self.handlers: dict[int, Any] = {}
        self.claim = _files.claimed(home / CLAIM)
        # With FORWARDED_ALLOW_IPS others could say that they are this machine.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("FLWR_") and name != "FORWARDED_ALLOW_IPS"
        }
        self.environment = inherited | {
            MARK: f"{os.environ.get(MARK, '')}:{self.mark}",
            "FLWR_HOME": str(home / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": str(poll),  # seconds; one of the waits in a round
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONUNBUFFERED": "1",
            "no_proxy": "*",  # parts call each other directly
        }

    def start(self, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        """Start ``python ARGUMENTS``; what it prints is in logs/NAME.log."""
        descriptor = os.open(self.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            self.begun[name] = log.tell()
            child = subprocess.Popen(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        self.started[name] = child
        return child

    def last_words(self, name: str, lines: int = 3) -> str:
        """The end of what a program has said since it was started."""
        words = (self.logs / f"{name}.log").read_bytes()[self.begun[name] :].decode(errors="replace")
        return " ".join(COLOUR.sub("", words).split("\n")[-lines - 1 :]).strip()

    def __enter__(self) -> "Processes":
        self.claim.__enter__()
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores closed terminals
                numbers.append(signal.SIGHUP)
            for number in numbers:
                self.handlers[number] = signal.signal(number, self._leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stop_listening()
        finally:
            self.stop()
            self.claim.__exit__(None, None, None)
            for number, handler in self.handlers.items():
                signal.signal(number, handler)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        """Leave the block at the first Ctrl-C, SIGTERM or SIGHUP; another must not interrupt the stopping."""
        self._stop_listening()
        signal.default_int_handler(number, frame)

    def _stop_listening(self) -> None:
        for number in self.handlers:
            signal.signal(number, signal.SIG_IGN)

    def stop(self) -> None:
        """End everything that was started, politely at first."""
        for child in self.started.values():
            _signal_group(child, signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        for child in self.started.values():
            try:
                child.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(child, signal.SIGKILL)
                child.wait()
        for number in (signal.SIGTERM, signal.SIGKILL):  # whatever is left in sessions of its own
            for process in self.marked():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
            if number == signal.SIGKILL:
                until = time.monotonic() + PATIENCE  # they are not asked, but the system needs its time
            while self.marked() and time.monotonic() < until:
                time.sleep(0.05)

    def marked(self) -> list[int]:
        """Processes with this mark, which nobody else has in their environment; Linux alone can tell."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found


def superexec(address: str, authority: Path | None, secret: Path) -> list[str]:
    """The SuperExec that starts a process for every task of the SuperLink or SuperNode at ``address``."""
    return [
        *("-m", "fedsarsa.deploy.guards", "superexec", "--runtime-api-address", address),
        *(["--insecure"] if authority is None else ["--root-certificates", str(authority)]),
        *(SECRET_FILE, str(secret), "--parent-pid", str(os.getpid())),
    ]


def _end_with_parent() -> None:
    """Ask the system (Linux) for SIGTERM when the parent is gone: killing it leaves nothing behind."""
    if sys.platform == "linux":
        LIBC.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
