"""Learning curves: returns of episodes, rewards of steps, in bins of time."""

import numpy as np
import pytest

import fedsarsa as fs

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
