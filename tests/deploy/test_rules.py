"""Robust rules, and privacy from Flower's own parts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from flwr.supercore.privacy_accounting import GaussianPrivacyEvent

import fedsarsa as fs
from fedsarsa.deploy import federation_config, ledger, privacy
from fedsarsa.deploy.agent import Agent
from fedsarsa.experiments import config
from fedsarsa.federation.servers import private_mean
from tests.deploy.federations import CONFIG, reference
from tests.deploy.grids import (
    crowd,
    robust,
    theta_of,
    with_theta,
)

PRIVATE = "[server]\nprivacy = { clip = 0.5, noise = 2.0 }\n"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('rule = "median"', lambda thetas: np.median(thetas, axis=0)),
        ('rule = "trimmed-mean"\nshare = 0.3', lambda thetas: np.sort(thetas, axis=0)[2:-2].mean(axis=0)),
        ('rule = "krum"\nliars = 2', None),
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


@pytest.mark.parametrize(
    ("rule", "simulated"),
    [
        ('rule = "median"', fs.servers.Median()),
        ('rule = "trimmed-mean"\nshare = 0.3', fs.servers.TrimmedMean(0.3)),
        ('rule = "krum"\nliars = 2', fs.servers.Krum(2)),
        ('rule = "server-step"\nsize = 0.4', fs.servers.ServerStep(0.4)),
    ],
)
def test_a_deployed_rule_trains_what_the_simulation_trains(server, tmp_path, rule, simulated):
    settings = robust(tmp_path, f"[server]\n{rule}\n")
    made = server(settings)
    made.train(crowd(settings, tmp_path))
    algo = settings.algorithm
    algo = replace(algo, server=replace(simulated, radius=algo.radius), radius=None)
    expected = algo.train(settings.worlds, settings.training.steps, runs=1, seed=settings.training.seed)
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, expected.central[0], rtol=0, atol=1e-12)


OPTIONS = """trace_decay = 0.6
target = "max"
behaviour = [{ kind = "fixed", pi = 0 }, { kind = "fixed" }, { kind = "fixed", pi = 2 }]
[training]"""


@pytest.mark.parametrize("alone", [False, True])
def test_options_of_the_step_are_deployed_in_finite_worlds(server, tmp_path, alone):
    """Also by agents that know of no world but their own."""
    text = CONFIG.replace("[training]", OPTIONS)
    path = tmp_path / "options.toml"
    path.write_text(text)
    settings = federation_config.load(path)
    grid = crowd(settings, tmp_path)
    if alone:
        for number, home in enumerate(sorted(tmp_path.glob("crowd*"))):
            own = federation_config.load(path)
            own.worlds = settings.world(number)
            grid.agents[200 + number] = Agent(own, number, home)
    made = server(settings)
    made.train(grid)
    seen = ledger.central(made.home, settings.dim)
    np.testing.assert_allclose(seen, reference(settings), rtol=0, atol=1e-12)


MEAN = "weights = [0.2, 0.5, 0.3]\nradius = 8.0"


def robustly(rehearsed):
    """The configuration with a rule for nine agents in the algorithm's section."""
    nine = CONFIG.replace("agents = 3", "agents = 9").replace("[0.1, 0.2, 0.05]", "0.1")
    return nine.replace(MEAN, rehearsed)


@pytest.mark.parametrize(
    "rehearsed",
    [
        'server = { kind = "trimmed-mean", share = 0.3, radius = 8.0 }',
        'server = { kind = "mean", radius = 8.0 }',
        'server = { kind = "personal", visits = true }',
    ],
)
def test_one_file_is_rehearsed_and_deployed(tmp_path, rehearsed):
    path = tmp_path / "rule.toml"
    path.write_text(robustly(rehearsed))
    rehearsal, deployed = config.load(path).algorithm.build(), federation_config.load(path)
    assert repr(deployed.rule) == repr(rehearsal.rule)
    assert deployed.algorithm.radius == getattr(rehearsal.rule, "radius", None)


