"""A cluster that is there already is joined by its address; what cannot be joined is said in one sentence."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa._interrupts import Interrupted
from fedsarsa.deploy.addresses import free_port
from fedsarsa.experiments import sweep as sweeps
from tests.experiments.commands import SWEEP, command

pytestmark = pytest.mark.processes

RAY = Path(sys.executable).with_name("ray")
PATIENCE = 300  # seconds for anything that is started here


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster of two cores, which only those with the token may use; and that token."""
    fs.FedSARSA().train(fs.paper.fleet(1), 10, runs=1, engine="cpu")  # workers then find it compiled
    port = free_port()
    folder = tempfile.mkdtemp(prefix="ray")  # sockets in it must have short names
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    command = [RAY, "start", "--head", f"--port={port}", "--num-cpus=2", f"--temp-dir={folder}", "--block"]
    quiet = [
        f"--ray-client-server-port={free_port()}",
        "--include-dashboard=false",
        "--disable-usage-stats",
    ]
    with (Path(folder) / "said").open("w+") as said:
        head = subprocess.Popen(
            [*command, *quiet], env={**os.environ, **access}, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            until = time.monotonic() + PATIENCE
            while "Ray runtime started" not in (Path(folder) / "said").read_text():
                failed = head.poll() is not None or time.monotonic() > until
                assert not failed, (Path(folder) / "said").read_text()
                time.sleep(0.2)
            yield f"127.0.0.1:{port}", access
        finally:
            head.terminate()  # and Ray ends what it started
            try:
                head.wait(120)
            finally:
                head.kill()
                shutil.rmtree(folder, ignore_errors=True)


def python(code, environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


ENGINE = """
import ray
import fedsarsa as fs
from fedsarsa._ray import connect
history = fs.FedSARSA().train(fs.paper.fleet(3), 200, runs=2, engine="ray", threads=2)
history.save("OUT")
address = "ADDRESS"
assert ray.get_runtime_context().gcs_address.endswith(address.partition(":")[2])
connect()
connect(address)
try:
    connect("127.0.0.1:1")
except ValueError as error:
    print(error)
"""


def test_the_engine_joins_the_cluster_that_the_environment_names(cluster, tmp_path):
    address, access = cluster
    out = tmp_path / "history.nc"
    code = ENGINE.replace("OUT", str(out)).replace("ADDRESS", address)
    done = python(code, {**access, "RAY_ADDRESS": address})
    assert done.returncode == 0, done.stderr
    expected = fs.FedSARSA().train(fs.paper.fleet(3), 200, runs=2, engine="reference")
    np.testing.assert_allclose(fs.History.load(out).central, expected.central, rtol=1e-12, atol=1e-12)
    port = address.partition(":")[2]
    assert "ray: this process is connected to " in done.stdout
    assert f":{port}; expected that, got 127.0.0.1:1" in done.stdout


NOT_HERE = """
from fedsarsa.cli import main
from fedsarsa.experiments import sweep
sweep.train = None  # no cell is trained in this process
main()
"""


AFTER_ANOTHER = """
import os, ray
import fedsarsa as fs
def train():
    fs.FedSARSA().train(fs.paper.fleet(2), 20, runs=1, engine="ray")
    print(ray.get_runtime_context().gcs_address)
    ray.shutdown()
train()
os.environ.update(THERE)
train()
for name in THERE:
    del os.environ[name]
train()
"""


def test_a_cluster_can_be_joined_after_a_ray_of_ones_own_and_left_again(cluster):
    address, access = cluster
    done = python(AFTER_ANOTHER.replace("THERE", repr({**access, "RAY_ADDRESS": address})), {})
    assert done.returncode == 0, done.stderr
    port = address.partition(":")[2]
    assert [line.endswith(port) for line in done.stdout.split()] == [False, True, False]


def sweep(path, out, address, environment):
    command = [sys.executable, "-c", NOT_HERE, "sweep", path, "--out", out, "--ray", address]
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_sweep_runs_on_the_cluster_at_an_address(cluster, tmp_path):
    address, access = cluster
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    done = sweep(path, tmp_path / "out", address, access)
    assert done.returncode == 0, done.stderr
    assert "8 of 8 cells" in done.stderr
    # Nobody without the token.
    others = ({**access, "RAY_AUTH_TOKEN": secrets.token_hex(32)}, {"RAY_AUTH_MODE": "token"}, {})
    with ThreadPoolExecutor() as at_once:
        refused = [
            at_once.submit(sweep, path, tmp_path / f"other{i}", address, {**wrong, "HOME": str(tmp_path)})
            for i, wrong in enumerate(others)
        ]
    for done in (one.result() for one in refused):
        assert done.returncode == 2
        assert re.search(r"ray: expected .* RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token", done.stderr)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "ray: expected a cluster at 127.0.0.1:1, got: [Errno 111] Connection refused"),
        (
            "127.0.0.1:99999",
            "expected the address host:port of a cluster, or local, got 127.0.0.1:99999",
        ),
        ("ray://127.0.0.1:1", "ray: expected the address host:port of a cluster, or local, got ray://"),
    ],
)
def test_addresses_that_cannot_be_joined(tmp_path, monkeypatch, address, message):
    monkeypatch.setattr(sweeps, "train", None)  # no cell is trained in this process
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    done = command("sweep", path, "--out", tmp_path / "out", "--ray", address)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_cells_for_a_gpu_ask_for_one(cluster, tmp_path):
    address, access = cluster
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP.replace("[training]", '[training]\nengine = "cuda"'))
    done = sweep(path, tmp_path / "out", address, access)
    assert done.returncode == 2
    assert "engine 'cuda' needs a GPU, and the cluster has none" in done.stderr


