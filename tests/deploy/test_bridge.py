"""The bridge without an agent process at its other end."""

import math
import socket
from types import SimpleNamespace

import pytest

from fedsarsa.deploy import bridge, ledger
from tests.deploy.federations import KEYS


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere/agent.sock", "No such file or directory"),
        ("gone/agent.sock", "Connection refused"),
        ("federation.toml/agent.sock", "federation.toml: expected a directory"),
        ("deaf/agent.sock", "timed out"),
    ],
)
def test_an_agent_that_cannot_be_reached_does_not_answer_and_refuses_nothing(
    server, grid, short_path, path, message
):
    for name in ("gone", "deaf"):
        (short_path / name).mkdir(mode=0o700)
    (short_path / "federation.toml").touch()
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(short_path / "gone" / "agent.sock"))
    answer = grid.answer

    def through_the_bridge(node, message, asked):
        if node != 102:
            return answer(node, message, asked)
        message.content["config"]["wait"] = 0.1
        reply = bridge.train(message, SimpleNamespace(node_config={"agent": str(short_path / path)}))
        reply.metadata.__dict__["_src_node_id"] = node
        return reply

    grid.answer = through_the_bridge
    made = server(keys=KEYS)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(short_path / "deaf" / "agent.sock"))
        deaf.listen()
        made.train(grid)
    said = list(ledger.read(made.home))[1]["rejected"]["agent 1"]
    assert said.startswith("its agent process does not answer: ")
    assert message in said


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in ("wait", "work") for value in (math.nan, math.inf, -1.0, "\ud800", [])),
        *({"request": value} for value in ("no bytes", [], 3.0, b"x" * 70_000)),
        None,
    ],
)
def test_requests_that_are_none_are_told(short_path, monkeypatch, changes):
    monkeypatch.setattr(bridge, "reply", lambda message, config: config)
    arrays = {"arrays": {"theta": SimpleNamespace(data=bytes(24))}}
    config = {} if changes is None else {"request": b"{}", "wait": 1.0, "work": 1.0} | changes
    content = SimpleNamespace(config_records={"config": config}, array_records=arrays)
    context = SimpleNamespace(node_config={"agent": str(short_path / "agent.sock")})
    assert isinstance(bridge.train(SimpleNamespace(content=content), context)["unreachable"], str)