def test_a_rule_is_given_once(tmp_path):
    path = tmp_path / "rule.toml"
    path.write_text(CONFIG.replace(MEAN, 'server = { kind = "median" }') + '\n[server]\nrule = "krum"\n')
    with pytest.raises(ValueError, match=r'expected \[server\] rule or algorithm.server, got "krum" beside'):
        federation_config.load(path)


def test_rules_for_simulations_alone_are_refused(tmp_path):
    path = tmp_path / "rule.toml"
    path.write_text(CONFIG.replace(MEAN, 'server = { kind = "control-variates" }'))
    with pytest.raises(ValueError, match=r'server.rule: .* got "control-variates"'):
        federation_config.load(path)


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
    undisturbed = privacy.PrivateServer(settings, {})
    event = GaussianPrivacyEvent(noise_multiplier=2.0, sample_size=3, population_size=3)
    for _ in range(11):  # ten rounds, and the one that was drawn twice
        undisturbed.accountant.compose(event)
    assert list(ledger.read(made.home))[-1]["epsilon"] == pytest.approx(undisturbed.spent["epsilon"])


def test_at_the_limit_on_epsilon_nobody_is_asked(server, tmp_path):
    event, alone = (
        GaussianPrivacyEvent(2.0, 3, 3),
        privacy.PrivateServer(robust(tmp_path, PRIVATE, agents=3), {}).accountant,
    )
    alone.compose(event, 3)
    limit = alone.get_privacy_spent().epsilon + 0.01
    settings = robust(tmp_path, PRIVATE.replace("2.0 }", f"2.0, max_epsilon = {limit} }}"), agents=3)
    grid = crowd(settings, tmp_path)
    message = rf"max_epsilon: {limit - 0.01:.4g} of {limit:g} is spent after 3 rounds, and the next"
    made = server(settings)
    with pytest.raises(RuntimeError, match=message):
        made.train(grid)
    assert len(ledger.central(made.home, settings.dim)) == 4
    grid.get_node_ids = lambda: pytest.fail("it asks who is there")
    with pytest.raises(RuntimeError, match=message):
        server(settings).train(grid)


def test_a_limit_on_epsilon_that_no_round_keeps(server, tmp_path):
    settings = robust(tmp_path, PRIVATE.replace("2.0 }", "2.0, max_epsilon = 0.1 }"), agents=3)
    with pytest.raises(RuntimeError, match=r"max_epsilon: 0 of 0\.1 is spent after 0 rounds"):
        server(settings).train(crowd(settings, tmp_path))


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
def test_what_has_moved_too_far_is_brought_back(start):
    before = np.full(3, start)
    for near in (before, before + np.array([0.0, 1e-200, 0.0]), before + (0.1 * abs(start) or 1e-3)):
        clip = max(1.0, abs(start))
        np.testing.assert_array_equal(private_mean.clipped(near, before, clip), near)
        far = before + np.array([3.0, 0.0, -4.0]) * clip
        moved = private_mean.clipped(far, before, clip) - before
        np.testing.assert_allclose(moved, np.array([0.6, 0.0, -0.8]) * clip, rtol=1e-12)
        assert far[0] == start + 3.0 * clip  # and what came in is as it was


def test_noise_is_that_of_the_number_who_were_asked(tmp_path):
    settings = robust(tmp_path, PRIVATE, agents=3)
    settings.algorithm = replace(settings.algorithm, radius=None)
    made, before = privacy.PrivateServer(settings, {}), np.zeros(20_000)
    np.random.seed(0)  # noqa: NPY002  # of the generator that Flower draws from
    after = np.zeros((3, 20_000))
    after[0, 0] = 9.0  # clipped to 0.5, a third of which is its part of the mean
    noisy = made.combine(before, after)
    # A standard deviation of clip * noise / 3 = 1/3: five standard errors of its estimate on either side.
    assert np.std(noisy) == pytest.approx(1 / 3, abs=5 / 3 / np.sqrt(2 * 20_000))
    assert noisy.mean() == pytest.approx(0.5 / 3 / 20_000, abs=5 / 3 / np.sqrt(20_000))
    with pytest.raises(ValueError, match="after must hold 3 parameters, got 2"):
        made.combine(before, after[:2])


