import math

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.worlds.control import WORLDS
from fedsarsa.worlds.control.world import OBSERVATION, STATE, pack


def test_tuples_are_ranges_and_lists_are_lists_for_any_number_of_agents():
    for agents in (1, 2, 3):
        drawn = fs.control.fleet("CartPole", agents, vary={"length": (0.4, 0.6)})
        assert not {world.length for world in drawn} & {0.4, 0.6}
        listed = fs.control.fleet("CartPole", agents, vary={"length": [0.4, 0.6, 0.5]})
        assert [world.length for world in listed] == [0.4, 0.6, 0.5][:agents]


def test_repr_says_who_has_what():
    group = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6, 0.5]})
    assert repr(group) == "ControlFleet(CartPole, agents=3, discount=0.99, length=[0.4, 0.6, 0.5])"
    many = fs.control.fleet("CartPole", vary={"length": [0.4, 0.5, 0.6] * 4})
    assert repr(many).endswith("length=[0.4, 0.5, 0.6, 0.4, 0.5, ..., 0.6])")


def test_ranges_are_drawn_and_do_not_depend_on_the_number_of_agents():
    vary = {"length": (0.4, 0.6), "gravity": (9.0, 10.5)}
    ten = fs.control.fleet("CartPole", agents=10, vary=vary, seed=0)
    assert len(ten) == 10
    lengths = [world.length for world in ten]
    assert all(0.4 <= length <= 0.6 for length in lengths)
    assert len(set(lengths)) == 10
    assert all(9.0 <= world.gravity <= 10.5 for world in ten)
    assert all(world.force == 10.0 for world in ten)
    assert list(fs.control.fleet("CartPole", agents=3, vary=vary, seed=0)) == list(ten[:3])
    assert list(fs.control.fleet("CartPole", agents=3, vary={"length": (0.4, 0.6)})) != list(ten[:3])
    assert [w.length for w in fs.control.fleet("CartPole", agents=3, vary={"length": (0.4, 0.6)})] == lengths[
        :3
    ]
    assert list(fs.control.fleet("CartPole", agents=10, vary=vary, seed=1)) != list(ten)


def test_lists_are_taken_as_they_are():
    group = fs.control.fleet("Pendulum", vary={"mass": [0.5, 1.0, 2.0], "length": (1.0, 2.0)}, gravity=9.0)
    assert [world.mass for world in group] == [0.5, 1.0, 2.0]
    assert {world.gravity for world in group} == {9.0}


@pytest.mark.parametrize("name", WORLDS)
def test_spread_varies_the_physics_of_every_world(name):
    group = fs.control.fleet(name, agents=50, spread=0.2)
    nominal = WORLDS[name]()
    for quantity in nominal.varied:
        shares = np.array([getattr(world, quantity) for world in group]) / getattr(nominal, quantity)
        assert 0.8 <= shares.min() < 0.83
        assert 1.17 < shares.max() <= 1.2
    low, high = group.bounds
    for world in group:
        assert all(a <= b for a, b in zip(low, world.bounds[0], strict=True))
        assert all(a >= b for a, b in zip(high, world.bounds[1], strict=True))


