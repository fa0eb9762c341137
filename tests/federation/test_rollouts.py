import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs


def parts(agents=3):
    algo = fs.FedSARSA(fs.TileCoding(8, 8), fs.Greedy(), 0.5, 100, trace_decay=0.9, traces="replacing")
    return algo, fs.control.fleet("MountainCar", agents, spread=0.1, discount=1.0)


def test_a_trained_policy_is_worth_more_than_none():
    algo, group = parts()
    history = algo.train(group, 30_000, runs=1, record_every=300)
    before, after = (
        fs.rollouts(group, algo, theta, 30) for theta in (history.central[0, 0], history.final[0])
    )
    assert (before.mean_return == -200).all()
    assert (after.mean_return > -180).all()
    assert after.returns.shape == (3, 30)
    np.testing.assert_array_equal(after.lengths, -after.returns)
    assert (after.margin < 15).all()
    again = fs.rollouts(group, algo, history.final[0], 30)
    assert again.equals(after)
    assert not fs.rollouts(group, algo, history.final[0], 30, seed=1).equals(after)


def test_rollouts_by_gymnasium_agree_with_compiled_ones():
    algo, group = parts()
    theta = algo.train(group, 20_000, runs=1, record_every=200).local[0]
    gyms = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in group], 1.0)
    compiled, plain = fs.rollouts(group, algo, theta, 60), fs.rollouts(gyms, algo, theta, 60)
    gap = np.abs(compiled.mean_return - plain.mean_return)
    assert (gap < 1.5 * (compiled.margin + plain.margin)).all()


def test_the_learned_policy_may_be_played_as_it_is():
    group = fs.control.fleet("CartPole", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.FixedPolicy("uniform"))
    dim = algo.problem(group, 1, 1, 0).features.dim
    random = fs.rollouts(group, algo, np.zeros(dim), 200, greedy=False)
    assert random.mean_return.values == pytest.approx([22.0, 22.0], abs=4.0)  # a coin balances about 22 steps


def test_continuous_actions_are_rolled_out():
    group = fs.control.fleet("Pendulum", 2)
    for actions in (fs.GridActions(3), fs.RandomActions(4)):
        algo = fs.FedSARSA(fs.TileCoding(4, 3), fs.Softmax(1.0), 0.1, 10, actions=actions)
        history = algo.train(group, 100, runs=1)
        assert (fs.rollouts(group, algo, history.final[0], 3).mean_length == 200).all()


def test_mistakes():
    algo, group = parts()
    with pytest.raises(ValueError, match=r"theta must have shape \(1944,\) or \(3, 1944\), got \(5,\)"):
        fs.rollouts(group, algo, np.zeros(5))
    with pytest.raises(TypeError, match=r"use fs\.evaluate"):
        fs.rollouts(fs.paper.fleet(2, states=10, actions=5), fs.FedSARSA(), np.zeros(25))


def test_learning_curves_count_every_episode():
    algo, group = parts()
    history = algo.train(group, 5000, runs=2, record_every=50)
    curve = history.learning_curve()
    assert curve.dims == ("run", "agent", "t")
    assert int(curve["t"][-1]) == 5000
    total = (curve * history.data.episodes.values).sum()
    assert float(total) == pytest.approx(float(history.data.returns.sum()))
    with pytest.raises(AttributeError, match="finite worlds have no episodes"):
        fs.FedSARSA().train(fs.paper.fleet(2, states=10, actions=5), 10, runs=1).learning_curve()


class Coin(gym.Env):
    """Guess a fair coin: reward 1 for the right side."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side = int(self.np_random.random() < 0.5)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action == self.side), True, False, {}


def test_policy_and_environment_have_streams_of_their_own():
    fleet = fs.GymFleet([fs.GymWorld(Coin)] * 3, 0.9)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy("uniform"))
    dim = algo.problem(fleet, 1, 1, 0).features.dim
    played = fs.rollouts(fleet, algo, np.zeros(dim), 400)
    # Means of 400 fair coins: 0.1 is four standard deviations.
    assert (abs(played.mean_return - 0.5) < 0.1).all()
    assert not played.returns[0].equals(played.returns[1])


def test_numbers_beyond_an_agents_reach_are_clipped():
    from fedsarsa.experiments.playing import film
    from fedsarsa.federation.rollout import Player

    fleet = fs.control.fleet("Pendulum", 2, vary={"torque": [1.0, 2.0]})
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0), actions=fs.GridActions(3))
    problem = algo.problem(fleet, 1, 1, 0)
    player = Player(problem, algo.policy, np.zeros(problem.features.dim), 0, 0)
    assert film(problem, player, 0).steps == fleet[0].time_limit
