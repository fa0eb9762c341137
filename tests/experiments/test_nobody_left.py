"""Trainings in which no agent is left end with an error."""

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from tests.experiments.commands import command

CONFIG = """
[fleet]
kind = "gym"
id = "tests.experiments.test_nobody_left:Failing-v0"
agents = 2
options = {{ last = {last} }}
[algorithm]
features = {{ kind = "tile-coding", tilings = 1, bins = 2 }}
policy = {{ kind = "greedy" }}
step_size = 0.5
sync_every = 5
[training]
steps = 50
runs = 2
"""


class Failing(gym.Env):
    """Works for ``last`` steps."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, last=0, render_mode=None):
        self.last, self.t = last, 0

    def reset(self, *, seed=None, options=None):
        return np.array([0.5]), {}

    def step(self, action):
        if self.t >= self.last:
            raise KeyError("the cable came off")
        self.t += 1
        return np.array([0.5]), 2.0, False, False, {}


gym.register("Failing-v0", Failing, disable_env_checker=True)


@pytest.mark.filterwarnings("ignore:agent . of run . stopped")
@pytest.mark.parametrize(("last", "files"), [(0, set()), (12, {"history.nc", "learning-curve.png"})])
def test_command_ends_with_an_error(tmp_path, last, files):
    config, out = tmp_path / "failing.toml", tmp_path / "out"
    config.write_text(CONFIG.format(last=last))
    done = command("train", config, "--out", out)
    assert done.returncode == 1
    assert f"no agent is left: agent 0 of run 0 stopped at step {last}: " in done.stderr
    assert "the cable came off" in done.stderr
    assert {path.name for path in out.iterdir()} >= files
    assert files or not list(out.iterdir())


@pytest.mark.filterwarnings("ignore:agent . of run . stopped")
def test_python_gets_what_was_learned_before():
    algo = fs.FedSARSA(fs.TileCoding(1, 2), fs.Greedy(), 0.5, 5)
    fleet = fs.GymFleet([fs.GymWorld(Failing, last=last) for last in (12, 17)], processes=0)
    with pytest.raises(RuntimeError, match="no agent is left: agent 0 of run 0 stopped at step 12") as caught:
        algo.train(fleet, 50, runs=1)
    history = caught.value.history
    assert history.data.steps.sum("bin").values.tolist() == [[12, 17]]
    assert history.learning_curve(bins=1).name == "reward_per_step"
    np.testing.assert_array_equal(history.learning_curve(bins=1).values, [[[2.0], [2.0]]])


@pytest.mark.filterwarnings("ignore:agent . of run . stopped", "ignore:callback is called once")
@pytest.mark.parametrize("sync_every", [5, None])
def test_training_ends_with_the_round_in_which_the_last_agent_stopped(sync_every):
    schedule = fs.EpsilonGreedy(fs.LinearSchedule(0.5, 0.1, 1000))
    fleet = fs.GymFleet([fs.GymWorld(Failing, last=last) for last in (12, 17)], processes=0)
    for policy in (fs.Greedy(), schedule):
        algo, told = fs.FedSARSA(fs.TileCoding(1, 2), policy, 0.5, sync_every), []
        with pytest.raises(RuntimeError, match="no agent is left") as caught:
            algo.train(fleet, 100_000, runs=1, callback=told.append)
        history = caught.value.history
        steps = 18 if sync_every is None else 20
        assert history.settings["steps"] == steps
        assert history.settings["steps_asked_for"] == 100_000
        records = [0] if sync_every is None else [0, 5, 10, 15, 20]
        assert history.central.t.values.tolist() == [event.t for event in told] == records
        assert history.data.bin_end.values[-1] == steps
