"""Whole deployments with real processes on loopback: their numbers, and the faults they survive."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedsarsa.deploy import config, files, keys, ledger
from fedsarsa.deploy.processes import Processes, free_port
from tests.deploy.federations import reference, with_participation

pytestmark = pytest.mark.processes
FEDSARSA = ["-m", "fedsarsa"]

FAULTY = """
[fleet]
agents = 3
states = 12
actions = 6
[algorithm]
features = { kind = "modulo", d1 = 3, d2 = 2 }
policy = { kind = "softmax", temperature = 1.0 }
step_size = 0.05
sync_every = 20
radius = 8.0
[training]
steps = 120
seed = 3
[server]
deadline = 20.0
at_least = 2
"""


def left_running(home):
    """Processes whose command line or environment speaks of ``home``."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            seen = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in seen and int(path.name) != os.getpid():
            found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


@pytest.fixture
def home():
    # Not tmp_path: addresses of sockets must be short.
    made = Path("/tmp") / f"fedsarsa-test-{os.getpid()}-{time.monotonic_ns()}"
    yield files.private_directory(made)
    shutil.rmtree(made)


def run(*arguments, patience=60):
    return subprocess.run(
        [sys.executable, *FEDSARSA, *map(str, arguments)], capture_output=True, text=True, timeout=patience
    )


def test_the_demo_computes_what_the_reference_engine_computes(home):
    done = run("deploy", "demo", "--rounds", 2, "--home", home, patience=200)
    assert done.returncode == 0, done.stderr
    settings = config.load(home / "federation.toml")
    seen = ledger.central(home / "server", settings.dim)
    np.testing.assert_allclose(seen, reference(settings), rtol=0, atol=1e-12)
    assert re.search(r"2 . 3 of 3", done.stdout)
    assert left_running(home) == []
    private = [path for path in home.rglob("*") if path.suffix == ".key" or path.name.startswith("link.db")]
    assert len(private) >= 6
    assert all(path.stat().st_mode & 0o077 == 0 or path.name.startswith("link.db") for path in private)
    text = "".join(path.read_text(errors="replace") for path in home.rglob("*.log"))
    assert "PRIVATE KEY" not in text


def test_ctrl_c_stops_everything_the_demo_started(home):
    command = [sys.executable, *FEDSARSA, "deploy", "demo", "--home", str(home)]
    demo = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not any("guards supernode" in line for line in left_running(home)) and time.monotonic() < until:
        time.sleep(0.2)
    assert len(left_running(home)) >= 8
    demo.send_signal(signal.SIGINT)
    assert demo.wait(30) == 130
    assert left_running(home) == []


class Deployment:
    """The parts of a federation, started as a person would start them on three machines."""

    def __init__(self, home):
        self.home, self.processes = home, Processes(home)
        self.path = home / "federation.toml"
        self.path.write_text(FAULTY)
        self.settings = config.load(self.path)
        self.server = files.private_directory(home / "server")
        self.homes = [files.private_directory(home / f"agent{i}") for i in range(3)]
        keys.make_server(self.server, ["localhost"])
        (self.server / "nodes").mkdir()
        for number, own in enumerate(self.homes):
            shutil.copy(keys.make_node(own), self.server / "nodes" / f"{number}.pub")
            shutil.copy(self.server / "ca.crt", own)
        self.address = f"127.0.0.1:{free_port()}"

    def start_server(self):
        options = ["--home", str(self.server), "--address", self.address]
        return self.processes.start("server", [*FEDSARSA, "deploy", "server", str(self.path), *options])

    def start_agent(self, number):
        options = ["--number", str(number), "--home", str(self.homes[number])]
        return self.processes.start(f"agent{number}", [*FEDSARSA, "agent", str(self.path), *options])

    def start_node(self, number):
        options = ["--superlink", self.address, "--home", str(self.homes[number])]
        return self.processes.start(f"node{number}", [*FEDSARSA, "deploy", "node", *options])

    def rounds(self):
        return max((line["round"] for line in ledger.read(self.server)), default=-1)

    def wait(self, condition, patience=120):
        until = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < until, self.tell()
            time.sleep(0.1)

    def tell(self):
        logs = [*self.home.rglob("logs/*.log"), self.server / "server.log"]
        return "\n".join(f"{path}:\n{path.read_text()[-1500:]}" for path in logs if path.exists())

    def part(self, name, *words):
        """The process of this deployment whose command line holds these words."""
        for path in Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if all(word in command for word in (name, *words)):
                return int(path.name)
        raise AssertionError(f"no process with {name} {words}")


