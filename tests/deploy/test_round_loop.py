"""The server's rounds, one by one, with agents in this process."""

import copy
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Error

from fedsarsa.deploy import ledger
from fedsarsa.deploy.agent import Agent
from fedsarsa.deploy.checks import Examiner
from tests.deploy.federations import CONFIG, KEYS, reference, with_participation
from tests.deploy.grids import (
    assert_central,
    changed,
    crowd,
    lose,
    robust,
    with_header,
)


def test_the_reference_engines_parameters_round_by_round(settings, server, grid):
    made = server()
    final = made.train(grid)
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, reference(settings), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(seen[-1], final)
    lines = list(ledger.read(made.home))
    assert [line["round"] for line in lines] == list(range(11))
    assert all(line["agents"] == [0, 1, 2] and not line["rejected"] for line in lines[1:])


def test_a_temperature_that_falls_is_the_same_for_all(server, tmp_path):
    falling = '{ kind = "linear", start = 5.0, end = 0.2, steps = 250 }'
    text = CONFIG.replace("temperature = 1.0", f"temperature = {falling}").replace(
        "steps = 70", "steps = 280"
    )
    settings = changed(tmp_path, "", text)
    made = server(settings)
    made.train(crowd(settings, tmp_path))
    assert_central(made, settings, reference(settings))


def test_a_finished_federation_waits_for_nobody(settings, server, grid, monkeypatch):
    final = server().train(grid)
    monkeypatch.setattr(grid, "get_node_ids", lambda: pytest.fail("it asks who is there"))
    again = server()
    np.testing.assert_array_equal(again.train(grid), final)
    assert "round 10 of 10 is done" in again.said[-1]


def test_every_reply_is_examined_once(settings, server, grid, monkeypatch):
    examined, examine = [], Examiner.examine

    def counted(self, message):
        examined.append(message.metadata.src_node_id)
        return examine(self, message)

    monkeypatch.setattr(Examiner, "examine", counted)
    server().train(grid)
    assert examined == [101, 102, 103] * 10


@pytest.mark.parametrize("crash", [1, 4, 9])
@pytest.mark.parametrize("part", ["asked", "answered", "written"])
def test_a_server_that_dies_goes_on_from_its_checkpoint(settings, server, grid, monkeypatch, crash, part):
    class Crash(BaseException): ...

    def crashing(*_):
        raise Crash

    made = server()
    name, owner = {
        "asked": ("ask", made),
        "answered": ("combine", made),
        "written": ("save", ledger.files),
    }[part]
    real = getattr(owner, name)

    def sometimes(*args):
        return crashing() if made.standing.round == crash - (part != "written") else real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, sometimes)
        with pytest.raises(Crash):
            made.train(grid)
    again = server()
    assert again.standing.round == crash - 1
    again.train(grid)
    assert_central(again, settings, reference(settings))
    assert [line["round"] for line in ledger.read(again.home)] == list(range(11))


def test_a_missing_agent_does_not_stall_and_gets_the_newest_theta_back(settings, server, grid, tmp_path):
    quick = changed(tmp_path, "[server]\ndeadline = 0.05\nat_least = 1\n")
    lose(grid, 102, {2, 3, 7})
    made = server(quick)
    made.train(grid)
    rounds = [[0, 2] if number in (2, 3, 7) else [0, 1, 2] for number in range(1, 11)]
    lines = list(ledger.read(made.home))[1:]
    assert [line["agents"] for line in lines] == rounds
    assert all(line["asked"] == 3 for line in lines)
    assert [line["missing"] for line in lines] == [["agent 1"] if 1 not in one else [] for one in rounds]
    expected = with_participation(settings, rounds)
    assert_central(made, settings, expected)
    assert max(grid.ttls) == pytest.approx(0.05 + 5.0) == quick.deadline.message


