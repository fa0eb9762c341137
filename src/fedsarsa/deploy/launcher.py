"""Client tasks as forks of a process that has imported what they need.

Flower starts a Python process for every message, which takes more than a second of a core before it does
anything: with a dozen agents on two cores that was most of a round. A fork takes milliseconds.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from typing import NoReturn


class Launcher:
    """Forks a process that waits for tasks; to be made before any thread is started."""

    def __init__(self) -> None:
        from flwr.supernode.cli import flwr_clientapp  # noqa: F401  # what is imported here, forks have

        self._orders, there = socket.socketpair()
        if os.fork() == 0:
            self._orders.close()
            _serve(there)
        there.close()

    def launch(self, arguments: list[str], token: str, quiet: bool) -> None:
        """Start ``flwr-clientapp ARGUMENTS`` with a token that is on no command line."""
        self._orders.sendall(json.dumps([arguments, token, quiet]).encode() + b"\n")


def _serve(orders: socket.socket) -> NoReturn:
    """Start tasks until nobody is there to order any."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    running: list[int] = []
    with orders.makefile("rb") as lines:
        for line in lines:
            running = [task for task in running if os.waitpid(task, os.WNOHANG) == (0, 0)]
            # Tasks come one after another, and the last may still be on its way out. One before it waits,
            # for an hour and more, for a message of a run that is no longer there.
            for task in running[:-1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(task, signal.SIGKILL)
            task = os.fork()
            if task == 0:
                orders.close()
                _run(*json.loads(line))
            running.append(task)
    os._exit(0)


def _run(arguments: list[str], token: str, quiet: bool) -> NoReturn:
    """Be the task, and end without what a process inherits to do at its end."""
    from flwr.supernode import cli

    code = 1
    try:
        if quiet:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        with tempfile.TemporaryFile() as file:
            file.write(token.encode())
            file.seek(0)
            sys.argv = ["flwr-clientapp", *arguments, "--token-file", f"/dev/fd/{file.fileno()}"]
            cli.flwr_clientapp()
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