def test_a_printed_fleet_says_who_got_what():
    group = fs.control.fleet("CartPole", vary={"length": [0.4, 0.6]}, agents=2)
    lines = str(group).splitlines()
    assert lines[1].split() == ["agent", "length"]
    assert lines[2].split() == ["0", "0.4"]
    assert lines[3].split() == ["1", "0.6"]
    assert "the same physics for all" in str(fs.control.fleet("CartPole", agents=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vary": {"lenght": (0.4, 0.6)}},
            "CartPole has no 'lenght'; did you mean 'length'?; its physics are gravity",
        ),
        ({"gravty": 3.0}, "did you mean 'gravity'"),
        ({"vary": {"length": (0.6, 0.4)}}, "low <= high"),
        ({"vary": {"length": [0.1, 0.2, 0.3]}}, "a value for each of 4 agents, got 3: [0.1, 0.2, 0.3]"),
        ({"vary": {"length": [0.4, 0.6]}}, "to draw from a range, give a tuple (low, high)"),
        (
            {"vary": {"length": (0.4, 0.5, 0.6)}},
            "must be a range (low, high) or a list with a value per agent",
        ),
        ({"vary": {"length": (-1.0, -0.5)}}, "agent 0: CartPole.length must be a positive number, got -"),
        ({"length": math.nan}, "CartPole.length must be a positive number, got nan"),
        ({"time_limit": 0}, "CartPole.time_limit must be an integer of at least 1, got 0"),
        ({"spread": 1.5}, "spread must be a number in"),
        ({"vary": ["length"]}, "vary must be a dict of names and ranges or lists, got ['length']"),
        (
            {"vary": {"length": (-1e308, 1e308)}},
            "vary['length'] must have a range of ordinary size, got",
        ),
        ({"spread": 0.5, "gravity": 1.7e308}, "gravity must have a range of ordinary size"),
        ({"discount": 0.0}, "discount must be a number in"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        fs.control.fleet("CartPole", agents=4, **options)
    assert message in str(caught.value)


def test_other_mistakes_are_named():
    with pytest.raises(ValueError, match="did you mean 'CartPole'"):
        fs.control.fleet("CartPol", agents=1)
    with pytest.raises(ValueError, match="agents must be given"):
        fs.control.fleet("CartPole")
    with pytest.raises(ValueError, match="share kind: agent 0 has CartPole, agent 1 Pendulum"):
        fs.control.ControlFleet([fs.control.CartPole(), fs.control.Pendulum()])
    with pytest.raises(TypeError, match=r"worlds\[0\] must be a control world"):
        fs.control.ControlFleet(["CartPole"])
    with pytest.raises(ValueError, match="physics of ordinary size"):
        fs.control.CartPole(pole_mass=1e200, length=1e200)
    with pytest.raises(ValueError, match="min_position <= start_low"):
        fs.control.MountainCar(start_low=-2.0)
    with pytest.raises(ValueError, match=r"MountainCar.goal must be at most max_position, 0.6, .* got 3.0"):
        fs.control.MountainCar(goal=3)
    with pytest.raises(ValueError, match=r"goal_speed must be at most max_speed, 0.07, .* got 1.0"):
        fs.control.MountainCarContinuous(goal_speed=1.0)
    with pytest.raises(ValueError, match=r"Acrobot.height must be below 2, .* got 2.0"):
        fs.control.Acrobot(height=2.0)


def test_friction_and_noise_act():
    for name in WORLDS:
        still = WORLDS[name]()
        action = 1.0
        state = np.array([0.1, 0.02, 0.1, 0.2])
        moved = {}
        for label, world in (
            ("plain", still),
            ("friction", WORLDS[name](friction=0.5)),
            ("noise", WORLDS[name](noise=0.5)),
        ):
            own = np.array(state)
            world.step(pack([world])[0], own, action, 0.75)
            moved[label] = own
        size = still.state_size
        assert not np.array_equal(moved["plain"][:size], moved["friction"][:size])
        assert not np.array_equal(moved["plain"][:size], moved["noise"][:size])


@pytest.mark.parametrize("name", WORLDS)
def test_kernels_find_the_physics_at_their_places(name):
    (world,) = fs.control.fleet(name, agents=1, spread=0.2)
    assert sorted(world.physics) == list(range(len(world.packed)))
    for place in world.physics:
        assert world.packed[place] == getattr(world, place.name.lower())
    assert world.state_size <= STATE
    assert len(world.bounds[0]) <= OBSERVATION


@pytest.mark.parametrize("name", WORLDS)
def test_physics_without_measure_neither_hang_nor_crash(name):
    nominal = WORLDS[name]()
    wild = WORLDS[name](**dict.fromkeys(nominal.varied, 1e150))
    state = np.full(STATE, 0.1)
    for _ in range(20):
        reward, over = wild.step(pack([wild])[0], state, 1.0, 0.5)
        assert abs(reward) <= wild.reward_cap
        assert over in (False, True)


@pytest.mark.parametrize("name", WORLDS)
def test_no_reward_is_larger_than_the_cap(name):
    rng = np.random.default_rng(0)
    largest = []
    for world in fs.control.fleet(name, agents=20, spread=0.5, seed=1):
        p, x, cap = pack([world])[0], np.zeros(STATE), world.reward_cap
        world.reset(p, x, *rng.uniform(size=4))
        rewards = []
        for _ in range(500):
            low, high = world.action_bounds or (0.0, world.action_count - 1)
            action = rng.choice([low, high])
            reward, over = world.step(p, x, float(action), rng.uniform())
            rewards.append(abs(reward))
            if over:
                world.reset(p, x, *rng.uniform(size=4))
        assert max(rewards) <= cap
        largest.append(max(rewards) / cap)
    # Of two the largest is rare: a rod that hangs and turns at its fastest, a car that reaches the goal.
    assert max(largest) >= {"Pendulum": 0.5, "MountainCarContinuous": 0.5}.get(name, 1.0)
