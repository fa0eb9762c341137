"""What holds for every world, every feature map and every policy alike.

Worlds, features and policies meet in pairs, not in all combinations: engines put them together from pieces
that know nothing of each other.
"""

import copy
from contextlib import closing
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.federation.state import first_state
from fedsarsa.learning.bases import CONTINUOUS
from fedsarsa.worlds.control import WORLDS
from tests.engines.parity import OPTIONS, assert_same_history
from tests.pairwise import pairwise
from tests.worlds_of_tests import every_kind

FEATURES = every_kind(
    CONTINUOUS,
    fs.TileCoding(4, 3),
    fs.TileCoding(4, 6, memory=400),
    fs.FourierBasis(1),
    fs.RBF(2),
    fs.RandomFourier(20),
)
POLICIES = [
    fs.Softmax(0.5),
    fs.Greedy(),
    fs.EpsilonGreedy(0.2),
    fs.FixedPolicy("uniform"),
    fs.EpsilonGreedy(0.2, ties="first"),  # some worlds are not random: such a policy must be
]
RUNS, AGENTS = 2, 3
SORTS = [
    (name, actions)
    for name in WORLDS
    for actions in ([None] if WORLDS[name].action_count else [fs.GridActions(3), fs.RandomActions(3)])
]
every_sort = pytest.mark.parametrize(
    ("sort", "features", "policy"), pairwise(SORTS, FEATURES, POLICIES), ids=str
)


