"""Agents stepped as one vector environment."""

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation.training import NoAgentLeftError

LENGTH = 3
CLOSED, STEPPED = [], []


class Walk(gym.Env):
    """States 0, 1, 2 in a row, reward s + 1; the third step ends the episode."""

    def __init__(self, terminates=True):
        self.observation_space, self.action_space = gym.spaces.Discrete(LENGTH + 1), gym.spaces.Discrete(1)
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return self.state, {}

    def step(self, action):
        self.state += 1
        over = self.state == LENGTH
        return self.state, float(self.state), over and self.terminates, over and not self.terminates, {}


class Walks(gym.vector.VectorEnv):
    """The same as a vector environment; it may raise, or lose a reward, at a step."""

    def __init__(
        self, num_envs, terminates=True, fails_at=None, lost_at=None, mode="NEXT_STEP", reset_rows=None
    ):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": getattr(gym.vector.AutoresetMode, mode)}
        self.single_observation_space = gym.spaces.Discrete(LENGTH + 1)
        self.single_action_space = gym.spaces.Discrete(1)
        self.observation_space = gym.spaces.MultiDiscrete([LENGTH + 1] * num_envs)
        self.action_space = gym.spaces.MultiDiscrete([1] * num_envs)
        self.terminates, self.fails_at, self.lost_at, self.t = terminates, fails_at, lost_at, 0
        self.reset_rows = num_envs if reset_rows is None else reset_rows

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.zeros(self.num_envs, np.int64)
        if self.reset_rows == 0:
            raise OSError("the motor is stuck")
        return self.state[: self.reset_rows].copy(), {}

    def step(self, actions):
        STEPPED.append(self)
        assert self.action_space.contains(actions)
        self.t += 1
        if self.t == self.fails_at:
            raise OSError("the cable came off")
        begins = self.state == LENGTH
        self.state = np.where(begins, 0, self.state + 1)
        rewards, over = self.state.astype(float), self.state == LENGTH
        if self.t == self.lost_at:
            rewards[0] = np.nan
        none = np.zeros(self.num_envs, bool)
        terminated, truncated = (over, none) if self.terminates else (none, over)
        return self.state.copy(), rewards, terminated, truncated, {}

    def close_extras(self, **kwargs):
        CLOSED.append(self)


@pytest.fixture(autouse=True, scope="module")
def _registered():
    gym.register("fedsarsa-tests/Walk-v0", entry_point=Walk, vector_entry_point=Walks)
    yield
    del gym.registry["fedsarsa-tests/Walk-v0"]


def walks(agents, **options):
    """Agents of one vector environment; options of ``Walks`` alone do not reach ``Walk``."""
    worlds = [fs.GymWorld("fedsarsa-tests/Walk-v0")] * agents
    fleet = fs.GymFleet(worlds, 0.5, vector=True)
    for world in worlds:
        world.options = options
    return fleet


def algorithm(sync_every=5):
    return fs.FedSARSA(fs.OneHot(), fs.Greedy(), 0.1, sync_every)


@pytest.mark.parametrize("terminates", [True, False])
def test_agents_learn_as_they_do_alone_and_pause_after_every_episode(terminates):
    """Three steps and a pause make an episode: 400 steps beside each other are 300 steps alone."""
    alone = fs.GymFleet([fs.GymWorld("fedsarsa-tests/Walk-v0", terminates=terminates)], 0.5)
    slow = algorithm(None).train(alone, 300, runs=1)
    fast = algorithm(None).train(walks(3, terminates=terminates), 400, runs=2)
    for run in range(2):
        np.testing.assert_allclose(fast.final.values[run], slow.final.values[0], rtol=1e-14)
    assert slow.final.values[0][:3].min() > 0.5
    assert fast.data.episodes.sum("bin").values.tolist() == [[100] * 3] * 2
    assert fast.data.lengths.sum("bin").values.tolist() == [[300] * 3] * 2
    assert fast.data.returns.sum("bin").values.tolist() == [[600.0] * 3] * 2


