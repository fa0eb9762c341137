"""The strategy with agents in this process behind a grid that can lose and spoil what they say."""

import copy
import itertools
import json
import re
import resource

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Error
from flwr.serverapp import Grid
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent
from flwr.supercore.task_identity import TaskIdentity

from fedsarsa.deploy import bridge, checks, config, ledger, rules, strategy
from fedsarsa.deploy.agent import Agent, RefusalError
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.strategy import FedSarsaStrategy
from tests.deploy.federations import CONFIG, reference, with_participation

PRIVATE = "[server]\nprivacy = { clip = 0.5, noise = 2.0 }\n"
NODES = [101, 102, 103]


class FakeGrid(Grid):
    """Delivers at once. ``away`` nodes are not listed; ``spoil(node, round, reply)`` changes replies."""

    def __init__(self, agents):
        self.agents = agents
        self.away, self.silent = set(), set()
        self.spoil = lambda node, number, reply: reply
        self.before = lambda number: None
        self.replies = {}
        self.ttls = []

    run = property(lambda self: None)

    def set_run(self, run): ...
    def create_message(self, *args, **kwargs): ...
    def send_and_receive(self, messages, *, timeout=None): ...

    def get_node_ids(self):
        return [node for node in self.agents if node not in self.away]

    def push_messages(self, messages):
        for count, message in enumerate(messages):
            name = f"message {len(self.replies)} {count}"
            message.metadata.__dict__["_message_id"] = name
            self.ttls.append(message.metadata.ttl)
            asked = json.loads(strategy.request(message))
            if not count:
                self.before(asked["round"])
            node = message.metadata.dst_node_id
            if node not in self.silent:
                reply = self.spoil(node, asked["round"], self.answer(node, message, asked))
                if reply is not None:
                    self.replies[name] = reply
            yield name

    def answer(self, node, message, asked):
        agent = self.agents[node]
        header = {"agent": agent.number, "terms": agent.terms, "bridge_seconds": 0.001}
        theta = message.content.array_records["arrays"]["theta"].numpy()
        try:
            answer = agent.take_part(asked | {"until": 1e18}, theta)
            header |= {"round": agent.round, "federation": agent.federation}
        except RefusalError as refusal:
            answer, header["refused"] = np.zeros(0), str(refusal)
        reply = bridge.reply(message, header, answer)
        reply.metadata.__dict__["_src_node_id"] = node
        return reply

    def pull_messages(self, message_ids):
        return [self.replies.pop(name) for name in list(message_ids) if name in self.replies]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(strategy, "POLL", 0.001)
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def grid(settings, homes):
    return FakeGrid({node: Agent(settings, i, homes[i]) for i, node in enumerate(NODES)})


@pytest.fixture
def server(settings, tmp_path):
    home = tmp_path / "server"
    home.mkdir(exist_ok=True)
    said = []

    def make(changed=settings, keys=None):
        made = FedSarsaStrategy(changed, Ledger(changed, home), said.append, keys)
        made.said, made.home = said, home
        return made

    return make


def changed(tmp_path, text, base=CONFIG):
    path = tmp_path / "changed.toml"
    path.write_text(base + text)
    return config.load(path)


def lose(grid, node, rounds):
    """Let a node's message be lost, before its agent sees it, in these rounds."""

    def before(number):
        grid.silent = {node} if number in rounds else set()

    grid.before = before


def assert_central(server, settings, expected):
    """The central parameters of every round."""
    np.testing.assert_allclose(ledger.central(server.home, settings.dim), expected, rtol=0, atol=1e-12)


def theta_of(reply):
    return reply.content.array_records["arrays"]["theta"].numpy()


def with_theta(reply, theta):
    reply.content["arrays"] = ArrayRecord({"theta": Array(theta)})
    return reply


def with_header(reply, **changes):
    config = reply.content.config_records["config"]
    config["reply"] = json.dumps(json.loads(str(config["reply"])) | changes)
    return reply


def test_the_reference_engines_parameters_round_by_round(settings, server, grid):
    made = server()
    final = made.train(grid)
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, reference(settings), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(seen[-1], final)
    lines = list(ledger.read(made.home))
    assert [line["round"] for line in lines] == list(range(11))
    assert all(line["agents"] == [0, 1, 2] and not line["rejected"] for line in lines[1:])


