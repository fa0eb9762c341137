"""Faults of real processes in the middle of a run: what survives, and that the numbers are the same.

All happen to one deployment, one after another, in the order of this file; each test also passes by itself.
"""

import os
import re
import resource
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fedsarsa.deploy import files, keys, ledger
from tests.deploy.deployments import HURRIED, PATIENCE, Deployment, customised, left_running, run, short_home
from tests.deploy.federations import with_participation

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1500)]

# Limits made short: leases last 8 seconds, not 60; calls of nodes wait for 4 seconds, not 30; and whether a
# SuperLink answers is known after 3 seconds, not 10.
SHORT = """
import sys
if "supernode" in sys.orig_argv:
    from flwr.supercore import heartbeat
    from flwr.supernode import fleet_http_connection as connection
    connection.HEARTBEAT_DEFAULT_INTERVAL = heartbeat.HEARTBEAT_DEFAULT_INTERVAL = 4
    heartbeat.HEARTBEAT_CALL_TIMEOUT = 2
    from flwr.supercore.protobuf.client import ProtobufClient
    ProtobufClient.__init__.__kwdefaults__["timeout"] = 4.0
elif "superlink" in sys.orig_argv:
    from flwr.superlink.servicer.fleet import fleet_handlers
    fleet_handlers.HEARTBEAT_MIN_INTERVAL = 1
elif "node" in sys.orig_argv:
    from fedsarsa.deploy import addresses
    addresses.check_reachable.__defaults__ = (3.0,)
"""
CLOCK = """
import datetime, sys
if "supernode" in sys.orig_argv:
    from flwr.supercore import date
    from flwr.supernode import node_auth_http_interceptor as signing
    signing.now = lambda: date.now() + datetime.timedelta(seconds=8)
"""
LIES = (  # of the evil agent, in turn
    "not finite",
    "it moved by",
    r"expected 6 numbers of float64, got shape \(7,\)",
    r"expected a reply to round \d+, got one to round \d+",
)


@pytest.fixture(scope="module")
def made():
    """A federation of three agents in which rounds are done."""
    with short_home() as home:
        made = Deployment(home, rounds=10**6, deadline=8.0)
        made.customise(HURRIED + SHORT)
        with made.processes:
            for number in range(3):
                made.start_agent(number)
            made.start_server()
            made.hear("server", "SuperLink listens")
            for number in range(3):
                made.start_node(number)
            made.wait(lambda: lines(made))
            yield made
        assert left_running(home) == []


def lines(made):
    return [line for line in ledger.read(made.server) if line["round"]]


def go_on(made, rounds=1, nodes=3):
    """Wait for rounds that begin after this moment, with nodes that are started again as systemd would."""
    last = made.rounds() + 1  # which may be under way
    made.wait(lambda: made.with_nodes(nodes) and made.rounds() >= last + rounds)
    present = [line["agents"] for line in lines(made)]
    expected = with_participation(made.settings, present)
    seen = ledger.central(made.server, made.settings.dim)[: len(expected)]
    np.testing.assert_allclose(seen, expected[: len(seen)], rtol=0, atol=1e-12)


def kill(made, name):
    child = made.processes.started[name]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()


def ended(made, name):
    """The last words of a part that gives up."""
    assert made.processes.started[name].wait(PATIENCE) == 2, made.tell()
    return made.processes.last_words(name)


def test_strangers_are_refused_in_one_sentence(made):
    """Nodes without TLS, with a key that nobody registered, and with a clock that is wrong."""

    def join(name, *options, clock=""):
        home = files.private_directory(made.home / name)
        keys.make_node(home)
        shutil.copy(made.server / "ca.crt", home)
        joining = ("deploy", "node", "--superlink", made.address, "--home", home)
        return run(*joining, *options, **customised(home, clock))

    with ThreadPoolExecutor() as at_once:
        plain, unknown, ahead = (
            at_once.submit(join, "plain", "--insecure"),
            at_once.submit(join, "unknown"),
            at_once.submit(join, "ahead", clock=CLOCK),
        )
    for refused, why in (
        (plain, "wants TLS and a node key"),
        (unknown, "does not let this node in: its key is not registered"),
        (ahead, "clock is more than 5 seconds ahead of the server's"),
    ):
        assert refused.result().returncode == 2
        assert why in refused.result().stderr
    assert not any(left_running(made.home / name) for name in ("plain", "unknown", "ahead"))


def test_a_killed_agent_goes_on_where_it_stopped(made):
    kill(made, "agent0")
    made.start_agent(0)
    made.hear("agent0", "resuming after round")
    go_on(made)
    made.wait(lambda: 0 in lines(made)[-1]["agents"])


def test_a_killed_server_app_is_submitted_again(made):
    os.kill(int((made.server / "server.lock").read_text()), signal.SIGKILL)
    made.hear("server", "the server app died; resuming after round")
    go_on(made)


