"""An hour of faults: a demo of three agents in which something is killed, frozen or cut off every minute.

    python -m examples.soak --minutes 60 --every 60 --seed 0        # from the repository's root
    python -m examples.soak --freeze 45 120 300                     # every machine in turn, and nothing else
    python -m examples.soak --clock 3600 -3600                      # a node's clock, then the server's

Parts that die are started again, as systemd would. In the end every round must equal the reference with the
same participation, and memory, open files and processes must not have grown.
"""

import argparse
import contextlib
import itertools
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
from tests.deploy.deployments import Deployment, left_running, running, short_home
from tests.deploy.federations import with_participation

from fedsarsa.deploy import ledger
from fedsarsa.deploy.addresses import free_port

AGENTS = 3
RESTART = 5.0  # seconds until a part that died is started again
# Flower's clock on each machine: the system's, and as many seconds more as the file "clock" there says.
CLOCK = """
import os, pathlib, time
machine = os.environ.get("FLWR_HOME")
if machine:
    import datetime
    from flwr.supercore import date
    file = pathlib.Path(machine).parent / "clock"
    right, seconds = date.now, time.time
    ahead = lambda: float(file.read_text()) if file.exists() else 0.0
    date.now = lambda: right() + datetime.timedelta(seconds=ahead())
    time.time = lambda: seconds() + ahead()
"""


class Link(threading.Thread):
    """The way from the nodes to the server, which can be cut."""

    def __init__(self, port, server):
        super().__init__(daemon=True)
        self.server, self.cut, self.open = server, False, []
        self.listener = socket.create_server(("127.0.0.1", port))

    def run(self):
        while True:
            here, _ = self.listener.accept()
            try:
                there = None if self.cut else socket.create_connection(("127.0.0.1", self.server), 5)
            except OSError:
                there = None
            if there is None:
                here.close()
                continue
            self.open = [pair for pair in self.open if pair[0].fileno() >= 0] + [(here, there)]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    def carry(self, one, other):
        with contextlib.suppress(OSError):
            while part := one.recv(1 << 16):
                other.sendall(part)
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def break_off(self):
        self.cut = True
        for pair in self.open:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


