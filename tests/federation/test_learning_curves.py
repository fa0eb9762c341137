"""Learning curves: returns of episodes, rewards of steps, in bins of time."""

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import learning_curves

ALGO = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), step_size=0.3, actions=fs.GridActions(3))


def test_worlds_that_never_end_have_a_curve():
    rods = fs.control.fleet("Pendulum", vary={"mass": [0.5, 1.0, 2.0]}, time_limit=10**9)
    history = ALGO.train(rods, steps=1000, runs=2)
    assert not history.data.episodes.any()
    curve = history.learning_curve()
    assert curve.name == "reward_per_step"
    assert curve.sizes == {"run": 2, "agent": 3, "t": 200}
    assert np.isfinite(curve.values).all()
    assert (curve < 0).all()
    np.testing.assert_allclose(history.late_return(0.5), curve.isel(t=slice(100, None)).mean("t"))


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_rewards_of_steps_add_up_to_returns_of_episodes(engine):
    rods = fs.control.fleet("Pendulum", 2, time_limit=20)
    history = ALGO.train(rods, steps=100, runs=2, engine=engine)
    data = history.data
    np.testing.assert_allclose(data.rewards.sum("bin"), data.returns.sum("bin"))
    assert (data.steps == 1).all()
    np.testing.assert_allclose(20 * history.reward_curve(bins=5), history.learning_curve(bins=5))


def test_pooled_curves_count_every_episode_alike():
    carts = fs.control.fleet("CartPole", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), step_size=0.3)
    history = algo.train(carts, steps=2000, runs=2)
    whole = history.data.sum("bin")
    np.testing.assert_allclose(history.learning_curve(bins=1)[..., 0], whole.returns / whole.episodes)
    np.testing.assert_allclose(history.late_return(1.0), whole.returns / whole.episodes)
    for name, value in (("bins", 0), ("share", 0.0)):
        with pytest.raises(ValueError, match=name):
            history.learning_curve(bins=value) if name == "bins" else history.late_return(value)


def test_what_agents_differ_in_is_a_coordinate(tmp_path):
    carts = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6, 0.5]}, angle_limit=0.2)
    algo = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), step_size=0.3)
    history = algo.train(carts, steps=500, runs=2)
    history.save(tmp_path / "history.nc")
    for one in (history, fs.History.load(tmp_path / "history.nc")):
        curve = one.learning_curve(bins=4)
        assert curve.length.values.tolist() == [0.4, 0.6, 0.5]
        assert curve.agent.values.tolist() == [0, 1, 2]
        assert one.local.length.dims == ("agent",)
        assert one.late_return().mean("run").plot(x="length")
        assert one.learning_curve(bins=4).mean("run").sortby("length").plot(x="length")


def test_options_of_environments_are_coordinates():
    worlds = [fs.GymWorld("Pendulum-v1", g=g, max_episode_steps=5) for g in (9.0, 3.0)]
    history = ALGO.train(fs.GymFleet(worlds, processes=0), steps=20, runs=1)
    assert history.learning_curve().g.values.tolist() == [9.0, 3.0]
    assert "max_episode_steps" not in history.data.coords


def test_long_episodes_have_a_late_return():
    rods = fs.control.fleet("Pendulum", 2, time_limit=150)
    history = ALGO.train(rods, steps=1000, runs=2)
    late, data = history.late_return(), history.data
    assert late.name == "return"
    last = data.returns.isel(bin=(data.bin_end == 900).values).squeeze("bin")  # the sixth episode
    np.testing.assert_array_equal(late, last)


def test_the_last_episodes_are_those_of_every_agent():
    carts = [fs.control.CartPole(time_limit=limit) for limit in (7, 10_000)]
    history = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.2), step_size=0.3).train(
        carts, steps=400, runs=1
    )
    data = history.data
    for name in ("episodes", "returns"):
        data[name][..., 150:] = 0
    data["episodes"][0, 0, 100:] = 0
    late = history.late_return()
    for agent in range(2):
        own = data.isel(run=0, agent=agent)
        last = int(np.flatnonzero(own.episodes)[-1])
        assert late[0, agent] == own.returns[last] / own.episodes[last]


def test_curves_of_a_training_that_was_stopped_at_once():
    history = ALGO.train(
        fs.control.fleet("Pendulum", 2), steps=100, runs=1, callback=lambda event: event.stop()
    )
    for curve in (history.learning_curve(), history.learning_curve(5), history.reward_curve()):
        assert curve.sizes == {"run": 1, "agent": 2, "t": 0}
    assert np.isnan(history.late_return()).all()


def test_lines_of_the_picture_go_on_over_bins_without_an_episode():
    rods = fs.control.fleet("Pendulum", 2, time_limit=150)
    history = ALGO.train(rods, steps=1000, runs=1)
    (axes,) = learning_curves.figure(history, "title").axes
    drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
    assert len(drawn) == 3  # two agents, and the fleet
    for line in drawn:
        assert line.get_xdata().tolist() == [160, 300, 460, 600, 760, 900]  # of bins of 20 steps
        assert np.isfinite(line.get_ydata()).all()
        assert line.get_marker() == "."  # a point may be alone
