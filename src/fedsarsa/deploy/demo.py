"""A whole deployment on one machine: every part a real process, every connection as between machines."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.live import Live

from fedsarsa import theory
from fedsarsa.deploy import addresses, federation_config, files, keys, ledger, logs, table
from fedsarsa.deploy.node import LEASE
from fedsarsa.deploy.processes import Processes
from fedsarsa.deploy.server_app import LOG
from fedsarsa.experiments import config as configs

CONFIG = """\
[fleet]
agents = {agents}
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
deadline = {deadline:.1f}
at_least = {agents}
"""
EVERY = 1000
LOOK = 0.5  # seconds between two looks at the parts
# Seconds that a round may take, and more for every agent: all of them share this machine's cores.
DEADLINE, PER_AGENT = 60.0, 4.0
POLL, POLL_PER_AGENT = 0.2, 0.04  # seconds between a node's looks for tasks
# With more nodes than that, all of them starting at once would starve the server; seconds between two.
MANY, PACE = 10, 2.0
RESTARTS = 3  # times that an agent or a node is started again
PAUSE = 15.0  # seconds between two tries of a node that is let in once a lease has run out
START = 180.0  # seconds that a part may take to begin; agents compile when they start for the first time


def run(rounds: int, home: Path | None, agents: int = 3) -> None:
    """Train ``rounds`` rounds with a live table; nothing is left running, nor on disk outside ``home``."""
    kept = home is not None
    home = files.private_directory(home or Path(tempfile.mkdtemp(prefix="fedsarsa-")))
    try:
        with Processes(home) as processes:
            _run(processes, home, rounds, agents, Console(markup=False, highlight=False))
    finally:
        if not kept:
            shutil.rmtree(home, ignore_errors=True)


def configuration(agents: int, rounds: int) -> str:
    """The demo's TOML."""
    deadline = max(DEADLINE, PER_AGENT * agents)
    return CONFIG.format(agents=agents, deadline=deadline, every=EVERY, steps=rounds * EVERY)


def _run(processes: Processes, home: Path, rounds: int, agents: int, console: Console) -> None:
    path = home / "federation.toml"
    server = files.private_directory(home / "server")
    found = ledger.checkpoint(server)
    if found is not None and found[0]["round"] > rounds:
        raise ValueError(
            f"rounds: expected at least the {found[0]['round']} that are done in {home}, got {rounds}"
        )
    path.write_text(configuration(agents, rounds))
    settings = federation_config.load(path)
    if not (server / "ca.key").exists():
        keys.make_server(server, ["localhost"])
        (server / "nodes").mkdir(mode=0o700)
    homes = [files.private_directory(home / f"agent{i}") for i in range(settings.agents)]
    for number, own in enumerate(homes):
        if not (own / "node.key").exists():
            keys.make_node(own)
        shutil.copy(own / "node.pub", server / "nodes" / f"{number}.pub")
        shutil.copy(server / "ca.crt", own)
    algo = settings.algorithm
    assert settings.worlds is not None
    target = theory.federated_point(configs.finite(settings.worlds), algo.features, algo.policy)
    address = f"127.0.0.1:{addresses.free_port()}"
    fedsarsa = ["-m", "fedsarsa"]
    count = settings.agents
    console.print(f"SuperLink on {address}, {count} SuperNodes, {count} agents; TLS and node keys")
    parts = Parts(processes, console)
    for number, own in enumerate(homes):
        command = [*fedsarsa, "agent", str(path), "--number", str(number), "--home", str(own)]
        parts.start(f"agent{number}", command)
        if number == 0:  # it compiles for all of them
            parts.await_word("agent0", "listens on")
    for number in range(count):
        parts.await_word(f"agent{number}", "listens on")
    main = processes.start(
        "server", [*fedsarsa, "deploy", "server", str(path), "--home", str(server), "--address", address]
    )
    parts.await_word("server", "SuperLink listens")
    for number, own in enumerate(homes):
        command = [*fedsarsa, "deploy", "node", "--superlink", address, "--home", str(own)]
        command += ["--poll", str(max(POLL, POLL_PER_AGENT * count))]
        parts.start(f"node{number}", command)
        time.sleep(PACE if count > MANY else 0.0)
    last = ""
    with (server / LOG).open("a+") as news, _live(console) as live:
        while True:
            over = main.poll() is not None
            lines = ledger.read(server)
            errors = np.sum((ledger.central(server, settings.dim) - target) ** 2, axis=1)
            last = (logs.new_lines(news) or [last])[-1]
            live.update(table.rounds(lines, settings.agents, errors, last))
            if over:
                break
            parts.check()
            time.sleep(LOOK)
    if main.returncode:
        said = processes.last_words("server", lines=1).removeprefix("fedsarsa: ")
        raise RuntimeError(_end(processes, "server") if main.returncode < 0 else said)


@contextmanager
def _live(console: Console) -> Iterator[Live]:
    """A table that is brought up to date, and has a line of its own also where it is written to a file."""
    try:
        with Live(console=console, refresh_per_second=2) as live:
            yield live
    finally:
        if not console.is_terminal:  # there, Live does it
            console.line()


class Parts:
    """The agents and nodes of the demo, which are started again when they die, if that is not in vain."""

    def __init__(self, processes: Processes, console: Console) -> None:
        self.processes, self.console = processes, console
        self.commands: dict[str, list[str]] = {}
        self.died: Counter[str] = Counter()
        self.later: dict[str, float] = {}  # when a node tries again

    def start(self, name: str, command: list[str]) -> None:
        """Start a part, for the first time."""
        self.commands[name] = command
        self.processes.start(name, command)

    def await_word(self, name: str, word: str) -> None:
        """Wait until a part says ``word``."""
        until = time.monotonic() + START
        while word not in self.processes.last_words(name):
            self.check()
            if time.monotonic() > until:
                raise RuntimeError(f"{name} did not begin within {START:.0f} seconds")
            time.sleep(LOOK)

    def check(self) -> None:
        """Every part must be there, or done, or is started again.

        Nodes that a killed demo has left a lease of are let in later, and try until then.
        """
        for name, child in list(self.processes.started.items()):
            if child.poll() is None or (name == "server" and not child.returncode):
                continue
            if LEASE in self.processes.last_words(name):
                now = time.monotonic()
                if now < self.later.setdefault(name, now + PAUSE):
                    continue
                del self.later[name]
            else:
                how = _end(self.processes, name)
                gave_up = child.returncode > 0 and name.startswith("agent")  # and would again
                if name not in self.commands or self.died[name] == RESTARTS or gave_up:
                    raise RuntimeError(how)
                self.died[name] += 1
                self.console.print(f"{how}; it is started again")
            self.processes.start(name, self.commands[name])


def _end(processes: Processes, name: str) -> str:
    """How a part ended."""
    code = processes.started[name].returncode
    if code < 0:
        return f"{name} was killed by signal {-code}"
    return f"{name} ended with code {code}: {processes.last_words(name)}"
