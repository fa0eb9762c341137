"""Agents that join late, or are away for long: none of them pays for its mixture.

Agents act by their own parameter, so one that joins after round j is where another was j rounds earlier. The
server rule is given such trainings round by round with who was present, as a deployed server gives them.
A mean counts as larger than another as in ``costs``.
"""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from tests.contexts import context_of
from tests.federation.costs import PUBLISHED, RUNS, assert_no_cost

AGENTS, ROUNDS = 8, 240
TOGETHER = np.zeros((ROUNDS, AGENTS), bool) | True


def joining(**rounds):
    """Who is present in which round (round, agent), if agents join after these rounds."""
    present = TOGETHER.copy()
    for agent, after in rounds.items():
        present[:after, int(agent[1:])] = False
    return present


def away():
    present = TOGETHER.copy()
    present[80:160, 3] = False
    return present


def mixtures(own, present):
    """Own parameters and mixtures (run, round, agent, d), of agents that stand still while they are away."""
    runs, _, agents, dim = own.shape
    rule = fs.servers.Personal()
    memory, start = rule.memory(runs, agents, dim), own[:, 0]
    seen = []
    taken = np.cumsum(present, axis=0)  # rounds that agents have taken part in, (round, agent)
    for here, done in zip(present, taken, strict=True):
        after = np.stack([own[:, count, agent] for agent, count in enumerate(done)], axis=1)
        context = context_of(after, np.tile(here, (runs, 1)), memory=memory)
        start = rule.combine(start, after, context)
        seen.append((start, rule.mixtures(start, memory)))
    return (np.stack(one, axis=1) for one in zip(*seen, strict=True))


@pytest.fixture(scope="module", params=[0.0, 0.5, 2.0])
def trained(request):
    """Fixed points (agent, d), and own parameters (run, round, agent, d)."""
    fleet = fs.paper.fleet(AGENTS, request.param, request.param)
    algo = replace(PUBLISHED, server=fs.servers.Personal(weights=np.eye(AGENTS)))
    points = np.array([fs.theory.fixed_point(world, algo.features, algo.policy) for world in fleet])
    return points, algo.train(fleet, 100 * ROUNDS, RUNS).personal.values


@pytest.mark.slow
@pytest.mark.parametrize(
    "present",
    [joining(a2=20, a3=30), joining(a3=60, a7=150), away()],
    ids=["soon", "late", "away"],
)
def test_nobody_pays_for_agents_that_join_late(trained, present):
    points, own_parameters = trained
    own, mixed = (((one - points) ** 2).sum(axis=-1) for one in mixtures(own_parameters, present))
    assert_no_cost(own, mixed)
    helped = mixed[:, -1].mean(axis=0) < own[:, -1].mean(axis=0)
    assert helped[[0, 1, 4, 5]].all()  # who was there from the first round on gains
    if not present[0, 2]:
        assert helped.all()  # and by now also those who joined soon


def test_an_agent_that_never_came_is_left_out():
    rng = np.random.default_rng(0)
    own = 0.1 * rng.normal(size=(2, 41, 4, 6))
    present = np.ones((40, 4), bool)
    present[:, 1] = False
    present[:30, 2] = False
    seen, mixed = mixtures(own, present)
    np.testing.assert_array_equal(seen[:, :, 1], np.broadcast_to(own[:, :1, 1], seen[:, :, 1].shape))
    np.testing.assert_array_equal(mixed[:, -1, 1:3], seen[:, -1, 1:3])  # they listen to themselves,
    others = seen[:, -1, [0, 3]]
    np.testing.assert_allclose(mixed[:, -1, 0], others.mean(axis=1), atol=0.1)
    assert np.abs(mixed[:, -1, 0] - seen[:, -1, 0]).max() > 1e-3  # and others to each other
