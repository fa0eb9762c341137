"""Training in environments of Gymnasium: learning, episodes, failures, processes."""

import signal

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation.engines import gym_lanes, stepping

MADE, CLOSED = [], []


class Corridor(gym.Env):
    """One state, one step an episode, reward 1; it ends by termination or by truncation."""

    def __init__(
        self, terminates=True, fails_at=None, observation=0.0, reward=1.0, wrong_at=None, no_reset_after=None
    ):
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
        self.action_space = gym.spaces.Discrete(1)
        self.terminates, self.fails_at, self.wrong_at = terminates, fails_at, wrong_at
        self.observation, self.reward, self.no_reset_after = observation, reward, no_reset_after
        self.t = 0
        MADE.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.t == self.no_reset_after:
            raise OSError("the motor is stuck")
        self.first_seed = seed if seed is not None else self.first_seed
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == self.fails_at:
            raise OSError("the cable came off")
        wrong = self.t == self.wrong_at
        observation = np.full(1, self.observation if wrong else 0.0, np.float32)
        return observation, self.reward if wrong else 1.0, self.terminates, not self.terminates, {}

    def close(self):
        CLOSED.append(self)


@pytest.fixture(autouse=True)
def _count():
    MADE.clear()
    CLOSED.clear()
    yield
    assert len(CLOSED) == len(MADE)


def algorithm(**options):
    return fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 0.1, 10, **options)


def test_termination_and_truncation_have_different_fixed_points():
    # A step is worth 1 if it ends the world, 1 / (1 - discount) if it only ends the episode.
    values = []
    for terminates in (True, False):
        fleet = fs.GymFleet([fs.GymWorld(Corridor, terminates=terminates)] * 2, discount=0.5)
        history = algorithm().train(fleet, 400, runs=1)
        values.append(float(history.final.max()))
        assert int(history.data.episodes.sum()) == 800
    assert values == pytest.approx([1.0, 2.0], abs=1e-6)


class Walk(gym.Env):
    """Places in a fixed order, the first one twice; the end is a termination or a truncation."""

    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(1)
    places, rewards = (0, 1, 0, 2, 3), (1.0, -2.0, 4.0, 8.0)

    def __init__(self, terminates):
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.places[0], {}

    def step(self, action):
        self.t += 1
        over = self.t == len(self.rewards)
        ends = over and self.terminates, over and not self.terminates
        return self.places[self.t], self.rewards[self.t - 1], *ends, {}


def slow_sarsa(terminates, trace_decay, traces, discount=0.9, step_size=0.3, episodes=2):
    """The values of the places after some walks."""
    values = [0.0] * 4
    for _ in range(episodes):
        trace = [0.0] * 4
        for t, reward in enumerate(Walk.rewards):
            here, ahead = Walk.places[t], Walk.places[t + 1]
            over = terminates and t + 1 == len(Walk.rewards)
            error = reward + (0.0 if over else discount * values[ahead]) - values[here]
            trace = [discount * trace_decay * one for one in trace]
            trace[here] = 1.0 if traces == "replacing" else trace[here] + 1.0
            values = [value + step_size * error * one for value, one in zip(values, trace, strict=True)]
    return values


@pytest.mark.parametrize("terminates", [True, False])
@pytest.mark.parametrize("traces", ["accumulating", "replacing"])
@pytest.mark.parametrize("trace_decay", [0.5, 1.0])
def test_traces_end_with_the_episode(trace_decay, traces, terminates):
    fleet = fs.GymFleet([fs.GymWorld(Walk, terminates=terminates)], discount=0.9, processes=0)
    algo = fs.FedSARSA(fs.OneHot(), fs.Greedy(), 0.3, None, trace_decay=trace_decay, traces=traces)
    history = algo.train(fleet, 8, runs=1)
    assert history.data.episodes.sum() == 2
    expected = slow_sarsa(terminates, trace_decay, traces)
    np.testing.assert_allclose(history.final[0, :4], expected, rtol=0, atol=1e-12)


def test_seeds_depend_on_seed_run_and_agent():
    fleet = fs.GymFleet([fs.GymWorld(Corridor)] * 2, processes=0)
    algorithm().train(fleet, 3, runs=2, seed=1)
    algorithm().train(fleet, 3, runs=2, seed=1)
    algorithm().train(fleet, 3, runs=1, seed=2)
    seeds = [env.first_seed for env in MADE if hasattr(env, "first_seed")]  # one only showed its spaces
    assert seeds[:4] == seeds[4:8]
    assert len(set(seeds[:4])) == 4
    assert not set(seeds[8:]) & set(seeds[:4])


