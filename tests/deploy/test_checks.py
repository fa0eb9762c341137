"""Which replies are believed: hostile ones, and how far honest ones can go."""

import io
import json
import os
import re
import tracemalloc

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

import fedsarsa as fs
from fedsarsa.deploy import checks, ledger
from fedsarsa.deploy.attempt import Askings
from tests.deploy.federations import CONFIG, with_participation
from tests.deploy.grids import (
    assert_central,
    changed,
    crowd,
    theta_of,
    with_header,
    with_theta,
)


def with_array(reply, **changes):
    fields = {"dtype": "float64", "shape": (6,), "stype": "numpy.ndarray", "data": bytes(48)} | changes
    reply.content["arrays"] = ArrayRecord({"theta": Array(**fields)})
    return reply


def with_bytes(reply, data):
    return with_array(reply, data=data)


def with_text(reply, text):
    reply.content.config_records["config"]["reply"] = text.encode()
    return reply


def with_seconds(reply, seconds):
    reply.content.config_records["config"]["seconds"] = seconds
    return reply


def without(reply, name):
    del reply.content[name]
    return reply


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def saved(save, what):
    file = io.BytesIO()
    save(file, what)
    return file.getvalue()


CLAIMS = (
    np.lib.format.magic(1, 0)
    + b"\x76\x00"
    + (b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000000,), }".ljust(117) + b"\n")
)


BYTES = r"expected 6 numbers of float64, got \d+ bytes"
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
    "nonsense": (
        lambda reply: with_bytes(reply, b"\x93NUMPY nonsense"),
        BYTES,
    ),
    "empty": (lambda reply: with_bytes(reply, b""), BYTES),
    "a pickle": (
        lambda reply: with_bytes(reply, saved(np.save, np.array(Bomb(), object))),
        BYTES,
    ),
    "an archive": (
        lambda reply: with_bytes(reply, saved(np.savez, np.zeros(1))),
        BYTES,
    ),
    "claims": (lambda reply: with_bytes(reply, CLAIMS), BYTES),
    "too much": (
        lambda reply: with_theta(reply, np.zeros(1000)),
        r"expected 6 numbers of float64, got shape \(1000,\) of float64",
    ),
    "more than it says": (
        lambda reply: with_bytes(reply, bytes(8000)),
        "expected 6 numbers of float64, got 8000 bytes",
    ),
    "a strange kind": (
        lambda reply: with_array(reply, dtype="\x1b[2J" * 500, shape=(10**9,) * 500),
        r"got shape \(1000000000, [0-9, ]+$",
    ),
    "integers": (lambda reply: with_theta(reply, np.zeros(6, int)), r"got shape \(6,\) of int64"),
    "complex": (lambda reply: with_theta(reply, np.zeros(6, complex)), r"got shape \(6,\) of complex128"),
    "replay": (lambda reply: with_header(reply, round=2), "expected a reply to round 3, got one to round 2"),
    "federation": (lambda reply: with_header(reply, federation="x"), "expected a reply to round 3"),
    "number": (lambda reply: with_header(reply, agent=3), "expected an agent below 3, got 3"),
    "other": (lambda reply: with_header(reply, agent=0), "it was agent 1 before, and says it is agent 0"),
    "a number of a kind": (
        lambda reply: with_header(reply, agent=True),
        "expected an agent below 3, got True",
    ),
    "a long number": (
        lambda reply: with_header(reply, agent=10**30),
        r"expected an agent below 3, got 1000000\d+$",
    ),
    "no header": (lambda reply: with_text(reply, "[]"), "the reply is not one of a fedsarsa agent"),
    "no JSON": (lambda reply: with_text(reply, "{"), "the reply is not one of a fedsarsa agent"),
    "nesting": (lambda reply: with_text(reply, "[" * 60_000), "the reply is not one of a fedsarsa agent"),
    "a long header": (
        lambda reply: with_header(reply, more="x" * 70_000),
        r"not one of a fedsarsa agent: expected a header of at most 65536 bytes, got 7\d\d\d\d",
    ),
    "no record": (lambda reply: without(reply, "config"), "the reply is not one of a fedsarsa bridge"),
    "no arrays": (lambda reply: without(reply, "arrays"), "the reply holds no parameters"),
    "no terms": (lambda reply: with_header(reply, terms=None), "does not say what the agent learns"),
    "a long refusal": (
        lambda reply: with_header(reply, refused="\x1b[31m" + "no" * 5000),
        r"^the agent refuses: \?\[31m(no)+n?$",
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
    examiner._theta(np.full(6, 12.5), 0)
    with pytest.raises(
        checks.RejectedError, match=r"it has a parameter of 12\.6; honest steps give at most 12\.5"
    ):
        examiner._theta(np.full(6, 12.6), 0)
    unbounded = changed(tmp_path, "", text.replace("step_size = [0.1, 0.2, 0.05]", "step_size = 1.5"))
    assert checks.Examiner(unbounded, "one", 1, np.zeros(6)).ceilings == [np.inf]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0, 3, "long"])
