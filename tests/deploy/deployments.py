"""Whole deployments with real processes on loopback, for tests."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.proto.control_pb2 import StartRunRequest
from flwr.proto.runtime_pb2 import AcquireTaskRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient

from fedsarsa.deploy import federation_config, files, keys, ledger
from fedsarsa.deploy.addresses import free_port
from fedsarsa.deploy.processes import Processes

FEDSARSA = ["-m", "fedsarsa"]
PATIENCE = 300  # seconds for anything that is waited for, on any machine

CONFIG = """
[fleet]
agents = 3
states = 12
actions = 6
[algorithm]
features = {{ kind = "modulo", d1 = 3, d2 = 2 }}
policy = {{ kind = "softmax", temperature = 1.0 }}
step_size = 0.05
sync_every = 20
radius = 8.0
[training]
steps = {steps}
seed = 3
[server]
deadline = {deadline}
at_least = 2
"""

# What has SuperNodes look for work every 0.3 seconds, not every 3: for `customised`.
HURRIED = """
import sys
if "supernode" in sys.orig_argv:
    import time, types
    from flwr.supernode import start_client_internal as inside
    hurried = lambda seconds: time.sleep(seconds / 10)
    inside.time = types.SimpleNamespace(**(vars(time) | {"sleep": hurried}))
"""


def customised(home, program):
    """The environment in which every Python process runs a program when it starts."""
    folder = files.private_directory(home / "site")
    (folder / "sitecustomize.py").write_text(program)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


@contextmanager
def short_home():
    """A directory whose path is short, as the addresses of sockets must be; pytest's are not."""
    made = Path("/tmp") / f"fedsarsa-test-{os.getpid()}-{time.monotonic_ns()}"
    yield files.private_directory(made)
    shutil.rmtree(made)


@contextmanager
def deaf_port():
    """A port on loopback that is taken, and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def running(home):
    """Processes whose command line or environment speaks of ``home``: command lines by their numbers."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((path / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if str(home).encode() in command + environment and int(path.name) != os.getpid():
            found[int(path.name)] = command.replace(b"\0", b" ").decode()
    return found


def left_running(home):
    """The command lines of processes that speak of ``home``."""
    return list(running(home).values())


def run(*arguments, patience=PATIENCE, **environment):
    return subprocess.run(
        [sys.executable, *FEDSARSA, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=patience,
        env=os.environ | {name: str(value) for name, value in environment.items()},
    )


class Onlooker(threading.Thread):
    """Another user of the machine, who reads every command line and knocks at every port there is."""

    def __init__(self, home):
        super().__init__()
        self.home, self.over = home, threading.Event()
        self.commands, self.answers = set(), {}

    def run(self):
        while not self.over.wait(0.1):
            for line in left_running(self.home):
                self.commands.add(line)
                port = re.search(r"guards super(node|link) .*--port (\d+)", line)
                if port and port[2] not in self.answers:
                    self.knock(port[2])

    def knock(self, port):
        """Ask for a task, and for a run, as Flower's own parts do but for the secret."""
        said = []
        for client, order, request in (
            (RuntimeHttpClient, "AcquireTask", AcquireTaskRequest(supported_task_types=list(TaskType))),
            (ControlHttpClient, "StartRun", StartRunRequest()),
        ):
            version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
            with client(f"https://127.0.0.1:{port}", interceptors=[version], verify=False) as asking:
                try:
                    getattr(asking, order)(request)
                    said.append(200)
                except httpx.HTTPStatusError as error:
                    said.append(error.response.status_code)
                except httpx.HTTPError:
                    return  # it does not listen yet
        self.answers[port] = said

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


class Deployment:
    """The parts of a federation, started as a person would start them on three machines."""

    def __init__(self, home, rounds, deadline):
        self.home, self.processes = home, Processes(home)
        self.path = home / "federation.toml"
        self.deadline = deadline
        self.path.write_text(self.configuration(rounds))
        self.settings = federation_config.load(self.path)
        self.server = files.private_directory(home / "server")
        self.homes = [files.private_directory(home / f"agent{i}") for i in range(3)]
        keys.make_server(self.server, ["localhost"])
        (self.server / "nodes").mkdir()
        for number, own in enumerate(self.homes):
            shutil.copy(keys.make_node(own), self.server / "nodes" / f"{number}.pub")
            shutil.copy(self.server / "ca.crt", own)
        self.address = f"127.0.0.1:{free_port()}"
        self.restarted = {}  # when each node was started again last

    def configuration(self, rounds):
        return CONFIG.format(steps=20 * rounds, deadline=self.deadline)

    def start_server(self):
        options = ["--home", str(self.server), "--address", self.address]
        return self.processes.start("server", [*FEDSARSA, "deploy", "server", str(self.path), *options])

    def start_agent(self, number):
        options = ["--number", str(number), "--home", str(self.homes[number])]
        return self.processes.start(f"agent{number}", [*FEDSARSA, "agent", str(self.path), *options])

    def start_node(self, number):
        options = ["--superlink", self.address, "--home", str(self.homes[number])]
        return self.processes.start(f"node{number}", [*FEDSARSA, "deploy", "node", *options])

    def customise(self, program):
        """Have every process run a program when it starts."""
        self.processes.environment.update(customised(self.home, program))

    def with_nodes(self, count):
        """Start the nodes again that have ended, as systemd would: not more often than every 3 seconds."""
        now = time.monotonic()
        for number in range(count):
            ended = self.processes.started[f"node{number}"].poll() is not None
            if ended and now > self.restarted.get(number, -3.0) + 3.0:
                self.restarted[number] = now
                self.start_node(number)
        return True

    def rounds(self):
        """How many are done; of a round in progress there may be a line in the ledger."""
        found = ledger.checkpoint(self.server)
        return -1 if found is None else found[0]["round"]

    def wait(self, condition):
        until = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < until, self.tell()
            time.sleep(0.1)

    def hear(self, name, words):
        """Wait until a part says these words."""
        self.wait(lambda: words in self.processes.last_words(name, lines=50))

    def logs(self):
        """What every part has said, by the path of its log."""
        paths = [*self.home.rglob("logs/*.log"), self.server / "server.log"]
        return {path: path.read_text(errors="replace") for path in paths if path.exists()}

    def tell(self):
        return "\n".join(f"{path}:\n{text[-1500:]}" for path, text in self.logs().items())

    def part(self, name, *words):
        """The process of this deployment whose command line holds these words."""
        for number, command in running(self.home).items():
            if all(word in command for word in (name, *words)):
                return number
        raise AssertionError(f"no process with {name} {words}")