@pytest.mark.parametrize("keys", [None, KEYS])
@pytest.mark.parametrize("late", [{1}, {1, 2, 3}, {4}, {4, 5, 6, 9}])
def test_a_round_that_did_not_count_an_agent_is_none_for_its_world(
    settings, server, grid, homes, tmp_path, late, keys
):
    quick = changed(tmp_path, "[server]\ndeadline = 0.05\n")

    def too_late(node, number, reply):
        if node == 102:  # and whoever holds its world dies after every round
            grid.agents[102] = Agent(settings, 1, homes[1])
        return None if node == 102 and number in late else reply

    grid.spoil = too_late
    made = server(quick, keys)
    made.train(grid)
    rounds = [[0, 2] if number in late else [0, 1, 2] for number in range(1, 11)]
    assert [line["agents"] for line in ledger.read(made.home) if line["round"]] == rounds
    assert grid.agents[102].round == 10  # it has answered all the same
    assert_central(made, settings, with_participation(settings, rounds))


def test_a_round_counted_only_by_a_server_that_died_is_counted_again(settings, server, grid, tmp_path):
    quick = changed(tmp_path, "[server]\ndeadline = 0.05\n")
    made = server(quick)

    def disk_full(attempt):
        assert combine(attempt) is not None
        raise ConnectionError

    combine, made.combine = made.combine, disk_full
    with pytest.raises(ConnectionError):
        made.train(grid)
    lose(grid, 102, {1})  # it has answered the round before, which then continues without it
    again = server(quick)
    again.train(grid)
    assert_central(again, settings, with_participation(settings, [[0, 2]] + [[0, 1, 2]] * 9))


def test_an_agent_behind_a_new_node_is_told_which_round_counted_it(settings, server, grid, tmp_path):
    quick = changed(tmp_path, "[server]\ndeadline = 0.05\n")

    def rename(number):
        if number == 5:
            grid.agents[999] = grid.agents.pop(102)
            raise ConnectionError

    def too_late(node, number, reply):
        return None if node == 102 and number == 4 else reply

    grid.before, grid.spoil = rename, too_late
    with pytest.raises(ConnectionError):
        server(quick).train(grid)
    grid.before = lambda number: None
    made = server(quick)
    made.train(grid)
    rounds = [[0, 2] if number == 4 else [0, 1, 2] for number in range(1, 11)]
    assert_central(made, settings, with_participation(settings, rounds))


def test_errors_of_flower_are_not_replies(settings, server, grid):
    def broken(node, number, reply):
        if number != 4 or node == 101:
            return reply
        failed = copy.copy(reply)  # one client app failed, one node is reported missing by the SuperLink
        failed.__dict__.update(_content=None, _error=Error(code=1, reason="broke down"))
        failed.metadata.__dict__["_src_node_id"] = node if node == 102 else 1
        return failed

    grid.spoil = broken
    made = server()
    made.train(grid)
    line = list(ledger.read(made.home))[4]
    assert line["agents"] == [0]
    assert line["rejected"] == {"agent 1": "broke down"}
    assert line["missing"] == ["agent 2"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "temperature = 1.0",
            "temperature = 2.0",
            r"its policy is 'Softmax\(temperature=2.0\)'",
        ),
        ("d1 = 3, d2 = 2", "d1 = 2, d2 = 3", r"its features is 'ModuloFeatures\(d1=2, d2=3\)', the server's"),
        ("seed = 11", "seed = 12", r"its seed is '12', the server's '11'"),
    ],
)
def test_the_odd_one_out_is_named_and_left_out(settings, server, grid, homes, tmp_path, old, new, message):
    odd = changed(tmp_path, "", CONFIG.replace(old, new))
    grid.agents[103] = Agent(odd, 2, homes[2])
    made = server(keys=KEYS)
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert all(re.search(message, line["rejected"]["agent 2"]) for line in lines)
    assert all(line["agents"] == [0, 1] for line in lines)
    assert grid.agents[103].round == 0  # and its world has not moved
    expected = with_participation(settings, [[0, 1]] * 10)
    assert_central(made, settings, expected)


