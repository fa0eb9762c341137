"""Programs that are started, and what is left of them."""

import os
import signal
import subprocess
import sys
import time

import pytest

from fedsarsa.deploy import files
from fedsarsa.deploy.processes import Processes


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
        assert len(watcher.marked()) == 1
        parent.kill()
    until = time.monotonic() + 30
    while watcher.marked() and time.monotonic() < until:
        time.sleep(0.05)
    assert watcher.marked() == []


def test_processes_end_with_all_that_they_started(tmp_path):
    script = "import subprocess, sys, time; wait = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
    script += "subprocess.Popen(wait, start_new_session=True); print('up', flush=True); time.sleep(60)"
    with Processes(files.private_directory(tmp_path / "home")) as processes:
        processes.start("parent", ["-c", script])
        until = time.monotonic() + 30
        while "up" not in processes.last_words("parent"):
            assert time.monotonic() < until
            time.sleep(0.05)
        assert len(processes.marked()) == 2
        assert processes.environment["FLWR_TELEMETRY_ENABLED"] == "0"
        assert processes.environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert processes.marked() == []


def test_flowers_settings_and_proxies_of_the_user_do_not_reach_the_parts(tmp_path, monkeypatch):
    for name in ("FLWR_LOG_LEVEL", "FLWR_DATABASE", "FLWR_TELEMETRY_ENABLED", "FORWARDED_ALLOW_IPS"):
        monkeypatch.setenv(name, "inherited")
    monkeypatch.setenv("NO_PROXY", "example.org")
    environment = Processes(files.private_directory(tmp_path / "home")).environment
    assert "inherited" not in environment.values()
    assert environment["no_proxy"] == "*"


def test_words_of_an_earlier_life_are_not_heard(tmp_path):
    home = files.private_directory(tmp_path / "home")
    for word in ("first", "second"):
        with Processes(home) as processes:
            processes.start("child", ["-c", f"print('\\033[92m{word}\\033[0m')"]).wait()
            assert processes.last_words("child") == word


def test_a_directory_is_for_one_deployment_at_a_time(tmp_path):
    home = files.private_directory(tmp_path / "home")
    refused = pytest.raises(OSError, match="home: expected no other process at work here")
    with Processes(home), refused, Processes(home):
        pass
    with Processes(home):
        pass


@pytest.mark.slow
def test_a_second_ctrl_c_does_not_interrupt_the_stopping(tmp_path):
    home = files.private_directory(tmp_path / "home")
    # The child is slow to end, so the second signal arrives while it is waited for.
    child = "import signal, time; signal.signal(signal.SIGTERM, lambda *_: None)\n"
    child += "print('up', flush=True)\nwhile True: time.sleep(1)"
    script = "import time; from pathlib import Path; from fedsarsa.deploy.processes import Processes\n"
    script += f"with Processes(Path({str(home)!r})) as processes:\n"
    script += f"    processes.start('child', ['-c', {child!r}])\n"
    script += "    until = time.monotonic() + 30\n"
    script += "    while 'up' not in processes.last_words('child'):\n"
    script += "        assert time.monotonic() < until; time.sleep(0.05)\n"
    script += "    print(processes.mark, flush=True)\n    time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        watcher = Processes(home)
        watcher.mark = parent.stdout.readline().strip()
        assert len(watcher.marked()) == 1
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(parent.pid, number)
            time.sleep(0.3)
        assert parent.wait(60) != 0
    assert watcher.marked() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_ends_them_as_sigterm_does(tmp_path, number):
    def unheard(*_):
        raise AssertionError("nobody listens")

    before = signal.signal(number, unheard)
    processes = Processes(files.private_directory(tmp_path / "home"))

    def interrupted():
        with processes:
            processes.start("child", ["-c", "import time; time.sleep(60)"])
            signal.raise_signal(number)

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert processes.marked() == []
        assert signal.getsignal(number) is unheard
    finally:
        signal.signal(number, before)


def test_nohup_is_obeyed(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Processes(files.private_directory(tmp_path / "home")):
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_who_stops_listening_does_not_stop_the_work():
    script = "import logging\nfrom fedsarsa.deploy import logs\nlogs.configure(logs.Console())\n"
    script += (
        "for _ in range(3): logging.getLogger('fedsarsa.deploy.node').info('a line')\nraise SystemExit(7)"
    )
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-c", script], stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (7, b"")
