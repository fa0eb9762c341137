"""Verdicts on made-up data where the truth is known, also where a claim is false."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import fedsarsa as fs
from fedsarsa.experiments.reproduction import (
    claim,
    claims,
    collaboration_claims,
    figure_claims,
    theory_claims,
)
from fedsarsa.experiments.reproduction.exact import Exact
from fedsarsa.experiments.reproduction.settings import FULL
from fedsarsa.experiments.statistics import Estimate, floor, floor_around

TIMES = np.arange(0, 20_001, 100)
RUNS = 10
RATE = 1e-3


def curves(floors, **coords):
    """Error curves that fall from 30 at a known rate to ``floors`` (...), with noise of 10% per run."""
    noise = 1 + 0.1 * np.random.default_rng(0).normal(size=(RUNS, 1))
    levels = np.asarray(floors, dtype=float)[..., None, None]
    values = levels * noise + 30 * np.exp(-RATE * TIMES)
    return xr.Dataset({"error": ((*coords, "run", "t"), values)}, coords={**coords, "t": TIMES})


def grid(floor):
    """The grid of the paper with ``floor(eps_p, eps_r, N)``."""
    levels, sizes = FULL.levels, FULL.sizes
    floors = [[[floor(p, r, n) for n in sizes] for r in levels] for p in levels]
    return curves(floors, eps_p=list(levels), eps_r=list(levels), agents=list(sizes))


def as_published(p, r, n):
    return 1 / n + 10 * r**2 * (n > 1)


def test_rate_of_the_exponential():
    judged = theory_claims.ball(grid(as_published), FULL)
    assert judged.measured.value == pytest.approx(RATE, rel=0.1)
    assert judged.verdict == claim.HOLDS


def test_a_power_law_is_no_exponential():
    data = grid(as_published)
    data["error"] = data["error"] * 0 + 0.001 + 30 * (1 + data["t"] / 100) ** -1.5
    assert theory_claims.ball(data, FULL).verdict == claim.FAILS


@pytest.mark.parametrize(("power", "verdict"), [(-1.0, claim.HOLDS), (-0.5, claim.FAILS), (0.0, claim.FAILS)])
def test_radius_against_the_number_of_agents(power, verdict):
    judged = theory_claims.radius(grid(lambda p, r, n: n**power), "words", "here", "figure")
    assert judged.measured.value == pytest.approx(power, abs=0.02)
    assert judged.verdict == verdict


def floors_of_agents(powers, spread=0.1):
    """Error floors (level, agent, run), with noise of 0.02 beside a bias that grows by each agent's power."""
    noise = 1 + spread * np.random.default_rng(0).normal(size=RUNS)
    levels = np.array(FULL.levels)
    values = [[(0.02 + 5 * level**power) * noise for power in powers] for level in levels]
    return xr.Dataset({"error": (("level", "agent", "run"), values)}, {"level": levels})


@pytest.mark.parametrize(
    ("powers", "measured", "verdict"),
    [
        ((2.0, 2.0, 2.0), 2.0, claim.HOLDS),
        ((1.0, 1.0, 1.0), 1.0, claim.FAILS),
        ((2.0, 2.0, 1.0), 1.0, claim.FAILS),  # one agent is enough
    ],
)
def test_order_of_every_agents_distance(powers, measured, verdict):
    judged = theory_claims.near_optimal(floors_of_agents(powers))
    assert judged.measured.value == pytest.approx(measured, abs=0.02)
    assert judged.verdict == verdict
    assert "N = 3" in judged.quantity


def test_an_agent_whose_distance_is_not_known_well_leaves_it_open():
    data = floors_of_agents((2.0, 2.0))
    data["error"][2:, 1] *= np.exp(np.random.default_rng(1).normal(size=(4, RUNS)))
    assert theory_claims.near_optimal(data).verdict == claim.UNCLEAR


def test_floors_around_another_point():
    rng = np.random.default_rng(0)
    path = xr.DataArray(rng.normal(size=(3, 50, 4)), dims=("run", "t", "d"), coords={"t": np.arange(50)})
    one, two = rng.normal(size=(2, 4))
    cell = xr.Dataset({"error": ((path - one) ** 2).sum("d"), "late": floor(path)})
    np.testing.assert_allclose(floor_around(cell, one, two), floor(((path - two) ** 2).sum("d")))


