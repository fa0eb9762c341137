"""A whole deployment on one machine: every part a real process, every connection as between machines."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live

from fedsarsa import theory
from fedsarsa.deploy import config, files, keys, ledger, table
from fedsarsa.deploy.node import LEASE
from fedsarsa.deploy.processes import Processes, free_port
from fedsarsa.deploy.server_app import Log
from fedsarsa.worlds.fleet import Fleet

CONFIG = """\
[fleet]
agents = 3
eps_p = 0.1
eps_r = 0.1
states = 30
actions = 10

[algorithm]
features = {{ kind = "modulo", d1 = 5, d2 = 5 }}
policy = {{ kind = "softmax", temperature = 100.0 }}
step_size = 0.02
sync_every = {every}

[training]
steps = {steps}
seed = 0

[server]
deadline = 60.0
at_least = 3
"""
EVERY = 1000
LOOK = 0.5  # seconds between two looks at the parts
START = 180.0  # seconds that a part may take to begin; agents compile when they start for the first time


def run(rounds: int, home: Path | None) -> None:
    """Train ``rounds`` rounds with a live table; nothing is left running, nor on disk outside ``home``."""
    kept = home is not None
    home = files.private_directory(home or Path(tempfile.mkdtemp(prefix="fedsarsa-")))
    try:
        with Processes(home) as processes:
            _run(processes, home, rounds, Console(markup=False, highlight=False))
    finally:
        if not kept:
            shutil.rmtree(home, ignore_errors=True)


def _run(processes: Processes, home: Path, rounds: int, console: Console) -> None:
    path = home / "federation.toml"
    path.write_text(CONFIG.format(every=EVERY, steps=rounds * EVERY))
    settings = config.load(path)
    server = files.private_directory(home / "server")
    if not (server / "ca.key").exists():
        keys.make_server(server, ["localhost"])
        (server / "nodes").mkdir(mode=0o700)
    homes = [files.private_directory(home / f"agent{i}") for i in range(settings.agents)]
    for number, own in enumerate(homes):
        if not (own / "node.key").exists():
            keys.make_node(own)
        shutil.copy(own / "node.pub", server / "nodes" / f"{number}.pub")
        shutil.copy(server / "ca.crt", own)
    assert isinstance(settings.worlds, Fleet)
    target = theory.federated_point(settings.worlds, settings.algorithm.features, settings.algorithm.policy)
    address = f"127.0.0.1:{free_port()}"
    fedsarsa = ["-m", "fedsarsa"]
    count = settings.agents
    console.print(f"SuperLink on {address}, {count} SuperNodes, {count} agents; TLS and node keys")
    for number, own in enumerate(homes):
        part = [*fedsarsa, "agent", str(path), "--number", str(number), "--home", str(own)]
        processes.start(f"agent{number}", part)
    for number in range(count):
        _await(processes, f"agent{number}", "listens on")
    main = processes.start(
        "server", [*fedsarsa, "deploy", "server", str(path), "--home", str(server), "--address", address]
    )
    _await(processes, "server", "SuperLink listens")
    joining = {
        f"node{number}": [*fedsarsa, "deploy", "node", "--superlink", address, "--home", str(own)]
        for number, own in enumerate(homes)
    }
    for name, part in joining.items():
        processes.start(name, part)
    log, news = Log(server), [""]
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            over = main.poll() is not None
            lines = ledger.read(server)
            errors = np.sum((ledger.central(server, settings.dim) - target) ** 2, axis=1)
            news += log.news()
            live.update(table.rounds(lines, settings.agents, errors, news[-1]))
            if over:
                break
            _check(processes, joining)
            time.sleep(LOOK)
    if main.returncode:
        raise RuntimeError(processes.last_words("server", lines=1))


def _await(processes: Processes, name: str, word: str) -> None:
    """Wait until a part says ``word``."""
    until = time.monotonic() + START
    while word not in processes.last_words(name):
        _check(processes, {})
        if time.monotonic() > until:
            raise RuntimeError(f"{name} did not begin within {START:.0f} seconds")
        time.sleep(LOOK)


def _check(processes: Processes, joining: dict[str, list[str]]) -> None:
    """Every part must be there, or done; nodes that a killed demo has left a lease of are let in later."""
    for name, child in list(processes.started.items()):
        if child.poll() is None or (name == "server" and not child.returncode):
            continue
        said = processes.last_words(name)
        if name not in joining or LEASE not in said:
            raise RuntimeError(f"{name} ended: {said}")
        processes.start(name, joining[name])
