"""The personal rule with real processes: the simulation's numbers over TLS, with keys."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.deploy import ledger
from tests.deploy.deployments import Deployment, left_running, short_home

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

WEIGHTS = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.25, 0.25, 0.5]]
ROUNDS = 3


class Mixing(Deployment):
    def configuration(self, rounds):
        rule = f'rule = "personal"\nact = "mixture"\nvisits = true\nweights = {WEIGHTS}\n'
        return super().configuration(rounds).replace("at_least = 2", "at_least = 3") + rule


def test_every_agent_learns_with_its_own_mixture():
    with short_home() as home:
        made = Mixing(home, ROUNDS, deadline=60.0)
        with made.processes:
            for number in range(3):
                made.start_agent(number)
            made.start_server()
            made.hear("server", "SuperLink listens")
            for number in range(3):
                made.start_node(number)
            made.wait(lambda: made.with_nodes(3) and made.rounds() == ROUNDS)
        assert left_running(home) == []
        settings = made.settings
        (_, arrays), seen = ledger.checkpoint(made.server), ledger.central(made.server, settings.dim)
    rule = fs.servers.Personal("mixture", WEIGHTS, settings.algorithm.radius, visits=True)
    algo = settings.algorithm
    algo = fs.FedSARSA(algo.features, algo.policy, algo.step_size, algo.sync_every, server=rule)
    expected = algo.train(settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed)
    np.testing.assert_allclose(arrays["starts"], expected.local[0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(seen, expected.central[0], rtol=0, atol=1e-12)
    own = fs.FedSARSA(algo.features, algo.policy, algo.step_size, None)
    alone = own.train(settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed)
    assert np.abs(expected.local - alone.local).max() > 1e-6  # they did act by their mixtures