class Soak:
    """The deployment, what is done to it, and what it takes."""

    def __init__(self, home, seed):
        self.made = Deployment(home, rounds=10**6, deadline=20.0)
        port = free_port()
        self.link = Link(port, int(self.made.address.rpartition(":")[2]))
        self.server_address, self.node_address = self.made.address, f"127.0.0.1:{port}"
        self.random, self.died, self.samples, self.restarts = random.Random(seed), {}, [], 0

    def start(self, name):
        """Start a part by its name in the deployment."""
        if name == "server":
            self.made.address = self.server_address
            self.made.start_server()
        elif name.startswith("agent"):
            self.made.start_agent(int(name[5:]))
        else:
            self.made.address = self.node_address
            self.made.start_node(int(name[4:]))

    def mend(self):
        """Start again what died a while ago."""
        for name, child in list(self.made.processes.started.items()):
            if child.poll() is not None:
                since = self.died.setdefault(name, time.monotonic())
                if time.monotonic() > since + RESTART:
                    del self.died[name]
                    self.restarts += 1
                    self.start(name)

    def targets(self):
        number = self.random.randrange(AGENTS)
        started = self.made.processes.started
        yield f"agent {number}", lambda: started[f"agent{number}"].pid
        yield f"node {number}", lambda: started[f"node{number}"].pid
        yield f"SuperNode {number}", lambda: self.made.part("guards supernode", str(self.made.homes[number]))
        yield "SuperLink", lambda: self.made.part("guards superlink", str(self.made.server))
        yield "server app", lambda: self.made.part("flwr-serverapp", self.server_address)
        yield "server", lambda: started["server"].pid

    def fault(self, longest):
        """Do one thing, and say what; a freeze or a cut lasts up to ``longest`` seconds."""
        kind = self.random.choice(["kill", "freeze", "cut"])
        seconds = self.random.uniform(2.0, longest)
        name, find = self.random.choice(list(self.targets()))
        if kind == "cut":
            self.link.break_off()
            self.pause(seconds)
            self.link.cut = False
            return f"link cut for {seconds:.0f} s"
        try:
            number = find()
            os.kill(number, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
            if kind == "freeze":
                self.pause(seconds)
                os.kill(number, signal.SIGCONT)
        except (AssertionError, ProcessLookupError):
            return f"{name} was not there to {kind}"
        return f"{name} killed" if kind == "kill" else f"{name} frozen for {seconds:.0f} s"

    def freeze(self, part, seconds):
        """Freeze the machine of the server or of a node, or the SuperLink alone, and say what follows."""
        home = self.made.server if part == "server" else self.made.homes[0]
        if part == "SuperLink":
            frozen = [self.made.part("guards superlink", str(self.made.server))]
        else:
            frozen = list(running(home))
        for number in frozen:
            os.kill(number, signal.SIGSTOP)
        self.restarts = 0
        self.pause(seconds)
        during = self.made.rounds()
        for number in frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
        begun = time.monotonic()
        self.made.wait(lambda: self.mend() or self.made.rounds() >= during + 2)
        self.made.wait(lambda: self.mend() or len(self.last_round()) == AGENTS)
        return (
            f"{part} frozen for {seconds:g} s ({len(frozen)} processes): all agents in a round again after "
            f"{time.monotonic() - begun:.0f} s, {self.restarts} parts started again"
        )

    def clock(self, part, seconds):
        """Let the clock of a node's machine, or of the server's, be wrong for a minute; say what follows."""
        home = self.made.server if part == "server" else self.made.homes[0]
        told, self.restarts = self.refusals(), 0
        (home / "clock").write_text(str(seconds))
        self.pause(60.0)
        during, told = self.made.rounds(), self.refusals() - told
        (home / "clock").write_text("0")
        begun, restarts = time.monotonic(), self.restarts
        self.made.wait(lambda: self.mend() or self.made.rounds() >= during + 2)
        self.made.wait(lambda: self.mend() or len(self.last_round()) == AGENTS)
        return (
            f"clock of the {part} {seconds:+g} s: nodes said {told} times that clocks may be why they are "
            f"refused, {restarts} parts started again; "
            f"all agents in a round again {time.monotonic() - begun:.0f} s after it was right"
        )

    def refusals(self):
        texts = self.made.logs().values()
        return sum(text.count("clock is more than 5 seconds ahead") for text in texts)

    def last_round(self):
        return [line["agents"] for line in ledger.read(self.made.server) if line["round"]][-1]

    def pause(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.mend()
            time.sleep(0.5)

    def sample(self):
        """Processes, their memory in MB and open files, and MB on disk."""
        memory = files = count = 0
        for number in self.made.processes.marked():
            with contextlib.suppress(OSError):
                memory += int(Path(f"/proc/{number}/statm").read_text().split()[1]) * 4096 / 1e6
                files += len(list(Path(f"/proc/{number}/fd").iterdir()))
                count += 1
        disk = sum(path.stat().st_size for path in self.made.home.rglob("*") if path.is_file()) / 1e6
        self.samples.append((count, memory, files, disk))
        return f"{count} processes, {memory:.0f} MB, {files} open files, {disk:.1f} MB on disk"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two faults")
    parser.add_argument("--longest", type=float, default=40.0, help="seconds of the longest freeze or cut")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clock", type=float, nargs="+", help="seconds by which clocks are wrong in turn")
    parser.add_argument("--freeze", type=float, nargs="+", help="seconds of freezes, of each part in turn")
    arguments = parser.parse_args()
    with short_home() as home:
        soak = Soak(home, arguments.seed)
        soak.made.customise(CLOCK if arguments.clock else "")
        soak.link.start()
        with soak.made.processes:
            for name in ("server", *(f"{part}{i}" for part in ("agent", "node") for i in range(AGENTS))):
                soak.start(name)
                if name == "server":
                    soak.made.hear("server", "SuperLink listens")
            soak.made.wait(lambda: soak.made.rounds() >= 1)
            begun = time.monotonic()
            for part, seconds in itertools.product(("node", "SuperLink", "server"), arguments.freeze or ()):
                print(soak.freeze(part, seconds), flush=True)
            for part, seconds in itertools.product(("node", "server"), arguments.clock or ()):
                print(soak.clock(part, seconds), flush=True)
            lasting = not arguments.freeze and not arguments.clock
            while lasting and time.monotonic() < begun + 60 * arguments.minutes:
                soak.pause(arguments.every)
                said = soak.sample()
                done = soak.fault(arguments.longest)
                minutes = (time.monotonic() - begun) / 60
                print(f"{minutes:5.1f} min: round {soak.made.rounds()}; {done}; {said}", flush=True)
            last = soak.made.rounds()
            soak.pause(arguments.every)
            soak.made.wait(lambda: soak.mend() or soak.made.rounds() > last)  # it continues after all of that
            soak.made.processes.started["server"].terminate()
            soak.made.processes.started["server"].wait(60)
        assert left_running(home) == []
        lines = [line for line in ledger.read(soak.made.server) if line["round"]]
        seen = ledger.central(soak.made.server, soak.made.settings.dim)
        expected = with_participation(soak.made.settings, [line["agents"] for line in lines])
        difference = float(np.abs(seen[: len(expected)] - expected[: len(seen)]).max())
        print(f"{len(lines)} rounds, largest difference from the reference {difference:.1e}")
        assert difference < 1e-12
        if not soak.samples:
            return
        half = len(soak.samples) // 2
        for name, column in zip(
            ("processes", "MB", "open files", "MB on disk"), zip(*soak.samples, strict=True), strict=True
        ):
            print(
                f"{name}: at most {max(column[:half]):.1f} in the first half, {max(column[half:]):.1f} after"
            )


if __name__ == "__main__":
    main()
