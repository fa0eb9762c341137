"""Every control world that Gymnasium has moves as its environment does, step by step, in float64."""

import types
import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import continuous_mountain_car
from gymnasium.utils.env_checker import check_env

import fedsarsa as fs
from fedsarsa.worlds.control import dynamics, registry
from fedsarsa.worlds.control.world import OBSERVATION, STATE, pack

CASES = 3000
WORLDS = {name: world for name, world in registry.WORLDS.items() if world.gymnasium_id is not None}
# Where random states are drawn: everything that can occur, and somewhat more.
RANGES = {
    "CartPole": (3.0, 4.0, 0.3, 5.0),
    "MountainCar": (1.3, 0.08),
    "MountainCarContinuous": (1.3, 0.08),
    "Acrobot": (np.pi, np.pi, 4 * np.pi, 9 * np.pi),
    "Pendulum": (12.0, 8.0),
}
# What our names are called in Gymnasium environments.
ATTRIBUTES = {
    "CartPole": {
        "gravity": "gravity",
        "cart_mass": "masscart",
        "pole_mass": "masspole",
        "length": "length",
        "force": "force_mag",
        "time_step": "tau",
        "position_limit": "x_threshold",
        "angle_limit": "theta_threshold_radians",
        "total_mass": "total_mass",
        "pole_moment": "polemass_length",
    },
    "MountainCar": {
        "gravity": "gravity",
        "force": "force",
        "max_speed": "max_speed",
        "goal": "goal_position",
    },
    "MountainCarContinuous": {"force": "power", "max_speed": "max_speed", "goal": "goal_position"},
    "Acrobot": {
        "length_1": "LINK_LENGTH_1",
        "mass_1": "LINK_MASS_1",
        "mass_2": "LINK_MASS_2",
        "inertia": "LINK_MOI",
        "time_step": "dt",
        "max_speed_1": "MAX_VEL_1",
        "max_speed_2": "MAX_VEL_2",
    },
    "Pendulum": {
        "gravity": "g",
        "mass": "m",
        "length": "l",
        "torque": "max_torque",
        "time_step": "dt",
        "max_speed": "max_speed",
    },
}


def gymnasiums(world, monkeypatch):
    """Gymnasium's environment with the physics of ``world``, in float64 throughout."""
    float64 = types.SimpleNamespace(array=np.array, float32=np.float64)
    monkeypatch.setattr(continuous_mountain_car, "np", float64)
    with monkeypatch.context() as patch:
        patch.setattr(continuous_mountain_car, "np", np)
        env = gym.make(world.gymnasium_id).unwrapped
        env.reset(seed=0)
    for ours, theirs in ATTRIBUTES[type(world).__name__].items():
        setattr(env, theirs, getattr(world, ours))
    if isinstance(world, fs.control.Acrobot):
        env.LINK_COM_POS_1 = world.centre_1 * world.length_1
        env.LINK_COM_POS_2 = world.centre_2 * world.length_2
        env.AVAIL_TORQUE = [-world.torque, 0.0, world.torque]
    return env


def varied(name):
    """The world with Gymnasium's physics, and one with physics of its own where Gymnasium has them."""
    nominal = WORLDS[name]()
    rng = np.random.default_rng(7)
    own = {
        key: getattr(nominal, key) * rng.uniform(0.8, 1.2) for key in ATTRIBUTES[name] if key in vars(nominal)
    }
    return [nominal, WORLDS[name](**own)]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("name", WORLDS)
def test_every_step_is_gymnasiums(name, compiled, monkeypatch):
    rng = np.random.default_rng(3)
    step = partial(dynamics.step, dynamics.number(WORLDS[name])) if compiled else WORLDS[name].step.py_func
    for world in varied(name):
        env = gymnasiums(world, monkeypatch)
        physics, size = pack([world])[0], world.state_size
        ends = 0
        for _ in range(CASES if compiled else 100):
            state = np.zeros(STATE)
            state[:size] = rng.uniform(-1, 1, size) * RANGES[name]
            if name.startswith("MountainCar"):
                state[:2] = np.clip(state[:2], [-1.2, -world.max_speed], [0.6, world.max_speed])
            if world.action_count is None:
                number = rng.uniform(*world.action_bounds)
                action = np.array([number])
            else:
                action = int(rng.integers(world.action_count))
                number = float(action)
            env.state = state[:size].copy()
            env.steps_beyond_terminated = None
            _, reward, terminated, _, _ = env.step(action)
            ours, over = step(physics, state, number, rng.random())
            np.testing.assert_allclose(state[:size], env.state, rtol=0, atol=1e-9)
            assert ours == pytest.approx(reward, abs=1e-9)
            assert over == terminated
            ends += over
        assert ends > 0 or name == "Pendulum"