@pytest.mark.parametrize("powers", [(1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.0, 1.0), (1.0, 0.0)])
def test_speedup_in_both_factors(powers):
    noise = 1 + 0.1 * np.random.default_rng(0).normal(size=RUNS)
    sizes, steps = np.array([1, 5, 20]), np.array(FULL.horizons)
    values = 5000.0 / (sizes[:, None, None] ** powers[0] * steps[:, None] ** powers[1]) * noise
    values[:, :2] += 1  # transients of the short trainings, which are left out
    data = xr.Dataset({"averaged": (("agents", "steps", "run"), values)}, {"agents": sizes, "steps": steps})
    for judged, power in zip(theory_claims.speedup(data), powers, strict=True):
        assert judged.measured.value == pytest.approx(-power, abs=1e-6)
        assert judged.verdict == (claim.HOLDS if power == 1 else claim.FAILS)


def test_intervals_too_wide_to_tell():
    assert claim.power(Estimate(-0.7, -2.1, 0.7), -1.0) == claim.UNCLEAR
    assert claim.power(Estimate(-1.0, -1.1, -0.9), -1.0) == claim.HOLDS
    assert claim.power(Estimate(-0.85, -0.88, -0.82), -1.0) == claim.FAILS
    assert claim.within(Estimate(1.0, 0.5, 1.5), 0.9, 1.1) == claim.UNCLEAR
    assert claim.within(Estimate(1.3, 1.2, 1.4), 0.9, 1.1) == claim.FAILS


def predicted_too(data):
    return data.assign(predicted=data["error"].mean("run"))


def test_agent_1_gains_somewhere():
    judged = collaboration_claims.expedited(grid(as_published), FULL)
    assert judged.verdict == claim.HOLDS
    assert judged.measured.value == pytest.approx(1 / 40, rel=0.05)
    assert "in 17 of 35 fleets" in judged.detail
    assert "both heterogeneities at level 0.1, 0.2, with kernels alone at level 0.1," in judged.detail
    # 30 exp(-rate t) + 1/40 is below 1 from here on.
    steps = TIMES[np.log(30 / (1 - 1 / 40)) / RATE < TIMES][0]
    assert f"ends with after {steps:g} steps, agent 1 alone after" in judged.detail
    never = collaboration_claims.expedited(grid(lambda p, r, n: n), FULL)
    assert never.verdict == claim.FAILS


def test_levels_at_which_collaboration_helps_and_hurts_are_named():
    judged = collaboration_claims.counterproductive(predicted_too(grid(as_published)), FULL)
    assert judged.verdict == claim.HOLDS
    assert "gains at level 0, 0.1, 0.2 and loses at level 0.5, 1, 2" in judged.detail
    # 1/40 + 10 r^2 = 1 at r = 0.31; between levels the ratio is taken for a power of the level.
    assert "equal at level 0.31, predicted 0.31" in judged.detail
    assert judged.measured.value == pytest.approx(40.0, rel=0.05)
    always = predicted_too(grid(lambda p, r, n: 1 / n))
    assert collaboration_claims.counterproductive(always, FULL).verdict == claim.UNCLEAR
    never = predicted_too(grid(lambda p, r, n: n))
    assert collaboration_claims.counterproductive(never, FULL).verdict == claim.FAILS
    reversed_ = predicted_too(grid(lambda p, r, n: 1.0 if n == 1 else 5 - 2.4 * r))
    assert collaboration_claims.counterproductive(reversed_, FULL).verdict == claim.FAILS


def test_the_mean_of_the_worlds_must_matter():
    sarsa = predicted_too(grid(as_published))
    for bias, verdict in ((0.1, claim.HOLDS), (10.0, claim.FAILS)):
        floors = [1 / 40 + bias * level**2 for level in FULL.levels]
        symmetric = predicted_too(curves(floors, eps_p=list(FULL.levels)))
        judged = collaboration_claims.mean_world(sarsa, symmetric, FULL)
        assert judged.verdict == verdict
        assert judged.measured.value == pytest.approx(1 / 40 + 4 * bias, rel=0.05)


