"""Agents in this process behind a grid that can lose and spoil what they say."""

import itertools
import json
import math

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_object_id
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from fedsarsa.deploy import agent as agents
from fedsarsa.deploy import bridge, federation_config, ledger, wire
from fedsarsa.deploy.agent import Agent
from tests.deploy.federations import CONFIG

NODES = [101, 102, 103]


def request_of(message):
    """The question in a message."""
    return json.loads(message.content.config_records["config"]["request"])


class FakeGrid(Grid):
    """Delivers at once. ``away`` nodes are not listed; ``spoil(node, round, reply)`` changes replies.

    It may make bytes of them, which Flower then reads as what a node sent, or a list of several.
    """

    def __init__(self, agents):
        self.agents = agents
        self.away, self.silent = set(), set()
        self.spoil = lambda node, number, reply: reply
        self.before = lambda number: None
        self.replies, self.numbers, self.last = {}, itertools.count(), math.inf
        self.ttls = []

    run = property(lambda self: None)

    def set_run(self, run): ...
    def create_message(self, *args, **kwargs): ...
    def send_and_receive(self, messages, *, timeout=None): ...

    def get_node_ids(self):
        return [node for node in self.agents if node not in self.away]

    def push_messages(self, messages):
        for message in messages:
            name = f"message {next(self.numbers)}"
            message.metadata.__dict__["_message_id"] = name
            self.ttls.append(message.metadata.ttl)
            asked = request_of(message)
            node = message.metadata.dst_node_id
            if node <= self.last:  # nodes are asked in their order: here begins another asking
                self.before(asked["round"])
            self.last = node
            if node not in self.silent:
                reply = self.spoil(node, asked["round"], self.answer(node, message, asked))
                if reply is not None:
                    self.replies[name] = reply
            yield name

    def answer(self, node, message, asked):
        theta = message.content.array_records["arrays"]["theta"].data
        header, answer = agents.reply(self.agents[node], json.dumps(asked).encode(), theta, 1e18)
        told = {"reply": json.dumps(header).encode(), "seconds": 0.001}
        reply = bridge.reply(message, told, answer)
        reply.metadata.__dict__["_src_node_id"] = node
        return reply

    def pull_messages(self, message_ids):
        found = []
        for name in [name for name in message_ids if name in self.replies]:
            reply = self.replies.pop(name)
            if isinstance(reply, bytes):
                own = get_object_id(reply)
                reply = inflate_object_from_contents(own, {own: reply})
                reply.metadata.__dict__["_message_id"] = own  # as Flower does, whatever was read
            found += reply if isinstance(reply, list) else [reply]
        return found


def changed(tmp_path, text, base=CONFIG):
    path = tmp_path / "changed.toml"
    path.write_text(base + text)
    return federation_config.load(path)


def robust(tmp_path, text, agents=7):
    base = CONFIG.replace("agents = 3", f"agents = {agents}").replace("weights = [0.2, 0.5, 0.3]", "")
    return changed(tmp_path, text, base.replace("step_size = [0.1, 0.2, 0.05]", "step_size = 0.1"))


def crowd(settings, tmp_path):
    grid = FakeGrid({})
    for number in range(settings.agents):
        home = tmp_path / f"crowd{number}"
        home.mkdir(mode=0o700, exist_ok=True)
        grid.agents[200 + number] = Agent(settings, number, home)
    return grid


def lose(grid, node, rounds):
    """Let a node's message be lost, before its agent sees it, in these rounds."""

    def before(number):
        grid.silent = {node} if number in rounds else set()

    grid.before = before


def assert_central(server, settings, expected):
    """The central parameters of every round."""
    np.testing.assert_allclose(ledger.central(server.home, settings.dim), expected, rtol=0, atol=1e-12)


def theta_of(reply):
    return wire.unpacked(reply.content.array_records["arrays"]["theta"].data)


def with_theta(reply, theta):
    theta = np.asarray(theta)
    array = Array(str(theta.dtype), theta.shape, "fedsarsa", theta.tobytes())
    reply.content["arrays"] = ArrayRecord({"theta": array})
    return reply


def with_header(reply, **changes):
    config = reply.content.config_records["config"]
    config["reply"] = json.dumps(json.loads(config["reply"]) | changes).encode()
    return reply
