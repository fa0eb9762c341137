import tracemalloc

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


@pytest.mark.slow
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


def test_ties_are_broken_as_in_training():
    group = fs.control.fleet("CartPole", 2)
    first = fs.FedSARSA(fs.TileCoding(2, 2), fs.EpsilonGreedy(0.1, ties="first"))
    theta = np.zeros(first.problem(group, 1, 1, 0).features.dim)
    always = fs.FedSARSA(fs.TileCoding(2, 2), fs.FixedPolicy(0))
    gyms = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in group], 1.0)
    first_gym, always_gym = (
        fs.FedSARSA(fs.TileCoding(2, 2, bounds=group.bounds), algo.policy) for algo in (first, always)
    )
    for worlds, one, two in ((group, first, always), (gyms, first_gym, always_gym)):
        played = fs.rollouts(worlds, one, theta, 20)
        assert played.equals(fs.rollouts(worlds, two, theta, 20, greedy=False))
        assert not played.equals(fs.rollouts(worlds, one, theta, 20, greedy=False))


def test_continuous_actions_are_rolled_out():
    group = fs.control.fleet("Pendulum", 2)
    for actions in (fs.GridActions(3), fs.RandomActions(4)):
        algo = fs.FedSARSA(fs.TileCoding(4, 3), fs.Softmax(1.0), 0.1, 10, actions=actions)
        history = algo.train(group, 100, runs=1)
        assert (fs.rollouts(group, algo, history.final[0], 3).mean_length == 200).all()


def test_greedy_returns_can_be_drawn_over_what_agents_differ_in():
    carts = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6, 0.5]}, time_limit=20)
    gyms = fs.GymFleet([fs.GymWorld("CartPole-v1", max_episode_steps=steps) for steps in (10, 30, 20)])
    algo = fs.FedSARSA(fs.FourierBasis(1, carts.bounds), fs.EpsilonGreedy(0.1))
    for fleet, name in ((carts, "length"), (gyms, "max_episode_steps")):
        played = fs.rollouts(fleet, algo, np.zeros(32), 2)
        assert played[name].dims == ("agent",)
        assert played[name].values.tolist() == fleet.varied()[name]
        (line,) = played.mean_return.sortby(name).plot(x=name)
        assert line.get_xdata().tolist() == sorted(fleet.varied()[name])


def test_mistakes():
    algo, group = parts()
    with pytest.raises(ValueError, match=r"theta must have shape \(1944,\) or \(3, 1944\), got \(5,\)"):
        fs.rollouts(group, algo, np.zeros(5))
    with pytest.raises(TypeError, match="algo must be a FedSARSA, got 'x'"):
        fs.rollouts(group, "x", np.zeros(1944))
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


def test_rollouts_hold_one_episode_at_a_time():
    group = fs.control.fleet("Acrobot", 4, time_limit=5)
    algo = fs.FedSARSA(fs.TileCoding(2, 3), fs.Greedy(), trace_decay=0.9)
    theta = np.zeros(algo.problem(group, 1, 1, 0).features.dim)
    few = fs.rollouts(group, algo, theta, 2)
    tracemalloc.start()
    try:
        many = fs.rollouts(group, algo, theta, 50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * theta.nbytes  # parameters and traces of all episodes were 600 times as much
    np.testing.assert_array_equal(many.returns[:, :2], few.returns)


class Faulty(gym.Env):
    """Episodes of five steps; at one step of all it answers something else, or raises."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, wrong_at=None, wrong=None):
        self.wrong_at, self.wrong, self.t = wrong_at, wrong, 0

    def reset(self, *, seed=None, options=None):
        self.began = self.t
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t != self.wrong_at:
            return np.zeros(1, np.float32), 1.0, self.t - self.began == 5, False, {}
        if self.wrong is None:
            raise OSError("the cable came off")
        return self.wrong


class Rising(Faulty):
    """One step an episode; returns are 1, 2, 3, ... times a number."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), self.scale * self.t, True, False, {}


def test_margins_are_those_of_student():
    fleet = fs.GymFleet([fs.GymWorld(Rising, scale=scale) for scale in (1.0, 10.0, 0.0)], 0.9)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy())
    played = fs.rollouts(fleet, algo, np.zeros(4), 4)
    np.testing.assert_array_equal(played.returns[0], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(played.mean_return, [2.5, 25.0, 0.0])
    # The 97.5% point of Student's t with three degrees of freedom; the variance of 1, 2, 3, 4 is 5 / 3.
    margin = 3.182446305 * np.sqrt(5 / 3) / np.sqrt(4)
    np.testing.assert_allclose(played.margin, [margin, 10 * margin, 0.0], rtol=1e-9)
    assert np.isnan(fs.rollouts(fleet, algo, np.zeros(4), 1).margin).all()  # one episode shows no spread


SEEN = np.zeros(1, np.float32)


class Tensor:
    """Numbers with gradients, as some libraries have them."""

    def __array__(self, *arguments, **options):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (None, "Traceback.*the cable came off"),
        ((np.full(1, np.nan), 1.0, True, False, {}), "observation must be 1 finite numbers, got array"),
        ((np.zeros(2), 1.0, False, False, {}), "observation must be 1 finite numbers, got array"),
        ((None, 1.0, False, False, {}), "observation must be 1 finite numbers, got None"),
        ((SEEN, np.inf, False, False, {}), "reward must be finite, got inf"),
        ((SEEN, 1.0, False, {}), "which is not as its spaces say"),
        ((SEEN, 10**400, False, False, {}), "which is not as its spaces say: int too large"),
        ((SEEN, 1.0, np.array([True, True]), False, {}), "which is not as its spaces say: The truth value"),
        ((Tensor(), 1.0, False, False, {}), "observation must be 1 finite numbers, got <.*Tensor"),
    ],
)
def test_environments_that_fail_are_named_and_the_others_are_played(wrong, message):
    worlds = [fs.GymWorld(Faulty), fs.GymWorld(Faulty, wrong_at=13, wrong=wrong), fs.GymWorld(Faulty)]
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy())
    where = r"(?s)agent 1 stopped in episode 2, step 2: Faulty\(wrong_at=13"
    with pytest.warns(RuntimeWarning, match=f"{where}.*{message}"):
        played = fs.rollouts(fs.GymFleet(worlds, 0.9), algo, np.zeros(4), 4)
    np.testing.assert_array_equal(played.returns, [[5.0] * 4, [5.0, 5.0, np.nan, np.nan], [5.0] * 4])
    np.testing.assert_array_equal(played.mean_return, [5.0, np.nan, 5.0])
    np.testing.assert_array_equal(played.lengths, [[5] * 4, [5, 5, 2, 0], [5] * 4])
    np.testing.assert_array_equal(played.mean_length, [5.0, np.nan, 5.0])