@pytest.mark.parametrize("name", WORLDS)
def test_observations_are_gymnasiums(name, monkeypatch):
    rng = np.random.default_rng(4)
    world = WORLDS[name]()
    env = gymnasiums(world, monkeypatch)
    for _ in range(200):
        state, seen = np.zeros(STATE), np.zeros(OBSERVATION)
        state[: world.state_size] = rng.uniform(-1, 1, world.state_size) * RANGES[name]
        dynamics.observe(dynamics.number(WORLDS[name]), pack([world])[0], state, seen)
        env.state = state[: world.state_size]
        theirs = {"Acrobot": "_get_ob", "Pendulum": "_get_obs"}.get(name)
        expected = getattr(env, theirs)() if theirs else env.state
        np.testing.assert_allclose(seen[: len(expected)], expected, rtol=1e-6, atol=1e-6)  # theirs: float32
        assert len(world.bounds[0]) == len(expected)


@pytest.mark.parametrize("name", WORLDS)
def test_starts_have_gymnasiums_ranges(name):
    world, env = WORLDS[name](), gym.make(WORLDS[name].gymnasium_id).unwrapped
    size = world.state_size
    theirs = []
    for seed in range(2000):
        env.reset(seed=seed)
        theirs.append(env.state)
    rng = np.random.default_rng(0)
    ours = np.zeros((2000, STATE))
    for state in ours:
        dynamics.reset(dynamics.number(WORLDS[name]), pack([world])[0], state, *rng.random(4))
    scale = np.ptp(theirs, axis=0) + 1e-12
    for summary in (np.min, np.max, np.mean):
        difference = summary(ours[:, :size], axis=0) - summary(np.array(theirs), axis=0)
        assert np.all(np.abs(difference) < 0.03 * scale)


@pytest.mark.parametrize("name", WORLDS)
def test_time_limits_are_gymnasiums(name):
    assert WORLDS[name]().time_limit == gym.spec(WORLDS[name].gymnasium_id).max_episode_steps


@pytest.mark.parametrize("name", WORLDS)
def test_environments_pass_gymnasiums_check_and_render(name):
    env = WORLDS[name]().to_gymnasium(render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*symmetric and normalized.*")  # a torque up to 2 is as it is
        warnings.filterwarnings("ignore", ".*infinity.*")  # nothing holds the speed of a cart
        warnings.filterwarnings("ignore", ".*spec.*")  # not in Gymnasium's registry
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        check_env(env)
        env.reset(seed=1)
        picture = env.render()
    assert picture.ndim == 3
    assert picture.dtype == np.uint8
    assert picture.std() > 0
    env.close()


def picture(world, state, action=None):
    env = world.to_gymnasium(render_mode="rgb_array")
    env.reset(seed=0)
    env.state[: world.state_size], env.last_action = state, action
    drawn = env.render()
    env.close()
    return drawn


@pytest.mark.parametrize("name", WORLDS)
def test_pictures_are_gymnasiums(name):
    rng = np.random.default_rng(5)
    theirs = gym.make(WORLDS[name].gymnasium_id, render_mode="rgb_array").unwrapped
    theirs.reset(seed=0)
    for action in (None, -1.5, 2.0):
        theirs.state = rng.uniform(-0.4, 0.4, WORLDS[name].state_size)
        theirs.last_u = action
        np.testing.assert_array_equal(picture(WORLDS[name](), theirs.state, action), theirs.render())
    theirs.close()


@pytest.mark.parametrize("length", [0.5, 0.9, 1.0, 1.3, 2.0])
def test_pictures_show_how_long_a_rod_is(length):
    drawn = picture(fs.control.Pendulum(length=length), (np.pi / 2, 0.0))
    columns = np.flatnonzero((drawn != 255).any(axis=(0, 2)))
    assert drawn.shape == (500, 500, 3)
    # A level rod: 1.1 of its length to the left of the middle, where 500 pixels are 4.4 lengths of one.
    assert 250 - columns.min() == pytest.approx(1.1 * length * 500 / 4.4, abs=2)


def test_pictures_show_torque_as_a_share_and_links_in_proportion():
    weak, strong = (picture(fs.control.Pendulum(torque=torque), (1.0, 0.0), torque) for torque in (2.0, 50.0))
    np.testing.assert_array_equal(weak, strong)
    state = (1.0, 0.5, 0.0, 0.0)
    small, large = (picture(fs.control.Acrobot(length_1=a, length_2=2 * a), state) for a in (0.3, 3.0))
    np.testing.assert_array_equal(small, large)
    assert (small != picture(fs.control.Acrobot(), state)).any()


def test_environments_end_at_the_time_limit_and_by_themselves():
    env = fs.control.MountainCar(time_limit=5).to_gymnasium()
    env.reset(seed=0)
    ends = [env.step(1)[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]
    env = fs.control.CartPole(time_limit=1000).to_gymnasium()
    env.reset(seed=0)
    steps = 0
    while True:
        _, _, terminated, truncated, _ = env.step(1)
        steps += 1
        if terminated:
            break
    assert not truncated
    assert steps < 20
