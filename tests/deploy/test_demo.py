"""The demo: its numbers, what others on the machine could see of it, how it resumes and stops."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from rich.console import Console

from fedsarsa.deploy import demo, federation_config, files, ledger
from fedsarsa.deploy.node import LEASE
from fedsarsa.deploy.processes import Processes
from tests.deploy.deployments import (
    FEDSARSA,
    HURRIED,
    PATIENCE,
    Onlooker,
    customised,
    left_running,
    run,
    short_home,
)
from tests.deploy.federations import reference

pytestmark = [pytest.mark.processes, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def finished():
    """The home of a demo that has run to its end, what it printed, and who looked on."""
    with short_home() as home:
        with Onlooker(home) as onlooker:
            done = run("deploy", "demo", "--rounds", 2, "--home", home, **customised(home, HURRIED))
        assert done.returncode == 0, done.stderr
        yield home, done.stdout, onlooker


def test_the_demo_computes_what_the_reference_engine_computes(finished):
    home, printed, _ = finished
    settings = federation_config.load(home / "federation.toml")
    seen = ledger.central(home / "server", settings.dim)
    np.testing.assert_allclose(seen, reference(settings), rtol=0, atol=1e-12)
    assert re.search(r"2 . 3 of 3", printed)
    assert left_running(home) == []


def test_nobody_else_can_read_a_secret_take_a_task_or_have_an_app_run(finished):
    home, _, onlooker = finished
    private = [path for path in home.rglob("*") if path.suffix in (".key", ".secret")]
    assert len(private) == 2 + 3 * 3 + 4  # the authority's and the server's, three of each node, secrets
    assert all(path.stat().st_mode & 0o077 == 0 for path in private)
    folders = [path for path in home.iterdir() if path.is_dir()]
    assert len(folders) == 6  # one of them the test's
    assert all(path.stat().st_mode & 0o077 == 0 for path in [home, *folders])  # and so what is in them
    text = "".join(path.read_text(errors="replace") for path in home.rglob("*.log"))
    secrets = [path.read_text() for path in home.rglob("*.secret")]
    assert not any(secret in text for secret in ["PRIVATE KEY", *secrets])

    everything = "\n".join(onlooker.commands)
    for part in ("flwr-serverapp", "guards superexec", "guards supernode"):
        assert part in everything
    assert "--token " not in everything
    assert not re.search(r"[0-9a-f]{32}", everything.replace(str(home), ""))
    assert sorted(onlooker.answers.values()) == [[401, 403]] + 3 * [[401, 404]]  # SuperLink, SuperNodes


def test_the_demo_goes_on_from_what_is_there_and_stops_at_ctrl_c(finished):
    home, _, _ = finished
    command = [sys.executable, *FEDSARSA, "deploy", "demo", "--rounds", "50", "--home", str(home)]
    environment = os.environ | customised(home, HURRIED)
    again = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with again:
        until = time.monotonic() + PATIENCE
        while len(list(ledger.read(home / "server"))) < 4 and again.poll() is None:  # rounds 0, 1, 2 and 3
            assert time.monotonic() < until
            time.sleep(0.2)
        assert len(left_running(home)) >= 12
        for _ in range(2):  # an impatient person
            again.send_signal(signal.SIGINT)
            time.sleep(0.5)
        said = again.stdout.read()
        assert again.wait(PATIENCE) == 130, said
    assert left_running(home) == []
    settings = federation_config.load(home / "federation.toml")
    seen = ledger.central(home / "server", settings.dim)
    np.testing.assert_allclose(seen, reference(settings)[: len(seen)], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("agents", "deadline"), [(2, 60.0), (50, 200.0)])
def test_a_round_of_many_agents_on_one_machine_may_take_longer(tmp_path, agents, deadline):
    path = tmp_path / "federation.toml"
    path.write_text(demo.configuration(agents, rounds=3))
    settings = federation_config.load(path)
    assert (settings.agents, settings.rounds) == (agents, 3)
    assert (settings.server.at_least, settings.server.deadline) == (agents, deadline)


DYING = "import os; print('INFO: all is well', flush=True); os.kill(os.getpid(), 9)"


def looked_at(parts, processes, count):
    for _ in range(count):
        for child in processes.started.values():
            child.wait()
        parts.check()


def test_parts_that_die_are_started_again_unless_it_is_in_vain(tmp_path):
    console = Console(file=io.StringIO())
    with Processes(files.private_directory(tmp_path / "home")) as processes:
        parts = demo.Parts(processes, console)
        parts.start("agent0", ["-c", DYING])
        with pytest.raises(RuntimeError, match=r"^agent0 was killed by signal 9$"):
            looked_at(parts, processes, demo.RESTARTS + 1)
    said = ["agent0 was killed by signal 9; it is started again"] * demo.RESTARTS
    assert console.file.getvalue().splitlines() == said
    log = (tmp_path / "home" / "logs" / "agent0.log").read_text()
    assert log.count("all is well") == 1 + demo.RESTARTS


def test_nodes_with_a_lease_may_try_often(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "PAUSE", 0.0)
    with Processes(files.private_directory(tmp_path / "home")) as processes:
        parts = demo.Parts(processes, Console(file=io.StringIO()))
        parts.start("node0", ["-c", f"print({LEASE!r}); raise SystemExit(2)"])
        looked_at(parts, processes, 2 * demo.RESTARTS)
        processes.start("server", ["-c", "print('no room'); raise SystemExit(2)"]).wait()
        with pytest.raises(RuntimeError, match=r"^server ended with code 2: no room$"):
            parts.check()


def test_nodes_with_a_lease_wait_before_they_try_again(tmp_path):
    with Processes(files.private_directory(tmp_path / "home")) as processes:
        parts = demo.Parts(processes, Console(file=io.StringIO()))
        parts.start("node0", ["-c", f"print({LEASE!r}); raise SystemExit(2)"])
        first = processes.started["node0"]
        looked_at(parts, processes, 3)
        assert processes.started["node0"] is first
        parts.later["node0"] -= demo.PAUSE
        parts.check()
        assert processes.started["node0"] is not first
        processes.started["node0"].wait()


def test_what_follows_the_table_in_a_file_has_a_line_of_its_own():
    file = io.StringIO()
    with demo._live(Console(file=file)) as live:
        live.update("round 1")
    assert file.getvalue() == "round 1\n"


def test_fewer_rounds_than_are_done_are_refused_before_anything_is_started(finished):
    home, _, _ = finished
    text = (home / "federation.toml").read_text()
    refused = run("deploy", "demo", "--rounds", 1, "--home", home)
    assert refused.returncode == 2
    assert re.search(r"rounds: expected at least the \d+ that are done in", refused.stderr)
    assert "SuperLink" not in refused.stdout
    assert (home / "federation.toml").read_text() == text
