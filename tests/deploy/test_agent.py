"""The agent process's part, in this process: its numbers, its memory, and what it refuses."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from fedsarsa.deploy import federation_config, wire
from fedsarsa.deploy.agent import Agent, RefusalError, answer, serve
from fedsarsa.deploy.learner import Learner
from fedsarsa.deploy.node import join
from fedsarsa.federation.servers.mean import average
from tests.deploy.federations import CONFIG, question, reference, request
from tests.deploy.grids import changed


@pytest.mark.parametrize("stretch", [0.25, 1e-9])  # whole rounds, step by step
def test_agents_on_their_own_take_the_steps_of_the_reference_engine(settings, homes, monkeypatch, stretch):
    from fedsarsa.federation.servers.projection import project

    monkeypatch.setattr("fedsarsa.federation.training.SPAN_SECONDS", stretch)
    agents = [Agent(settings, i, home) for i, home in enumerate(homes)]
    theta = np.zeros(settings.dim)
    for number, expected in enumerate(reference(settings)[1:], start=1):
        answers = [agent.take_part(request(settings, number), theta) for agent in agents]
        theta = project(average(np.array([0.2, 0.5, 0.3]), np.stack(answers)), 8.0)
        np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-12)


def test_a_new_process_goes_on_where_the_old_one_stopped(settings, homes):
    theta = np.linspace(-1, 1, settings.dim)
    whole, broken = Agent(settings, 1, homes[0]), Agent(settings, 1, homes[1])
    for number in range(1, 6):
        expected = whole.take_part(request(settings, number), theta)
        broken = Agent(settings, 1, homes[1])
        np.testing.assert_array_equal(broken.take_part(request(settings, number), theta), expected)
        theta = expected


def test_the_same_round_twice_has_the_same_answer_and_moves_the_world_once(settings, homes):
    agent, theta = Agent(settings, 0, homes[0]), np.zeros(settings.dim)
    first = agent.take_part(request(settings, 1), theta)
    held = agent.learner.held
    np.testing.assert_array_equal(agent.take_part(request(settings, 1), theta), first)
    again = Agent(settings, 0, homes[0])
    np.testing.assert_array_equal(again.take_part(request(settings, 1), theta), first)
    np.testing.assert_equal(again.learner.held, held)
    with pytest.raises(RefusalError, match="round 1 is stale: this agent has answered round 1"):
        agent.take_part(request(settings, 1), theta + 1)
    agent.take_part(request(settings, 2), theta)
    with pytest.raises(RefusalError, match="round 1 is stale: this agent has answered round 2"):
        agent.take_part(request(settings, 1), theta)


@pytest.mark.parametrize("crash", [False, True])
def test_rounds_that_did_not_count_leave_no_trace(settings, homes, crash):
    thetas = np.random.default_rng(0).normal(size=(8, settings.dim))
    counted = [3, 4, 7]
    twin, last = Agent(settings, 1, homes[0]), 0
    for number in counted:  # only ever asked for these
        expected = twin.take_part(request(settings, number, counted={"1": last}), thetas[number])
        last = number
    agent, last = Agent(settings, 1, homes[1]), 0
    for number in range(1, 8):
        if crash:
            agent = Agent(settings, 1, homes[1])
        answer = agent.take_part(request(settings, number, counted={"1": last}), thetas[number])
        last = number if number in counted else last
    np.testing.assert_array_equal(answer, expected)
    np.testing.assert_equal(agent.learner.held, twin.learner.held)


def test_a_state_that_was_lost_is_told(settings, homes, said):
    said, theta = said("agent"), np.zeros(settings.dim)
    agent = Agent(settings, 1, homes[1])
    agent.take_part(request(settings, 1), theta)
    agent.take_part(request(settings, 2), theta)
    kept = (homes[1] / "agent.npz").read_bytes()
    agent.take_part(request(settings, 3), theta)
    agent.take_part(request(settings, 4), theta)
    assert said == []
    (homes[1] / "agent.npz").write_bytes(kept)  # an old copy, then none
    Agent(settings, 1, homes[1]).take_part(request(settings, 5), theta)
    (homes[1] / "agent.npz").unlink()
    Agent(settings, 1, homes[1]).take_part(request(settings, 6), theta)
    lost = f"was counted, and is not in {homes[1] / 'agent.npz'}: it is lost here"
    assert said == [f"agent 1: round 4 {lost}", f"agent 1: round 5 {lost}"]


def test_a_message_that_arrives_late_does_not_undo_a_newer_round(settings, homes):
    agent, theta = Agent(settings, 1, homes[1]), np.zeros(settings.dim)
    agent.take_part(request(settings, 1), theta)
    agent.take_part(request(settings, 3, counted={"1": 1}), theta)
    held = agent.learner.held
    with pytest.raises(RefusalError, match="round 2 is stale: this agent has answered round 3"):
        agent.take_part(request(settings, 2, counted={"1": 1}), theta)
    np.testing.assert_equal(agent.learner.held, held)


def test_another_federation_is_refused_until_the_state_is_removed(settings, homes):
    agent, theta = Agent(settings, 0, homes[0]), np.zeros(settings.dim)
    first = agent.take_part(request(settings, 1), theta)
    agent.take_part(request(settings, 2), first)
    path = homes[0] / "agent.npz"
    state = path.read_bytes()
    refused = f"federation two is not one, of which round 2 is in {path}; remove that file to begin anew"
    for asked in (agent, Agent(settings, 0, homes[0])):
        with pytest.raises(RefusalError, match=re.escape(refused)):
            asked.take_part(request(settings, 1, federation="two"), theta)
    assert path.read_bytes() == state
    agent.take_part(request(settings, 3), theta)  # and it continues with the right one
    path.unlink()
    again = agent.take_part(request(settings, 1, federation="two"), theta)
    np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"round": "1"}, "round must be of type int, got '1'"),
        ({"federation": ""}, "federation must have a name of at most 64 letters, got ''"),
        ({"federation": "\ud800"}, r"federation must have a name of at most 64 letters, got '\\ud800'"),
        ({"federation": "x" * 65}, "federation must have a name of at most 64 letters, got 'x"),
        ({"round": 2**61}, "round must be at least 1 and at most 14285714285714, got 2305843009213693952"),
        ({"until": float("nan")}, "until must be a time, got nan"),
        ({"until": float("inf")}, "until must be a time, got inf"),
        ({"until": 0.0}, "the round's deadline has passed"),
        ({"counted": 3}, "counted must be of type dict, got 3"),
        ({"counted": {"0": "3"}}, r"counted must hold the numbers of rounds, got \{'0': '3'\}"),
        ({"terms": {}}, "features is ModuloFeatures"),
    ],
)
def test_requests_that_are_refused_leave_no_trace(settings, homes, changes, message):
    agent = Agent(settings, 0, homes[0])
    with pytest.raises(RefusalError, match=message):
        agent.take_part(request(settings, 1, **changes), np.zeros(settings.dim))
    assert not (homes[0] / "agent.npz").exists()
    assert agent.round == 0


def test_other_settings_at_the_server_are_named(settings, homes):
    terms = settings.terms | {"policy": "Greedy()"}
    with pytest.raises(RefusalError, match=r"policy is Softmax\(.*\) here, Greedy\(\) at the server"):
        Agent(settings, 0, homes[0]).take_part(request(settings, 1, terms=terms), np.zeros(settings.dim))


def test_parameters_that_are_no_parameters_are_refused(settings, homes):
    agent = Agent(settings, 0, homes[0])
    for theta in (np.zeros(settings.dim + 1), np.full(settings.dim, np.nan)):
        with pytest.raises(RefusalError, match=f"theta must be {settings.dim} finite numbers"):
            agent.take_part(request(settings, 1), theta)


def test_the_state_of_another_agent_is_refused(settings, homes, tmp_path):
    Agent(settings, 0, homes[0]).take_part(request(settings, 1), np.zeros(settings.dim))
    with pytest.raises(ValueError, match="whose number is 1, got that of one whose number is 0; choose"):
        Agent(settings, 1, homes[0])
    colder = changed(tmp_path, "", CONFIG.replace("temperature = 1.0", "temperature = 0.5"))
    with pytest.raises(ValueError, match=r"whose policy is .*0\.5.*, got that of one whose policy is .*1\.0"):
        Agent(colder, 0, homes[0])
    (homes[0] / "agent.npz").write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match="expected a fedsarsa agent state"):
        Agent(settings, 0, homes[0])


def test_a_damaged_state_is_told(settings, homes):
    agent = Agent(settings, 0, homes[0])
    agent.take_part(request(settings, 1), np.zeros(settings.dim))
    content = bytearray(agent.path.read_bytes())
    content[100] ^= 1
    agent.path.write_bytes(content)
    with pytest.raises(ValueError, match=r"agent\.npz: expected a fedsarsa agent state, got: a damaged file"):
        Agent(settings, 0, homes[0])


def test_a_full_disk_refuses_the_round_and_keeps_the_state(settings, homes):
    agent, theta = Agent(settings, 0, homes[0]), np.zeros(settings.dim)
    first = agent.take_part(request(settings, 1), theta)
    kept = (homes[0] / "agent.npz").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # writes beyond 100 bytes fail, as on a full disk
    try:
        with pytest.raises(RefusalError, match=r"could not be written .* the one before is intact"):
            agent.take_part(request(settings, 2), first)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (homes[0] / "agent.npz").read_bytes() == kept
    assert sorted(path.name for path in homes[0].iterdir()) == ["agent.npz"]
    undisturbed = Agent(settings, 0, homes[1])
    undisturbed.take_part(request(settings, 1), theta)
    np.testing.assert_array_equal(
        agent.take_part(request(settings, 2), first), undisturbed.take_part(request(settings, 2), first)
    )


ENDLESS = 10**12  # steps of a round that nobody will see the end of


def test_an_agent_stops_computing_when_the_deadline_has_passed(settings, homes):
    agent, twin = (Agent(settings, 0, home) for home in homes[:2])
    theta = np.zeros(settings.dim)
    first = agent.take_part(request(settings, 1), theta)
    twin.take_part(request(settings, 1), theta)
    kept, held = agent.path.read_bytes(), agent.learner.held
    agent.every = ENDLESS
    begun = time.monotonic()
    with pytest.raises(RefusalError, match="the round's deadline has passed"):
        agent.take_part(request(settings, 2, until=begun + 0.5), first)
    assert 0.5 <= time.monotonic() - begun < 60.0
    assert agent.path.read_bytes() == kept
    np.testing.assert_equal(agent.learner.held, held)
    agent.every = settings.every
    np.testing.assert_array_equal(
        agent.take_part(request(settings, 2), first), twin.take_part(request(settings, 2), first)
    )


def wait(condition):
    until = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
def test_an_agent_that_is_too_slow_says_so_while_somebody_listens(settings, homes, said):
    theta, said, heard = np.zeros(settings.dim), said("agent"), []
    settings.every = ENDLESS

    def ask():
        wait(lambda: len(said) == 1)
        try:
            heard.append(question(homes[0] / "agent.sock", request(settings, 1), theta, 60.0, 5.0)[0])
            wait(lambda: len(said) == 2)  # the agent answers first, then tells its owner
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    threading.Thread(target=ask, daemon=True).start()
    try:
        serve(settings, 0, homes[0])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [header["refused"] for header in heard] == ["the round's deadline has passed"]
    assert said[1:] == ["agent 0: the round's deadline has passed", "agent 0 stops after round 0"]


def test_sigterm_in_the_middle_of_a_round_stops_the_agent(settings, homes, monkeypatch, said):
    theta, said = np.zeros(settings.dim), said("agent")
    Agent(settings, 0, homes[0]).take_part(request(settings, 1), theta)
    kept = (homes[0] / "agent.npz").read_bytes()
    settings.every = ENDLESS
    sent, heard = [], []
    advance = Learner.advance

    def terminate():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    later = threading.Timer(0.3, terminate)

    def begin(*arguments):
        if said:  # not to warm up
            later.start()
        return advance(*arguments)

    def ask():
        wait(lambda: said)
        try:
            question(homes[0] / "agent.sock", request(settings, 2), theta, 300.0, 300.0)
        except (OSError, wire.BrokenMessageError) as error:
            heard.append(str(error))

    monkeypatch.setattr(Learner, "advance", begin)
    asking = threading.Thread(target=ask, daemon=True)
    before = signal.getsignal(signal.SIGTERM)
    asking.start()
    try:
        serve(settings, 0, homes[0])
        assert time.monotonic() - sent[0] < 60.0
    finally:
        later.cancel()
        signal.signal(signal.SIGTERM, before)
    asking.join(60)
    assert heard == ["the other side hung up in the middle of a message"]
    assert said[1:] == ["agent 0 stops after round 1"]
    assert (homes[0] / "agent.npz").read_bytes() == kept
    assert sorted(path.name for path in homes[0].iterdir()) == ["agent.lock", "agent.npz"]


def test_messages_survive_the_wire_and_nonsense_does_not():
    vector = np.array([0.1, -np.inf, 3e300])
    here, there = socket.socketpair()
    with here, there:
        wire.send(here, b'{"round": 3}', wire.packed(vector))
        header, received = wire.receive(there)
        assert header == b'{"round": 3}'
        np.testing.assert_array_equal(wire.unpacked(received), vector)
        with pytest.raises(wire.BrokenMessageError, match=r"header must have at most 65536 bytes, got 70000"):
            wire.send(here, b"x" * 70_000, b"")
        here.sendall(b"\xff\xff\xff\xff\0\0\0\0")
        with pytest.raises(wire.BrokenMessageError, match="expected a header of at most"):
            wire.receive(there)
        here.sendall(b"\0\0\0\0\xff\xff\xff\xff")
        with pytest.raises(wire.BrokenMessageError, match="expected a header of at most"):
            wire.receive(there)
    for nonsense in (b"\0", b"\0\0\0\2\0\0\0\0[", b"\0\0\0\2\0\0\0\x08{}1234567"):
        here, there = socket.socketpair()
        with here, there:
            here.sendall(nonsense)
            here.close()
            with pytest.raises(wire.BrokenMessageError):
                wire.receive(there)


STRANGE = (
    *(None, True, False, 0, -1, 2**61, -(2**70), 10**300, 0.5, -0.0, float("nan"), float("inf"), 1e308),
    *(
        "",
        "one",
        "\ud800",
        "\x1b[2J\x1b]0;title\x07",
        "\n\r\0",
        "\u202e",
        "é" * 300,
        "x" * 60_000,
        "9" * 4000,
    ),
    *(
        [],
        [[]],
        {},
        {"a": {}},
        {"": None},
        [0] * 9000,
        {"\ud800": "\udfff"},
        {"0": 10**200},
        {"1": float("nan")},
    ),
)


def strange_message(rng, asked):
    """A request in which something is wrong, most of the time."""
    kind, asked_until = rng.integers(4), asked.pop("until")
    if kind == 0:  # one or two fields
        for name in rng.choice(sorted(asked), size=rng.integers(1, 3)):
            asked[name] = STRANGE[rng.integers(len(STRANGE))]
    elif kind == 1:  # a field inside
        name = rng.choice(["terms", "counted"])
        key = rng.choice(sorted(asked[name]) or ["0"])
        asked[name] = asked[name] | {str(key): STRANGE[rng.integers(len(STRANGE))]}
    text = json.dumps(asked).encode()[: wire.LONGEST_HEADER]
    if kind == 2:  # bytes of the text
        spoilt = bytearray(text)
        for place in rng.integers(len(text), size=rng.integers(1, 20)):
            spoilt[place] = rng.integers(256)
        text = bytes(spoilt)
    elif kind == 3:  # no end of nesting
        depth = int(rng.integers(1, 16_000))
        text = b'{"round":' + rng.choice([b"[", b'{"a":']) * depth
    until = wire.UNTIL.pack(rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e18, asked_until]))
    theta = rng.bytes(int(rng.choice([0, 7, 8, 40, 48, 56])))
    claimed = len(theta) + int(rng.choice([0, 0, 0, 1, 1 << 29]))
    return until + wire.LENGTHS.pack(len(text), claimed) + text + theta


def test_whatever_arrives_the_agent_lives_on_and_says_nothing_that_a_terminal_obeys(settings, homes, said):
    said, rng = said("agent"), np.random.default_rng(0)
    agent, theta = Agent(settings, 0, homes[0]), np.zeros(settings.dim)
    for _ in range(3000):
        asked = request(settings, agent.round + 1)
        here, there = socket.socketpair()
        with here, there:
            here.sendall(strange_message(rng, asked))
            here.shutdown(socket.SHUT_WR)
            answer(agent, there)
    assert len(said) >= 3000
    for line in said:
        assert line.encode().decode().isprintable(), line
        assert len(line) < 600
    twin = Agent(settings, 0, homes[0])
    wanted = request(settings, agent.round + 1, federation=agent.federation or "one")
    np.testing.assert_array_equal(agent.take_part(wanted, theta), twin.take_part(wanted, theta))


@pytest.mark.parametrize("sign", ['"', "'", "\\", "\n", "\x1b"])
def test_directories_that_flower_cannot_be_told_are_refused(settings, short_path, sign):
    home = short_path / f"a{sign}b"
    with pytest.raises(ValueError, match="expected a path without quotes, backslashes and unprintable signs"):
        serve(settings, 0, home)
    with pytest.raises(ValueError, match="expected a path without quotes, backslashes and unprintable signs"):
        join("127.0.0.1:9", home, None, None, True, 0.2)


@pytest.fixture
def running(tmp_path, homes):
    (tmp_path / "federation.toml").write_text(CONFIG)
    command = [sys.executable, "-c", "from fedsarsa.cli import main; main()", "agent"]
    command += [str(tmp_path / "federation.toml"), "--number", "2", "--home", str(homes[2])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert "agent 2 listens on" in child.stdout.readline()
    yield child
    child.terminate()
    assert child.wait(60) == 0
    child.stdout.close()


def test_the_process_answers_only_what_it_should(running, settings, homes, tmp_path):
    address = homes[2] / "agent.sock"
    assert address.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as caller:  # nonsense, then silence, then a question
        caller.connect(str(address))
        caller.sendall(b"GET / HTTP/1.1\r\n\r\n")
    theta = np.zeros(settings.dim)
    wanted = request(settings, 1)
    del wanted["until"]
    header, answer = question(address, wanted, theta)
    np.testing.assert_array_equal(answer, Agent(settings, 2, homes[0]).take_part(request(settings, 1), theta))
    assert header["round"] == 1
    assert header["agent"] == 2
    header, answer = question(address, wanted | {"round": 0}, theta)
    assert "round must be at least 1" in header["refused"]
    second = subprocess.run(running.args, capture_output=True, text=True)
    assert second.returncode == 2
    assert "another agent is running here" in second.stderr
    homes[2].chmod(0o755)
    with pytest.raises(PermissionError, match="expected a directory that only its owner"):
        question(address, wanted, theta)
    homes[2].chmod(0o700)


def test_an_agent_that_knows_its_own_world_alone(settings, homes, tmp_path):
    world = settings.worlds[1]
    np.savez(tmp_path / "world.npz", reward=world.reward[None], P0=world.kernel.P0[None])
    i, j = CONFIG.index("[fleet]"), CONFIG.index("[algorithm]")
    section = (
        '[fleet]\nkind = "file"\npath = "world.npz"\ndiscount = 0.2\nactions = 6\n[server]\nagents = 3\n'
    )
    (tmp_path / "own.toml").write_text(CONFIG[:i] + section + CONFIG[j:])
    own = federation_config.load(tmp_path / "own.toml")
    assert own.terms == settings.terms
    theta = np.zeros(settings.dim)
    alone = Agent(own, 1, homes[0]).take_part(request(settings, 1), theta)
    among = Agent(settings, 1, homes[1]).take_part(request(settings, 1), theta)
    np.testing.assert_array_equal(alone, among)
