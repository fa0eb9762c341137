"""Control worlds and Gymnasium environments in a deployment, with agents in this process."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedsarsa.deploy import federation_config, ledger
from fedsarsa.deploy.agent import Agent, RefusalError
from tests.deploy.environments import Motor
from tests.deploy.federations import question, reference, request, with_participation
from tests.deploy.grids import NODES, FakeGrid, assert_central, theta_of, with_theta

CART_POLE = """
[fleet]
kind = "control"
world = "CartPole"
agents = 3
spread = 0.3
physics = { time_limit = 15, noise = 0.1 }
[algorithm]
features = { kind = "tile-coding", tilings = 4, bins = 3 }
policy = { kind = "epsilon-greedy", eps = 0.1 }
step_size = [0.3, 0.2, 0.1]
sync_every = 40
weights = [0.2, 0.5, 0.3]
trace_decay = 0.7
initial_value = 2.0
[training]
steps = 240
seed = 5
[server]
deadline = 0.5
"""
PENDULUM = """
[fleet]
kind = "control"
world = "Pendulum"
agents = 3
spread = 0.2
discount = 0.9
[algorithm]
features = { kind = "fourier", order = 1 }
policy = { kind = "softmax", temperature = 1.0 }
actions = { kind = "random", count = 5 }
step_size = 0.02
sync_every = 30
radius = 5.0
target = "expected"
step_per_feature = true
[training]
steps = 120
seed = 2
"""
MOUNTAIN_CAR = """
[fleet]
kind = "control"
world = "MountainCarContinuous"
agents = 3
physics = { time_limit = 20 }
[algorithm]
features = { kind = "rbf", centres = 2 }
policy = { kind = "greedy", ties = "first" }
actions = { kind = "grid", count = 3 }
step_size = 0.1
sync_every = 25
trace_decay = 0.9
traces = "replacing"
[training]
steps = 100
seed = 1
"""
MOTOR = """
[fleet]
kind = "gym"
id = "tests.deploy.environments:Motor-v0"
agents = 3
processes = 0
discount = 0.9
[algorithm]
features = { kind = "tile-coding", tilings = 2, bins = 3 }
policy = { kind = "epsilon-greedy", eps = 0.3 }
step_size = 0.1
sync_every = 25
trace_decay = 0.5
[training]
steps = 150
seed = 1
[server]
reward_cap = 2.0
"""


def load(tmp_path, text):
    path = tmp_path / "continuous.toml"
    path.write_text(text)
    return federation_config.load(path)


def grid_of(settings, homes):
    return FakeGrid({node: Agent(settings, i, homes[i]) for i, node in enumerate(NODES)})


@pytest.mark.parametrize("text", [CART_POLE, PENDULUM, MOUNTAIN_CAR], ids=["cart", "pendulum", "car"])
def test_the_engines_parameters_round_by_round(server, homes, tmp_path, text):
    settings = load(tmp_path, text)
    made = server(settings)
    made.train(grid_of(settings, homes))
    assert all(not line["rejected"] for line in ledger.read(made.home) if line["round"])
    assert_central(made, settings, reference(settings))


@pytest.mark.parametrize("text", [CART_POLE, MOTOR], ids=["cart", "motor"])
def test_rounds_in_many_stretches_are_those_in_one(homes, tmp_path, monkeypatch, text):
    settings = load(tmp_path, text)
    seen = []
    for home, stretch in ((homes[0], 1e9), (homes[1], 1e-9)):  # ever longer ones, a step at a time
        monkeypatch.setattr("fedsarsa.federation.training.SPAN_SECONDS", stretch)
        agent, theta = Agent(settings, 0, home), settings.theta0
        for number in range(1, 5):
            theta = agent.take_part(request(settings, number), theta)
        seen.append((theta, agent.learner.held, agent.learner.episodes, agent.learner._stretch))
        agent.learner.close()
    np.testing.assert_equal(seen[0][:3], seen[1][:3])
    assert seen[0][2][0] > 0
    assert seen[0][3] > settings.every
    assert seen[1][3] == 1


def test_control_worlds_go_on_after_a_crash_and_forget_rounds_that_did_not_count(server, homes, tmp_path):
    settings = load(tmp_path, CART_POLE)
    grid = grid_of(settings, homes)

    def late_and_killed(node, number, reply):
        if node == 102:
            grid.agents[102] = Agent(settings, 1, homes[1])
        return None if node == 102 and number in (2, 3) else reply

    grid.spoil = late_and_killed
    made = server(settings)
    made.train(grid)
    rounds = [[0, 2] if number in (2, 3) else [0, 1, 2] for number in range(1, 7)]
    assert_central(made, settings, with_participation(settings, rounds))


def test_a_control_world_of_ones_own(homes, tmp_path):
    settings = load(tmp_path, CART_POLE)
    world = settings.worlds[1]
    alone = CART_POLE.replace("agents = 3\nspread = 0.3", "agents = 1").replace(
        "[server]", "[server]\nagents = 3"
    )
    names = ("length", "pole_mass", "cart_mass", "force", "gravity")
    physics = ", ".join(f"{name} = {getattr(world, name)!r}" for name in names)
    own = load(tmp_path, alone.replace("time_limit = 15", f"time_limit = 15, {physics}"))
    assert own.terms == settings.terms
    answers = [
        Agent(known, 1, home).take_part(request(settings, 1), settings.theta0)
        for known, home in ((own, homes[0]), (settings, homes[1]))
    ]
    np.testing.assert_array_equal(*answers)


def test_a_server_that_never_saw_a_control_world(server, homes, tmp_path):
    settings = load(tmp_path, PENDULUM)
    low, high = settings.worlds.bounds
    torque = settings.worlds.action_bounds
    section = f"""[fleet]