def assert_contract(algo, group, steps, limits, longest):
    """Train in episodes of at most ``longest`` steps; observations stay in ``limits`` (N, 2, observed)."""
    problem = algo.problem(group, steps, RUNS, 3)
    dim = problem.features.dim
    history = algo.train(group, steps, RUNS, seed=3)
    data = history.data

    # Shapes.
    assert data.central.shape == (RUNS, steps // algo.sync_every + 1, dim)
    assert data.local.shape == (RUNS, AGENTS, dim)
    assert data.episodes.shape == (RUNS, AGENTS, min(200, steps))
    # Other seeds give other trainings; that the same one gives the same is seen step by step below.
    assert not algo.train(group, steps, RUNS, seed=4).data.equals(data)
    # Bounds, of which infinite ones would say nothing.
    assert np.isfinite(limits).all()
    assert data.clipped.sum() == 0
    state = first_state(problem, np.zeros(dim))
    size = limits.shape[2]
    with closing(engines.build(engines.resolve("auto", group), problem, 1)) as engine:
        engine.start(state)
        for _ in range(steps):
            engine.advance(state, 1)
            if state.t % algo.sync_every == 0:
                np.testing.assert_array_equal(state.central, data.central[:, state.t // algo.sync_every])
            seen = state.episodes.seen[..., :size]
            assert (seen >= limits[:, 0]).all()
            assert (seen <= limits[:, 1]).all()
            assert (state.actions < len(problem.candidates)).all()
            if problem.features.joint or isinstance(group, fs.control.ControlFleet):
                assert (state.episodes.numbers >= problem.action_bounds[0]).all()
                assert (state.episodes.numbers <= problem.action_bounds[1]).all()
    np.testing.assert_array_equal(state.theta, data.local)
    np.testing.assert_array_equal(state.episodes.returns, data.returns)
    np.testing.assert_array_equal(state.episodes.lengths, data.lengths)
    # Every step belongs to one episode.
    episodes = state.episodes
    assert (episodes.stopped_at == -1).all()
    np.testing.assert_array_equal(episodes.lengths.sum(axis=2) + episodes.elapsed, steps)
    assert (episodes.elapsed < longest).all()
    assert (episodes.episodes.sum(axis=2) >= steps // longest).all()
    assert (episodes.lengths.sum(axis=2) <= longest * episodes.episodes.sum(axis=2)).all()
    return history


@every_sort
def test_every_control_world(sort, features, policy):
    name, actions = sort
    group = fs.control.fleet(name, AGENTS, spread=0.2, time_limit=60)
    algo = fs.FedSARSA(features, policy, 0.2, 50, actions=actions)
    assert_contract(algo, group, 250, limits_of(group), 60)


def limits_of(group):
    """Limits of what agents hold between steps; CartPole's poles fall before speeds pass theirs."""
    return np.array([world.bounds for world in group])


# First states that are not random: the environments draw them with a generator of their own. Environments of
# Gymnasium share the actions that all can take, control worlds clip them: torques are then the same.
STILL = {
    "CartPole": {"start": 0.0},
    "MountainCar": {"start_low": -0.5, "start_high": -0.5},
    "MountainCarContinuous": {"start_low": -0.5, "start_high": -0.5},
    "Acrobot": {"start": 0.0},
    "Pendulum": {"start_angle": 0.0, "start_speed": 0.0, "vary": {"torque": [2.0] * AGENTS}},
}


@every_sort
def test_every_control_world_as_an_environment_of_gymnasium(sort, features, policy):
    name, actions = sort
    group = fs.control.fleet(name, AGENTS, spread=0.2, time_limit=25, **STILL.get(name, {"start": 0.0}))
    if name == "CartPole":  # whose environments give no bounds
        features = replace(features, bounds=group.bounds)
    algo = fs.FedSARSA(features, policy, 0.2, 20, actions=actions)
    gyms = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in group], processes=0)
    history = assert_contract(algo, gyms, 100, limits_of(group), 25)
    assert_same_history(history, algo.train(group, 100, RUNS, seed=3))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_in_environments_of_gymnasium(options):
    group = fs.control.fleet("CartPole", AGENTS, spread=0.3, time_limit=15, **STILL["CartPole"])
    features = fs.TileCoding(4, 3, bounds=group.bounds)
    settings = {"features": features, "policy": fs.Softmax(0.5), "step_size": 0.2, "sync_every": 7} | options
    algo = fs.FedSARSA(**settings)
    gyms = fs.GymFleet([fs.GymWorld(world.to_gymnasium) for world in group], processes=0)
    history = algo.train(gyms, 60, RUNS, seed=5)
    assert_same_history(history, algo.train(group, 60, RUNS, seed=5, engine="reference"))


class Lottery(gym.Env):
    """Any observation at any time; the reward is the sum of the action, which its space must hold."""

    def __init__(self, observation, action):
        self.observation_space, self.action_space = copy.deepcopy(observation), action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.t += 1
        ends = bool(self.np_random.random() < 0.1)
        return self.observation_space.sample(), float(np.sum(action)), ends, self.t == 15, {}


SPACES = gym.spaces
LOTTERIES = {
    "box": (SPACES.Box(-1, 1, (2,)), SPACES.Discrete(3, start=-1), None),
    "matrix": (SPACES.Box(0, 1, (2, 2), np.float64), SPACES.MultiDiscrete([2, 3], start=[5, 7]), None),
    "discrete": (SPACES.Discrete(5, start=2), SPACES.Box(-1, 1, (2,)), fs.GridActions(2)),
    "several": (SPACES.MultiDiscrete([3, 2]), SPACES.Box(-2, 2, (1,)), fs.RandomActions(3)),
    "binary": (SPACES.MultiBinary(3), SPACES.Box(0, 3, (1,), np.int64), fs.GridActions(5)),
    "bytes": (SPACES.Box(0, 255, (2,), np.uint8), SPACES.Box(0.0, 1.0, (), np.float64), fs.GridActions(3)),
}


@pytest.mark.parametrize(
    ("kind", "features", "policy"), pairwise([*LOTTERIES], [*FEATURES, fs.OneHot()], POLICIES), ids=str
)
def test_every_space_of_gymnasium(kind, features, policy):
    observation, action, actions = LOTTERIES[kind]
    group = fs.GymFleet([fs.GymWorld(Lottery, observation=observation, action=action)] * AGENTS, processes=0)
    algo = fs.FedSARSA(features, policy, 0.2, 10, actions=actions)
    if features == fs.OneHot() and (group.counts is None or isinstance(actions, fs.RandomActions)):
        with pytest.raises(ValueError, match="features must be TileCoding, FourierBasis, RBF"):
            algo.train(group, 60, RUNS)
        return
    assert_contract(algo, group, 60, np.array([group.bounds] * AGENTS), 15)