def test_noise_that_grows_is_not_robust():
    def judged(growth):
        coords = {"eps_p": list(FULL.levels), "eps_r": list(FULL.levels), "agents": list(FULL.sizes)}
        shape = (6, 6, 6, RUNS, len(TIMES), 2)
        noise = xr.DataArray(
            np.random.default_rng(0).normal(size=shape),
            dims=("eps_p", "eps_r", "agents", "run", "t", "d"),
            coords={**coords, "t": TIMES},
        )
        settles = 3 * noise["eps_r"] * xr.DataArray([1.0, 0.0], dims="d")
        path = settles + xr.where(noise["eps_r"] > 0, growth**0.5, 1.0) * noise
        whole = xr.Dataset({"error": (path**2).sum("d"), "late": floor(path)})
        return collaboration_claims.robust(whole, np.zeros(2), FULL)

    assert judged(1.0).verdict == claim.HOLDS
    assert judged(1.0).measured.value == pytest.approx(1.0, abs=0.05)
    assert judged(2.0).verdict == claim.FAILS
    assert judged(2.0).measured.value == pytest.approx(2.0, abs=0.1)


def test_error_against_heterogeneity():
    def judged(floor, axis="eps_r"):
        return figure_claims.heterogeneity(grid(floor), FULL, axis, "some", "figure")

    assert judged(as_published).verdict == claim.HOLDS
    assert judged(as_published, "eps_p").verdict == claim.FAILS
    assert judged(lambda p, r, n: 1 / (1 + r)).verdict == claim.FAILS
    up_to_one = judged(lambda p, r, n: 1 + min(r, 1.0))
    assert up_to_one.verdict == claim.PARTLY
    assert "not surely at level 2" in up_to_one.detail


def test_reward_against_kernel():
    assert figure_claims.reward_or_kernel(grid(as_published), FULL).verdict == claim.HOLDS
    other = figure_claims.reward_or_kernel(grid(lambda p, r, n: 1 + 10 * p + r), FULL)
    assert other.verdict == claim.FAILS


def test_q_learning_must_fall_and_gain_where_sarsa_does():
    sizes, sarsa = list(FULL.sizes), grid(as_published)
    td = curves(
        [[as_published(x, x, n) for n in sizes] for x in FULL.levels], eps_p=list(FULL.levels), agents=sizes
    )
    shared = curves([40.0 for _ in sizes], agents=sizes)

    def judged(*floors):
        levels = list(FULL.levels)[: len(floors)]
        ql = curves([[floor(n) for n in sizes] for floor in floors], eps_p=levels, agents=sizes)
        return figure_claims.resemblance(ql, sarsa, td, shared)

    assert judged(lambda n: 1 / n).verdict == claim.HOLDS
    assert judged(lambda n: 8.0).verdict == claim.FAILS
    either = judged(lambda n: 1 / n, lambda n: 5.0)
    assert either.verdict == claim.PARTLY
    assert "is as for FedSARSA or TD(0) at level 0; at level 0.1 for N = 1 alone. Without" in either.detail
    # One fleet size that differs is enough, the largest or not.
    assert judged(lambda n: 2.0 if n == 5 else 1 / n).verdict == claim.FAILS
    assert "Where ties share the mass, the error goes from 70" in either.detail


def test_q_learning_is_covered_if_the_best_action_is_taken(monkeypatch):
    rng = np.random.default_rng(0)
    final = np.round(rng.normal(size=(1, 2, 3, 25)))  # with ties
    coords = {"eps_p": [0.0], "agents": [1, 2]}
    data = xr.Dataset({"final": (("eps_p", "agents", "run", "d"), final)}, coords)
    assert figure_claims.covered(data).verdict == claim.HOLDS
    monkeypatch.setattr(figure_claims, "Greedy", lambda ties: fs.EpsilonGreedy(0.1, ties))
    assert figure_claims.covered(data).verdict == claim.FAILS


def test_predictions_that_are_off_are_found():
    data = grid(as_published)
    data["predicted"] = data["error"].mean("run")
    assert figure_claims.predicted(data).verdict == claim.HOLDS
    off = data["predicted"] * xr.where(data["agents"] == 5, 1.5, 1.0)  # one fleet size, whatever the mean
    assert figure_claims.predicted(data.assign(predicted=off)).verdict == claim.FAILS