kind = "remote-continuous"
agents = 3
low = {list(low)}
high = {list(high)}
action_bounds = {list(torque)}
discount = 0.9
reward_cap = {settings.reward_cap}
"""
    blind = load(tmp_path, section + PENDULUM[PENDULUM.index("[algorithm]") :])
    assert blind.worlds is None
    assert blind.terms == settings.terms
    made = server(blind)
    made.train(grid_of(settings, homes))
    assert_central(made, settings, reference(settings))


def test_environments_of_gymnasium_take_the_steps_of_the_gym_engine(server, homes, tmp_path):
    Motor.made = Motor.closed = 0
    settings = load(tmp_path, MOTOR)
    history = settings.algorithm.train(settings.worlds, 150, runs=1, seed=1)
    grid = grid_of(settings, homes)
    made = server(settings)
    made.train(grid)
    np.testing.assert_allclose(
        ledger.central(made.home, settings.dim), history.central[0].values, rtol=0, atol=1e-12
    )
    ended, gain = grid.agents[101].learner.episodes
    assert ended == 3  # steps 125 to 150, ten to an episode
    assert 10 <= gain <= 20
    for agent in grid.agents.values():
        agent.learner.close()
    assert Motor.made == Motor.closed == 1 + 3 + 3  # one to look at, three for each training


def test_an_environment_goes_on_in_any_case_and_begins_anew_in_a_new_process(homes, tmp_path):
    settings = load(tmp_path, MOTOR)
    agent, theta = Agent(settings, 0, homes[0]), settings.theta0
    assert not agent.learner.can_be_saved
    agent.take_part(request(settings, 1), theta)
    agent.take_part(request(settings, 2, counted={"0": 0}), theta)  # round 1 has been, although not counted
    assert motor(agent).total == 50
    agent.take_part(request(settings, 3, counted={"0": 1}), theta)
    assert motor(agent).total == 75
    again = Agent(settings, 0, homes[0])
    np.testing.assert_array_equal(again.take_part(request(settings, 3), theta), agent.answer)
    again.take_part(request(settings, 4), theta)
    assert motor(again).total == 25
    agent.learner.close()
    again.learner.close()


@pytest.mark.processes
def test_an_agent_process_with_an_environment_survives_its_death(homes, tmp_path):
    settings = load(tmp_path, MOTOR)
    command = [sys.executable, "-m", "fedsarsa", "agent", str(tmp_path / "continuous.toml")]
    command += ["--number", "0", "--home", str(homes[0])]
    address = homes[0] / "agent.sock"
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert "INFO agent: agent 0 listens on" in child.stdout.readline()
        question(address, request(settings, 1), settings.theta0, 60.0, 50.0)
        said = child.stdout.readline()
        assert re.search(r"agent 0: round 1: 25 steps, 2 episodes with a mean return of [0-9.]+\n$", said)
        child.kill()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert (
            "resuming after round 1, with a new episode: environments cannot be saved"
            in child.stdout.readline()
        )
        header, answer = question(address, request(settings, 2), settings.theta0, 60.0, 50.0)
        assert header["round"] == 2
        assert np.isfinite(answer).all()
        child.terminate()
        assert child.wait(60) == 0


def motor(agent):
    return agent.learner._engine.stepper.environments[0].unwrapped


def test_an_environment_that_fails_costs_a_round(homes, tmp_path, caplog):
    broken = tmp_path / "broken"
    settings = load(tmp_path, MOTOR.replace("agents = 3", f'agents = 3\noptions = {{ broken = "{broken}" }}'))
    agent, theta = Agent(settings, 2, homes[2]), settings.theta0
    agent.take_part(request(settings, 1), theta)
    broken.touch()
    with (
        pytest.warns(RuntimeWarning, match="the cable came off"),
        pytest.raises(RefusalError, match="its environment failed at step 25; the agent's own output"),
    ):
        agent.take_part(request(settings, 2), theta)
    with pytest.raises(RefusalError, match="its environment cannot be made; the agent's own output says why"):
        agent.take_part(request(settings, 2), theta)
    assert "RuntimeError: the port is taken" in caplog.text
    assert agent.round == 1
    broken.unlink()
    answer = agent.take_part(request(settings, 2), theta)
    assert np.isfinite(answer).all()
    assert agent.round == 2
    agent.learner.close()


def test_the_compiler_is_warm_and_no_world_has_moved(homes, tmp_path):
    for text in (MOTOR, CART_POLE):
        settings = load(tmp_path, text)
        agent, twin = Agent(settings, 0, homes[0]), Agent(settings, 0, homes[1])
        Motor.made = 0
        agent.learner.warm()
        assert Motor.made == 0
        answers = [one.take_part(request(settings, 1), settings.theta0) for one in (agent, twin)]
        np.testing.assert_array_equal(*answers)
        for one, home in ((agent, homes[0]), (twin, homes[1])):
            one.learner.close()
            (home / "agent.npz").unlink()


def test_observations_that_differ_are_named(homes, tmp_path):
    settings = load(tmp_path, MOTOR)
    wide = load(tmp_path, MOTOR.replace("agents = 3", "agents = 3\noptions = { width = 2.0 }"))
    with pytest.raises(RefusalError, match=r"high is \[2\.0\] here, \[1\.0\] at the server"):
        Agent(wide, 0, homes[0]).take_part(request(settings, 1), settings.theta0)


def test_replies_are_checked_against_what_rewards_and_traces_allow(server, homes, tmp_path):
    settings = load(tmp_path, CART_POLE)
    assert settings.reward_cap == 1.0
    assert settings.stride == pytest.approx(1 / (1 - 0.99 * 0.7))
    grid = grid_of(settings, homes)
    grid.spoil = lambda node, number, reply: (
        with_theta(reply, theta_of(reply) + 1e40) if (node, number) == (103, 2) else reply
    )
    made = server(settings)
    made.train(grid)
    line = list(ledger.read(made.home))[2]
    assert re.search("it moved by .*; 40 honest steps reach at most", line["rejected"]["agent 2"])


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (CART_POLE, "deadline = 0.5", "reward_cap = 1.0", 'expected none where fleet.kind is "control"'),
        (
            CART_POLE,
            "[0.3, 0.2, 0.1]",
            "[0.3, 0.2]",
            r"step_size: expected one, or one per agent \(3\), got 2",
        ),
        (CART_POLE, "[0.2, 0.5, 0.3]", "[0.5, 0.5]", r"weights: expected one per agent \(3\), got 2"),
        (CART_POLE, "tile-coding", "modulo", "unknown key"),
        (MOTOR, "Motor-v0", "Meter-v0", "environment .* cannot be made"),
    ],
)
def test_configurations_that_cannot_work(tmp_path, text, old, new, message):
    with pytest.raises(ValueError, match=message):
        load(tmp_path, text.replace(old, new))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("actions = 2\naction_bounds = [-1.0, 1.0]", "either actions or action_bounds"),
        ("", "either actions or action_bounds"),
        ("high = [1.0, 2.0]\nactions = 2", r"fleet.high: expected 1 numbers, as in low, got 2"),
        ("actions = 2\ndiscount = 1.5", "expected at most 1"),
    ],
)
def test_remote_worlds_that_cannot_be(tmp_path, changes, message):
    given = {"kind": '"remote-continuous"', "agents": "3", "low": "[0.0]", "high": "[1.0]"}
    given |= {"discount": "0.9", "reward_cap": "1.0"}
    given |= dict(line.split(" = ") for line in changes.splitlines())
    section = "\n".join(f"{name} = {value}" for name, value in given.items())
    with pytest.raises(ValueError, match=message):
        load(tmp_path, f"[fleet]\n{section}\n" + MOTOR[MOTOR.index("[algorithm]") :].split("[server]")[0])


def test_the_guides_machines_agree(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    agent = next(block for block in blocks if 'kind = "gym"' in block)
    server = next(block for block in blocks if 'kind = "remote-continuous"' in block)
    shared = agent[agent.index("[algorithm]") : agent.index("[server]")]
    assert load(tmp_path, server + shared).terms == load(tmp_path, agent).terms


def test_environments_do_not_tell_their_largest_reward(server, homes, tmp_path):
    silent = load(tmp_path, MOTOR.replace("reward_cap = 2.0", ""))
    with pytest.raises(ValueError, match=r"server.reward_cap: expected a bound on the absolute rewards"):
        server(silent)
    off = load(tmp_path, MOTOR.replace("reward_cap = 2.0", "reward_cap = inf"))
    assert server(off).settings.reward_cap == np.inf
