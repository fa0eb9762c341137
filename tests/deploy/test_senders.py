"""Whose reply it is: agents are who their keys say, and nobody speaks, or fails, for another."""

import copy

import httpx
import numpy as np
import pytest
from flwr.supercore.inflatable.inflatable_object import add_header_to_object_body

from fedsarsa.deploy import ledger
from tests.deploy.federations import KEYS, reference, with_participation
from tests.deploy.grids import assert_central, changed, theta_of, with_header, with_theta


def test_two_nodes_cannot_be_the_same_agent(settings, server, grid):
    grid.spoil = lambda node, number, reply: with_header(reply, agent=0) if node == 103 else reply
    made = server()
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert all(line["agents"] == [0, 1] for line in lines)
    assert all(line["rejected"] == {"node 103": "agent 0 is another node's"} for line in lines)


def test_an_agents_key_says_who_it_is(settings, server, grid):
    grid.agents[99] = grid.agents.pop(103)  # replies before the others, and claims to be agent 0
    grid.spoil = lambda node, number, reply: with_header(reply, agent=0) if node == 99 else reply
    made = server(keys={101: 0, 102: 1, 99: 2})
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert all(line["agents"] == [0, 1] for line in lines)
    reason = "it has the key of agent 2, and says it is agent 0"
    assert all(line["rejected"] == {"agent 2": reason} for line in lines)


def test_keys_that_were_given_to_other_agents_count_from_then_on(settings, server, grid):
    def swap(number):
        if number == 4:
            grid.agents[101], grid.agents[102] = grid.agents[102], grid.agents[101]
            raise ConnectionError

    grid.before = swap
    with pytest.raises(ConnectionError):
        server(keys=KEYS).train(grid)
    grid.before = lambda number: None
    made = server(keys={101: 1, 102: 0, 103: 2})
    made.train(grid)
    assert not any(line["rejected"] for line in list(ledger.read(made.home))[1:])
    assert_central(made, settings, reference(settings))


# ---- nodes that do not keep to Flower's ways ----


def garbage(reply):
    return add_header_to_object_body(b"\xff\xff\xff\xff garbage", reply)


def not_a_message(reply):
    return reply.content["config"].deflate()


def speaking_for(node, reply):
    """The reply with agent 0's name in it, and another node's."""
    reply.metadata.__dict__["_src_node_id"] = node
    return with_header(with_theta(reply, theta_of(reply) + 0.01), agent=0)


@pytest.mark.parametrize("spoiled", [garbage, not_a_message, lambda reply: b"nothing that Flower knows"])
def test_a_reply_that_cannot_be_read_is_its_senders_fault_alone(settings, server, grid, spoiled):
    grid.spoil = lambda node, number, reply: spoiled(reply) if node == 103 else reply
    made = server(keys=KEYS)
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert all(line["rejected"] == {"agent 2": "its reply cannot be read"} for line in lines)
    assert not any(line["missing"] for line in lines)
    assert "round 1: left agent 2 out: its reply cannot be read" in made.said
    assert_central(made, settings, with_participation(settings, [[0, 1]] * 10))


@pytest.mark.parametrize("silent", [set(), {101}])  # the victim may be heard or not
@pytest.mark.parametrize("others", [{}, {"terms": {}}])  # it may try to have the victim left out for good
def test_a_node_cannot_speak_for_another(settings, server, grid, tmp_path, silent, others):
    def forged(node, number, reply):
        return with_header(speaking_for(101, reply), **others) if node == 103 else reply

    grid.spoil, grid.silent = forged, silent
    made = server(changed(tmp_path, "[server]\ndeadline = 0.05\n"), keys=KEYS)
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    reason = "its reply names another node as its sender"
    assert all(line["rejected"] == {"agent 2": reason} for line in lines)
    assert all(line["missing"] == (["agent 0"] if silent else []) for line in lines)
    honest = [1] if silent else [0, 1]
    assert_central(made, settings, with_participation(settings, [honest] * 10))


def test_a_question_has_one_reply(settings, server, grid):
    def twice(node, number, reply):
        return [reply, speaking_for(101, copy.deepcopy(reply))] if node == 101 else reply

    grid.spoil = twice
    made = server(keys=KEYS)
    made.train(grid)
    assert all(line["agents"] == [0, 1, 2] for line in list(ledger.read(made.home))[1:])
    assert_central(made, settings, reference(settings))


def test_a_superlink_that_is_gone_is_no_nodes_fault(settings, server, grid):
    def gone(names):
        raise httpx.ConnectError("refused")

    grid.pull_messages = gone
    with pytest.raises(httpx.ConnectError):
        server().train(grid)


def test_a_node_with_a_new_name_is_the_same_agent_once_the_old_one_is_gone(settings, server, grid):
    def rename(number):
        if number == 4:
            grid.agents[999] = grid.agents.pop(102)
            raise ConnectionError

    grid.before = rename
    with pytest.raises(ConnectionError):
        server().train(grid)
    grid.before = lambda number: None
    made = server()
    made.train(grid)
    np.testing.assert_allclose(
        ledger.central(made.home, settings.dim), reference(settings), rtol=0, atol=1e-12
    )
    assert made.standing.nodes == {101: 0, 999: 1, 103: 2}
