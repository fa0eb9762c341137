"""Client tasks as forks: what they are told, what others see of them, and which are ended."""

import json
import subprocess
import sys
import time
from pathlib import Path

TOKEN = "c0ffee" * 20
PATIENCE = 120
PROGRAM = """
import argparse, json, os, sys, time
from flwr.common.args import try_obtain_flwr_app_token
from flwr.supernode import cli
from fedsarsa.deploy.launcher import Launcher

def task():
    name = sys.argv[1]
    token = try_obtain_flwr_app_token(argparse.Namespace(token_file=sys.argv[-1]))
    found = [os.getpid(), sys.argv[:-1], token]
    for part in ("cmdline", "environ"):
        with open("/proc/self/" + part) as file:
            found.append(file.read())
    with open(name + ".part", "w") as file:
        json.dump(found, file)
    os.rename(name + ".part", name)
    if "wait" in sys.argv:
        time.sleep(300)

cli.flwr_clientapp = task
launcher = Launcher()
print("ready", flush=True)
for line in sys.stdin:
    launcher.launch(json.loads(line), TOKEN, False)
"""


class Launching:
    """A process that launches what it is told."""

    def __init__(self):
        program = PROGRAM.replace("TOKEN", repr(TOKEN))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", program], **pipes)
        assert self.process.stdout.readline() == "ready\n"

    def launch(self, path, *arguments):
        """What the task has written down."""
        self.process.stdin.write(json.dumps([str(path), *arguments]) + "\n")
        self.process.stdin.flush()
        until = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        return json.loads(path.read_text())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


def alive(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_task_has_its_arguments_and_a_token_that_nobody_else_sees(tmp_path):
    with Launching() as launching:
        _, arguments, token, command, environment = launching.launch(tmp_path / "seen", "--insecure")
    assert arguments == ["flwr-clientapp", str(tmp_path / "seen"), "--insecure", "--token-file"]
    assert token == TOKEN
    assert TOKEN not in environment
    assert "--token" not in command


def test_tasks_that_wait_for_what_is_gone_are_ended(tmp_path):
    with Launching() as launching:
        tasks = [launching.launch(tmp_path / str(number), "wait")[0] for number in range(3)]
        wait(lambda: not alive(tasks[0]))
        assert alive(tasks[1])
        assert alive(tasks[2])
    for task in tasks[1:]:
        subprocess.run(["kill", "-9", str(task)], check=True)
