"""Mistakes with environments that would train something else, in silence."""

import functools
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs


def pendulum(g=10.0):
    return gym.make("Pendulum-v1", g=g)


def gravities(fleet):
    return [world.make().unwrapped.g for world in fleet]


def of_a_loop(*values):
    worlds = []
    for g in values:
        worlds.append(fs.GymWorld(lambda: gym.make("Pendulum-v1", g=g)))  # noqa: B023  # the mistake
    return worlds


def test_functions_of_a_loop_are_warned_of():
    with pytest.warns(
        UserWarning, match=r"agents \[0, 1\] have the same environment: their functions share g"
    ):
        fleet = fs.GymFleet(of_a_loop(9.0, 3.0))
    assert gravities(fleet) == [3.0, 3.0]  # as the warning says


def of_config(config):
    return gym.make("Pendulum-v1", g=config["g"])


class Maker:
    """Makes what it was last told to."""

    def __call__(self):
        return pendulum(self.g)


def test_what_is_changed_after_a_world_is_made_does_not_change_it():
    """highway-env's idiom, one dict that is changed in a loop."""
    config, maker, limit = {}, Maker(), {"name": "TimeLimit"}
    each = []
    for g in (9.0, 3.0):
        config["g"] = maker.g = g
        limit["max_episode_steps"] = int(g)
        each.append(
            [
                fs.GymWorld(of_config, config=config),
                fs.GymWorld(functools.partial(of_config, config)),
                fs.GymWorld(functools.partial(of_config, config=config)),
                fs.GymWorld(maker),
                fs.GymWorld(pendulum, g=g, wrappers=[limit]),
            ]
        )
    for worlds in zip(*each, strict=True):
        fleet = fs.GymFleet(worlds)
        assert gravities(fleet) == [9.0, 3.0]
    assert [world.time_limit for world in fleet] == [9, 3]
    both = fs.GymFleet.make(of_config, vary={"config": [{"g": 9.0}, {"g": 3.0}]})
    assert gravities(both) == [9.0, 3.0]


def test_what_cannot_be_copied_is_shared():
    lock = threading.Lock()
    world = fs.GymWorld(lambda lock, g: pendulum(g), lock=lock, g=3.0)
    assert world.options["lock"] is lock
    assert gravities(fs.GymFleet([world])) == [3.0]


SCALE = 2.0  # what notebooks and scripts have: a variable of the module


def rewarding(scale):
    """An environment whose rewards are scaled by a function."""
    return gym.wrappers.TransformReward(gym.make("Pendulum-v1"), scale)


@pytest.mark.parametrize("of_module", [False, True])
def test_wrappers_and_options_of_a_loop_are_warned_of(of_module):
    def scaled(env, scale):
        return gym.wrappers.TransformReward(env, scale)

    each = []
    for g in (9.0, 3.0):
        scale = (lambda r: r * SCALE) if of_module else (lambda r: r * g)  # noqa: B023  # the mistake
        inner = lambda env: scaled(env, lambda r: r * g)  # noqa: B023, E731
        if of_module:
            inner = lambda env: scaled(env, lambda r: r * SCALE)  # noqa: E731
        each.append(
            [
                fs.GymWorld(rewarding, scale=scale),
                fs.GymWorld("Pendulum-v1", wrappers=[inner]),
                fs.GymWorld("Pendulum-v1", wrappers=[lambda env: scaled(env, scale)]),  # noqa: B023
                fs.GymWorld("Pendulum-v1", wrappers=[{"name": "TransformReward", "func": scale}]),
            ]
        )
    name = "SCALE" if of_module else "g"
    for worlds in zip(*each, strict=True):
        with pytest.warns(UserWarning, match=rf"agents \[0, 1\] have the same .* share {name}, and see its"):
            fs.GymFleet(worlds)


