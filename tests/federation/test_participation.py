"""Who takes part in a round: shares, absences and lies, the same in every engine."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import participation
from fedsarsa.federation.participation import taking_part
from tests.contexts import context_of
from tests.worlds_of_tests import fleet

AGENTS = 6
FLEET = fleet(agents=AGENTS)
CARTS = fs.control.fleet("CartPole", AGENTS, spread=0.2, time_limit=15)
ALGO = fs.FedSARSA(fs.ModuloFeatures(2, 2), fs.Softmax(1.0), 0.1, sync_every=5)
CONTROL = fs.FedSARSA(fs.FourierBasis(1), fs.Softmax(0.5), 0.2, sync_every=5)
SETTINGS = [
    {"participation": 0.5},
    {"participation": 0.3, "faults": fs.Faults(absent=0.4)},
    {"faults": fs.Faults(liars=[1, 4], lie=-3.0)},
    {"participation": 0.7, "faults": fs.Faults(absent=0.2, liars=[0]), "server": fs.servers.Median()},
    {"participation": 0.5, "server": fs.servers.PrivateMean(clip=0.3, noise=0.5)},
    {"participation": 0.5, "server": fs.servers.Personal()},
    {"participation": 0.5, "weights": [0.3, 0.1, 0.1, 0.1, 0.2, 0.2], "radius": 0.5},
    {"participation": 0.5, "trace_decay": 0.5, "target": "expected"},
    {"participation": 0.5, "step_size": fs.LinearDecay(1.0, 50.0)},
]


@pytest.mark.filterwarnings("ignore:Personal. every agent listens to itself alone")  # trainings are short
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("group", [FLEET, CARTS], ids=["finite", "control"])
@pytest.mark.parametrize("threads", [1, 2])
def test_engines_agree(settings, group, threads):
    algo = replace(ALGO if group is FLEET else CONTROL, **settings)
    one, two = (
        algo.train(group, 63, runs=2, engine=engine, threads=threads) for engine in ("reference", "cpu")
    )
    for name in ("central", "local", "final", "drift"):
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=0, atol=1e-12, err_msg=name)
    if group is CARTS:
        np.testing.assert_array_equal(one.data.episodes, two.data.episodes)


@pytest.mark.processes
def test_ray_agrees():
    algo = replace(ALGO, participation=0.5, faults=fs.Faults(absent=0.2, liars=[2]))
    one, two = (algo.train(FLEET, 33, runs=2, engine=engine, threads=2) for engine in ("reference", "ray"))
    for name in ("central", "local", "final", "drift"):
        np.testing.assert_allclose(two.data[name], one.data[name], rtol=0, atol=1e-12, err_msg=name)


def test_environments_of_those_who_are_not_asked_stand_still():
    group = fs.GymFleet([fs.GymWorld("CartPole-v1", max_episode_steps=10)] * AGENTS, processes=0)
    algo = fs.FedSARSA(
        fs.FourierBasis(1, bounds=fs.control.CartPole().bounds), fs.Softmax(0.5), 0.1, 5, participation=0.5
    )
    problem = algo.problem(group, 100, 2, 0)
    counted = sum(taking_part(problem, begun).astype(int) for begun in range(0, 100, 5))
    history = algo.train(group, 100, runs=2)
    # All steps of those who took part are in episodes that have ended, but for the last one.
    steps = history.data.lengths.sum("bin").values
    assert (steps <= 5 * counted).all()
    assert (steps > 5 * counted - 10).all()
    whole = replace(algo, participation=1.0).train(group, 100, runs=2).data.lengths.sum("bin").values
    assert (whole > 90).all()


def test_a_share_of_the_agents_is_asked_and_everybody_in_turn():
    problem = replace(ALGO, participation=0.5).problem(FLEET, 10_000, 3, seed=1)
    rounds = np.stack([taking_part(problem, begun) for begun in range(0, 10_000, 5)])
    assert (rounds.sum(axis=2) == 3).all()
    # Each agent's share of 2000 rounds in 3 runs: within five standard errors of a half.
    assert np.abs(rounds.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(2000)
    again = taking_part(problem, 15)
    np.testing.assert_array_equal(again, rounds[3])
    assert not (rounds[:, 0] == rounds[:, 1]).all()


def test_absent_agents_are_missing_by_chance():
    problem = replace(ALGO, faults=fs.Faults(absent=0.3)).problem(FLEET, 10_000, 2, seed=1)
    rounds = np.stack([taking_part(problem, begun) for begun in range(0, 10_000, 5)])
    count = rounds.size
    assert abs(rounds.mean() - 0.7) < 5 * np.sqrt(0.21 / count)


def test_a_round_without_anybody_changes_nothing():
    algo = replace(ALGO, faults=fs.Faults(absent=0.9))
    history = algo.train(FLEET, 200, runs=1)
    problem = algo.problem(FLEET, 200, 1, 0)
    empty = [t for t in range(0, 200, 5) if not taking_part(problem, t).any()]
    assert len(empty) > 3
    for t in empty:
        np.testing.assert_array_equal(history.central.sel(t=t + 5), history.central.sel(t=t))


def test_what_liars_send():
    problem = replace(ALGO, faults=fs.Faults(liars=[1], lie=-2.0)).problem(FLEET, 10, 1, 0)
    before, theta = np.array([[1.0, 0.0]]), np.zeros((1, AGENTS, 2))
    theta[0, 1] = [2.0, 1.0]
    sent = participation.sent(problem, before, theta)
    assert sent[0, 1].tolist() == [-1.0, -2.0]
    assert theta[0, 1].tolist() == [2.0, 1.0]


def test_a_median_withstands_a_liar_that_a_mean_does_not():
    target = fs.theory.federated_point(FLEET, ALGO.features, ALGO.policy)
    honest, mean, median = (
        float(replace(ALGO, **options).train(FLEET, 2000, runs=2).mse(target)[:, -20:].mean())
        for options in (
            {},
            {"faults": fs.Faults(liars=[0], lie=-8.0)},
            {"faults": fs.Faults(liars=[0], lie=-8.0), "server": fs.servers.Median()},
        )
    )
    assert mean > 10 * honest
    assert median < mean / 5


def test_noise_is_that_of_its_share_and_seed():
    rule = fs.servers.PrivateMean(clip=0.5, noise=2.0)
    before, after = np.zeros((1, 20_000)), np.zeros((1, 5, 20_000))
    after[0, 0, 0] = 9.0
    normal = np.random.default_rng(0).standard_normal((1, 20_000))

    def combined(before, present=None):
        return rule.combine(before, after, context_of(after, present, noise=normal))

    np.testing.assert_allclose(combined(before)[0, 1:], 0.2 * normal[0, 1:])
    noisy = combined(before, np.array([[True, True, True, False, False]]))
    assert noisy[0, 0] == pytest.approx(0.5 / 3 + normal[0, 0] / 3)
    np.testing.assert_allclose(noisy[0, 1:], normal[0, 1:] / 3)
    nobody = np.zeros((1, 5), np.bool)
    np.testing.assert_array_equal(combined(before + 1, nobody), before + 1)
    algo = replace(ALGO, server=rule)
    one, same, other = (algo.train(FLEET, 50, runs=1, seed=seed).final for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one, other)


def test_a_deployment_and_a_simulation_ask_the_same_agents():
    """Nodes are numbers of any size; their order decides."""
    problem = replace(ALGO, participation=0.5).problem(FLEET, 100, 1, seed=7)
    nodes = np.sort(np.random.default_rng(0).integers(2**63, size=AGENTS)).astype(np.uint64)
    for number in range(1, 20):
        asked = participation.sample(7, number, 0, nodes, problem.asked)
        places = np.searchsorted(nodes, np.array(asked, np.uint64))
        assert np.flatnonzero(taking_part(problem, (number - 1) * 5)[0]).tolist() == places.tolist()


def test_participation_is_part_of_a_checkpoint(tmp_path):
    path = tmp_path / "training.nc"
    algo = replace(ALGO, participation=0.5)
    whole = algo.train(FLEET, 100, runs=2)
    algo.train(FLEET, 100, runs=2, checkpoint=path, callback=lambda e: e.t == 50 and e.stop())
    resumed = algo.train(FLEET, 100, runs=2, checkpoint=path)
    np.testing.assert_array_equal(resumed.local, whole.local)
    with pytest.raises(ValueError, match="checkpoint"):
        ALGO.train(FLEET, 100, runs=2, checkpoint=path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: replace(ALGO, participation=0), r"participation must be a number in \(0, 1\], got 0"),
        (lambda: replace(ALGO, participation=1.5), "participation must be"),
        (lambda: replace(ALGO, faults=0.1), "faults must be a Faults, got 0.1"),
        (lambda: fs.Faults(absent=1.0), r"absent must be a number in \[0, 1\), got 1.0"),
        (lambda: fs.Faults(liars=3), "liars must be a sequence"),
        (lambda: fs.Faults(liars=[1, 1]), "liars must be different agents"),
        (lambda: fs.Faults(lie=np.inf), "lie must be a finite number"),
        (
            lambda: replace(ALGO, faults=fs.Faults(liars=[6])).train(FLEET, 10),
            "liars must be below the 6 agents",
        ),
        (
            lambda: replace(ALGO, participation=0.5, sync_every=None).train(FLEET, 10),
            "participation and faults need rounds: set sync_every, got None",
        ),
        (
            lambda: replace(ALGO, faults=fs.Faults(absent=0.1), server=fs.servers.PrivateMean()).train(
                FLEET, 10
            ),
            "absent must be 0 with PrivateMean",
        ),
        (lambda: fs.servers.PrivateMean(clip=0.0), "clip must be a positive number"),
        (lambda: fs.servers.PrivateMean(noise=-1.0), "noise must be a positive number"),
        (
            lambda: fs.FedSARSA(fs.FourierBasis(1, bounds=(-3.0, 3.0)), participation=0.5).train(
                fs.GymFleet([fs.GymWorld("CartPole-v1")] * 4, vector=True), 10
            ),
            "vector must be False where not all agents take part",
        ),
    ],
)
def test_mistakes(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