@pytest.mark.parametrize("crash", [1, 4, 9])
@pytest.mark.parametrize("part", ["asked", "answered", "written"])
def test_a_server_that_dies_goes_on_from_its_checkpoint(settings, server, grid, monkeypatch, crash, part):
    class Crash(BaseException): ...

    def crashing(*_):
        raise Crash

    made = server()
    name, owner = {
        "asked": ("configure_train", made),
        "answered": ("aggregate_train", made),
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
    assert [line["missing"] for line in lines] == [["agent 1"] if 1 not in one else [] for one in rounds]
    expected = with_participation(settings, rounds)
    assert_central(made, settings, expected)
    assert max(grid.ttls) == pytest.approx(0.05 + strategy.GRACE)


@pytest.mark.parametrize("keys", [None, {101: 0, 102: 1, 103: 2}])
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

    def disk_full(number, replies):
        made.aggregate(number, replies)
        raise ConnectionError

    made.aggregate = made.aggregate_train
    made.aggregate_train = disk_full
    with pytest.raises(ConnectionError):
        made.train(grid)
    lose(grid, 102, {1})  # it has answered the round before, which then goes on without it
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


def unreadable(reply):
    array = Array(dtype="float64", shape=(6,), stype="numpy.ndarray", data=b"\x93NUMPY nonsense")
    reply.content["arrays"] = ArrayRecord({"theta": array})
    return reply


SPOILED = {
    "nan": (lambda reply: with_theta(reply, theta_of(reply) * np.nan), "its parameters are not finite"),
    "infinite": (lambda reply: with_theta(reply, theta_of(reply) + np.inf), "its parameters are not finite"),
    "huge": (lambda reply: with_theta(reply, theta_of(reply) + 1e6), "it moved by 2.45e.06; 7 honest steps"),
    "shape": (
        lambda reply: with_theta(reply, np.zeros(7)),
        r"expected 6 numbers of float64, got shape \(7,\) of float64",
    ),
    "matrix": (lambda reply: with_theta(reply, np.zeros((6, 1))), r"got shape \(6, 1\) of float64"),
    "float32": (lambda reply: with_theta(reply, theta_of(reply).astype(np.float32)), "of float32"),
    "nonsense": (unreadable, "its parameters cannot be read"),
    "replay": (lambda reply: with_header(reply, round=2), "expected a reply to round 3, got one to round 2"),
    "federation": (lambda reply: with_header(reply, federation="x"), "expected a reply to round 3"),
    "number": (lambda reply: with_header(reply, agent=3), "expected an agent below 3, got 3"),
    "other": (lambda reply: with_header(reply, agent=0), "it was agent 1 before, and says it is agent 0"),
    "no header": (
        lambda reply: reply.content.config_records["config"].update(reply="[]") or reply,
        "the reply is not one of a fedsarsa bridge",
    ),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_what_no_honest_agent_sends_is_counted_named_and_never_averaged(settings, server, grid, kind):
    spoiled, message = SPOILED[kind]
    grid.spoil = lambda node, number, reply: spoiled(reply) if (node, number) == (102, 3) else reply
    made = server()
    made.train(grid)
    lines = list(ledger.read(made.home))
    assert lines[3]["agents"] == [0, 2]
    assert list(lines[3]["rejected"]) == ["agent 1"]
    assert re.search(message, lines[3]["rejected"]["agent 1"])
    rounds = [[0, 2] if number == 3 else [0, 1, 2] for number in range(1, 11)]
    assert [line["agents"] for line in lines[1:]] == rounds
    assert_central(made, settings, with_participation(settings, rounds))  # its world has not moved either


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
    assert lines[0]["rejected"] == {"node 99": "it has the key of agent 2, and says it is agent 0"}


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
    made = server()
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert re.search(message, lines[0]["rejected"]["node 103"])
    assert all(line["agents"] == [0, 1] for line in lines)
    assert not any(line["rejected"] for line in lines[1:])  # it was not asked again
    assert grid.agents[103].round == 0  # and its world has not moved
    expected = with_participation(settings, [[0, 1]] * 10)
    assert_central(made, settings, expected)


def test_a_federation_of_strangers_ends_with_their_names(server, grid, tmp_path):
    greedy = 'policy = { kind = "greedy" }'
    text = CONFIG.replace('policy = { kind = "softmax", temperature = 1.0 }', greedy)
    with pytest.raises(RuntimeError, match=r"fewer than 1 agents can take part; node 101: its policy is"):
        server(changed(tmp_path, "", text)).train(grid)


def test_too_few_replies_ask_the_round_again(settings, server, grid, tmp_path):
    strict = changed(tmp_path, "[server]\ndeadline = 0.02\nat_least = 3\n")
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
    grid.silent, grid.before = {102}, lambda number: None
    (made.home / ledger.CHECKPOINT).unlink()
    with pytest.raises(RuntimeError, match="round 1 was asked 10 times and never had 3 sound replies"):
        server(strict).train(grid)


def test_some_of_the_agents_each_round(settings, server, grid, tmp_path):
    partial = changed(tmp_path, "[server]\nfraction = 0.5\nat_least = 2\n")
    made = server(partial)
    made.train(grid)
    rounds = [line["agents"] for line in ledger.read(made.home) if line["round"]]
    assert {len(one) for one in rounds} == {2}
    assert len({tuple(one) for one in rounds}) > 1
    expected = with_participation(settings, rounds)
    assert_central(made, settings, expected)


def test_a_full_disk_at_checkpoint_time_leaves_the_last_checkpoint(settings, server, grid, monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = server()
    aggregate = made.aggregate_train

    def fill(number, replies):
        if number == 4:  # from now on, writing more than a little fails
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
        return aggregate(number, replies)

    monkeypatch.setattr(made, "aggregate_train", fill)
    try:
        with pytest.raises(OSError, match=r"could not be written .* is intact"):
            made.train(grid)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    again = server()
    assert again.standing.round == 3
    again.train(grid)
    assert_central(again, settings, reference(settings))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 11", "seed = 12", "whose seed is 12, got one whose seed is 11"),
        (
            "[0.2, 0.5, 0.3]",
            "[0.5, 0.2, 0.3]",
            r"weights is \[0.5, 0.2, 0.3\], got one whose weights is \[0.2, 0.5, 0.3\]",
        ),
        ("radius = 8.0", "radius = 9.0", "radius is 9.0, got one whose radius is 8.0"),
        (
            "[algorithm]",
            "reward_cap = 11.0\n[algorithm]",
            r"reward_cap is 11\.0, got one whose reward_cap is 10\.0",
        ),
    ],
)
def test_a_checkpoint_of_another_federation_is_refused(server, tmp_path, old, new, message):
    server()
    with pytest.raises(ValueError, match=message):
        server(changed(tmp_path, "", CONFIG.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"median"', '"mean"', "rule is mean, got one whose rule is median"),
        (
            '"trimmed-mean"\ntrim = 0.3',
            '"trimmed-mean"\ntrim = 0.4',
            "trim is 0.4, got one whose trim is 0.3",
        ),
        ('"krum"\nmalicious = 2', '"krum"\nmalicious = 1', "malicious is 1, got one whose malicious is 2"),
        (
            '"mean"\nprivacy = { clip = 0.5, noise = 2.0 }',
            '"mean"\nprivacy = { clip = 0.5, noise = 1.0 }',
            r"privacy is .*noise=1.0.*, got one whose privacy is .*noise=2.0",
        ),
        ('"mean"\nprivacy = { clip = 0.5, noise = 2.0 }', '"mean"', "privacy is None, got one whose"),
    ],
)
def test_a_server_does_not_go_on_with_another_average(server, tmp_path, old, new, message):
    server(robust(tmp_path, f"[server]\nrule = {old}\n"))
    with pytest.raises(ValueError, match=message):
        server(robust(tmp_path, f"[server]\nrule = {new}\n"))


def test_what_may_change_while_a_federation_lasts(settings, server, tmp_path):
    server()
    longer = CONFIG.replace("steps = 70", "steps = 140")
    made = server(changed(tmp_path, "[server]\ndeadline = 5.0\nat_least = 2\nfraction = 0.9\n", longer))
    assert made.settings.rounds == 20


def honest(settings, number, theta, rng):
    """The farthest that a step can go: every reward at its cap, features as long as they may be."""
    for alpha in np.full(settings.every, [0.1, 0.2, 0.05][number]):
        norm = np.linalg.norm(theta)
        direction = theta / norm if norm else np.eye(len(theta))[0]
        theta = theta + alpha * (settings.reward_cap + (1 + settings.discount) * norm) * direction
    return theta


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e6])
def test_the_bound_on_replies_is_reached_and_not_passed(settings, scale):
    theta = scale * np.linspace(-1, 1, settings.dim)
    examiner = checks.Examiner(settings, "one", 2, theta)
    for number in range(3):
        farthest = np.linalg.norm(honest(settings, number, theta, None) - theta)
        assert farthest == pytest.approx(examiner.bounds[number], rel=1e-9)


