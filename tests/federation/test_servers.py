"""Server rules: their definitions, the same trainings in every engine, agents that are missing, bad input."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fedsarsa as fs
from fedsarsa.federation import checkpoint
from fedsarsa.federation.servers import RULES, check
from fedsarsa.federation.servers.projection import project
from tests.contexts import context_of
from tests.federation.trainings import AGENTS, carts, finite

ROBUST = [fs.servers.Median(), fs.servers.TrimmedMean(0.2), fs.servers.Krum(1)]
RUNS, DIM = 3, 4


def parameters(seed=0, agents=AGENTS):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(RUNS, DIM)), rng.normal(size=(RUNS, agents, DIM))


def krum(theta, liars):
    """Blanchard et al., agent by agent."""
    scores = []
    for i, own in enumerate(theta):
        distances = sorted(np.sum((own - other) ** 2) for j, other in enumerate(theta) if j != i)
        scores.append(sum(distances[: len(theta) - liars - 2]))
    return theta[int(np.argmin(scores))]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (fs.servers.Mean(), lambda theta: theta.mean(axis=0)),
        (fs.servers.Mean([0.4, *[0.1] * 6]), lambda theta: 0.3 * theta[0] + 0.1 * theta.sum(axis=0)),
        (fs.servers.Median(), lambda theta: np.sort(theta, axis=0)[3]),
        (fs.servers.TrimmedMean(0.3), lambda theta: stats.trim_mean(theta, 0.3)),
        (fs.servers.Krum(2), lambda theta: krum(theta, 2)),
    ],
)
def test_a_rule_is_its_definition_in_every_run(rule, expected):
    before, after = parameters()
    np.testing.assert_allclose(
        rule.combine(before, after, context_of(after)), [expected(theta) for theta in after], atol=1e-14
    )


@pytest.mark.parametrize("name", ["Median", "TrimmedMean", "Krum"])
def test_rules_are_flowers(name):
    """The rules that Flower has, too, with its numbers."""
    strategies = pytest.importorskip("flwr.serverapp.strategy")
    from flwr.app import Array, ArrayRecord, Metadata, MetricRecord, RecordDict
    from flwr.app.message import make_message

    theirs, ours = {
        "Median": (strategies.FedMedian(), fs.servers.Median()),
        "TrimmedMean": (strategies.FedTrimmedAvg(beta=0.3), fs.servers.TrimmedMean(0.3)),
        "Krum": (strategies.Krum(num_malicious_nodes=2), fs.servers.Krum(2)),
    }[name]
    before, after = parameters()
    replies = [
        make_message(
            Metadata(1, "", number, 1, "question", "", 0.0, 60.0, "train"),
            RecordDict(
                {
                    "arrays": ArrayRecord({"theta": Array(theta)}),
                    "metrics": MetricRecord({"num-examples": 1.0}),
                }
            ),
        )
        for number, theta in enumerate(after[0], start=2)
    ]
    arrays, _ = theirs.aggregate_train(1, replies)
    (seen,) = ours.combine(before[:1], after[:1], context_of(after[:1]))
    np.testing.assert_allclose(seen, arrays["theta"].numpy(), atol=1e-14)


@pytest.mark.parametrize("rule", [*ROBUST, fs.servers.Median(radius=0.5)], ids=repr)
@pytest.mark.parametrize("world", [finite, carts])
@pytest.mark.parametrize("threads", [1, 2])
def test_engines_agree(world, rule, threads):
    fleet, algo = world()
    algo = replace(algo, server=rule)
    expected = algo.train(fleet, steps=60, runs=2, engine="reference")
    seen = algo.train(fleet, steps=60, runs=2, threads=threads)
    for name in ("central", "drift", "final", "local"):
        np.testing.assert_allclose(seen.data[name], expected.data[name], rtol=0, atol=1e-12, err_msg=name)
    plain = replace(algo, server=None).train(fleet, steps=60, runs=2)
    assert np.abs(plain.final - seen.final).max() > 1e-6  # it is another rule


def test_theta_tilde_is_kept_with_every_rule():
    fleet, algo = finite()
    algo = replace(algo, server=fs.servers.Median(), step_size=fs.LinearDecay(2.0, 100.0))
    expected = algo.train(fleet, steps=60, runs=2, engine="reference")
    np.testing.assert_allclose(algo.train(fleet, steps=60, runs=2).averaged, expected.averaged, atol=1e-12)


def test_a_mean_may_be_given_either_way():
    fleet, _ = finite()
    weights = np.arange(1.0, AGENTS + 1) / (AGENTS * (AGENTS + 1) / 2)
    one = fs.FedSARSA(weights=weights, radius=0.3).train(fleet, steps=50, runs=1)
    other = fs.FedSARSA(server=fs.servers.Mean(weights, 0.3)).train(fleet, steps=50, runs=1)
    np.testing.assert_array_equal(one.central, other.central)


@pytest.mark.parametrize("rule", [fs.servers.Mean(), *ROBUST], ids=repr)
def test_agents_that_are_missing_are_left_out(rule):
    before, after = parameters()
    present = np.ones((RUNS, AGENTS), bool)
    present[0, [1, 4]] = False
    present[1] = False
    after[~present] = np.nan  # whatever is there is not read
    with np.errstate(invalid="ignore"):
        seen = rule.combine(before, np.where(present[..., None], after, 1e300), context_of(after, present))
    there, last = after[:1, present[0]], after[2:]
    np.testing.assert_allclose(seen[0], rule.combine(before[:1], there, context_of(there))[0], rtol=1e-14)
    np.testing.assert_array_equal(seen[1], before[1])  # nobody came
    np.testing.assert_array_equal(seen[2], rule.combine(before[2:], last, context_of(last))[0])


def test_with_too_few_agents_the_server_keeps_its_parameter():
    before, after = parameters()
    present = np.ones((RUNS, AGENTS), bool)
    present[0, 4:] = False
    seen = fs.servers.Krum(1).combine(before, after, context_of(after, present))
    np.testing.assert_array_equal(seen[0], before[0])
    assert not np.array_equal(seen[1], before[1])


def test_projection_is_onto_the_ball_whatever_the_size():
    theta = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [3e200, 4e200]])
    np.testing.assert_allclose(project(theta, 1.0), [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.6, 0.8]])
    assert project(theta, None) is theta


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fs.servers.TrimmedMean(0.5), r"share must be a number in \(0, 0\.5\), got 0\.5"),
        (lambda: fs.servers.Krum(-1), "liars must be an integer of at least 0, got -1"),
        (lambda: fs.servers.Median(radius=0), "radius must be"),
        (lambda: fs.servers.Mean([0.5, 0.6]), "weights"),
        (lambda: fs.FedSARSA(server=fs.servers.Median(), radius=1.0), "weights and radius must be arguments"),
        (lambda: fs.FedSARSA(server="median"), "server must be one of Mean, Median, TrimmedMean, Krum"),
        (lambda: fs.FedSARSA(server=fs.servers.Median), "server must be one of Mean, Median, TrimmedMean"),
        (
            lambda: fs.FedSARSA(server=fs.servers.Krum(2)).train(fs.paper.fleet(3), 10),
            r"server: Krum\(liars=2, radius=None\) needs at least 7 agents, got 3",
        ),
        (
            lambda: fs.theory.predict(fs.paper.fleet(3), fs.FedSARSA(server=fs.servers.Median()), 10),
            "server must be the mean",
        ),
    ],
)
def test_bad_input_is_one_sentence(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_every_rule_says_how_many_agents_it_needs():
    for rule in RULES.values():
        made = rule()
        check(made, made.fewest)
        if made.fewest > 1:
            with pytest.raises(ValueError, match=f"needs at least {made.fewest} agents"):
                check(made, made.fewest - 1)


class Shouted(fs.servers.Mean):
    """A mean of its own."""

    def combine(self, before, after, context):
        return 2 * super().combine(before, after, context)


def test_a_mean_of_ones_own_is_not_taken_for_the_mean():
    fleet, algo = finite()
    one, two = (
        replace(algo, server=Shouted()).train(fleet, 21, runs=1, engine=engine)
        for engine in ("cpu", "reference")
    )
    np.testing.assert_allclose(one.central, two.central, rtol=0, atol=1e-12)
    assert np.abs(one.final - algo.train(fleet, 21, runs=1).final).max() > 1e-6


@pytest.mark.parametrize("sync_every", [1, 5])
@pytest.mark.parametrize("rule", ROBUST, ids=repr)
def test_a_run_in_which_one_agent_overflows_fails_in_every_engine(rule, sync_every):
    fleet, algo = finite()
    sizes = [0.05] * (AGENTS - 1) + [1e308]
    algo = replace(algo, server=rule, step_size=sizes, sync_every=sync_every)
    one, two = (algo.train(fleet, 40, runs=2, engine=engine) for engine in ("reference", "cpu"))
    assert (one.failed_at >= 0).all()
    np.testing.assert_array_equal(one.failed_at, two.failed_at)
    np.testing.assert_array_equal(np.isnan(one.drift), np.isnan(two.drift))


def test_a_rule_is_part_of_a_checkpoint():
    fleet, algo = finite()
    problems = [
        replace(algo, server=server).problem(fleet, 20, 1, 0)
        for server in (fs.servers.Krum(1), fs.servers.Krum(2), fs.servers.Median(), None)
    ]
    marks = {repr(checkpoint.fingerprint(problem, "cpu", np.zeros(6), 1)) for problem in problems}
    assert len(marks) == 4