def test_environments_with_other_options_have_a_vector_of_their_own():
    worlds = [fs.GymWorld("fedsarsa-tests/Walk-v0", terminates=one) for one in (True, False, True)]
    together = algorithm(None).train(fs.GymFleet(worlds, 0.5, vector=True), 200, runs=1)
    before = len(CLOSED)
    parts = [algorithm(None).train(fs.GymFleet([world], 0.5, vector=True), 200, runs=1) for world in worlds]
    mean = np.mean([part.final.values[0] for part in parts], axis=0)
    np.testing.assert_allclose(together.final.values[0], mean, rtol=1e-12)
    assert len(CLOSED) == before + 6  # three that were tried, three that were trained in


def test_a_vector_that_raises_stops_all_its_agents():
    with (
        pytest.warns(RuntimeWarning, match="of run 0 stopped at step 19.*Walk-v0") as caught,
        pytest.raises(NoAgentLeftError, match="the cable came off") as stop,
    ):
        algorithm().train(walks(2, fails_at=20), 50, runs=1)
    assert "the cable came off" in str(caught[0].message)
    history = stop.value.history
    assert history.data.stopped_at.values.tolist() == [[19, 19]]
    assert float(history.final.max()) > 0.3


@pytest.mark.parametrize(
    ("rows", "message"), [(0, "the motor is stuck"), (1, "must answer as many rows, got 1")]
)
def test_a_vector_that_does_not_reset_stops_its_agents(rows, message):
    with pytest.warns(RuntimeWarning, match=message), pytest.raises(NoAgentLeftError, match=message) as stop:
        algorithm().train(walks(2, reset_rows=rows), 50, runs=1)
    assert stop.value.history is None  # nothing was learned before the first step


def test_a_vector_whose_agents_have_stopped_is_not_stepped():
    STEPPED.clear()
    with pytest.warns(RuntimeWarning, match="stopped at step 19"), pytest.raises(NoAgentLeftError):
        algorithm().train(walks(2, fails_at=20), 1000, runs=1)
    assert len(STEPPED) == 20


def test_an_agent_of_a_vector_stops_alone():
    with pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 8.*reward must be finite"):
        history = algorithm().train(walks(2, lost_at=9), 400, runs=1)
    assert history.data.stopped_at.values.tolist() == [[8, -1]]
    assert history.data.episodes.sum("bin").values.tolist() == [[2, 100]]


@pytest.mark.slow
def test_cart_poles_of_gymnasium_learn():
    """A random policy stays up for 22 steps; the mean of twelve runs was 172, standard error 37."""
    fleet = fs.GymFleet([fs.GymWorld("CartPole-v1")] * 4, vector=True)
    features = fs.TileCoding(8, [2, 4, 8, 8], bounds=fs.control.CartPole().bounds)
    history = fs.FedSARSA(features, fs.EpsilonGreedy(0.01), 0.3, 100).train(fleet, 8000, runs=12)
    last = history.data[["episodes", "lengths"]].isel(bin=slice(-20, None)).sum(["agent", "bin"])
    assert float((last.lengths / last.episodes).mean()) > 80
    # Every step is one of an episode that is over, the pause after it, or one of the episode that is not.
    known = (history.data.lengths + history.data.episodes).sum("bin").values
    assert (known <= 8000).all()
    assert (known > 8000 - 501).all()


def test_the_seed_decides():
    fleet = fs.GymFleet([fs.GymWorld("CartPole-v1")] * 3, vector=True)
    features = fs.TileCoding(4, 3, bounds=fs.control.CartPole().bounds)
    one, same, other = (
        fs.FedSARSA(features, fs.EpsilonGreedy(0.1), 0.3, 10).train(fleet, 200, runs=1, seed=seed)
        for seed in (1, 1, 2)
    )
    assert one.data.equals(same.data)
    assert not one.data.equals(other.data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: fs.GymFleet([fs.GymWorld("MountainCar-v0")], vector=True),
            "MountainCar-v0 offers none",
        ),
        (
            lambda: fs.GymFleet([fs.GymWorld("nowhere:Walk-v0")], vector=True),
            "nowhere:Walk-v0.*cannot be made",
        ),
        (lambda: fs.GymFleet([fs.GymWorld(Walk)], vector=True), "Walk is no registered id"),
        (
            lambda: fs.GymFleet([fs.GymWorld("CartPole-v1")], processes=2, vector=True),
            "processes must be None",
        ),
        (lambda: algorithm().train(walks(1, mode="SAME_STEP"), 5, runs=1), "SAME_STEP"),
    ],
)
def test_what_has_no_vector_environment_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