def test_an_odd_one_out_takes_part_once_it_is_corrected(settings, server, grid, homes, tmp_path):
    right = grid.agents[103]
    grid.agents[103] = Agent(changed(tmp_path, "", CONFIG.replace("seed = 11", "seed = 12")), 2, homes[2])

    def correct(number):
        if number == 4:
            grid.agents[103] = right

    grid.before = correct
    made = server()
    made.train(grid)
    rounds = [[0, 1]] * 3 + [[0, 1, 2]] * 7
    lines = list(ledger.read(made.home))[1:]
    assert [line["agents"] for line in lines] == rounds
    assert [list(line["rejected"]) for line in lines] == [["node 103"]] * 3 + [[]] * 7
    assert_central(made, settings, with_participation(settings, rounds))


def test_strangers_who_are_asked_in_turn_are_added_up(server, tmp_path):
    settings = robust(tmp_path, "[server]\nfraction = 0.4\nat_least = 3\n")
    settings.deadline = replace(settings.deadline, first_pause=0.001)
    grid = crowd(settings, tmp_path)
    other = robust(tmp_path, "[server]\nfraction = 0.4\n", agents=8)
    for number in range(5):
        grid.agents[200 + number].terms = other.terms
    with pytest.raises(RuntimeError, match=r"fewer than 3 agents can take part; .*its agents is '8'"):
        server(settings).train(grid)


def test_a_stranger_with_a_new_name_is_the_same(server, grid, homes, tmp_path):
    strict = changed(tmp_path, "[server]\ndeadline = 0.02\nat_least = 2\n")
    strict.deadline = replace(strict.deadline, first_pause=0.001, most=1000)  # agents compile while asked
    grid.agents[103] = Agent(changed(tmp_path, "", CONFIG.replace("seed = 11", "seed = 12")), 2, homes[2])
    asked = []

    def silence(number):
        asked.append(number)
        grid.silent = {102} if len(asked) <= 3 else set()

    def rename(node, number, reply):
        if node == 103:
            grid.agents[999] = grid.agents.pop(103)
        return reply

    grid.before, grid.spoil = silence, rename
    made = server(strict)
    made.train(grid)
    line = ledger.read(made.home)[1]
    assert (line["askings"], line["asked"], line["agents"]) == (4, 4, [0, 1])
    assert set(line["rejected"]) == {"node 103", "node 999"}
    assert_central(made, strict, with_participation(strict, [[0, 1]] * 10))


def test_a_federation_of_strangers_ends_with_their_names(server, grid, tmp_path):
    greedy = 'policy = { kind = "greedy" }'
    text = CONFIG.replace('policy = { kind = "softmax", temperature = 1.0 }', greedy)
    with pytest.raises(RuntimeError, match=r"fewer than 1 agents can take part; node 101: its policy is"):
        server(changed(tmp_path, "", text)).train(grid)


def test_too_few_replies_ask_the_round_again(settings, server, grid, homes, tmp_path):
    strict = changed(tmp_path, "[server]\ndeadline = 0.02\nat_least = 3\n")
    usual = strict.deadline
    strict.deadline = replace(usual, most=10_000)  # four askings, however long they take
    left = [4]

    def before(number):
        grid.silent = {102} if number == 5 and left[0] > 0 else set()
        left[0] -= number == 5

    grid.before = before
    made = server(strict)
    made.train(grid)
    np.testing.assert_allclose(
        ledger.central(made.home, settings.dim), reference(settings), rtol=0, atol=1e-12
    )
    assert made.said.count("round 5: 2 sound replies of 3, 3 needed") == 4
    line = ledger.read(made.home)[5]
    assert (line["earlier"], line["missing"]) == ({"agent 1": "no reply"}, [])
    assert line["seconds"] >= 4 * 0.02
    grid.silent, grid.before = {102}, lambda number: None
    strict.deadline = usual
    for name in (ledger.CHECKPOINT, ledger.ROUNDS, ledger.CENTRAL):
        (made.home / name).unlink()
    for home in homes:
        (home / "agent.npz").unlink()
    said = (
        r"10 deadlines of 0\.02 seconds and never counted: 2 sound replies of 3, 3 needed; node 102: no reply"
    )
    with pytest.raises(RuntimeError, match=said):
        server(strict).train(grid)


