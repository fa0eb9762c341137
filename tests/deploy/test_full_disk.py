"""A SuperNode that does not come back, a full disk, and a key that is taken back.

Not in `test_faults`: the tests of a file run one after another, and these may run beside those.
"""

import os
import resource
import signal

import numpy as np
import pytest

from fedsarsa.deploy import ledger
from tests.deploy.deployments import PATIENCE, Deployment, left_running
from tests.deploy.federations import with_participation

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1500)]


def test_a_run_goes_on_without_a_killed_supernode_and_after_a_full_disk(short_path):
    made = Deployment(short_path, rounds=5, deadline=20.0)
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
    assert left_running(short_path) == []

    present = [line["agents"] for line in ledger.read(made.server) if line["round"]]
    assert len(present) == 5
    assert present[done:] == [[0, 1]] * (5 - done)
    expected = with_participation(made.settings, present)
    seen = ledger.central(made.server, made.settings.dim)
    np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-12)
