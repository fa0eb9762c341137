"""Trainings in Gymnasium environments that resume from files."""

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.federation import checkpoint

STEPS = 600


class Line(gym.Env):
    """Walk along ten places; an episode takes ten steps, or as many as said."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fails_at=None, reward=1.0, length=10):
        self.fails_at, self.reward, self.length, self.t = fails_at, reward, length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.began = self.t
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.t == self.fails_at:
            raise OSError("the cable came off" * 10_000)
        walked = self.t - self.began
        return np.full(1, walked / 10, np.float32), self.reward, walked == self.length, False, {}


def other_line(**options):
    return Line(**options)


def algorithm(**options):
    return fs.FedSARSA(fs.TileCoding(2, 4), fs.Greedy(), 0.1, 10, **options)


def fleet(*worlds):
    return fs.GymFleet(worlds, 0.5, processes=0)


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """Train until the first checkpoint is written; its path."""

    def train(algo, group):
        keep, written = checkpoint.save, []

        def save(path, mark, state, *rest):
            keep(path, mark, state, *rest)
            written.append(state.t)
            raise InterruptedError

        with monkeypatch.context() as patch:
            patch.setattr("fedsarsa.federation.training.CHECKPOINT_SECONDS", 0.0)
            patch.setattr("fedsarsa.engines.gym_engine.GymEngine.first_steps", 205)
            patch.setattr(checkpoint, "save", save)
            with pytest.raises(InterruptedError):
                algo.train(group, STEPS, runs=1, checkpoint=tmp_path / "checkpoint.nc")
        assert written == [200]
        return tmp_path / "checkpoint.nc"

    return train


@pytest.mark.parametrize("trace_decay", [0.0, 0.5])
def test_a_training_goes_on_where_an_episode_had_ended(interrupted, trace_decay):
    # Step 200 ends an episode of ten steps, and nothing here is random: new episodes are the same ones.
    algo, group = algorithm(trace_decay=trace_decay), fleet(fs.GymWorld(Line), fs.GymWorld(Line, reward=2.0))
    path = interrupted(algo, group)
    assert algo.train(group, STEPS, runs=1, checkpoint=path).data.equals(
        algo.train(group, STEPS, runs=1).data
    )


@pytest.mark.parametrize("traces", ["accumulating", "replacing"])
def test_a_training_goes_on_with_new_episodes(interrupted, traces):
    # Step 200 is the fourth of an episode of seven steps. That episode is lost, and nothing of it is kept.
    algo = replace(algorithm(trace_decay=0.9, traces=traces), policy=fs.FixedPolicy(0))
    group = fleet(fs.GymWorld(Line, length=7), fs.GymWorld(Line, length=7, reward=2.0))
    path = interrupted(algo, group)
    resumed = algo.train(group, STEPS, runs=1, checkpoint=path)
    episodes = resumed.data.episodes
    assert episodes.sum("bin").values.tolist() == [[28 + 57] * 2]  # in 200 and in 400 steps
    np.testing.assert_array_equal(resumed.data.lengths, 7 * episodes)
    np.testing.assert_array_equal(resumed.data.returns[:, 0], 7 * episodes[:, 0])
    np.testing.assert_array_equal(resumed.data.returns[:, 1], 14 * episodes[:, 1])
    # As a training that begins there: at step 200 all agents had just got the central parameter.
    anew = algo.train(group, STEPS - 200, runs=1, theta0=resumed.central.sel(t=200)[0])
    np.testing.assert_array_equal(resumed.central.sel(t=slice(200, None)), anew.central)
    np.testing.assert_array_equal(resumed.local, anew.local)


def test_reports_and_stopped_agents_go_on(interrupted):
    algo, group = algorithm(), fleet(fs.GymWorld(Line), fs.GymWorld(Line, fails_at=25))
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 24"):
        path = interrupted(algo, group)
    resumed = algo.train(group, STEPS, runs=1, checkpoint=path)  # warnings are errors: none comes again
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 24"):
        whole = algo.train(group, STEPS, runs=1)
    (report,) = resumed.settings["stopped"]
    assert (report["run"], report["agent"], report["step"]) == (0, 1, 24)
    assert report["environment"] == "Line(fails_at=25)"
    assert "the cable came off" * 10_000 in report["why"]
    assert resumed.data.stopped_at.values.tolist() == [[-1, 24]]
    assert resumed.data.equals(whole.data)


def test_what_fails_after_a_checkpoint_is_reported_beside_what_failed_before(interrupted):
    # The environment of agent 0 is made anew at step 200, and counts from there.
    algo, group = algorithm(), fleet(fs.GymWorld(Line, fails_at=201), fs.GymWorld(Line, fails_at=25))
    with pytest.warns(RuntimeWarning, match="agent 1 of run 0 stopped at step 24"):
        path = interrupted(algo, group)
    with (
        pytest.warns(RuntimeWarning, match="agent 0 of run 0 stopped at step 400"),
        pytest.raises(RuntimeError, match="no agent is left: agent 1 of run 0 stopped at step 24") as error,
    ):
        algo.train(group, STEPS, runs=1, checkpoint=path)
    history = error.value.history
    stopped = history.settings["stopped"]
    assert [(report["agent"], report["step"]) for report in stopped] == [(1, 24), (0, 400)]
    assert history.data.stopped_at.values.tolist() == [[400, 24]]


WORLDS = {
    "class": fs.GymWorld(Line),
    "function": fs.GymWorld(other_line),
    "option": fs.GymWorld(Line, reward=2.0),
    "partial": fs.GymWorld(partial(Line, reward=3.0)),
    "partial's option": fs.GymWorld(partial(Line, reward=4.0)),
    "partial's argument": fs.GymWorld(partial(Line, None, reward=4.0)),
    "array": fs.GymWorld(Line, reward=np.array(1.0)),
    "array's last digit": fs.GymWorld(Line, reward=np.array(1.0 + 1e-12)),
}


@pytest.mark.parametrize("written", WORLDS)
def test_constructors_are_told_apart(interrupted, written):
    algo = algorithm()
    path = interrupted(algo, fleet(WORLDS[written]))
    for world in [world for read, world in WORLDS.items() if read != written]:
        with pytest.raises(ValueError, match="expected a checkpoint of this training, got one of another"):
            algo.train(fleet(world), STEPS, runs=1, checkpoint=path)
    algo.train(fleet(WORLDS[written]), STEPS, runs=1, checkpoint=path)


def test_methods_of_worlds_are_told_apart(interrupted):
    algo = fs.FedSARSA(fs.TileCoding(1, 2, fs.control.CartPole().bounds), fs.Greedy(), 0.1, 10)
    short, long = (fs.control.CartPole(length=length).to_gymnasium for length in (0.5, 0.5 + 1e-12))
    path = interrupted(algo, fleet(fs.GymWorld(short)))
    with pytest.raises(ValueError, match="one of another"):
        algo.train(fleet(fs.GymWorld(long)), STEPS, runs=1, checkpoint=path)
    algo.train(fleet(fs.GymWorld(short)), STEPS, runs=1, checkpoint=path)


def unnamed():
    def make():
        return Line()

    return make


@pytest.mark.parametrize("make", [lambda: Line(), unnamed()], ids=["lambda", "local"])
def test_constructors_without_a_name_go_on_with_a_word(interrupted, make):
    algo, group = algorithm(), fleet(fs.GymWorld(Line), fs.GymWorld(make))
    path = interrupted(algo, group)
    with pytest.warns(RuntimeWarning, match=r"environments are those of the checkpoint.* for agents \[1\]"):
        algo.train(group, STEPS, runs=1, checkpoint=path)


def test_the_order_of_options_does_not_matter():
    one, two = fs.GymWorld(Line, fails_at=3, reward=2.0), fs.GymWorld(Line, reward=2.0, fails_at=3)
    assert fleet(one).identity() == fleet(two).identity()


@dataclass
class Terrain:
    heights: np.ndarray


def test_options_are_told_whole():
    flat = np.zeros(5000)
    bump = flat.copy()
    bump[2500] = 99.0
    groups = [fleet(fs.GymWorld(Line, reward=Terrain(heights))) for heights in (flat, flat.copy(), bump)]
    same, again, other = (group.identity() for group in groups)
    assert same == again != other
    assert groups[0].unsure() == []


class Quiet:
    def __repr__(self):
        return "Quiet"


def test_options_known_by_their_repr_alone_are_unsure():
    assert fleet(fs.GymWorld(Line), fs.GymWorld(Line, reward=[Quiet()])).unsure() == [1]


def test_sets_are_told_the_same_in_every_process():
    code = (
        "import fedsarsa as fs\nprint(fs.GymWorld('Line-v0', obstacles={'rock', 'tree', 'wall'}).constructor)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "012"
    }
    assert told == {"'Line-v0'{'obstacles': {'rock', 'tree', 'wall'}}\n"}


def test_labels_of_partials_name_what_they_call():
    world = fs.GymWorld(partial(partial(Line, 7), reward=2.0), reward=3.0)
    assert world.label == "Line(7, reward=3.0)"