def test_quick_refusals_do_not_use_up_the_servers_patience(settings, server, grid, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a round's disk time is told by the next one's line
    strict = changed(tmp_path, "[server]\ndeadline = 60.0\nat_least = 3\n")
    strict.deadline = replace(strict.deadline, first_pause=0.001, longest_pause=0.002)
    asked = []

    def starting(node, number, reply):  # an agent that is being started again refuses at once
        if node == 102 and number == 5 and len(asked) < 50:
            asked.append(number)
            return with_header(reply, refused="nobody is there: \x1b[2Jno such file")
        return reply

    grid.spoil = starting
    made = server(strict)
    made.train(grid)
    refused = "the agent refuses: nobody is there: ?[2Jno such file"
    assert made.said.count(f"round 5: left agent 1 out: {refused}") == 50
    before, line = ledger.read(made.home)[4:6]
    assert (line["agents"], line["rejected"], line["earlier"]) == ([0, 1, 2], {}, {"agent 1": refused})
    assert (before["askings"], line["askings"]) == (1, 51)
    assert before["asked"] == line["asked"] == 3
    assert line["bytes_sent"] == 51 * before["bytes_sent"]
    assert line["bytes_received"] == (50 * 2 + 3) * before["bytes_received"] // 3
    assert line["bridge_seconds"] == pytest.approx(51 * before["bridge_seconds"])
    assert line["seconds"] >= 49 * 0.002 + line["server_seconds"]
    assert_central(made, settings, reference(settings))


def test_whoever_is_turned_away_is_named_before_the_others_have_answered(settings, server, grid):
    looks = []

    def pull(names):  # the refusal comes first
        looks.append([line for line in made.said if "left agent 1 out" in line])
        refusals = [name for name, reply in grid.replies.items() if "refused" in str(reply.content)]
        return [grid.replies.pop(name) for name in names if name in (refusals or grid.replies)]

    grid.spoil = lambda node, number, reply: (
        with_header(reply, refused="no") if (node, number) == (102, 2) else reply
    )
    grid.pull_messages = pull
    made = server()
    made.train(grid)
    assert [len(lines) for lines in looks[:7]] == [0, 0, 0, 0, 0, 1, 1]
    assert len([line for line in made.said if "left agent 1 out" in line]) == 1


@pytest.mark.parametrize(("keys", "absent"), [(None, ""), (KEYS, "; not here: agent 1, agent 2")])
def test_a_server_says_whom_it_waits_for_and_what_counted(settings, server, grid, keys, absent):
    arrives = [3]

    def ids():
        arrives[0] -= 1
        return list(grid.agents)[: 1 if arrives[0] > 0 else 3]

    grid.get_node_ids = ids
    made = server(keys=keys)
    made.train(grid)
    assert made.said[1] == "waiting for agents: 1 of 3 are here, 1 needed" + absent
    assert re.fullmatch(r"round 1: agents 0, 1, 2; moved [0-9.]+", made.said[2])
    assert len(made.said) == 12


def test_agents_that_leave_are_waited_for_in_the_middle_of_a_federation(settings, server, grid, tmp_path):
    strict = changed(tmp_path, "[server]\nat_least = 3\n")
    waited = []

    def ids():
        if made.standing.round == 4 and len(waited) < 3:
            waited.append(4)
            return [101]
        return list(grid.agents)

    grid.get_node_ids = ids
    made = server(strict)
    made.train(grid)
    assert made.said.count("waiting for agents: 1 of 3 are here, 3 needed") == 1
    assert_central(made, settings, reference(settings))


def test_some_of_the_agents_each_round(settings, server, grid, tmp_path):
    partial = changed(tmp_path, "[server]\nfraction = 0.5\nat_least = 2\n")
    made = server(partial)
    made.train(grid)
    rounds = [line["agents"] for line in ledger.read(made.home) if line["round"]]
    assert {len(one) for one in rounds} == {2}
    assert len({tuple(one) for one in rounds}) > 1
    expected = with_participation(settings, rounds)
    assert_central(made, settings, expected)


@pytest.mark.parametrize("text", ["at_least = 6", "privacy = { clip = 0.5, noise = 1.0 }"])
@pytest.mark.parametrize(("how", "keys"), [("dead", None), ("refuses", {200 + i: i for i in range(7)})])
def test_some_of_the_agents_can_be_out_of_order(server, tmp_path, text, how, keys):
    settings = robust(tmp_path, f"[server]\ndeadline = 0.02\nfraction = 0.8\n{text}\n")
    settings.deadline = replace(settings.deadline, first_pause=0.001, most=1000)  # agents compile while asked
    grid, asked = crowd(settings, tmp_path), []
    grid.before = asked.append
    grid.silent = {203} if how == "dead" else set()
    grid.spoil = lambda node, number, reply: with_header(reply, refused="no") if node == 203 else reply
    made = server(settings, keys)
    made.train(grid)
    rounds = [line["agents"] for line in ledger.read(made.home) if line["round"]]
    assert rounds == [[0, 1, 2, 4, 5, 6]] * 10
    assert max(asked.count(number) for number in range(1, 11)) == 2  # it is not asked twice in a round
    for line in ledger.read(made.home)[1:]:  # and named in every round that asked it
        out = (line["missing"], line["rejected"])
        told = (["node 203"], {}) if how == "dead" else ([], {"agent 3": "the agent refuses: no"})
        assert out == (told if line["askings"] == 2 else ([], {}))
        assert line["asked"] == (7 if line["askings"] == 2 else 6)
    if "privacy" not in text:
        assert_central(made, settings, with_participation(settings, rounds))


def test_agents_without_weight_have_no_average(server, tmp_path):
    text = CONFIG.replace("weights = [0.2, 0.5, 0.3]", "weights = [1.0, 0.0, 0.0]")
    settings = changed(tmp_path, "[server]\ndeadline = 0.02\n", text)
    grid = crowd(settings, tmp_path)
    grid.away = {200}
    message = r"never counted: only agents without weight have replied \(1, 2\), and they have no average$"
    made = server(settings)
    with pytest.raises(RuntimeError, match=message):
        made.train(grid)
    assert "round 1: only agents without weight have replied (1, 2), and they have no average" in made.said


def test_agents_that_are_ahead_of_the_server_end_it_at_once(settings, server, grid, tmp_path):
    made = server()
    shutil.copytree(made.home, tmp_path / "copy")
    made.train(grid)
    shutil.rmtree(made.home)
    shutil.copytree(tmp_path / "copy", made.home)
    ahead = r"fewer than 1 agents can take part; .*: it has answered round 10: the server's files are older"
    with pytest.raises(RuntimeError, match=ahead):
        server().train(grid)
    assert len([line for line in made.said if "0 sound replies of 3" in line]) == 1


def test_an_agent_that_has_lost_rounds_is_named(settings, server, grid, homes):
    def forget(number):
        if number == 6:
            grid.agents[102] = Agent(settings, 1, homes[1])
        if number == 3:
            kept.append((homes[1] / "agent.npz").read_bytes())

    def put_back(attempt):
        if attempt.examiner.number == 5:
            (homes[1] / "agent.npz").write_bytes(kept[0])
        return combine(attempt)

    kept, made = [], server()
    combine, made.combine = made.combine, put_back
    grid.before = forget
    made.train(grid)
    lines = ledger.read(made.home)[1:]
    assert [line["lost"] for line in lines] == [{}] * 5 + [{"agent 1": 5}] + [{}] * 4
    told = "round 6: agent 1 has lost round 5, which was counted: it resumed from an older state"
    assert made.said.count(told) == 1
