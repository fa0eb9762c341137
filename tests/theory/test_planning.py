import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import fixed_point, plan, predict
from fedsarsa.theory.affine import errors, rounds_until
from fedsarsa.theory.linearisation import linearise
from fedsarsa.theory.planning_problem import linearised_federation, planning_problem
from fedsarsa.theory.return_gaps import error_for_gap
from tests.theory.against_training import ring

ALGO = fs.FedSARSA(fs.ModuloFeatures(4, 3))


def fleet(agents=6, level=0.1, seed=1):
    return fs.paper.fleet(agents, level, level, seed=seed, states=20, actions=10)


@pytest.mark.slow
def test_a_plan_keeps_its_promise():
    worlds, target = fleet(), 0.1
    answer = plan(worlds, ALGO, target)
    assert answer.agents > 1
    algo = fs.FedSARSA(ALGO.features, ALGO.policy, answer.step_size, answer.sync_every)
    history = algo.train(worlds[: answer.agents], steps=answer.steps, runs=400, engine="cpu", threads=1)
    reference = fixed_point(worlds[0], ALGO.features, ALGO.policy)
    errors = ((history.final - reference) ** 2).sum("d")
    deviation = float(errors.std()) / 20
    assert float(errors.mean()) == pytest.approx(answer.error, rel=0.05, abs=3 * deviation)
    assert 0.8 * target < answer.error <= target


@pytest.mark.slow
def test_verdicts_agree_with_training():
    """One agent that should personalise at some point, before and after it."""
    worlds = fleet(level=0.5)
    answer = plan(worlds, ALGO, 0.5)
    switch = answer.verdicts["switch_steps"]
    agent = int(np.argmin(np.where(switch > 0, switch, np.inf)))
    own = fixed_point(worlds[agent], ALGO.features, ALGO.policy)
    for factor, federated_wins in ((0.2, True), (5, False)):
        steps = int(factor * float(switch[agent])) // answer.sync_every * answer.sync_every
        assert steps > 0
        best = {}
        for name, group in (("federated", worlds), ("alone", fs.Fleet([worlds[agent]]))):
            curves = []
            for step_size in answer.choices["step_size"].values:
                algo = fs.FedSARSA(ALGO.features, ALGO.policy, float(step_size), answer.sync_every)
                history = algo.train(group, steps=steps, runs=60, engine="cpu", threads=1, record_every=10**9)
                curves.append(float(((history.final - own) ** 2).sum("d").mean()))
            best[name] = min(curves)
        assert (best["federated"] < best["alone"]) == federated_wins


def test_equal_agents_should_all_federate():
    answer = plan(fleet(level=0.0), ALGO, 0.05)
    assert answer.agents == 6
    assert answer.verdicts["helps"].all()
    assert np.isinf(answer.verdicts["switch_steps"]).all()
    assert str(answer).count("   gains by federating\n") == 5


def test_very_different_agents_should_learn_alone_when_the_target_is_fine():
    answer = plan(fleet(level=2.0), ALGO, 0.05)
    assert (answer.agents, answer.uploads) == (1, 0)
    assert not answer.verdicts["helps"].any()
    # Agents that differ have an accuracy from which on their own data win, at a finite number of samples.
    assert np.isfinite(answer.verdicts["switch_steps"]).all()


def test_communication_is_least_among_the_fastest():
    worlds = fleet()
    answer = plan(worlds, ALGO, 0.1)
    fastest = float(answer.choices["steps"].min())
    assert answer.steps <= 1.1 * fastest * 17 / 16 + answer.sync_every
    tight = plan(worlds, ALGO, 0.1, periods=[1, 2])
    assert answer.uploads < tight.uploads
    assert answer.rounds == answer.steps // answer.sync_every
    # A setting with as many uploads and K = 1 would need a far larger T.
    often = predict(worlds, fs.FedSARSA(ALGO.features, ALGO.policy, answer.step_size, 1), answer.rounds)
    assert float(often.mse[-1]) > 2 * answer.target


def test_given_choices_are_kept_to():
    answer = plan(fleet(), ALGO, 0.5, agents=[3], periods=[7], step_sizes=[0.04])
    assert (answer.agents, answer.sync_every, answer.step_size) == (3, 7, 0.04)
    assert answer.steps % 7 == 0


def test_weights_of_the_first_agents_are_rescaled():
    weights = [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]
    problem = planning_problem(fleet(), fs.FedSARSA(ALGO.features, weights=weights), None)
    np.testing.assert_allclose(problem.setting(2, 1, 0.1).weights, [5 / 6, 1 / 6])


