"""An agent's link to the federation: a SuperNode that hands rounds to the agent process beside it."""

import json
import logging
import time
from pathlib import Path

from fedsarsa.deploy import addresses, files, keys, wire
from fedsarsa.deploy.guards import DIED, SECRET_FILE
from fedsarsa.deploy.processes import Processes, superexec

log = logging.getLogger("fedsarsa.deploy.node")
LEASE = "the lease of its last life, about a minute, has not run out"
UNKNOWN = (
    "its key was taken back there, or its list of nodes (link.db) is a new one, and starting it again helps, "
    "or this machine's clock is more than 5 seconds ahead of the server's, or 5 minutes behind it"
)
REFUSED = {  # Flower's last words when the SuperLink does not let a node in, and what they mean
    "Failed to activate SuperNode": f"its key is not registered there, or {LEASE}",
    "SuperNode terminated gracefully": UNKNOWN,
    "401 Unauthorized": UNKNOWN,  # of a node that was let in before
}
LOOK = 0.3  # seconds between two looks at the SuperNode


def join(
    superlink: str,
    home: Path,
    agent: Path | None,
    port: int | None,
    insecure: bool,
    poll: float,
) -> None:
    """Run a SuperNode, and a SuperExec that asks it for tasks every ``poll`` seconds, until one ends."""
    host, at = addresses.parse(superlink)
    home = files.private_directory(home)
    socket = (agent or home / wire.SOCKET).absolute()
    wire.check_socket(socket)
    if insecure and not addresses.is_loopback(host):
        raise ValueError(f"insecure: expected a loopback SuperLink without TLS and node keys, got {host}")
    trust = ["--insecure"]
    if not insecure:
        authority = keys.check_authority(home / "ca.crt")
        key = keys.check_node(home)
        trust = ["--root-certificates", str(authority), "--auth-supernode-private-key", str(key)]
    addresses.check_reachable(host, at, None if insecure else home / "ca.crt")
    port = port or addresses.free_port()
    addresses.check_free("127.0.0.1", port)
    with Processes(home, poll) as processes:
        # Tasks are handed out on loopback with a certificate and a secret of this node's own, so that no
        # other user of the machine can take them, nor give them.
        local = files.private_directory(home / "local")
        (local / "server.crt").unlink(missing_ok=True)  # of the last start
        keys.make_server(local, [], days=10 * keys.DAYS)
        secret = keys.new_secret(local)
        node = processes.start(
            "supernode",
            [
                *("-m", "fedsarsa.deploy.guards", "supernode", "--superlink", superlink, *trust),
                *("--host", "127.0.0.1", "--port", str(port), "--isolation", "process"),
                *("--ssl-ca-certfile", str(local / "ca.crt"), "--ssl-certfile", str(local / "server.crt")),
                *("--ssl-keyfile", str(local / "server.key"), SECRET_FILE, str(secret)),
                *("--node-config", f"agent={json.dumps(str(socket))}"),
            ],
        )
        executor = processes.start("superexec", superexec(f"127.0.0.1:{port}", local / "ca.crt", secret))
        log.info("SuperNode of %s joins %s", socket, superlink)
        while node.poll() is None and executor.poll() is None:
            time.sleep(LOOK)
        if node.poll() is None:
            raise RuntimeError(
                f"the SuperExec ended with code {executor.returncode}: {processes.last_words('superexec')}"
            )
        said = processes.last_words("supernode", lines=40)
        if why := refusal(said):
            raise RuntimeError(f"superlink: {superlink} does not let this node in: {why}")
        if DIED in said:  # perhaps of a server that is frozen, or has other certificates now: report that
            addresses.check_reachable(host, at, None if insecure else home / "ca.crt")
        reason = said.rpartition(DIED)[2] if DIED in said else said.partition("Exit Code: ")[2]
        reason = reason[:300] or processes.last_words("supernode")
        raise RuntimeError(f"the SuperNode ended with code {node.returncode}: {reason}")


def refusal(said: str) -> str | None:
    """Why a SuperLink does not let a node in, by the last words of its SuperNode; None if it does."""
    return next((why for words, why in REFUSED.items() if words in said), None)
