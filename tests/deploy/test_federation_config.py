"""What a deployment's configuration may say."""

import json

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.deploy import ledger, terms, wire
from fedsarsa.deploy.server_process import serve
from tests.deploy.federations import CONFIG, reference
from tests.deploy.grids import assert_central, changed, crowd


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
            '[server]\nrule = "trimmed-mean"\n[training]',
            r"server: TrimmedMean\(share=0\.2, radius=8\.0\) needs at least 5 agents, got 3",
        ),
        (
            "[training]",
            "[server]\ndeadline = -4.0\n[training]",
            "server.deadline: expected more than 0",
        ),
        (
            "[training]",
            "[server]\ndeadline = inf\n[training]",
            "server.deadline: expected a finite number",
        ),
        (
            "[training]",
            "[server]\ndeadline = 1e9\n[training]",
            "server.deadline: expected at most 31536000",
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


FIXED = 'policy = { kind = "softmax", temperature = 1.0 }'


@pytest.mark.parametrize("pi", ["[0.1, 0.2, 0.3, 0.1, 0.1, 0.2]", "[0.2, 0.1, 0.3, 0.1, 0.1, 0.2]"])
def test_policies_are_compared_number_by_number(settings, tmp_path, pi):
    def terms(numbers):
        fixed = f'policy = {{ kind = "fixed", pi = {numbers} }}'
        return changed(tmp_path, "", CONFIG.replace(FIXED, fixed)).terms

    given, other = terms(pi), terms("[0.1, 0.2, 0.1, 0.3, 0.1, 0.2]")
    assert given == terms(pi)
    assert {name for name in given if given[name] != other[name]} == {"policy"}
    assert given["policy"] != settings.terms["policy"]


def test_features_are_compared_number_by_number():
    table = np.random.default_rng(0).uniform(size=(3, 2, 4)) / 4
    told = terms.described(fs.TabularFeatures(table))
    assert told.startswith("TabularFeatures(shape=(3, 2, 4)) ")
    assert told == terms.described(fs.TabularFeatures(table.copy()))
    assert told == terms.described(fs.TabularFeatures(np.asfortranarray(table)))
    table[2, 1, 3] = np.nextafter(table[2, 1, 3], 1)
    assert told != terms.described(fs.TabularFeatures(table))


@pytest.mark.parametrize("value", [1.5, -2.0])
def test_federations_begin_where_they_are_told(server, tmp_path, value):
    settings = changed(tmp_path, "", CONFIG.replace("radius = 8.0", f"initial_value = {value}"))
    grid, made = crowd(settings, tmp_path), server(settings)
    made.train(grid)
    assert_central(made, settings, reference(settings))


@pytest.mark.parametrize(("deadline", "warned"), [(2.5, True), (10.0, False)])
def test_a_server_warns_of_deadlines_that_leave_agents_no_time(tmp_path, said, deadline, warned):
    changed(tmp_path, f"[server]\ndeadline = {deadline}\n")
    said = said("server")
    with pytest.raises(ValueError, match="insecure: expected a loopback address"):  # nothing is started
        serve(tmp_path / "changed.toml", tmp_path / "home", "0.0.0.0", 8000, True)
    assert len(said) == warned
    assert not warned or said[0].startswith("server.deadline is 2.5 seconds: a round takes Flower 3 to 10 by")


def test_what_everybody_agrees_on_fits_into_a_message_however_many_agents_there_are(tmp_path):
    sizes = np.linspace(0.01, 0.1, 5000).tolist()

    def terms(sizes):
        text = CONFIG.replace("agents = 3", "agents = 5000").replace("weights = [0.2, 0.5, 0.3]", "")
        return changed(tmp_path, "", text.replace("[0.1, 0.2, 0.05]", str(sizes))).terms

    given, other = terms(sizes), terms([*sizes[:-1], 0.2])
    assert given == terms(sizes)
    assert {name for name in given if given[name] != other[name]} == {"step_size"}
    assert given["step_size"].startswith("[0.01, 0.0100")
    assert len(json.dumps(given)) < wire.LONGEST_HEADER / 2