def test_one_agent_alone():
    answer = plan(fs.Fleet([ring(6)]), fs.FedSARSA(fs.OneHot()), 10.0)
    assert (answer.agents, answer.sync_every) == (1, 1)
    assert "learns alone" in str(answer)


@pytest.mark.slow
def test_unreachable_targets_name_what_can_be_reached():
    with pytest.raises(
        ValueError, match=r"target must be at least (\S+), .* within 3000 steps .* got 1e-05"
    ) as caught:
        plan(fleet(), ALGO, 1e-5, most_steps=3_000)
    least = float(caught.value.args[0].split()[5].rstrip(","))
    answer = plan(fleet(), ALGO, 1.1 * least, most_steps=3_000)
    assert answer.error <= 1.1 * least


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, "target must be a positive number, got 0.0"),
        ({"target": 1e9}, r"target must be below the error before training, \S+, got 1e\+09"),
        ({"agents": [9]}, "agents must be at most 6, got 9"),
        ({"periods": [0]}, "periods must be an integer of at least 1, got 0"),
        ({"step_sizes": [-1.0]}, "step_sizes must be a positive number, got -1.0"),
        ({"slack": -0.5}, "slack must be at least 0, got -0.5"),
        ({"most_steps": 0}, "most_steps must be an integer of at least 1, got 0"),
        ({"reference": [1.0]}, r"reference must have shape \(12,\), got \(1,\)"),
        ({"algo": fs.FedSARSA(policy=fs.Greedy())}, "policy must change smoothly"),
    ],
)
def test_bad_input(change, message):
    arguments = {"algo": ALGO, "target": 0.3} | change
    with pytest.raises(ValueError, match=message):
        plan(fleet(), **arguments)


def test_rounds_until_matches_step_by_step():
    problem = planning_problem(fleet(2), ALGO, None)
    step = problem.linearised(2).round(0.1, 5)
    curve = [float(errors(step.power(n), problem.start, problem.reference)) for n in range(1, 400)]
    target = curve[150]
    rounds, least = rounds_until(step, problem.start, problem.reference, target, 400)
    assert 151 <= rounds <= 151 * 17 / 16
    assert least <= target
    assert rounds_until(step, problem.start, problem.reference, 0.0, 400)[0] == np.inf


def test_a_linearised_federation_has_the_federated_point_as_root():
    problem = planning_problem(fleet(4), ALGO, None)
    np.testing.assert_allclose(problem.linearised(4).root(), problem.root(4), atol=1e-9)
    point = problem.classes.at(problem.own_points[2])
    own = linearised_federation([linearise(problem.worlds[2], point)], problem.linearised(1).groups)
    np.testing.assert_allclose(own.root(), problem.own_points[2], atol=1e-9)


def test_a_target_that_is_reachable_is_reached():
    def random_world(seed):
        rng = np.random.default_rng(seed)
        return fs.FiniteMDP(rng.dirichlet(np.ones(3), size=(2, 3)), rng.uniform(0, 1, (3, 2)), 0.5)

    fleet = fs.Fleet([random_world(2300), random_world(2301)])
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(50.0))
    for target in (0.02, 0.015, 0.01):
        assert fs.theory.plan(fleet, algo, target=target).error <= target


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": []}, r"agents must be a list with at least one value, got \[\]"),
        ({"agents": 2}, "agents must be a list with at least one value, got 2"),
        ({"periods": []}, r"periods must be a list with at least one value, got \[\]"),
        ({"step_sizes": []}, r"step_sizes must be a list with at least one value, got \[\]"),
        ({"periods": [10**7]}, "periods must be at most 1000000, got 10000000"),
    ],
)
def test_bad_candidates(options, message):
    fleet = fs.paper.fleet(2, states=10, actions=5)
    with pytest.raises((ValueError, TypeError), match=message):
        fs.theory.plan(fleet, fs.FedSARSA(), target=1.0, **options)


def test_steps_that_diverge_are_passed_over():
    answer = plan(fleet(3), ALGO, 5.0, step_sizes=[50.0, 0.05, 1e6])
    assert answer.step_size == 0.05
    assert np.isinf(answer.choices["steps"].sel(step_size=[50.0, 1e6])).all()
    with pytest.raises(ValueError, match="target must be at least"):
        plan(fleet(3), ALGO, 5.0, step_sizes=[50.0])