def test_a_port_that_answers_but_not_as_ray(tmp_path):
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        brief = {"RAY_py_gcs_connect_timeout_s": "5"}  # how long Ray tries once
        done = sweep(path, tmp_path / "out", address, brief)
    assert done.returncode == 2
    assert f"ray: expected a cluster at {address}, got: Failed to connect" in done.stderr


def test_without_ray_a_sentence_says_what_to_install(tmp_path):
    """As on a machine that has not installed the extra."""
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\", name='ray')")
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP)
    done = sweep(path, tmp_path / "out", "local", {"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert "pip install 'fedsarsa[ray]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_waits_until_ray_has_started(monkeypatch):
    from fedsarsa import _ray

    started = []

    def start(*_, **__):
        signal.raise_signal(signal.SIGINT)
        started.append(True)

    monkeypatch.setattr(_ray.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(_ray.ray, "init", start)
    with pytest.raises(Interrupted):
        _ray.connect("local")
    assert started == [True]


def test_an_address_that_was_left_empty_is_none(monkeypatch):
    from fedsarsa import _ray

    monkeypatch.setattr(_ray.ray, "is_initialized", lambda: False)
    with pytest.raises(ValueError, match=r"expected the address host:port of a cluster, or local, got $"):
        _ray.connect("")


KILLED = """
import os, signal
import ray
import fedsarsa as fs
from fedsarsa._ray import connect
connect(cores=1)
(raylet,) = [one.process for one in ray._private.worker._global_node.all_processes["raylet"]]
def kill(t):
    if t:
        os.kill(raylet.pid, signal.SIGKILL)
fs.FedSARSA(sync_every=10).train(fs.paper.fleet(2), 10**5, runs=1, engine="ray", progress=kill)
"""


def test_a_killed_raylet_is_named_and_leaves_nothing_behind():
    """Ray ends a process that stores an object then, at once and without a word."""
    mark = f"FEDSARSA_TEST_{secrets.token_hex(8)}"
    done = python(KILLED, {mark: "1"})
    assert done.returncode == 1
    assert "Ray's raylet on this machine was killed" in done.stderr

    def left():
        """Processes that inherited the mark."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark.encode() in path.read_bytes():
                    found.append((path.parent / "cmdline").read_text().replace("\0", " "))
        return found

    until = time.monotonic() + 60
    while left() and time.monotonic() < until:
        time.sleep(0.2)
    assert left() == []


def test_a_process_that_was_killed_itself_blames_no_raylet():
    """Ray's raylet ends with the process, too."""
    done = python(
        "import os; from fedsarsa._ray import connect; connect(cores=1); os.kill(os.getpid(), 9)", {}
    )
    assert done.returncode == -9
    assert done.stderr == ""


def test_a_ray_that_does_not_start_is_one_sentence(monkeypatch):
    from fedsarsa import _ray

    def start(*_, **__):
        raise Exception("The current node timed out during startup.")  # Ray's own words, and class

    monkeypatch.setattr(_ray.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(_ray.ray, "init", start)
    message = r"^ray: it does not start on this machine: The current node timed out during startup\.$"
    with pytest.raises(ValueError, match=message):
        _ray.connect("local")


def test_a_part_of_ray_that_has_died_is_named(monkeypatch):
    from fedsarsa import _ray

    raylet = SimpleNamespace(returncode=-9)
    node = SimpleNamespace(dead_processes=lambda: [("raylet", raylet)])
    monkeypatch.setattr(_ray.ray._private.worker, "_global_node", node)
    said = _ray.reason(_ray.ray.exceptions.RayError("The actor is temporarily unavailable"))
    assert said == "Ray's raylet on this machine ended with code -9, killed perhaps for memory"


def test_too_little_memory_is_named():
    from fedsarsa import _ray

    error = _ray.ray.exceptions.OutOfMemoryError("Memory on the node was low ...\nTo adjust ...")
    assert _ray.reason(error).startswith("its machine had too little memory left")
