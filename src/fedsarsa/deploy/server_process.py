"""The server of a deployment: a SuperLink, and on it a run that is submitted again when it dies."""

import fcntl
import json
import logging
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from fedsarsa.deploy import addresses, app, federation_config, files, keys, ledger, logs, superlink_api
from fedsarsa.deploy.guards import SECRET_FILE
from fedsarsa.deploy.processes import Processes, superexec
from fedsarsa.deploy.server_app import LOCK, LOG, OUTCOME

log = logging.getLogger("fedsarsa.deploy.server")
KEYS = "nodes.json"
NAMES = {"superlink": "SuperLink", "superexec": "SuperExec"}
ROOM = 1 << 16  # bytes that a directory must still take
START = 60.0  # seconds that a SuperLink, or a run, may take to begin
TRIES = 5  # runs in a row that may die without finishing a round
LOOK = 0.3  # seconds between two looks at a run
FLOWER = 10.0  # seconds that a round may take on small machines, whatever the agents do


def serve(path: Path, home: Path, host: str, port: int, insecure: bool) -> None:
    """Train the federation that the configuration at ``path`` describes, to its end."""
    settings = federation_config.load(path)
    settings.check_server()  # before anything is started
    if (deadline := settings.server.deadline) < FLOWER:
        log.warning(
            "server.deadline is %g seconds: a round takes Flower 3 to %g by itself, so agents may be too "
            "late in every round",
            *(deadline, FLOWER),
        )
    home = files.private_directory(home)
    _check_room(home)
    if insecure and not addresses.is_loopback(host):
        raise ValueError(f"insecure: expected a loopback address without TLS and node keys, got {host}")
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    admitted: dict[int, bytes] = {}
    if not insecure:
        keys.check_server(home)
        keys.check_address(home, here)
        admitted = _read_nodes(home, settings)
    addresses.check_free(host, port)
    address = addresses.written(here, port)
    authority = None if insecure else home / "ca.crt"
    with Processes(home) as processes:
        secret = keys.new_secret(home)
        link = processes.start("superlink", _superlink(home, host, port, insecure, secret))
        _await_link(processes, link, here, port, authority)
        with superlink_api.orders(address, authority, secret.read_text()) as orders:
            values = {"home": str(home), "config": str(path.absolute()), "keys": ""}
            if not insecure:
                nodes = {number: {"node": node} for number, node in orders.admit(admitted).items()}
                files.write_private(home / KEYS, json.dumps(nodes).encode())
                values["keys"] = str(home / KEYS)
            processes.start("superexec", superexec(address, authority, secret))
            # Not before: nodes that wait for this line must find their keys registered.
            log.info(
                "SuperLink listens on %s%s", addresses.written(host, port), ", insecure" if insecure else ""
            )
            _train(orders, values, home, processes)
    log.info("all %d rounds are done", settings.rounds)


def _read_nodes(home: Path, settings: federation_config.Federation) -> dict[int, bytes]:
    """The keys of the agents that may join, if they are enough for a round."""
    admitted = keys.read_nodes(home, settings.agents)
    needed = settings.needed
    missing = [f"{number}.pub" for number in range(settings.agents) if number not in admitted]
    if len(admitted) < needed:
        raise FileNotFoundError(
            f"{home / 'nodes'}: expected the {needed} public keys or more that a round needs, "
            f"got {len(admitted)}; there is no {', '.join(missing)}"
        )
    if missing:
        log.warning(
            "%s: there is no %s; agents without a key cannot join", home / "nodes", ", ".join(missing)
        )
    return admitted


def _train(orders: superlink_api.Orders, values: Mapping[str, str], home: Path, processes: Processes) -> None:
    """Submit the run, again when it dies, until its last round is done."""
    (home / OUTCOME).unlink(missing_ok=True)
    done, tries = -1, 0
    while tries < TRIES:
        _check_room(home)
        attempt = secrets.token_hex(8)
        with (home / LOG).open("a+") as news:
            orders.run(app.bundle(), {**values, "attempt": attempt})
            outcome = _watch(home, attempt, processes, news)
        if outcome == "":
            return
        for name, part in processes.started.items():
            if part.poll() is not None:
                _check_room(home)  # where its database is as well
                # Whoever is killed has no time to say so: its last words are about something else.
                said = "" if part.returncode < 0 else f": {processes.last_words(name)}"
                raise RuntimeError(f"the {NAMES[name]} ended with code {part.returncode}{said}")
        if outcome is not None:
            raise RuntimeError(outcome)
        rounds = _last_round(home)
        tries = 1 if rounds > done else tries + 1
        done = rounds
        log.warning("the server app died; resuming after round %d", rounds)
    raise RuntimeError(f"the server app died {TRIES} times without finishing a round; see {home / 'logs'}")


def _check_room(home: Path) -> None:
    """Do not continue in a directory that takes no more, where no server app could say why it died."""
    try:
        with tempfile.TemporaryFile(dir=home) as probe:
            probe.write(bytes(ROOM))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise RuntimeError(
            f"{home}: nothing can be written ({error.strerror}); the last checkpoint is intact"
        ) from None


def _superlink(home: Path, host: str, port: int, insecure: bool, secret: Path) -> list[str]:
    secure = ["--enable-supernode-auth", "--ssl-ca-certfile", str(home / "ca.crt")]
    secure += ["--ssl-certfile", str(home / "server.crt"), "--ssl-keyfile", str(home / "server.key")]
    return [
        *("-m", "fedsarsa.deploy.guards", "superlink", "--host", host, "--port", str(port)),
        *("--database", str(home / "link.db"), "--disable-runtime-dependency-installation"),
        *("--isolation", "process", SECRET_FILE, str(secret)),
        *(["--insecure"] if insecure else secure),
    ]


def _await_link(
    processes: Processes, link: subprocess.Popen[bytes], host: str, port: int, authority: Path | None
) -> None:
    until = time.monotonic() + START
    while True:
        if link.poll() is not None:
            raise RuntimeError(f"the SuperLink does not start: {processes.last_words('superlink')}")
        try:
            return addresses.check_reachable(host, port, authority)
        except ValueError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK)


def _watch(home: Path, attempt: str, processes: Processes, news: TextIO) -> str | None:
    """How the run ended: "" well, a sentence if it gave up, None if it died; what it logs is printed."""
    begun, seen = time.monotonic(), False
    while all(part.poll() is None for part in processes.started.values()):
        running = is_running(home)
        seen = seen or running
        for line in logs.new_lines(news):
            logs.put(line)
        outcome = home / OUTCOME
        if not running and outcome.exists():
            ended = json.loads(outcome.read_text())
            if ended["attempt"] == attempt:
                return None if ended["error"] is None else str(ended["error"])
        if not running and (seen or time.monotonic() - begun > START):
            return None
        time.sleep(LOOK)
    return None


def _last_round(home: Path) -> int:
    """Where the next run resumes: a line of rounds.jsonl may be of a round that was never finished."""
    found = ledger.checkpoint(home)
    return 0 if found is None else int(found[0]["round"])


def is_running(home: Path) -> bool:
    """Whether a server app works in ``home``: the system frees its lock when it dies, however it dies."""
    try:
        descriptor = os.open(home / LOCK, os.O_RDONLY)
    except FileNotFoundError:
        return False
    with os.fdopen(descriptor) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