def test_episodes_without_an_end_are_cut_and_named(monkeypatch):
    monkeypatch.setattr("fedsarsa.rollout.LONGEST", 4)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy())
    said = "agent 0: episodes of Faulty are cut after 4 steps.*give steps="
    with pytest.warns(RuntimeWarning, match=said) as caught:
        played = fs.rollouts(fs.GymFleet([fs.GymWorld(Faulty)], 0.9), algo, np.zeros(4), 3)
    assert len(caught) == 1
    np.testing.assert_array_equal(played.returns, [[4.0] * 3])
    monkeypatch.setattr("fedsarsa.rollout.LONGEST", 5)
    fs.rollouts(fs.GymFleet([fs.GymWorld(Faulty)], 0.9), algo, np.zeros(4), 3)  # ended in time: no warning


def test_episodes_are_cut_where_one_asks_for_it():
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), actions=fs.GridActions(3))
    rods = fs.control.fleet("Pendulum", 2, time_limit=10**9)
    gyms = fs.GymFleet([fs.GymWorld("Pendulum-v1", max_episode_steps=10**9)] * 2)
    for group in (rods, gyms):
        played = fs.rollouts(group, algo, np.zeros(24), 4, steps=30)
        assert (played.lengths == 30).all()
        np.testing.assert_allclose(played.mean_reward, played.mean_return / 30)
        with pytest.raises(ValueError, match="steps must be an integer of at least 1, got 0"):
            fs.rollouts(group, algo, np.zeros(24), steps=0)
    shorter = fs.rollouts(rods, algo, np.zeros(24), 4, steps=10)
    assert (shorter.mean_return > fs.rollouts(rods, algo, np.zeros(24), 4, steps=30).mean_return).all()


def test_states_of_control_worlds_that_are_not_finite_are_named():
    group = fs.control.fleet("CartPole", 2, vary={"force": [10.0, 1e300]})
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Greedy())
    dim = algo.problem(group, 1, 1, 0).features.dim
    with pytest.warns(RuntimeWarning, match="agent 1: states or rewards of CartPole.*did not stay finite"):
        played = fs.rollouts(group, algo, np.zeros(dim), 3)
    assert np.isfinite(played.returns[0]).all()
    assert np.isnan(played.mean_return[1])


def test_numbers_beyond_an_agents_reach_are_clipped():
    from fedsarsa.experiments.playing import film
    from fedsarsa.rollout import Player

    fleet = fs.control.fleet("Pendulum", 2, vary={"torque": [1.0, 2.0]})
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0), actions=fs.GridActions(3))
    problem = algo.problem(fleet, 1, 1, 0)
    player = Player(problem, algo.policy, np.zeros(problem.features.dim), 0, 0)
    assert film(problem, player, 0).steps == fleet[0].time_limit