def test_an_environment_that_raises_stops_its_agent_and_the_others_learn():
    worlds = [fs.GymWorld(Corridor), fs.GymWorld(Corridor, fails_at=25)]
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 24: Corridor") as caught:
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=1)
    assert "the cable came off" in str(caught[0].message)
    assert "Traceback" in str(caught[0].message)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)
    assert history.data.stopped_at.values.tolist() == [[-1, 24]]
    report = history.settings["stopped"][0]
    assert (report["agent"], report["step"]) == (1, 24)
    assert int(history.data.episodes.sel(agent=0).sum()) == 400
    assert int(history.data.episodes.sel(agent=1).sum()) == 24


def test_an_environment_that_does_not_reset_stops_its_agent():
    worlds = [fs.GymWorld(Corridor), fs.GymWorld(Corridor, no_reset_after=30)]
    with pytest.warns(RuntimeWarning, match="the motor is stuck"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=2)
    assert history.data.stopped_at.values.tolist() == [[-1, 30], [-1, 30]]
    assert history.data.lengths.sum("bin").values.tolist() == [[400, 30], [400, 30]]
    assert history.final.max("d").values == pytest.approx([1.0, 1.0], abs=1e-6)


class Old(Corridor):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class Wide(Corridor):
    def step(self, action):
        return np.zeros(3, np.float32), *super().step(action)[1:]


@pytest.mark.parametrize("made", [Old, Wide])
def test_answers_of_another_form_stop_the_agent(made):
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 0.*not as its spaces say"):
        history = algorithm().train(
            fs.GymFleet([fs.GymWorld(Corridor), fs.GymWorld(made)], 0.5, processes=0), 300, runs=1
        )
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)


class Several(Corridor):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, np.array([terminated, terminated]), truncated, info


class OldReset(Corridor):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0]


class Tensor:
    def __array__(self, *args, **options):
        raise RuntimeError("detach me first")


class Attached(Corridor):
    def step(self, action):
        return Tensor(), *super().step(action)[1:]


class Endless(Corridor):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, 10**400, *rest


class NarrowReset(Corridor):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-np.ones(2, np.float32), np.ones(2, np.float32))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (Several, "step 0.*not as its spaces say: ValueError.*The truth value"),
        (Attached, "step 0.*not as its spaces say: RuntimeError"),
        (Endless, "step 0.*not as its spaces say: OverflowError"),
        (OldReset, r"step 0.*reset must answer \(observation, info\), got array"),
    ],
)
@pytest.mark.parametrize("processes", [0, 2])
def test_answers_of_another_kind_stop_the_agent(made, message, processes):
    fleet = fs.GymFleet([fs.GymWorld(Corridor), fs.GymWorld(made)], 0.5, processes=processes)
    with pytest.warns(RuntimeWarning, match=f"agent 1 of run 0 stopped at {message}"):
        history = algorithm().train(fleet, 300, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)


def test_observations_with_too_few_numbers_are_not_spread():
    """NumPy would write one number into both places."""
    with pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 0.*2 numbers are expected"):
        history = algorithm().train(fs.GymFleet([fs.GymWorld(NarrowReset)], 0.5, processes=0), 20, runs=1)
    assert int(history.data.episodes.sum()) == 0


class Talkative(Corridor):
    def step(self, action):
        *answer, _ = super().step(action)
        return *answer, {"cannot be sent": lambda: None}


def test_what_environments_say_beside_is_not_sent():
    here, there = (
        algorithm().train(fs.GymFleet([fs.GymWorld(Talkative)] * 2, 0.5, processes=count), 50, runs=1)
        for count in (0, 2)
    )
    assert there.data.equals(here.data)


class LostStart(Corridor):
    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed, options=options)
        return seen + (np.float32(np.nan) if self.t == 8 else 0), info


class WideStart(Corridor):
    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed, options=options)
        return np.zeros(3 if self.t == 8 else 1, np.float32), info


@pytest.mark.parametrize(
    ("made", "message"),
    [(LostStart, r"observation must be finite, got \[nan\]"), (WideStart, "not as its space says")],
)
def test_first_observations_that_are_wrong_stop_the_agent(made, message):
    worlds = [fs.GymWorld(Corridor), fs.GymWorld(made)]
    with pytest.warns(RuntimeWarning, match=f"agent 1 of run 0 stopped at step 8.*{message}"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 300, runs=1)
    assert history.data.episodes.sum("bin").values.tolist() == [[300, 8]]
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)


def test_parameters_that_overflow_end_a_run():
    fleet = fs.GymFleet([fs.GymWorld(Corridor, terminates=False)] * 2, 0.5)
    history = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 1e200, 5).train(fleet, 50, runs=2)
    assert (history.failed_at >= 0).all()
    assert np.isnan(history.final).all()


