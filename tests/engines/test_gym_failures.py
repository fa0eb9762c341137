"""Gymnasium environments that raise, answer what they should not, or die: who stops, and who continues."""

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.engines import gym_rounds
from tests.engines.corridors import MADE, Corridor, algorithm, every_environment_is_closed  # noqa: F401


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
    fleet = fs.GymFleet([fs.GymWorld(NarrowReset)], 0.5, processes=0)
    with (
        pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 0.*2 numbers are expected"),
        pytest.raises(RuntimeError, match=r"no agent is left.*2 numbers are expected"),
    ):
        algorithm().train(fleet, 20, runs=1)


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
    with (
        pytest.warns(RuntimeWarning, match="stopped at step 99"),
        pytest.raises(RuntimeError, match="no agent is left: agent 0 of run 0 stopped at step 99") as error,
    ):
        algorithm().train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=1)
    history = error.value.history
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-3)


def test_what_is_learned_within_a_round_is_kept():
    worlds = [fs.GymWorld(Corridor, fails_at=90)] * 2
    algo = fs.FedSARSA(fs.TileCoding(1, 1), fs.Greedy(), 0.1, sync_every=100)
    with pytest.warns(RuntimeWarning, match="stopped at step 89"), pytest.raises(RuntimeError) as error:
        algo.train(fs.GymFleet(worlds, 0.5, processes=0), 400, runs=1)
    history = error.value.history
    assert float(history.final.max()) == pytest.approx(1.0, abs=1e-3)


def test_an_agent_that_stopped_enters_one_more_average():
    # Within the first round both are worth 1 - 0.9^n; then only the second one continues.
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
    monkeypatch.setattr(gym_rounds, "act", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        algorithm().train(fs.GymFleet([fs.GymWorld(Corridor)] * 3, processes=0), 10, runs=1)
    assert len(MADE) == 5  # one to see its spaces, one its reward; the fixture sees that all are closed


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
