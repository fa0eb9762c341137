from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.theory import personal_plan, personal_weights, plan
from tests.theory.against_training import ring, small_fleet

ALGO = fs.FedSARSA(fs.ModuloFeatures(4, 3))
SIZES = [0.005, 0.02, 0.05]


def samples(answer, way):
    return answer.table["samples"].sel(way=way).values


def test_personal_weights_expedite():
    """Samples of every agent: never more than alone, and for most far fewer."""
    answer = personal_plan(small_fleet(5, level=0.2), ALGO, 0.4, step_sizes=SIZES)
    assert (samples(answer, "personal") <= samples(answer, "alone")).all()
    assert np.median(samples(answer, "alone") / samples(answer, "personal")) > 1.5
    assert np.isinf(samples(answer, "together")).any()  # one parameter does not suit all of them
    assert (answer.mixture.personal <= 0.4).all()
    assert answer.steps == answer.mixture.steps
    # Mixtures bear more noise.
    best = answer.table["step_size"]
    assert (best.sel(way="personal") >= best.sel(way="alone")).all()
    assert (best.sel(way="personal") > best.sel(way="alone")).any()


def test_samples_are_those_of_full_predictions():
    """First order and a sixteenth: at the samples given, the whole prediction is near the target."""
    fleet, target = small_fleet(3, level=0.5), 0.4
    answer = personal_plan(fleet, ALGO, target, step_sizes=SIZES)
    for way in ("alone", "together", "personal"):
        for agent in range(3):
            count = samples(answer, way)[agent]
            if np.isinf(count):
                continue
            size = float(answer.table["step_size"].sel(way=way, agent=agent))
            algo = replace(ALGO, step_size=size, sync_every=1)
            there = getattr(personal_weights(fleet, algo, int(count)), way)[agent]
            before = getattr(personal_weights(fleet, algo, int(0.8 * count)), way)[agent]
            assert there <= 1.1 * target
            assert before >= 0.9 * target


def test_equal_agents_gain_as_many_times_as_they_are():
    """Noise is all that is left, and step sizes to the target go with it; together is no different."""
    sizes = np.geomspace(0.0005, 0.02, 20)
    answer = personal_plan(small_fleet(4, level=0.0), ALGO, 0.1, step_sizes=sizes)
    gain = samples(answer, "alone") / samples(answer, "personal")
    np.testing.assert_allclose(gain, 4, rtol=0.2)
    np.testing.assert_allclose(samples(answer, "together"), samples(answer, "personal"), rtol=0.07)


def test_a_target_that_no_federation_reaches():
    fleet = small_fleet(4, level=2.0)
    with pytest.raises(ValueError, match="target must be at least"):
        plan(fleet, ALGO, 1.5, agents=[4], step_sizes=SIZES)
    answer = personal_plan(fleet, ALGO, 1.5, step_sizes=SIZES)
    assert np.isinf(samples(answer, "together")).all()
    assert np.isfinite(samples(answer, "personal")).all()
    assert "never" in str(answer)


def test_agents_that_reach_the_target_while_others_do_not():
    """One agent of another kind has nobody to listen to."""
    world = small_fleet(1)[0]
    other = fs.FiniteMDP(world.kernel, -np.asarray(world.reward), world.discount)
    answer = personal_plan([world] * 4 + [other], ALGO, 0.4, step_sizes=[0.02], most_steps=50_000)
    assert np.isfinite(samples(answer, "personal")).tolist() == [True] * 4 + [False]
    assert "agents that do      4 of 5" in str(answer)


def test_a_fleet_of_one():
    answer = personal_plan(small_fleet(1), ALGO, 0.4, step_sizes=SIZES)
    np.testing.assert_array_equal(samples(answer, "personal"), samples(answer, "alone"))
    np.testing.assert_array_equal(samples(answer, "together"), samples(answer, "alone"))


def test_what_is_shown():
    answer = personal_plan(small_fleet(2), ALGO, 2.0, step_sizes=[0.02])
    assert repr(answer).startswith("PersonalPlan(target 2: step_size 0.02, steps ")
    assert [line.split()[0] for line in str(answer).splitlines()[-2:]] == ["0", "1"]


def test_warnings_are_kept_not_told():
    """As those of a plan; tests take a warning for an error."""
    fleet, algo = fs.Fleet([ring(15), ring(15, seed=1)]), fs.FedSARSA(fs.OneHot(), fs.Softmax(20.0))
    answer = personal_plan(fleet, algo, 3.0, step_sizes=[0.05])
    assert "while the chain still mixes" in answer.mixture.warnings[0]
    assert f"warning: {answer.mixture.warnings[0]}" in str(answer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": 0.0}, "target must be a positive number, got 0.0"),
        ({"target": 1e9}, r"target must be below the error before training, \S+, got 1e\+09"),
        (
            {"target": 1e-9},
            r"target must be at least \S+, the smallest error that an agent reaches within 2000",
        ),
        ({"step_sizes": []}, "step_sizes must be a list with at least one value"),
        ({"step_sizes": [-1.0]}, "step_sizes must be a positive number, got -1.0"),
        ({"most_steps": 0}, "most_steps must be an integer of at least 1, got 0"),
        ({"algo": fs.FedSARSA(policy=fs.Greedy())}, "policy must change smoothly"),
    ],
)
def test_bad_input(change, message):
    arguments = {"algo": ALGO, "target": 0.3, "most_steps": 2_000} | change
    with pytest.raises((ValueError, TypeError), match=message):
        personal_plan(small_fleet(2), **arguments)
