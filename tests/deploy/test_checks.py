"""Which replies are believed: hostile ones, and how far honest ones can go."""

import re

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedsarsa.deploy import checks, ledger
from tests.deploy.federations import CONFIG, with_participation
from tests.deploy.grids import (
    assert_central,
    changed,
    theta_of,
    with_header,
    with_theta,
)


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