def test_a_hanging_agent_is_named_when_its_time_is_up(made):
    number = made.processes.started["agent1"].pid
    told, log = "left agent 1 out: its agent process does not answer: timed out", made.server / "server.log"
    before = log.read_text().count(told)
    os.kill(number, signal.SIGSTOP)
    made.wait(lambda: log.read_text().count(told) > before)
    os.kill(number, signal.SIGCONT)
    go_on(made)
    made.wait(lambda: 1 in lines(made)[-1]["agents"])


def test_rounds_end_without_a_killed_supernode_and_with_it_once_it_is_back(made):
    """Where its lease has not run out yet, it is let in later."""
    made.wait(lambda: made.with_nodes(3) and lines(made)[-1]["agents"] == [0, 1, 2])
    os.kill(made.part("guards supernode", str(made.homes[2])), signal.SIGKILL)
    assert "the SuperNode ended with code -9" in ended(made, "node2")
    go_on(made, nodes=2)
    assert lines(made)[-1]["agents"] == [0, 1]
    made.wait(lambda: made.with_nodes(3) and lines(made)[-1]["agents"] == [0, 1, 2])
    go_on(made)


def test_an_evil_agent_is_left_out_whatever_it_says(made):
    made.wait(lambda: made.with_nodes(3) and lines(made)[-1]["agents"] == [0, 1, 2])
    kill(made, "agent2")
    (made.homes[2] / "agent.sock").unlink()
    evil = ["-m", "tests.deploy.evil_agent", str(made.path), "2", str(made.homes[2])]
    made.processes.start("evil", evil)
    made.hear("evil", "listens")
    first, heard = made.rounds() + 2, set()

    def heard_all():
        for line in lines(made)[first - 1 :]:
            assert 2 not in line["agents"]
            said = line["rejected"].get("agent 2", "")
            lie = LIES[(line["round"] - 1) % len(LIES)]  # unless the liar or its reply did not arrive in time
            assert re.search(lie, said) or "does not answer" in said or line["missing"] or line["asked"] < 3
            heard.update([lie] if re.search(lie, said) else [])
        return heard == set(LIES)

    made.wait(lambda: made.with_nodes(3) and heard_all())
    kill(made, "evil")
    (made.homes[2] / "agent.sock").unlink()
    made.start_agent(2)
    go_on(made)


def test_nodes_outlast_a_frozen_superlink(made):
    """It is frozen for longer than they wait for it: they end, say why, and join again."""
    made.wait(lambda: made.with_nodes(3) and lines(made)[-1]["agents"] == [0, 1, 2])
    link = made.part("guards superlink", str(made.server))
    os.kill(link, signal.SIGSTOP)
    for number in range(3):
        said = ended(made, f"node{number}")
        assert f"superlink: {made.address} does not answer within 3 seconds" in said
    os.kill(link, signal.SIGCONT)
    go_on(made)


def test_a_full_disk_ends_the_server_and_a_key_taken_back_its_node(made):
    """The server app may write no more than it has: its disk is full in the middle of a line."""
    app = int((made.server / "server.lock").read_text())
    room = (made.server / "rounds.jsonl").stat().st_size + 50
    resource.prlimit(app, resource.RLIMIT_FSIZE, (room, room))
    said = ended(made, "server")
    assert "could not be written (File too large); the checkpoint before it is intact" in said
    (made.server / "nodes" / "2.pub").unlink()
    server, done = made.start_server(), made.rounds()
    made.hear("server", "there is no 2.pub; agents without a key cannot join")
    made.hear("server", "SuperLink listens")
    ended(made, "node2")
    made.start_node(2)
    assert "its key is not registered there" in ended(made, "node2")
    go_on(made, nodes=2)
    assert server.poll() is None
    assert all(line["agents"] == [0, 1] for line in lines(made)[done:])


def test_a_killed_superlink_is_told_and_another_authority_and_then_the_end(made):
    os.kill(made.part("guards superlink", str(made.server)), signal.SIGKILL)
    assert "the SuperLink ended with code -9" in ended(made, "server")
    for name in ("ca.crt", "ca.key", "server.crt", "server.key"):
        (made.server / name).unlink()
    keys.make_server(made.server, ["localhost"])
    last = made.rounds() + 2
    made.path.write_text(made.configuration(last))
    server = made.start_server()
    made.hear("server", "SuperLink listens")
    other = f"the certificate of {made.address} does not match {made.homes[0] / 'ca.crt'}: "
    assert other in ended(made, "node0")
    made.start_node(0)  # as it says however often it is started
    assert other in ended(made, "node0")
    for number in range(2):
        shutil.copy(made.server / "ca.crt", made.homes[number])
    made.wait(lambda: made.with_nodes(2) and server.poll() is not None)
    assert server.returncode == 0, made.tell()
    assert made.rounds() == last
    present = [line["agents"] for line in lines(made)]
    seen = ledger.central(made.server, made.settings.dim)
    np.testing.assert_allclose(seen, with_participation(made.settings, present), rtol=0, atol=1e-12)
