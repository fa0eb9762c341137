"""An agent's link to the federation: a SuperNode that hands rounds to the agent process beside it."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from fedsarsa.deploy import files, keys, wire
from fedsarsa.deploy.agent import SOCKET
from fedsarsa.deploy.processes import Processes, check_free, free_port

REFUSED = "Exit Code: 305"  # what Flower says when the SuperLink does not let a node in
LOOK = 0.3  # seconds between two looks at the SuperNode


def join(
    superlink: str,
    home: Path,
    agent: Path | None,
    port: int | None,
    insecure: bool,
    say: Callable[[str], None],
) -> None:
    """Run a SuperNode until it ends or is told to."""
    host, at = address(superlink)
    home = files.private_directory(home)
    socket = (agent or home / SOCKET).absolute()
    wire.check_length(socket)
    if insecure and not keys.is_loopback(host):
        raise ValueError(f"insecure: expected a loopback SuperLink without TLS and node keys, got {host}")
    trust = ["--insecure"]
    if not insecure:
        authority = home / "ca.crt"
        if not authority.is_file():
            raise FileNotFoundError(f"{authority}: no such file; expected that of the server")
        key = files.check_secret(home / "node.key")
        trust = ["--root-certificates", str(authority), "--auth-supernode-private-key", str(key)]
    keys.check_reachable(host, at, None if insecure else home / "ca.crt")
    port = port or free_port()
    check_free("127.0.0.1", port)
    with Processes(home) as processes:
        node = processes.start(
            "supernode",
            [
                *("-m", "fedsarsa.deploy.guards", "supernode", "--superlink", superlink, *trust),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--node-config", f"agent={json.dumps(str(socket))}"),
            ],
        )
        say(f"SuperNode of {socket} joins {superlink}")
        _wait(node)
        if REFUSED in processes.last_words("supernode", lines=12):
            raise RuntimeError(
                f"superlink: {superlink} does not let this node in: its key is not registered there, or the "
                "lease of its last life, about a minute, has not run out"
            )
        raise RuntimeError(
            f"the SuperNode ended with code {node.returncode}: {processes.last_words('supernode')}"
        )


def address(text: str) -> tuple[str, int]:
    """HOST:PORT as its two parts."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"address must be HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


def _wait(node: subprocess.Popen[bytes]) -> None:
    while node.poll() is None:
        time.sleep(LOOK)