def test_long_rounds_do_not_make_every_reply_believable(tmp_path):
    text = CONFIG.replace("sync_every = 7", "sync_every = 100_000").replace("steps = 70", "steps = 100_000")
    settings = changed(tmp_path, "", text)
    examiner = checks.Examiner(settings, "one", 1, np.zeros(6))
    assert min(examiner.bounds) == np.inf
    assert examiner.ceilings == [12.5] * 3  # R / (1 - gamma) = 10 / 0.8
    examiner._theta(Array(np.full(6, 12.5)), 0)
    with pytest.raises(
        checks.RejectedError, match=r"it has a parameter of 12\.6; honest steps give at most 12\.5"
    ):
        examiner._theta(Array(np.full(6, 12.6)), 0)
    unbounded = changed(tmp_path, "", text.replace("step_size = [0.1, 0.2, 0.05]", "step_size = 1.5"))
    assert checks.Examiner(unbounded, "one", 1, np.zeros(6)).ceilings == [np.inf]


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


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('rule = "median"', lambda thetas: np.median(thetas, axis=0)),
        ('rule = "trimmed-mean"\ntrim = 0.3', lambda thetas: np.sort(thetas, axis=0)[2:-2].mean(axis=0)),
        ('rule = "krum"\nmalicious = 2', None),
    ],
)
def test_robust_rules_are_flowers_and_ignore_liars(server, tmp_path, rule, expected):
    settings = robust(tmp_path, f"[server]\n{rule}\n")
    grid = crowd(settings, tmp_path)
    replies = []

    def lie(node, number, reply):  # two agents go as far as the norm check lets them
        if node >= 205:
            reply = with_theta(reply, np.full(settings.dim, 3.6))
        if number == 1:
            replies.append(theta_of(reply))
        return reply

    grid.spoil = lie
    made = server(settings)
    made.train(grid)
    first = ledger.central(made.home, settings.dim)[1]
    if expected is not None:
        np.testing.assert_allclose(first, expected(np.stack(replies)), atol=1e-12)
    else:
        assert any(np.array_equal(first, one) for one in replies[:5])
    assert not np.allclose(first, np.mean(replies, axis=0), atol=1e-3)


