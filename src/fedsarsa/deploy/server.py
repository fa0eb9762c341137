"""The server of a deployment: a SuperLink, and on it a run that is submitted again when it dies."""

import fcntl
import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsarsa.deploy import app, config, files, keys, ledger, rules
from fedsarsa.deploy.processes import Processes, check_free
from fedsarsa.deploy.server_app import LOCK, OUTCOME

KEYS = "nodes.json"
FLWR = ["-c", "from flwr.cli.app import app; app()"]
START = 60.0  # seconds that a SuperLink, or a run, may take to begin
TRIES = 5  # runs in a row that may die without finishing a round
LOOK = 0.3  # seconds between two looks at a run

Say = Callable[[str], None]


def serve(path: Path, home: Path, host: str, port: int, insecure: bool, say: Say) -> None:
    """Train the federation that the configuration at ``path`` describes, to its end."""
    settings = config.load(path)
    rules.rule(settings)  # can it work? before anything is started
    home = files.private_directory(home)
    if insecure and not keys.is_loopback(host):
        raise ValueError(f"insecure: expected a loopback address without TLS and node keys, got {host}")
    if not insecure:
        keys.check_server(home)
        if not any((home / "nodes" / f"{number}.pub").exists() for number in range(settings.agents)):
            raise FileNotFoundError(
                f"{home / 'nodes'}: expected the agents' public keys, 0.pub and so on; got none"
            )
    check_free(host, port)
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    _describe(home, here, port, insecure)
    app.write(home / "app")
    fresh = not (home / "link.db").exists()
    with Processes(home) as processes:
        link = processes.start("superlink", _superlink(home, host, port, insecure))
        _await_link(processes, link, here, port, None if insecure else home / "ca.crt")
        if not insecure:
            _register(processes, home, settings.agents, fresh)
        # Not before: nodes that wait for this line must find their keys registered.
        say(f"SuperLink listens on {host}:{port}" + (", insecure" if insecure else ""))
        (home / OUTCOME).unlink(missing_ok=True)
        done, tries = -1, 0
        while tries < TRIES:
            attempt = secrets.token_hex(8)
            values = {"home": str(home), "config": str(path.absolute()), "attempt": attempt}
            values["keys"] = "" if insecure else str(home / KEYS)
            given = " ".join(f"{name}={json.dumps(value)}" for name, value in values.items())
            processes.run([*FLWR, "run", str(home / "app"), "here", "--run-config", given])
            outcome = _watch(home, attempt, link, say)
            if outcome == "":
                say(f"all {settings.rounds} rounds are done")
                return
            if link.poll() is not None:
                raise RuntimeError(
                    f"the SuperLink ended with code {link.returncode}: {processes.last_words('superlink')}"
                )
            if outcome is not None:
                raise RuntimeError(outcome)
            rounds = _last_round(home)
            tries = 1 if rounds > done else tries + 1
            done = rounds
            say(f"the server app died; going on after round {rounds}")
        raise RuntimeError(
            f"the server app died {TRIES} times without finishing a round; see {home / 'logs'}"
        )


def _superlink(home: Path, host: str, port: int, insecure: bool) -> list[str]:
    secure = ["--enable-supernode-auth", "--ssl-ca-certfile", str(home / "ca.crt")]
    secure += ["--ssl-certfile", str(home / "server.crt"), "--ssl-keyfile", str(home / "server.key")]
    return [
        *("-m", "fedsarsa.deploy.guards", "superlink", "--host", host, "--port", str(port)),
        *("--database", str(home / "link.db"), "--disable-runtime-dependency-installation"),
        *(["--insecure"] if insecure else secure),
    ]


def _describe(home: Path, host: str, port: int, insecure: bool) -> None:
    """Tell Flower's command where the SuperLink is."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    trust = "insecure = true" if insecure else f"root-certificates = {json.dumps(str(home / 'ca.crt'))}"
    folder = home / "flwr"
    folder.mkdir(mode=0o700, exist_ok=True)
    text = f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n{trust}\n'
    (folder / "config.toml").write_text(text)


def _await_link(
    processes: Processes, link: subprocess.Popen[bytes], host: str, port: int, authority: Path | None
) -> None:
    until = time.monotonic() + START
    while True:
        if link.poll() is not None:
            raise RuntimeError(f"the SuperLink does not start: {processes.last_words('superlink')}")
        try:
            return keys.check_reachable(host, port, authority)
        except ValueError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK)


def _register(processes: Processes, home: Path, agents: int, fresh: bool) -> None:
    """Admit the nodes whose public keys are in ``nodes/NUMBER.pub``, and note which agent each one is."""
    path = home / KEYS
    known = json.loads(path.read_text()) if path.exists() and not fresh else {}
    for number in range(agents):
        public = home / "nodes" / f"{number}.pub"
        if not public.exists() or known.get(str(number), {}).get("key") == public.read_text():
            continue
        told = processes.run([*FLWR, "supernode", "register", str(public), "here", "--format", "json"])
        node = json.loads(told[told.index("{") :])["node-id"]
        known[str(number)] = {"key": public.read_text(), "node": int(node)}
        files.write_private(path, json.dumps(known).encode())


def _watch(home: Path, attempt: str, link: subprocess.Popen[bytes], say: Say) -> str | None:
    """How the run ended: "" well, a sentence if it gave up, None if it died; ``say`` is told of rounds."""
    begun, seen = time.monotonic(), False
    rounds, told, size = home / ledger.ROUNDS, _last_round(home), 0
    while link.poll() is None:
        running = is_running(home)
        seen = seen or running
        if rounds.exists() and rounds.stat().st_size != size:
            size = rounds.stat().st_size
            for line in [line for line in ledger.read(home) if line["round"] > told]:
                say(_summary(line))
                told = line["round"]
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
    return max((line["round"] for line in ledger.read(home)), default=0)


def _summary(line: dict[str, Any]) -> str:
    """A round in a line."""
    privacy = f", epsilon {line['epsilon']:.4g}" if "epsilon" in line else ""
    agents = ", ".join(map(str, line["agents"]))
    return f"round {line['round']}: agents {agents}; moved {line['moved']:.4g}{privacy}"


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
