"""Faults of real processes in the middle of a run: what survives, and that the numbers are the same."""

import os
import re
import resource
import shutil
import signal

import numpy as np
import pytest

from fedsarsa.deploy import files, keys, ledger
from tests.deploy.deployments import PATIENCE, Deployment, left_running, run, short_home
from tests.deploy.federations import with_participation

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1500)]

# Leases of nodes that last 20 seconds, not 60, and calls that wait 5 seconds, not 30.
SHORT_LEASES = """
import sys
if "supernode" in sys.orig_argv:
    import flwr.common.constant as constant
    constant.HEARTBEAT_DEFAULT_INTERVAL = 10
"""
SHORT_CALLS = """
if "supernode" in sys.orig_argv:
    from flwr.supercore.protobuf.client import ProtobufClient
    ProtobufClient.__init__.__kwdefaults__["timeout"] = 5.0
"""
CLOCK = """
import datetime, sys
if "supernode" in sys.orig_argv:
    from flwr.supercore import date
    from flwr.supernode import node_auth_http_interceptor as signing
    signing.now = lambda: date.now() + datetime.timedelta(seconds=8)
"""


@pytest.fixture
def home():
    with short_home() as made:
        yield made


def test_faults_in_the_middle_of_a_run_change_nothing_but_the_time(home):
    made = Deployment(home, rounds=8, deadline=30.0)
    made.customise(SHORT_LEASES)
    with made.processes:
        for number in range(2):
            made.start_agent(number)
        evil = ["-m", "tests.deploy.evil_agent", str(made.path), "2", str(made.homes[2])]
        made.processes.start("evil", evil)
        server = made.start_server()
        made.hear("server", "SuperLink listens")

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

        # Nor is a node whose clock is wrong.
        (stranger / "sitecustomize.py").write_text(CLOCK)
        refused = run(*joining, PYTHONPATH=stranger)
        assert refused.returncode == 2
        assert "clock is more than 5 seconds ahead of the server's" in refused.stderr
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
        made.hear("server", "the server app died; going on after round")

        # An agent hangs: the server names it when its time is up, and asks again.
        made.wait(lambda: made.rounds() >= 3)
        os.kill(made.processes.started["agent1"].pid, signal.SIGSTOP)
        made.wait(lambda: "out: its agent process does not answer: timed out" in made.tell())
        os.kill(made.processes.started["agent1"].pid, signal.SIGCONT)

        # A SuperNode is killed alone. Rounds need it: they are asked again until it is back, which may be
        # when its lease has run out.
        made.wait(lambda: made.rounds() >= 4)
        os.kill(made.part("guards supernode", str(made.homes[1])), signal.SIGKILL)
        node = made.processes.started["node1"]
        assert node.wait(PATIENCE) == 2
        assert "the SuperNode ended with code -9" in made.processes.last_words("node1")

        made.wait(lambda: made.with_nodes(3) and made.rounds() >= 5)

        # The SuperLink is killed. The server says so; started again, it goes on.
        os.kill(made.part("guards superlink", str(made.server)), signal.SIGKILL)
        assert server.wait(PATIENCE) == 2
        assert "the SuperLink ended with code -9" in made.processes.last_words("server")
        server = made.start_server()
        assert server.wait(PATIENCE) == 0, made.tell()
    assert left_running(home) == []

    lines = [line for line in ledger.read(made.server) if line["round"]]
    assert [line["agents"] for line in lines] == [[0, 1]] * 8
    expected = with_participation(made.settings, [[0, 1]] * 8)
    seen = ledger.central(made.server, made.settings.dim)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
    lies = (
        "not finite",
        "it moved by",
        r"expected 6 numbers of float64, got shape \(7,\)",
        r"expected a reply to round \d+, got one to round \d+",
    )
    heard = set()
    for line in lines:  # every round has its lie, unless the liar or its reply did not arrive in time
        lie = lies[(line["round"] - 1) % 4]
        told = re.search(lie, line["rejected"].get("agent 2", "")) is not None
        assert told or line["missing"] or line["asked"] < 3, line
        heard |= {lie} if told else set()
    assert heard == set(lies), lines