def test_privacy_is_spent_round_by_round_and_remembered(server, tmp_path):
    settings = robust(tmp_path, PRIVATE, agents=3)
    grid = crowd(settings, tmp_path)

    def stop(number):
        if number == 6:
            raise ConnectionError

    grid.before = stop
    with pytest.raises(ConnectionError):
        server(settings).train(grid)
    grid.before = lambda number: None
    made = server(settings)
    made.train(grid)
    epsilons = [line["epsilon"] for line in ledger.read(made.home) if line["round"]]
    assert len(epsilons) == 10
    assert all(b > a for a, b in itertools.pairwise(epsilons))
    # Ten releases of the Gaussian mechanism with multiplier 2 are one with 2 / sqrt(10).
    from dp_accounting import dp_event, rdp

    accountant = rdp.RdpAccountant()
    accountant.compose(dp_event.GaussianDpEvent(2.0 / np.sqrt(10)))
    assert epsilons[-1] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)


def test_privacy_spent_on_a_round_that_was_never_finished_stays_spent(server, tmp_path, monkeypatch):
    settings = robust(tmp_path, PRIVATE, agents=3)
    grid = crowd(settings, tmp_path)
    made = server(settings)
    close = made.ledger.close_round

    def full(standing, record):
        if standing.round == 4:  # the average has its noise, and cannot be written
            raise OSError("no space left")
        close(standing, record)

    monkeypatch.setattr(made.ledger, "close_round", full)
    with pytest.raises(OSError, match="no space left"):
        made.train(grid)
    again = server(settings)
    assert again.standing.round == 3
    again.train(grid)
    undisturbed = rules.rule(settings)
    event = GaussianPrivacyEvent(noise_multiplier=2.0, sample_size=3, population_size=3)
    for _ in range(11):  # ten rounds, and the one that was drawn twice
        undisturbed.accountant.compose(event)
    assert list(ledger.read(made.home))[-1]["epsilon"] == pytest.approx(rules.spent(undisturbed)["epsilon"])