def test_times_that_are_none_are_not_written_down(settings, server, grid, seconds):
    grid.spoil = lambda node, number, reply: with_seconds(reply, seconds)
    made = server()
    made.train(grid)
    assert all(line["bridge_seconds"] == 0.0 for line in ledger.read(made.home) if line["round"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        (
            {"sync_every = 7": "sync_every = 700", "steps = 70": "steps = 700"},
            "only parameters beyond 12.5 are",
        ),
        (
            {
                "sync_every = 7": "sync_every = 700",
                "steps = 70": "steps = 700",
                "[0.1, 0.2, 0.05]": "1.5",
            },
            "a robust rule helps",
        ),
    ],
)
def test_a_bound_that_keeps_nobody_out_is_told_once(tmp_path, server, grid, homes, changes, message):
    text = CONFIG
    for old, new in changes.items():
        text = text.replace(old, new)
    settings = changed(tmp_path, "", text)
    made = server(settings)
    for _ in range(2):
        made.ask(grid, Askings(0.0))
    warnings = [line for line in made.said if "honest agents could move by" in line]
    assert len(warnings) == (message is not None)
    assert not warnings or message in warnings[0]


def test_rewards_of_zero_bound_what_steps_can_do():
    assert checks.reach(0.0, 3 * np.log1p(0.15), 0.0, 0.5) == 0.0
    assert checks.reach(0.0, 10_000 * np.log1p(1.5), 0.0, 0.5) == np.inf


@pytest.mark.parametrize("schedule", [fs.ConstantStep(0.1), fs.LinearDecay(0.5, 20.0)])
def test_growth_over_many_steps_is_added_up_in_parts(monkeypatch, schedule):
    sizes = 2.0 * schedule.at(np.arange(5, 42))
    expected = (np.log1p(1.5 * sizes).sum(), sizes.max())
    monkeypatch.setattr(checks, "CHUNK", 10)
    assert checks.growth(schedule, 5, 37, 2.0, 0.5) == pytest.approx(expected, rel=1e-14)


def test_growth_of_constant_steps_is_not_added_up(monkeypatch):
    monkeypatch.setattr(checks, "step_sizes_at", lambda *_: pytest.fail("it looks at every step"))
    rise, largest = checks.growth(fs.ConstantStep(0.1), 0, 10**15, 2.0, 0.5)
    assert rise == pytest.approx(10**15 * np.log(1.3), rel=1e-14)
    assert largest == 0.2


DECAY = '{ kind = "linear-decay", w = 0.5, a = 20.0 }'


@pytest.mark.parametrize(("sizes", "distinct"), [([0.01, 0.02] * 25, 50), (DECAY, 1)])
def test_long_rounds_with_a_step_size_for_each_of_many_agents_need_little_memory(tmp_path, sizes, distinct):
    text = CONFIG.replace("agents = 3", "agents = 50").replace("weights = [0.2, 0.5, 0.3]", "")
    text = text.replace("sync_every = 7", "sync_every = 2_000_000").replace("steps = 70", "steps = 2_000_000")
    settings = changed(tmp_path, "", text.replace("[0.1, 0.2, 0.05]", str(sizes)))
    tracemalloc.start()
    try:
        examiner = checks.Examiner(settings, "one", 1, np.zeros(6))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(examiner.bounds) == distinct
    assert peak < 10e6  # bytes; one number for every step would be 16e6, and so for every agent


@pytest.mark.parametrize("size", [3e153, 1e200, -1e308])
def test_what_overflows_is_turned_away_where_the_bound_keeps_nobody_out(server, tmp_path, size):
    text = CONFIG.replace("sync_every = 7", "sync_every = 1000").replace("steps = 70", "steps = 3000")
    text = text.replace("[0.1, 0.2, 0.05]", "1.5").replace("radius = 8.0", "")
    settings = changed(tmp_path, "", text)
    grid, made = crowd(settings, tmp_path), server(settings)
    grid.spoil = lambda node, number, reply: (
        with_theta(reply, np.full(6, size)) if node == 201 and number > 1 else reply
    )
    made.train(grid)
    examiner = checks.Examiner(settings, "one", 3, np.zeros(6))
    assert min(examiner.bounds) == np.inf
    text = (made.home / ledger.ROUNDS).read_text()
    lines = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert [line["agents"] for line in lines[1:]] == [[0, 1, 2], [0, 2], [0, 2]]
    large = "its parameters are too large: the square of their norm overflows"
    assert all(line["rejected"] == {"agent 1": large} for line in lines[2:])
    examiner._theta(np.full(6, 1e153), 1)