def test_what_is_learned_is_kept_when_every_environment_has_failed():
    worlds = [fs.GymWorld(Corridor, fails_at=100)] * 2
    with pytest.warns(RuntimeWarning, match="stopped at step 99"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-3)


def test_what_is_learned_within_a_round_is_kept():
    worlds = [fs.GymWorld(Corridor, fails_at=90)] * 2
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 0.1, sync_every=100)
    with pytest.warns(RuntimeWarning, match="stopped at step 89"):
        history = algo.train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-3)


def test_an_agent_that_stopped_enters_one_more_average():
    # Within the first round both are worth 1 - 0.9^n; then only the second one goes on.
    worlds = [fs.GymWorld(Corridor, fails_at=6), fs.GymWorld(Corridor)]
    with pytest.warns(RuntimeWarning, match="stopped at step 5"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 20, runs=1)
    first = 0.5 * (1 - 0.9**5) + 0.5 * (1 - 0.9**10)
    np.testing.assert_allclose(history.central[0, 1].max(), first)
    np.testing.assert_allclose(history.central[0, 2].max(), 1 - (1 - first) * 0.9**10)


class Stubborn(Corridor):
    """It does not close as it should."""

    def close(self):
        super().close()
        if self.t:
            raise OSError("viewer already closed")


def test_an_environment_that_does_not_close_loses_nothing():
    with pytest.warns(RuntimeWarning, match="did not close: OSError"):
        history = algorithm().train(fs.GymFleet([fs.GymWorld(Stubborn)], 0.5, processes=0), 100, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": np.nan}, r"observation must be finite, got \[nan\]"),
        ({"reward": np.inf}, "reward must be finite, got inf"),
    ],
)
def test_answers_that_are_not_finite_stop_the_agent(options, message):
    worlds = [fs.GymWorld(Corridor, wrong_at=7, **options), fs.GymWorld(Corridor)]
    with pytest.warns(RuntimeWarning, match=f"agent 0 of run 0 stopped at step 6: Corridor.*{message}"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 300, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)
    assert history.data.stopped_at.values.tolist() == [[6, -1]]


def test_environments_are_closed_after_an_error(monkeypatch):
    monkeypatch.setattr(gym_lanes, "begin", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        algorithm().train(fs.GymFleet([fs.GymWorld(Corridor)] * 3, processes=0), 10, runs=1)
    assert len(MADE) == 4  # one to see its spaces; the fixture sees that all are closed


def cart(**options):
    return fs.control.CartPole(**options).to_gymnasium()


BOUNDS = fs.control.CartPole().bounds


def test_processes_give_the_same_training():
    algo = fs.FedSARSA(fs.TileCoding(4, 3, bounds=BOUNDS), fs.EpsilonGreedy(0.1), 0.2, 20, trace_decay=0.5)
    worlds = [fs.GymWorld(cart, length=length) for length in (0.4, 0.5, 0.6)]
    here, there = (algo.train(fs.GymFleet(worlds, processes=processes), 300, runs=2) for processes in (0, 2))
    assert there.data.equals(here.data)
    assert here.data.episodes.sum() > 10


def dies():
    class Dying(Corridor):
        def step(self, action):
            import os

            if self.t >= 5:
                os._exit(3)
            return super().step(action)

    return Dying()


def test_a_process_that_dies_is_reported():
    worlds = [fs.GymWorld(Corridor), fs.GymWorld(dies)]
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 5.*exit code 3"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=2), 300, runs=1)
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-6)


def test_slow_environments_get_processes(monkeypatch):
    import time

    class Slow(Corridor):
        def step(self, action):
            time.sleep(0.001)
            return super().step(action)

    slow = stepping.stepper([fs.GymWorld(Slow)] * 4, None, cores=2)
    assert isinstance(slow, stepping.Processes)
    assert len(slow.children) == 2
    slow.close()
    quick = stepping.stepper([fs.GymWorld(Corridor)] * 4, None, cores=2)
    assert isinstance(quick, stepping.Here)
    quick.close()


def test_one_hot_features_of_discrete_observations():
    fleet = fs.GymFleet([fs.GymWorld("FrozenLake-v1", is_slippery=False)] * 2, discount=0.9)
    history = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.3), 0.3, 10, initial_value=0.5).train(
        fleet, 3000, runs=1
    )
    late = (
        history.data.returns.isel(bin=slice(100, None)).sum()
        / history.data.episodes.isel(bin=slice(100, None)).sum()
    )
    assert late > 0.2  # a random walk reaches the goal in about 1 of 70 episodes