def test_the_released_program_must_be_known_to_agree():
    ours = grid(as_published)
    same = ours["error"].sel(agents=[1, 5, 20])
    diagonal = xr.concat([same.sel(eps_p=x, eps_r=x, drop=True) for x in (0.0, 1.0)], "eps_p")
    anew = xr.Dataset({"error": diagonal.assign_coords(eps_p=[0.0, 1.0])})
    assert figure_claims.released(ours, anew).verdict == claim.HOLDS
    assert figure_claims.released(ours, anew * 1.3).verdict == claim.FAILS
    noise = xr.DataArray(1 + 0.6 * np.random.default_rng(1).normal(size=RUNS), dims="run")
    assert figure_claims.released(ours, anew * abs(noise)).verdict == claim.UNCLEAR


def test_projection_that_changes_something():
    data = curves([1.0, 3.0, 1.0, 1.0], radius=[0.0, 1.0, 2.0, 3.0])
    assert figure_claims.projected(data).verdict == claim.HOLDS
    moved = curves([1.0, 3.0, 1.0, 1.01], radius=[0.0, 1.0, 2.0, 3.0])
    assert figure_claims.projected(moved).verdict == claim.FAILS


def fact(**changes):
    made = Exact(
        level=1.0,
        own=np.array([1.0, 0.0]),
        central=np.zeros(2),
        federated=np.array([0.0, 0.01]),
        apart=2.0,
        bound=4.0,
        unmet="",
        excess=31.2,
        excess_chosen=159.4,
        step=0.01,
        step_limit=0.1,
    )
    return dataclasses.replace(made, **changes)


def test_exact_claims():
    assert theory_claims.perturbation([fact()]).verdict == claim.HOLDS
    assert theory_claims.perturbation([fact(), fact(apart=4.1)]).verdict == claim.FAILS
    unmet = theory_claims.perturbation([fact(unmet="L is too large")])
    assert unmet.verdict == claim.OPEN
    assert "L is too large. L exceeds the limit at least 31 times" in unmet.detail
    assert "at least 159 times with this H" in unmet.detail
    assert theory_claims.step_size([fact()]).verdict == claim.HOLDS
    assert theory_claims.step_size([fact(step_limit=0.001)]).verdict == claim.OPEN


def test_where_the_algorithm_tends():
    noise = 0.02 * np.random.default_rng(0).normal(size=(1, 1, 1, RUNS, 2))
    coords = {"eps_p": [1.0], "eps_r": [1.0], "agents": [FULL.small_team]}

    def judged(mean):
        final = (("eps_p", "eps_r", "agents", "run", "d"), np.array(mean) + noise)
        return theory_claims.central(xr.Dataset({"final": final}, coords), [fact()], FULL).verdict

    assert judged([0.0, 0.01]) == claim.HOLDS
    assert judged([0.0, 0.3]) == claim.FAILS


def test_head_start_and_communication():
    noise = 1 + 0.1 * np.random.default_rng(0).normal(size=RUNS)
    errors = np.array([[[3.0], [1.0], [0.1]], [[9.0], [5.0], [0.1]]])[..., None] * noise[:, None]
    coords = {"start": ["federated", "scratch"], "steps": [0, 1000, 20_000]}
    data = xr.Dataset({"error": (("start", "steps", "run", "agent"), errors)}, coords)
    assert theory_claims.personalised(data, FULL).verdict == claim.HOLDS
    swapped = data.assign_coords(start=["scratch", "federated"])
    assert theory_claims.personalised(swapped, FULL).verdict == claim.FAILS
    for costs, verdict in (
        ((1.0, 1.0, 1.0), claim.HOLDS),
        ((1.0, 1.2, 1.45), claim.FAILS),  # a trend
        ((1.0, 9.0, 1.0), claim.FAILS),  # one period out of line
    ):
        final = np.array([costs])[..., None] * noise
        period = xr.Dataset(
            {"final_error": (("eps_p", "sync_every", "run"), final)},
            {"eps_p": [0.0], "sync_every": [1, 30, 1000]},
        )
        assert theory_claims.communication(period).verdict == verdict


def test_csv_leaves_the_interval_of_exact_numbers_empty():
    rows = claims.to_csv([theory_claims.step_size([fact(step=0.25, step_limit=1.0)])]).splitlines()
    assert rows[0] == "claim,where,quantity,value,low,high,verdict,detail,figure"
    assert ",0.25,,,holds," in rows[1]