def test_faults_in_the_middle_of_a_run_change_nothing_but_the_time(home):
    made = Deployment(home)
    with made.processes:
        for number in range(2):
            made.start_agent(number)
        evil = ["-m", "tests.deploy.evil_agent", str(made.path), "2", str(made.homes[2])]
        made.processes.start("evil", evil)
        server = made.start_server()
        made.wait(lambda: "SuperLink listens" in made.processes.last_words("server"))

        # No TLS, or a key that nobody registered: refused, in one sentence.
        stranger = files.private_directory(home / "stranger")
        keys.make_node(stranger)
        shutil.copy(made.server / "ca.crt", stranger)
        joining = ("deploy", "node", "--superlink", made.address, "--home", stranger)
        refused = run(*joining, "--insecure")
        assert refused.returncode == 2
        assert "wants TLS and a node key" in refused.stderr
        refused = run(*joining)
        assert refused.returncode == 2
        assert "does not let this node in: its key is not registered" in refused.stderr
        assert left_running(stranger) == []

        for number in range(3):
            made.start_node(number)

        # An agent is killed: it goes on where it stopped.
        made.wait(lambda: made.rounds() >= 1)
        os.kill(made.processes.started["agent0"].pid, signal.SIGKILL)
        made.processes.started["agent0"].wait()
        made.start_agent(0)

        # The server app is killed: it is submitted again.
        made.wait(lambda: made.rounds() >= 2)
        os.kill(int((made.server / "server.lock").read_text()), signal.SIGKILL)
        made.wait(lambda: "the server app died; going on after round" in made.processes.last_words("server"))

        # An agent hangs: the server names it when its time is up, and asks again.
        made.wait(lambda: made.rounds() >= 3)
        os.kill(made.processes.started["agent1"].pid, signal.SIGSTOP)
        made.wait(lambda: "the agent process does not answer: timed out" in made.tell())
        os.kill(made.processes.started["agent1"].pid, signal.SIGCONT)

        # The SuperLink is killed, and a SuperNode with it. The server says so; started again, it goes on.
        # The SuperNode may come back when its lease has run out.
        made.wait(lambda: made.rounds() >= 4)
        os.kill(made.part("guards supernode", str(made.homes[1])), signal.SIGKILL)
        os.kill(made.part("guards superlink", str(made.server)), signal.SIGKILL)
        assert server.wait(20) == 2
        assert "the SuperLink ended with code -9" in made.processes.last_words("server")
        assert made.processes.started["node1"].wait(20) == 2
        server = made.start_server()
        until = time.monotonic() + 150
        while server.poll() is None:  # as systemd would
            if made.processes.started["node1"].poll() is not None:
                made.start_node(1)
            assert time.monotonic() < until, made.tell()
            time.sleep(1.0)
        assert server.returncode == 0, made.tell()
    assert left_running(home) == []

    lines = [line for line in ledger.read(made.server) if line["round"]]
    assert [line["agents"] for line in lines] == [[0, 1]] * 6
    expected = with_participation(made.settings, [[0, 1]] * 6)
    seen = ledger.central(made.server, made.settings.dim)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
    lies = (
        "not finite",
        "it moved by",
        r"expected 6 numbers of float64, got shape \(7,\)",
        r"expected a reply to round \d+, got one to round \d+",
    )
    for line in lines:  # every round has its lie, unless the liar's reply did not arrive in time
        lie, reasons = lies[(line["round"] - 1) % 4], line["rejected"].values()
        assert any(re.search(lie, reason) for reason in reasons) or line["missing"], line