def test_private_rounds_wait_for_everybody_who_was_asked(server, tmp_path):
    settings = robust(
        tmp_path, "[server]\ndeadline = 0.02\nprivacy = { clip = 0.5, noise = 2.0 }\n", agents=3
    )
    settings.deadline = replace(settings.deadline, most=1000)  # agents compile while they are asked
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
            '[server]\nrule = "krum"\nliars = 3\n',
            r"server: Krum\(liars=3, radius=8.0\) needs at least 9 agents, got 7",
        ),
        (
            '[server]\nrule = "median"\nprivacy = { clip = 1.0, noise = 1.0 }\n',
            'expected "mean" with privacy',
        ),
        (
            '[server]\nrule = "trimmed-mean"\nshare = 0.7\n',
            r"^server: share must be a number in \(0, 0\.5\), got 0\.7$",
        ),
        (
            '[server]\nrule = "trimmed-mean"\ntrim = 0.3\n',
            "server: expected share, the rule's own name for it, got trim = 0.3$",
        ),
        (
            '[server]\nrule = "krum"\nmalicious = 2\n',
            "server: expected liars, the rule's own name for it, got malicious = 2$",
        ),
        (
            "[server]\nshare = 0.3\n",
            "server.share: unknown key.*; valid: agents, at_least, deadline, fraction, privacy,",
        ),
        (
            '[server]\nrule = "medean"\n',
            "server.rule: expected mean or median or .*, got 'medean'; did you mean 'median'",
        ),
        (
            '[server]\nrule = "control-variates"\n',
            'server.rule: expected a rule that needs nothing but .*, got "control-variates"$',
        ),
    ],
)
def test_rules_that_cannot_work(server, tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        server(robust(tmp_path, text))


@pytest.mark.parametrize(
    ("rule", "fewest"),
    [
        ('rule = "mean"', 1),
        ('rule = "mean"\nat_least = 2', 2),
        ('rule = "median"', 3),
        ('rule = "trimmed-mean"\nshare = 0.2', 5),
        ('rule = "trimmed-mean"\nshare = 0.3', 4),
        ('rule = "krum"\nliars = 2', 7),
        ('rule = "krum"\nliars = 0', 3),
        ('rule = "median"\nfraction = 0.25', 3),
        ('rule = "trimmed-mean"\nfraction = 0.5', 5),
        ('rule = "krum"\nfraction = 0.1', 5),
        ('rule = "mean"\nfraction = 0.5\nprivacy = { clip = 0.5, noise = 2.0 }', 4),
    ],
)
def test_how_many_replies_a_rule_needs(server, tmp_path, rule, fewest):
    settings = robust(tmp_path, f"[server]\ndeadline = 0.02\n{rule}\n")
    usual = settings.deadline
    settings.deadline = replace(usual, most=1000)  # agents compile while they are asked
    grid, made = crowd(settings, tmp_path), server(settings)
    assert settings.needed == fewest
    grid.silent = set(list(grid.agents)[fewest:])
    made.next_round(grid)  # whom it asks may be drawn
    assert len(next(reversed(list(ledger.read(made.home))))["agents"]) == fewest
    grid.silent |= {next(iter(grid.agents))}
    settings.deadline = usual
    if fewest > 1:
        with pytest.raises(RuntimeError, match=rf"never counted: \d sound replies of \d, {fewest} needed"):
            made.next_round(grid)


@pytest.mark.parametrize(
    ("agents", "fraction", "size"),
    [(100, 0.07, 7), (100, 0.55, 55), (25, 0.28, 7), (3, 0.5, 2), (7, 1e-5, 1)],
)
def test_a_fraction_is_the_one_that_was_written(tmp_path, agents, fraction, size):
    assert robust(tmp_path, f"[server]\nfraction = {fraction}\n", agents).sample_size == size


@pytest.mark.parametrize("share", [0.1, 0.2, 0.25, 0.3, 0.4, 0.49])
def test_a_trimmed_mean_of_so_many_cuts_one_liar_off_each_end(tmp_path, share):
    count = robust(tmp_path, f'[server]\nrule = "trimmed-mean"\nshare = {share}\n', 10).rule.fewest
    assert int(share * count) >= 1  # what Flower cuts off
    assert int(share * (count - 1)) < 1