class Target(gym.Env):
    """One step an episode: the nearer the action is to 0.5, the better."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.zeros(1, np.float32), -abs(float(action[0]) - 0.5), True, False, {}


def test_continuous_actions_are_learned():
    fleet = fs.GymFleet([fs.GymWorld(Target)] * 2, processes=0)
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy("uniform"), 1.0, 1, actions=fs.GridActions(5))
    history = algo.train(fleet, 60, runs=1)
    # Every action was tried: its value is its reward, at the one tile that is seen.
    np.testing.assert_allclose(history.final[0, :5], [-1.5, -1.0, -0.5, 0.0, -0.5], atol=1e-6)
    assert (fs.rollouts(fleet, algo, history.final[0], 3).mean_return == 0).all()
    algo = fs.FedSARSA(fs.TileCoding(8, 8), fs.EpsilonGreedy(0.2), 0.2, 10, actions=fs.RandomActions(32))
    history = algo.train(fleet, 2000, runs=1)
    # The nearest of 32 draws is 0.03 away in the mean; without choice it would be 0.625.
    assert (fs.rollouts(fleet, algo, history.final[0], 50).mean_return > -0.1).all()


def test_engines_and_worlds_must_fit():
    with pytest.raises(ValueError, match="engine must be 'gym' or 'auto'"):
        algorithm().train(fs.GymFleet([fs.GymWorld(Corridor)]), 10, engine="cpu")
    with pytest.raises(ValueError, match="engine 'ray' is for finite worlds"):
        fs.FedSARSA(fs.TileCoding()).train(fs.control.fleet("CartPole", agents=2), 10, engine="ray")
    with pytest.raises(ValueError, match="engine 'gym' is for environments"):
        algorithm().train(fs.control.fleet("CartPole", 1), 10, engine="gym")
    with pytest.raises(ValueError, match=r"observations \[1, 3\] have no bounds"):
        algorithm().train(fs.GymFleet([fs.GymWorld("CartPole-v1")]), 10)


@pytest.mark.parametrize("sync_every", [30, 31, None])
def test_who_learned_nothing_is_in_no_average(sync_every):
    worlds = [fs.GymWorld(Corridor, fails_at=1), fs.GymWorld(Corridor)]
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 1.0, sync_every)
    with pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 0"):
        history = algo.train(fs.GymFleet(worlds, 0.5, processes=0), 30, runs=1)
    assert float(history.final.max()) == 1.0


def test_an_incomplete_round_averages_those_who_learned_in_it():
    """Agent 0 stops in the first round, with 1 - 0.9**7; agent 1 takes four steps in the second."""
    worlds = [fs.GymWorld(Corridor, fails_at=8), fs.GymWorld(Corridor)]
    with pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 7"):
        history = algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 14, runs=1)
    mean = 1 - (0.9**7 + 0.9**10) / 2
    assert float(history.final.max()) == pytest.approx(1 - (1 - mean) * 0.9**4, rel=1e-12)


@pytest.mark.parametrize("steps", [1, 2])
def test_the_last_step_before_a_reset_that_fails_counts(steps):
    worlds = [fs.GymWorld(Corridor, no_reset_after=steps), fs.GymWorld(Corridor)]
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 1.0, 5)
    with pytest.warns(RuntimeWarning, match=f"agent 0 of run 0 stopped at step {steps}"):
        history = algo.train(fs.GymFleet(worlds, 0.5, processes=0), 5, runs=1)
    assert float(history.final.max()) == 1.0


class Changing(gym.Env):
    """The reward is the action, which it halves in place afterwards."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = float(action[0])
        action *= 0.5
        return np.zeros(1, np.float32), reward, True, False, {}


@pytest.mark.parametrize("processes", [0, 1])
def test_environments_may_change_the_action_they_get(processes):
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.FixedPolicy(1), 0.5, 10, actions=fs.GridActions(2))
    fleet = fs.GymFleet([fs.GymWorld(Changing)], 0.5, processes=processes)
    history = algo.train(fleet, 20, runs=1)
    assert float(history.data.returns.sum()) == 20.0
    assert (fs.rollouts(fleet, algo, history.final[0], episodes=5).returns == 1.0).all()


def test_environments_that_are_slow_can_be_interrupted(tmp_path):
    """A look at the keyboard comes after the first step, whatever a step costs."""

    class Pressed(Corridor):
        def step(self, action):
            if self.t == 0:
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    path = tmp_path / "checkpoint.nc"
    with pytest.raises(KeyboardInterrupt, match="interrupted after 1 of 5000 steps"):
        algorithm().train(
            fs.GymFleet([fs.GymWorld(Pressed)], 0.5, processes=0), 5000, runs=1, checkpoint=path
        )
    assert path.exists()
