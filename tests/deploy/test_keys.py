"""Certificates, keys and doors: what is refused, and how it is said."""

import asyncio
import inspect
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from fedsarsa.cli import app as command
from fedsarsa.deploy import app, files, guards, keys, node, server
from fedsarsa.deploy.processes import Processes, check_free, free_port
from tests.deploy.federations import CONFIG


@pytest.fixture
def home(tmp_path):
    made = files.private_directory(tmp_path / "server")
    keys.make_server(made, ["localhost", "10.0.0.7", "server.example.org"])
    return made


def test_keys_are_for_their_owner_alone(home, tmp_path):
    keys.check_server(home)
    mine = files.private_directory(tmp_path / "node")
    keys.make_node(mine)
    for path in (home / "ca.key", home / "server.key", mine / "node.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match=r"node.key: is there already"):
        keys.make_node(mine)
    (home / "server.key").chmod(0o644)
    with pytest.raises(PermissionError, match="expected a key that only its owner can read"):
        keys.check_server(home)


def test_directories_that_others_can_open_are_refused(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(PermissionError, match=r"expected a directory that only its owner, you, can open"):
        files.private_directory(tmp_path / "open")


def test_certificates_that_do_not_belong_together(home, tmp_path):
    other = files.private_directory(tmp_path / "other")
    keys.make_server(other, ["localhost"])
    kept = (home / "server.key").read_bytes()
    shutil.copy(other / "server.key", home)
    with pytest.raises(ValueError, match=r"server.key: expected the key of server.crt, got another one's"):
        keys.check_server(home)
    (home / "server.key").write_bytes(kept)
    shutil.copy(other / "ca.crt", home)
    with pytest.raises(ValueError, match=r"server.crt: expected a certificate signed by ca.crt"):
        keys.check_server(home)
    (home / "ca.crt").write_text("nonsense")
    with pytest.raises(ValueError, match=r"ca.crt: expected a certificate in PEM"):
        keys.check_server(home)
    (home / "ca.crt").unlink()
    with pytest.raises(FileNotFoundError, match=r"make one with fedsarsa deploy keys server"):
        keys.check_server(home)


def test_an_expired_certificate_is_renewed_by_the_same_authority(home):
    authority = (home / "ca.crt").read_bytes()
    keys.make_server(home, ["localhost"], days=0)
    with pytest.raises(
        ValueError, match=r"server.crt: expected a certificate that is valid now, got one valid"
    ):
        keys.check_server(home)
    keys.make_server(home, ["localhost"])
    keys.check_server(home)
    assert (home / "ca.crt").read_bytes() == authority


@pytest.fixture
def tls(home):
    """A port that speaks TLS with the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.crt", home / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    try:
                        context.wrap_socket(connection, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_superlinks_that_cannot_be_trusted_or_reached(home, tls, tmp_path):
    other = files.private_directory(tmp_path / "other")
    keys.make_server(other, ["localhost"])
    keys.check_reachable("127.0.0.1", tls, home / "ca.crt")
    keys.check_reachable("localhost", tls, home / "ca.crt")
    with pytest.raises(ValueError, match=r"the certificate of 127.0.0.1:\d+ does not match"):
        keys.check_reachable("127.0.0.1", tls, other / "ca.crt")
    with pytest.raises(ValueError, match="wants TLS and a node key, got --insecure"):
        keys.check_reachable("127.0.0.1", tls, None)
    with pytest.raises(ValueError, match=r"superlink: 127.0.0.1:\d+ cannot be reached: Connection refused"):
        keys.check_reachable("127.0.0.1", free_port(), home / "ca.crt")
    with pytest.raises(ValueError, match=r"superlink: no.such.host.invalid:1 cannot be reached"):
        keys.check_reachable("no.such.host.invalid", 1, None)


def test_a_name_that_the_certificate_does_not_have(home, tls, monkeypatch):
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda address, *rest: connect(("127.0.0.1", tls), *rest)
    )
    with pytest.raises(ValueError, match=r"the certificate of elsewhere.example.org:1 does not match"):
        keys.check_reachable("elsewhere.example.org", 1, home / "ca.crt")


def test_addresses(home, tmp_path):
    assert node.address("example.org:80") == ("example.org", 80)
    assert node.address("[::1]:80") == ("::1", 80)
    for wrong in ("example.org", ":80", "example.org:", "example.org:0", "example.org:99999", "a:b"):
        with pytest.raises(ValueError, match="address must be HOST:PORT, got"):
            node.address(wrong)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"address: cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            check_free("127.0.0.1", port)


def commanded(*arguments):
    done = CliRunner().invoke(command, [str(one) for one in arguments])
    return done.exit_code, str(done.exception)


def test_bad_input_to_the_commands_is_one_sentence(home, tmp_path):
    config = tmp_path / "federation.toml"
    config.write_text(CONFIG)
    fresh = tmp_path / "fresh"
    cases = [
        (
            ("deploy", "server", config, "--home", fresh),
            "ca.crt: no such file; make one with",
        ),
        (("deploy", "server", config, "--home", home), "nodes: expected the agents' public keys"),
        (
            ("deploy", "server", config, "--home", fresh, "--insecure", "--address", "0.0.0.0:8000"),
            "insecure: expected a loopback address without TLS and node keys, got 0.0.0.0",
        ),
        (
            ("deploy", "node", "--superlink", "example.org:8000", "--home", fresh, "--insecure"),
            "insecure: expected a loopback SuperLink without TLS and node keys, got example.org",
        ),
        (("deploy", "node", "--superlink", "127.0.0.1:1", "--home", fresh), "ca.crt: no such file"),
        (
            ("deploy", "node", "--superlink", "127.0.0.1:1", "--home", fresh, "--insecure"),
            "superlink: 127.0.0.1:1 cannot be reached: Connection refused",
        ),
        (
            ("agent", config, "--number", 3, "--home", fresh),
            "number must be at least 0 and below the 3 agents",
        ),
        (("agent", tmp_path / "none.toml", "--number", 0, "--home", fresh), "none.toml: cannot be read"),
        (("deploy", "status", "--home", fresh), "checkpoint.npz: expected a fedsarsa server checkpoint"),
    ]
    for arguments, message in cases:
        code, said = commanded(*arguments)
        assert code != 0
        assert re.search(message, said), said


def test_a_port_in_use_is_found_before_anything_is_started(home, tmp_path):
    config = tmp_path / "federation.toml"
    config.write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="cannot listen on"):
        server.serve(config, tmp_path / "new", "127.0.0.1", taken.getsockname()[1], True, print)
    assert not (tmp_path / "new" / "link.db").exists()


# ---- the guards ----


def served(client, path, server=("10.0.0.7", 8000)):
    """Whether a request gets through to the SuperLink, and the status otherwise."""
    passed, sent = [], []

    async def inside(scope, receive, send):
        passed.append(scope["path"])

    async def send(message):
        sent.append(message.get("status"))

    scope = {"type": "http", "path": path, "client": client, "server": server}
    asyncio.run(guards.FleetOnly(inside)(scope, None, send))
    return bool(passed) or sent[0]


@pytest.mark.parametrize(
    "path", ["/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/", "/v1/fleet"]
)
def test_orders_are_taken_on_the_servers_own_machine_alone(path):
    assert served(("127.0.0.1", 5), path) is True
    assert served(("::1", 5), path) is True
    assert served(("10.0.0.7", 5), path) is True  # to its own address, from its own address
    assert served(("10.0.0.8", 5), path) == 403
    assert served(None, path) == 403
    assert served(("nonsense", 5), path) == 403


def test_nodes_are_heard_from_anywhere():
    assert served(("10.0.0.8", 5), "/v1/fleet/pull-messages") is True


def test_flower_still_has_the_places_where_the_guards_stand(monkeypatch):
    from flwr.superlink import extensions, main
    from flwr.supernode import start_client_internal as inside

    monkeypatch.setattr(extensions, "get_middleware", extensions.get_middleware)
    monkeypatch.setattr("flwr.superlink.cli.flower_superlink", lambda: None)
    guards.superlink()
    assert main._get_middleware()[0].cls is guards.FleetOnly
    assert "get_fab" in inspect.signature(inside._pull_and_store_message).parameters
    assert "_pull_and_store_message(" in inspect.getsource(inside.start_client_internal)


def test_a_supernode_runs_the_installed_app_and_no_other(monkeypatch, capsys):
    from flwr.cli.build import build_fab_from_files
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import start_client_internal as inside

    ours = build_fab_from_files(app.sources())[0]
    changed = app.sources()
    changed["fedsarsa_bridge/bridge.py"] += b"import os\n"
    theirs = build_fab_from_files(changed)[0]
    monkeypatch.setattr(inside, "_pull_and_store_message", lambda *, get_fab, **rest: get_fab("digest", 1))
    monkeypatch.setattr("flwr.supernode.cli.flower_supernode", lambda: None)
    guards.supernode()
    bundle = SimpleNamespace(content=ours)
    assert inside._pull_and_store_message(get_fab=lambda digest, run: bundle) is bundle
    for wrong in (theirs, b"", b"PK nonsense"):
        with pytest.raises(RunNotRunningException):
            inside._pull_and_store_message(get_fab=lambda digest, run, w=wrong: SimpleNamespace(content=w))
    assert "refused to run an app" in capsys.readouterr().err


def test_a_killed_parent_leaves_nothing_behind(tmp_path):
    home = files.private_directory(tmp_path / "home")
    script = "import time; from pathlib import Path; from fedsarsa.deploy.processes import Processes\n"
    script += f"processes = Processes(Path({str(home)!r})); print(processes.mark, flush=True)\n"
    script += "processes.start('child', ['-c', 'import time; time.sleep(60)']); print('up', flush=True)\n"
    script += "time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        watcher = Processes(home)
        watcher.mark = parent.stdout.readline().strip()
        parent.stdout.readline()
        assert len(watcher._marked()) == 1
        parent.kill()
    until = time.monotonic() + 5
    while watcher._marked() and time.monotonic() < until:
        time.sleep(0.05)
    assert watcher._marked() == []


def test_processes_end_with_all_that_they_started(tmp_path):
    script = "import subprocess, sys, time; wait = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
    script += "subprocess.Popen(wait, start_new_session=True); print('up', flush=True); time.sleep(60)"
    with Processes(files.private_directory(tmp_path / "home")) as processes:
        processes.start("parent", ["-c", script])
        while "up" not in processes.last_words("parent"):
            time.sleep(0.05)
        assert len(processes._marked()) == 2
        assert processes.environment["FLWR_TELEMETRY_ENABLED"] == "0"
        assert processes.environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert processes._marked() == []