@pytest.mark.parametrize("start", [0.0, 1.0, 1e-300, 1e6])
def test_an_agent_that_echoes_the_parameter_does_not_end_a_private_federation(server, tmp_path, start):
    settings = robust(tmp_path, PRIVATE, agents=3)
    grid = crowd(settings, tmp_path)
    made = server(settings)
    made.standing.theta = np.full(settings.dim, start)

    def echo(node, number, reply):
        return with_theta(reply, made.standing.theta) if node == 201 else reply

    grid.spoil = echo
    made.train(grid)
    assert all(line["agents"] == [0, 1, 2] for line in ledger.read(made.home) if line["round"])


@pytest.mark.parametrize("start", [0.0, 1.0, -1.0, 1e-300, 1e100])
def test_what_is_clipped_has_moved_by_as_little_as_can_be(start):
    before = np.full(3, start)
    for given in (before, before + np.array([0.0, 1e-200, 0.0])):
        moved = strategy.clippable(given, before)
        assert 0 < np.linalg.norm(moved - before) <= max(4e-16 * abs(start), 1e-150)
    far = before + (1.0 + abs(start))
    assert strategy.clippable(far, before) is far


def test_private_rounds_wait_for_everybody_who_was_asked(server, tmp_path):
    settings = robust(
        tmp_path, "[server]\ndeadline = 0.02\nprivacy = { clip = 0.5, noise = 2.0 }\n", agents=3
    )
    grid = crowd(settings, tmp_path)
    asked = []

    def before(number):
        asked.append(number)
        grid.silent = {201} if asked.count(3) == 1 and number == 3 else set()

    grid.before = before
    made = server(settings)
    made.train(grid)
    lines = list(ledger.read(made.home))[1:]
    assert asked.count(3) == 2
    assert all(line["agents"] == [0, 1, 2] for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[server]\nrule = "krum"\nmalicious = 3\n',
            "krum against 3 malicious agents needs at least 9",
        ),
        (
            '[server]\nrule = "median"\nprivacy = { clip = 1.0, noise = 1.0 }\n',
            'expected "mean" with privacy',
        ),
    ],
)
def test_rules_that_cannot_work(server, tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        server(robust(tmp_path, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sync_every = 7", 'sync_every = "never"', "algorithm.sync_every: expected a number of steps"),
        ("steps = 70", "steps = 71", r"training.steps: expected a multiple of sync_every \(7\)"),
        (
            "[training]",
            "[server]\nat_least = 4\n[training]",
            "server.at_least: expected at most the 3",
        ),
        ("[training]", "[server]\ndedline = 4\n[training]", "unknown key; did you mean 'deadline'"),
        (
            "[training]",
            "[server]\ndeadline = -4.0\n[training]",
            "server.deadline: Input should be greater",
        ),
    ],
)
def test_configurations_that_cannot_work(tmp_path, old, new, message):
    with pytest.raises(ValueError, match=message):
        changed(tmp_path, "", CONFIG.replace(old, new))


def test_a_server_need_not_know_the_worlds(settings, server, grid, tmp_path):
    i, j = CONFIG.index("[fleet]"), CONFIG.index("[algorithm]")
    section = (
        '[fleet]\nkind = "remote"\nagents = 3\nstates = 12\nactions = 6\ndiscount = 0.2\nreward_cap = 10.0\n'
    )
    blind = changed(tmp_path, "", CONFIG[:i] + section + CONFIG[j:])
    assert blind.worlds is None
    made = server(blind)
    made.train(grid)
    np.testing.assert_allclose(
        ledger.central(made.home, settings.dim), reference(settings), rtol=0, atol=1e-12
    )
    with pytest.raises(ValueError, match="expected the agent's own world, got remote"):
        blind.world(0)