def test_the_table_and_the_headline_agree():
    answer = plan(fleet(), ALGO, 0.1, agents=[1, 5], periods=[100], step_sizes=[0.01])
    (row,) = [line for line in str(answer).splitlines() if line.endswith("this plan")]
    assert row.split()[:2] == [str(answer.agents), str(answer.steps)]


def test_a_return_gap_becomes_an_error():
    rng = np.random.default_rng(3)
    kernel, reward = rng.dirichlet(np.ones(4), size=(3, 4)), rng.random((4, 3))
    worlds = fs.Fleet([fs.FiniteMDP(kernel, reward, 0.7)] * 3)
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(5.0))
    theta = fixed_point(worlds[0], algo.features, algo.policy)
    first = float((theta**2).sum())
    allowed = [error_for_gap(worlds, algo, theta, gap, first) for gap in (0.02, 0.1, 0.3)]
    assert 0 < allowed[0] < allowed[1] < allowed[2] < first
    # By hand, in other random directions: 300 of them know the mean gap to a tenth.
    noise = np.random.default_rng(1).normal(size=(300, len(theta))) * np.sqrt(allowed[1] / len(theta))
    gaps = [float(fs.evaluate(worlds[:1], algo, theta + z, greedy=True).gap[0]) for z in noise]
    assert np.mean(gaps) == pytest.approx(0.1, rel=0.5)  # 32 draws decided
    with pytest.raises(ValueError, match=r"gap must be at least 0\.\d+, .* at the reference"):
        plan(fleet(), ALGO, gap=0.001)
    with pytest.raises(ValueError, match="expected either target or gap, got None and None"):
        plan(fleet(), ALGO)
    answer = plan(worlds, algo, gap=0.3, agents=[1, 3], periods=[10], step_sizes=[0.02])
    assert answer.target == pytest.approx(allowed[2])
    assert "at which greedy returns are 0.3 below the optimum" in str(answer)


@pytest.mark.parametrize(
    ("gap", "message"),
    [
        (0.4664, r"gap must be below 0\.4465, which an untrained policy already reaches, got 0\.4664"),
        (0.45, r"gap must be below 0\.4465, which an untrained policy already reaches, got 0\.45"),
        (0.09, r"gap must be at least 0\.1006, .* at an error of 0\.00153, 1e-06 of that before training"),
        (0.15, r"gap must allow an error that is at least \S+, .* got 0\.15, which allows 0\.3214"),
    ],
)
def test_gaps_that_say_nothing_or_cannot_be_reached(gap, message):
    """An untrained policy's gap was planned for with one step, and errors spoke of a target nobody gave."""
    worlds = fs.paper.fleet(5, 0.1, 0.1, states=10, actions=5)
    with pytest.raises(ValueError, match=message):
        plan(worlds, fs.FedSARSA(), gap=gap, most_steps=100, periods=[1, 10])


def test_a_plan_waits_for_trainings_that_learn_late():
    """Noise moves the policies of these worlds: after 1400 steps the mean error is 0.13, predicted 0.079."""
    rng = np.random.default_rng(3)
    kernel, reward = rng.dirichlet(np.ones(4), size=(3, 4)), rng.random((4, 3))
    worlds = []
    for _ in range(3):
        own = 0.9 * kernel + 0.1 * rng.dirichlet(np.ones(4), size=(3, 4))
        worlds.append(fs.FiniteMDP(own, np.clip(reward + 0.05 * rng.normal(size=(4, 3)), 0, 1), 0.7))
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(0.5), step_size=0.2, sync_every=200)
    answer = plan(fs.Fleet(worlds), algo, 0.098, agents=[3], periods=[200], step_sizes=[0.2])
    assert answer.steps > 1400
    history = algo.train(worlds, steps=answer.steps, runs=400, threads=1)
    reference = fixed_point(worlds[0], algo.features, algo.policy)
    errors = ((history.final - reference) ** 2).sum("d")
    assert float(errors.mean()) <= answer.target + 2 * float(errors.std()) / 20


def test_curves_that_are_no_numbers_diverge():
    """They ended a plan with "cannot convert float NaN to integer"."""
    worlds = fs.paper.fleet(4, 0.3, 0.3, seed=3, states=5, actions=3)
    problem = planning_problem(worlds, fs.FedSARSA(fs.OneHot(), fs.Softmax(0.5)), None)
    steps, errors = problem.curve(agents=4, sync_every=1000, step_size=0.05, steps=4000)
    assert len(steps) == len(errors)
    assert np.isfinite(errors).all()
