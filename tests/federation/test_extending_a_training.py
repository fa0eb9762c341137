"""A training that is over is extended with more steps, as if it had had them from the start."""

from dataclasses import replace

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import training

WORLDS = fs.paper.fleet(3, 0.5, 0.5, states=10, actions=5)
CARTS = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6]})
ALGO = fs.FedSARSA(sync_every=10)
BALANCE = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), 0.3, sync_every=10)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
@pytest.mark.parametrize("steps", [[25, 60], [20, 20, 53]])
@pytest.mark.parametrize(("algo", "fleet"), [(ALGO, WORLDS), (BALANCE, CARTS)], ids=["finite", "carts"])
def test_extended_trainings_are_the_same(tmp_path, algo, fleet, engine, steps):
    path = tmp_path / "checkpoint.nc"
    for some in steps:
        extended = algo.train(fleet, some, runs=2, engine=engine, checkpoint=path)
    whole = algo.train(fleet, steps[-1], runs=2, engine=engine)
    for name in ("central", "final", "local"):
        np.testing.assert_array_equal(extended.data[name], whole.data[name])
    if algo is BALANCE:
        for name in ("episodes", "returns", "steps", "rewards"):
            np.testing.assert_allclose(extended.data[name].sum("bin"), whole.data[name].sum("bin"))
        assert (extended.reward_curve(bins=4) == 1.0).all()  # carts earn 1 at every step


def test_bins_are_put_together(tmp_path):
    path = tmp_path / "checkpoint.nc"
    BALANCE.train(CARTS, 1000, runs=1, checkpoint=path)
    extended = BALANCE.train(CARTS, 2000, runs=1, checkpoint=path)
    assert extended.data.equals(BALANCE.train(CARTS, 2000, runs=1).data)  # two old bins make a new one


def test_averages_are_extended_by_whole_rounds_only(tmp_path):
    algo = replace(ALGO, step_size=fs.LinearDecay(1.0, 50.0))
    path, other = tmp_path / "checkpoint.nc", tmp_path / "other.nc"
    algo.train(WORLDS, 20, runs=2, checkpoint=path)
    extended = algo.train(WORLDS, 60, runs=2, checkpoint=path)
    np.testing.assert_array_equal(extended.averaged, algo.train(WORLDS, 60, runs=2).averaged)
    algo.train(WORLDS, 25, runs=2, checkpoint=other)
    with pytest.raises(ValueError, match="steps 25 there, whole rounds here"):
        algo.train(WORLDS, 60, runs=2, checkpoint=other)


@pytest.mark.parametrize(
    ("change", "steps", "message"),
    [
        (
            {"policy": fs.Softmax(5.0)},
            30,
            r"\(policy Softmax\(temperature=100.0\) there, Softmax\(temperature=5",
        ),
        ({"sync_every": 5}, 30, r"\(sync_every 10 there, 5 here\)"),
        ({"step_size": 0.1}, 30, r"\(step_size ConstantStep\(value=0.01\) there, ConstantStep\(value=0.1\)"),
        (
            {"weights": [0.5, 0.3, 0.2]},
            30,
            r"server Mean\(weights=None, .*weights=array\(\[0.5, 0.3, 0.2\]\)",
        ),
        (
            {"features": fs.OneHot()},
            30,
            r"\(features of 25 parameters there, of 50 parameters here; theta0 25",
        ),
        ({}, 15, "expected a checkpoint of at most 15 steps, got one after 20; ask for more steps"),
    ],
)
def test_what_differs_is_named(tmp_path, change, steps, message):
    path = tmp_path / "checkpoint.nc"
    ALGO.train(WORLDS, 20, runs=2, checkpoint=path)
    with pytest.raises(ValueError, match=message):
        replace(ALGO, **change).train(WORLDS, steps, runs=2, checkpoint=path)


def test_fleets_and_bounds_that_differ_are_named(tmp_path):
    path, tiles = tmp_path / "checkpoint.nc", fs.TileCoding(2, 2, (-1, 1))
    algo = replace(BALANCE, features=tiles)
    algo.train(CARTS, 20, runs=1, checkpoint=path)
    longer = fs.control.fleet("CartPole", vary={"length": [0.4, 0.7]})
    with pytest.raises(ValueError, match=r"\(fleet .*length=\[0.4, 0.6\]\) there, .*=\[0.4, 0.7\]\) here\)"):
        algo.train(longer, 20, runs=1, checkpoint=path)
    wider = replace(BALANCE, features=replace(tiles, bounds=(-2, 2)))
    with pytest.raises(ValueError, match=r"of 324 parameters on \[-1.0, .* there, .* on \[-2.0, .* here"):
        wider.train(CARTS, 20, runs=1, checkpoint=path)
    many = fs.paper.fleet(3, 0.5, 0.5, seed=1, states=10, actions=5)
    path.unlink()
    ALGO.train(WORLDS, 20, runs=1, checkpoint=path)
    with pytest.raises(ValueError, match=r"\(another fleet, which is also Fleet\(agents=3, distinct=3, "):
        ALGO.train(many, 20, runs=1, checkpoint=path)


def test_trainings_start_where_others_ended():
    history = ALGO.train(WORLDS, 40, runs=3)
    further = ALGO.train(WORLDS, 10, runs=3, theta0=history.final)
    np.testing.assert_allclose(further.central[:, 0], history.final, rtol=1e-14)  # the mean of three alike
    with pytest.raises(
        TypeError, match=r"theta0 must be parameters, such as history.final .*, got History\(3 runs"
    ):
        ALGO.train(WORLDS, 10, runs=3, theta0=history)
    with pytest.raises(ValueError, match=r"theta0 must have shape \(2, 25\) along run and d, got \(3, 25\)"):
        ALGO.train(WORLDS, 10, runs=2, theta0=history.final)


@pytest.mark.parametrize(("runs", "steps"), [(10, 100_000_000), (20_000, 1_000_000), (3_000_000, 1_000)])
def test_suggested_records_fit(runs, steps):
    problem = ALGO.problem(WORLDS, steps, runs, 0)
    with pytest.raises(ValueError, match=r"GiB with 1; \d+ would keep \d+$") as error:
        training.check_records(problem, 1)
    suggested = int(str(error.value).split("; ")[1].split()[0])
    training.check_records(problem, suggested)
    with pytest.raises(ValueError, match="not even one fits"):
        training.check_records(ALGO.problem(WORLDS, 1000, 10**9, 0), 1)