def test_a_run_goes_on_without_a_killed_supernode_and_after_a_full_disk(home):
    made = Deployment(home, rounds=5, deadline=20.0)
    with made.processes:
        for number in range(3):
            made.start_agent(number)
        for number in range(3):
            made.hear(f"agent{number}", "listens on")
        server = made.start_server()
        made.hear("server", "SuperLink listens")
        for number in range(3):
            made.start_node(number)

        # A SuperNode is killed and does not come back: rounds end at their deadline without it.
        made.wait(lambda: any(2 in line.get("agents", ()) for line in ledger.read(made.server)))
        os.kill(made.part("guards supernode", str(made.homes[2])), signal.SIGKILL)
        assert made.processes.started["node2"].wait(PATIENCE) == 2
        heard = made.rounds()
        made.wait(lambda: made.rounds() > heard)

        # The server app may write no more than it has: its disk is full in the middle of a line.
        app = int((made.server / "server.lock").read_text())
        room = (made.server / "rounds.jsonl").stat().st_size + 50
        resource.prlimit(app, resource.RLIMIT_FSIZE, (room, room))
        assert server.wait(PATIENCE) == 2, made.tell()
        said = made.processes.last_words("server")
        assert "could not be written (File too large); the checkpoint before it is intact" in said
        done = made.rounds()

        # Its key is taken back: the server goes on with those it knows, and the node is not let in again.
        (made.server / "nodes" / "2.pub").unlink()
        server = made.start_server()
        made.hear("server", "there is no 2.pub; agents without a key cannot join")
        made.hear("server", "SuperLink listens")
        made.start_node(2)
        assert made.processes.started["node2"].wait(PATIENCE) == 2
        assert "its key is not registered there" in made.processes.last_words("node2")
        assert server.wait(PATIENCE) == 0, made.tell()
    assert left_running(home) == []

    present = [line["agents"] for line in ledger.read(made.server) if line["round"]]
    assert len(present) == 5
    assert present[done:] == [[0, 1]] * (5 - done)
    expected = with_participation(made.settings, present)
    seen = ledger.central(made.server, made.settings.dim)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)


def test_nodes_outlast_a_frozen_superlink_and_another_authority(home):
    made = Deployment(home, rounds=4, deadline=20.0)
    made.customise(SHORT_LEASES + SHORT_CALLS)
    with made.processes:
        for number in range(2):
            made.start_agent(number)
        server = made.start_server()
        made.hear("server", "SuperLink listens")
        for number in range(2):
            made.start_node(number)

        # The SuperLink is frozen for longer than nodes wait for it: they end, say why, and join again.
        made.wait(lambda: made.with_nodes(2) and made.rounds() >= 1)
        link = made.part("guards superlink", str(made.server))
        os.kill(link, signal.SIGSTOP)
        for number in range(2):
            assert made.processes.started[f"node{number}"].wait(PATIENCE) == 2
            said = made.processes.last_words(f"node{number}")
            assert f"superlink: {made.address} does not answer within 10 seconds" in said
        os.kill(link, signal.SIGCONT)
        done = made.rounds()
        made.wait(lambda: made.with_nodes(2) and made.rounds() > done)

        # The server comes back with another authority: nodes say so, also when they are started again.
        server.terminate()
        server.wait(PATIENCE)
        for name in ("ca.crt", "ca.key", "server.crt", "server.key"):
            (made.server / name).unlink()
        keys.make_server(made.server, ["localhost"])
        server = made.start_server()
        made.hear("server", "SuperLink listens")
        other = f"the certificate of {made.address} does not match {made.homes[0] / 'ca.crt'}: "
        assert made.processes.started["node0"].wait(PATIENCE) == 2
        assert other in made.processes.last_words("node0")
        assert made.start_node(0).wait(PATIENCE) == 2
        assert other in made.processes.last_words("node0")
        for number in range(2):
            shutil.copy(made.server / "ca.crt", made.homes[number])
        made.wait(lambda: made.with_nodes(2) and server.poll() is not None)
        assert server.returncode == 0, made.tell()
    assert left_running(home) == []
    seen = ledger.central(made.server, made.settings.dim)
    expected = with_participation(made.settings, [[0, 1]] * 4)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
