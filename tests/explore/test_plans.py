"""Plans: their numbers, their words, and what trains them."""

from dataclasses import replace

import pytest

import fedsarsa as fs
from fedsarsa.explore import control_values, measurements, plans
from fedsarsa.explore.plan_view import CONTROLS
from tests.explore.pages import CONTROLS as FEDERATION

SMALL = "fleet.agents=4&fleet.eps_p=0.1&fleet.eps_r=0.1&fleet.states=10&fleet.actions=10"


@pytest.fixture(scope="module")
def base():
    return control_values.base_of()


@pytest.fixture(scope="module")
def config(base):
    values, errors = control_values.from_query(SMALL + "&training.runs=3", base, CONTROLS)
    assert errors == {}  # what other views have is left to them
    del values["target"]
    return control_values.config_of(base, values)


@pytest.fixture(scope="module")
def answer(config):
    fleet, algo = config.build(None)
    return fs.theory.plan(fleet, algo, 2.0, agents=[1, 4], periods=[1, 10], step_sizes=[0.01, 0.02])


def test_a_plan_is_told_in_its_numbers(answer):
    shown = plans.planned(answer, 4)
    assert shown.samples == answer.agents * answer.steps
    assert shown.helps == int(answer.verdicts["helps"].sum())
    words = shown.sentence()
    for part in (f"train {answer.agents} of 4 agents", f"K = {answer.sync_every}", f"{answer.step_size:g}"):
        assert part in words
    assert f"predicts an error of {answer.error:.3g}" in words
    assert f"If all 4 agents federated for as many steps, {shown.helps} of them would gain" in words
    assert "none of them would gain" in replace(shown, helps=0).sentence()


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1.0, 1.9, "is reached"),
        (2.1, 3.0, "is missed"),
        (1.9, 2.1, "from one side of the target to the other"),
    ],
)
def test_training_meets_a_target_or_misses_it(answer, low, high, words):
    said = plans.planned(answer, 4).verdict(2.0, low, high)
    assert said.startswith(f"Trained: 2 (95%: {low:.3g} to {high:.3g}); ")
    assert words in said


def test_a_plan_is_trained_as_it_says(base, answer):
    shown = plans.planned(answer, 4)
    values, _ = control_values.from_query(SMALL, base, FEDERATION)
    config = control_values.config_of(base, values | shown.values())
    trained = measurements.train(config)
    assert len(trained.fleet) == answer.agents
    assert trained.steps == answer.steps
    assert trained.algo.sync_every == answer.sync_every
    assert trained.algo.step_size == answer.step_size
    # Ten runs: their mean is within three standard errors of the prediction but for 2 in 100 seeds.
    last = trained.error().isel(t=-1)
    assert abs(float(last.mean()) - answer.error) < 3 * float(last.std("run", ddof=1)) / 10**0.5


def test_a_target_out_of_reach_is_an_error(config):
    with pytest.raises(ValueError, match="target must be below the error before training"):
        next(plans.plan(config, None, 1e9))
