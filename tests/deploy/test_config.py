"""What a deployment's configuration may say."""

import numpy as np
import pytest

from fedsarsa.deploy import ledger
from tests.deploy.federations import CONFIG, reference
from tests.deploy.grids import (
    changed,
)


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
