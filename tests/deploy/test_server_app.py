"""The server app: how it ended is written down, and what it says can be followed."""

import json
import logging
import re
import resource
from types import SimpleNamespace

import httpx
import pytest

from fedsarsa.deploy import logs, server_app, server_process
from fedsarsa.deploy.round_loop import RoundLoop
from tests.deploy.federations import CONFIG


@pytest.fixture
def context(tmp_path):
    (tmp_path / "federation.toml").write_text(CONFIG)
    values = {"home": str(tmp_path), "config": str(tmp_path / "federation.toml"), "attempt": "a", "keys": ""}
    return SimpleNamespace(run_config=values)


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (None, ""),
        (RuntimeError("nobody came"), "nobody came"),
        (RuntimeError(), "RuntimeError"),
        (KeyError("reply"), "KeyError: 'reply'"),
        (httpx.ConnectError("refused"), "ConnectError: refused"),
        (SystemExit(143), None),  # SIGTERM: Flower stops the process, and the run is submitted again
        (KeyboardInterrupt(), None),
    ],
)
def test_how_it_ended(context, tmp_path, monkeypatch, end, error):
    def train(self, grid):
        if end is not None:
            raise end

    monkeypatch.setattr(RoundLoop, "train", train)
    if end is None:
        server_app.main(None, context)
    else:
        with pytest.raises(type(end)):
            server_app.main(None, context)
    assert json.loads((tmp_path / "outcome.json").read_text()) == {"attempt": "a", "error": error}


def test_bad_configurations_are_told(context, tmp_path):
    (tmp_path / "federation.toml").write_text(CONFIG.replace("seed = 11", "sed = 11"))
    with pytest.raises(ValueError, match="unknown key; did you mean 'seed'"):
        server_app.main(None, context)
    assert "did you mean 'seed'" in json.loads((tmp_path / "outcome.json").read_text())["error"]


def test_what_it_logs_can_be_followed(tmp_path):
    path = tmp_path / server_app.LOG
    with path.open("a+") as early:
        assert logs.new_lines(early) == []
        path.write_text("one\n")
        with path.open("a+") as late:
            with path.open("a") as file:
                file.write("two\nthr")
            assert logs.new_lines(early) == ["one", "two"]
            assert logs.new_lines(late) == ["two"]
            with path.open("a") as file:
                file.write("ee\n")
            assert logs.new_lines(early) == logs.new_lines(late) == ["three"]
        assert logs.new_lines(early) == []


def test_lines_have_time_level_and_part_and_nothing_that_a_terminal_obeys(context, tmp_path, monkeypatch):
    def train(self, grid):
        logging.getLogger("fedsarsa.deploy.server").warning("round %d: %s", 3, "\x1b[2J\n\u202e lost")

    monkeypatch.setattr(RoundLoop, "train", train)
    server_app.main(None, context)
    server_app.main(None, context)
    lines = (tmp_path / "server.log").read_text().splitlines()
    assert len(lines) == 2  # the second has not doubled what the first set up
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING server: round 3: \?\[2J\?\? lost", line)


@pytest.mark.parametrize(("code", "told"), [(-9, "code -9"), (1, "code 1: INFO: all is well")])
def test_parts_that_were_killed_said_nothing_about_it(tmp_path, code, told):
    link = SimpleNamespace(poll=lambda: code, returncode=code)
    processes = SimpleNamespace(started={"superlink": link}, last_words=lambda name: "INFO: all is well")
    orders = SimpleNamespace(run=lambda bundle, values: None)
    with pytest.raises(RuntimeError, match=f"^the SuperLink ended with {told}$"):
        server_process._train(orders, {}, tmp_path, processes)


def test_a_full_disk_is_told_as_such_whatever_it_was_that_died(tmp_path):
    executor = SimpleNamespace(poll=lambda: 1, returncode=1)
    processes = SimpleNamespace(started={"superexec": executor}, last_words=lambda name: "500 Internal")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(bundle, values):
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

    try:
        with pytest.raises(RuntimeError, match=r"nothing can be written \(File too large\); the last"):
            server_process._train(SimpleNamespace(run=fill), {}, tmp_path, processes)
        (tmp_path / "federation.toml").write_text(CONFIG)
        with pytest.raises(RuntimeError, match=r"home: nothing can be written \(File too large\)"):
            server_process.serve(tmp_path / "federation.toml", tmp_path / "home", "127.0.0.1", 1, True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