def test_wrappers_and_options_that_differ_are_not():
    def scaling(g):
        return lambda r: r * g

    def wrapping(g):
        return lambda env: gym.wrappers.TransformReward(env, lambda r: r * g * SCALE)

    def bound(g):
        own = scaling(g)
        return lambda env, scale=own: gym.wrappers.TransformReward(env, lambda r: scale(r) * SCALE)

    once = wrapping(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for worlds in (
            [fs.GymWorld(rewarding, scale=scaling(g)) for g in (9.0, 3.0)],
            [fs.GymWorld(rewarding, scale=lambda r, g=g: r * g) for g in (9.0, 3.0)],
            [fs.GymWorld("Pendulum-v1", wrappers=[wrapping(g)]) for g in (9.0, 3.0)],
            [fs.GymWorld("Pendulum-v1", wrappers=[bound(g)]) for g in (9.0, 3.0)],
            [fs.GymWorld("Pendulum-v1", wrappers=[once]) for _ in range(2)],
            [fs.GymWorld("Pendulum-v1", wrappers=[lambda env: rewarding(abs)], g=g) for g in (9.0, 3.0)],
        ):
            assert len(fs.GymFleet(worlds)) == 2


def test_functions_that_differ_are_not():
    def maker(g):
        return lambda: gym.make("Pendulum-v1", g=g)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for worlds in (
            [fs.GymWorld(pendulum, g=g) for g in (9.0, 3.0)],
            [fs.GymWorld(maker(g)) for g in (9.0, 3.0)],
            [fs.GymWorld(lambda g=g: gym.make("Pendulum-v1", g=g)) for g in (9.0, 3.0)],
        ):
            assert gravities(fs.GymFleet(worlds)) == [9.0, 3.0]
        assert len(fs.GymFleet([fs.GymWorld(lambda: pendulum()) for _ in range(2)])) == 2
        assert len(fs.GymFleet(of_a_loop(9.0) * 2)) == 2


def test_repr_says_who_has_what():
    fleet = fs.GymFleet([fs.GymWorld("Pendulum-v1", g=g) for g in (9.0, 3.0, 9.0)])
    assert repr(fleet) == (
        "GymFleet(Pendulum-v1(g=9.0), Pendulum-v1(g=3.0), Pendulum-v1(g=9.0), agents=3, discount=0.99)"
    )
    assert "    1   Pendulum-v1(g=3.0)" in str(fleet).splitlines()


@pytest.mark.parametrize("name", ["NormalizeObservation", "NormalizeReward"])
def test_statistics_of_one_agent_are_warned_of(name):
    world = fs.GymWorld("Pendulum-v1", wrappers=[name])
    with pytest.warns(UserWarning, match=f"{name} rescales by each agent's own running mean"):
        fs.GymFleet([world] * 2)
    assert len(fs.GymFleet([world])) == 1  # alone, nobody averages


class Several(gym.Env):
    """The reward is a vector, one number in brackets, or a number."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, reward):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, False, False, {}


def test_rewards_are_one_number():
    with pytest.raises(
        ValueError, match=r"Several.*reward of a step must be one number, got array.*TransformReward"
    ):
        fs.GymFleet([fs.GymWorld(Several, reward=np.ones(2))])
    assert len(fs.GymFleet([fs.GymWorld(Several, reward=np.float32(1.0))])) == 1


class Mission(gym.Space):
    """A space that says nothing of itself, as those of other packages."""


def test_spaces_of_other_packages_name_the_parts_that_can_be_used():
    class Grid(gym.Env):
        action_space = gym.spaces.Discrete(2)
        observation_space = gym.spaces.Dict(
            {"image": gym.spaces.Box(0, 1, (2, 2)), "direction": gym.spaces.Discrete(4), "mission": Mission()}
        )

        def reset(self, *, seed=None, options=None):
            return {"image": np.zeros((2, 2), np.float32), "direction": 0, "mission": "go"}, {}

        def step(self, action):
            return self.reset()[0], 0.0, False, False, {}

    with pytest.raises(ValueError, match=r"FilterObservation.*\['direction', 'image'\]"):
        fs.GymFleet([fs.GymWorld(Grid)])
    keep = {"name": "FilterObservation", "filter_keys": ["image", "direction"]}
    assert len(fs.GymFleet([fs.GymWorld(Grid, wrappers=[keep, "FlattenObservation"])]).bounds[0]) == 8


@pytest.mark.parametrize(
    ("wrappers", "message"),
    [
        ("FlattenObservation", "wrappers must be a list"),
        ([3], r"wrappers\[0\] must be a name"),
        (["FlatenObservation"], "did you mean 'FlattenObservation'"),
        (
            [{"name": "FilterObservation", "keys": []}],
            r"wrapper FilterObservation\(keys=\[\]\) cannot be made",
        ),
    ],
)
def test_wrappers_that_are_none(wrappers, message):
    with pytest.raises((TypeError, ValueError), match=message):
        fs.GymFleet([fs.GymWorld("Pendulum-v1", wrappers=wrappers)])


def test_options_vary_from_agent_to_agent():
    vary = {"g": (8.0, 11.0), "max_episode_steps": [10, 20, 30, 40]}
    three = fs.GymFleet.make("Pendulum-v1", 3, vary)
    assert three.varied()["max_episode_steps"] == [10, 20, 30]
    assert gravities(three) == three.varied()["g"]
    assert all(8 <= g <= 11 for g in gravities(three))
    assert gravities(fs.GymFleet.make("Pendulum-v1", 2, vary)) == gravities(three)[:2]
    assert gravities(fs.GymFleet.make("Pendulum-v1", 3, vary, seed=1)) != gravities(three)
    spread = gravities(fs.GymFleet.make(pendulum, 5, spread=0.1, g=-10.0))
    assert len(set(spread)) == 5
    assert all(-11 <= g <= -9 for g in spread)
    with pytest.raises(ValueError, match="spread must be 0 where no option is a float"):
        fs.GymFleet.make("Pendulum-v1", 3, spread=0.1)
    assert len({id(world) for world in fs.GymFleet.make("Pendulum-v1", 3)}) == 1


def counted(steps=10, g=10.0, name=None):
    return gym.make("Pendulum-v1", g=g, max_episode_steps=steps)


def test_whole_numbers_are_drawn_for_what_is_one():
    limits = fs.GymFleet.make("CartPole-v1", 20, {"max_episode_steps": (100, 103)}).varied()
    assert set(limits["max_episode_steps"]) == {100, 101, 102, 103}
    drawn = fs.GymFleet.make(counted, 20, {"steps": (5, 7), "g": (9, 10)}).varied()
    assert set(drawn["steps"]) == {5, 6, 7}
    assert not any(g.is_integer() for g in drawn["g"])
    carts = fs.control.fleet("CartPole", 20, {"time_limit": (5, 7), "length": (1, 2)}).varied()
    assert set(carts["time_limit"]) == {5, 6, 7}
    assert not any(length.is_integer() for length in carts["length"])
    with pytest.raises(TypeError, match="time_limit must be an integer, got 5"):
        fs.control.fleet("CartPole", 2, {"time_limit": (5.0, 5.9)})


@pytest.mark.parametrize(
    ("vary", "got"),
    [({"g": (9.0, 10.0)}, "none"), ({"g": [1.0], "steps": [3, 4]}, "lists of 1 and 2 values")],
)
def test_agents_must_be_counted(vary, got):
    with pytest.raises(ValueError, match=f"agents must be given, or lists of one length in vary, got {got}"):
        fs.GymFleet.make(counted, vary=vary)


def test_machines_are_not_moved_unasked():
    moved = []

    class Machine(Several):
        def step(self, action):
            moved.append(action)
            return super().step(action)

    worlds = [fs.GymWorld(Machine, reward=1.0)] * 2
    assert len(fs.GymFleet(worlds, check=False)) == len(fs.GymFleet(worlds, processes=1)) == 2
    assert not moved
    assert len(fs.GymFleet(worlds)[:1]) == 1
    assert len(moved) == 1  # once for the fleet, and not again for a part of it


@pytest.mark.parametrize(
    ("make_env", "message"),
    [
        (
            "Pendulum-v1",
            r"no option 'gg'; did you mean 'g'\?; its options are render_mode, g, max_episode_steps",
        ),
        (pendulum, r"pendulum\(gg=1.0\) has no option 'gg'; did you mean 'g'\?; its options are g\n"),
        (Several, r"has no option 'gg'; its options are reward\n"),
    ],
)
def test_options_that_are_none_are_named_with_those_that_are(make_env, message):
    with pytest.raises(TypeError, match=message):
        fs.GymFleet.make(make_env, vary={"gg": [1.0, 2.0]})


def test_other_errors_of_constructors_come_through():
    def broken(**options):
        raise TypeError("the cable came off")

    def open_to_all(**options):
        return pendulum(**options)

    with pytest.raises(TypeError, match="the cable came off"):
        fs.GymFleet.make(broken, 1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gg'"):
        fs.GymFleet.make(open_to_all, vary={"gg": [1.0, 2.0]})
