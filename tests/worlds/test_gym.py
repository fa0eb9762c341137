"""Gymnasium environments as worlds: their spaces, and finite MDPs from their tables."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import fedsarsa as fs
from tests.worlds_of_tests import dense


class Odd(gym.Env):
    """An environment with any spaces."""

    def __init__(self, observation=None, action=None):
        self.observation_space = observation or gym.spaces.Box(-1, 1, (2, 3))
        self.action_space = action or gym.spaces.Discrete(3, start=5)


def test_spaces_of_every_kind():
    fleet = fs.GymFleet([fs.GymWorld(Odd)] * 2)
    assert fleet.bounds == ((-1.0,) * 6, (1.0,) * 6)
    assert fleet.action_count == 3
    assert fleet.actions(None) == [5, 6, 7]
    discrete = fs.GymFleet([fs.GymWorld(Odd, observation=gym.spaces.Discrete(4, start=2))])
    assert discrete.counts == [4]
    assert discrete.bounds == ((1.5,), (5.5,))
    several = fs.GymFleet([fs.GymWorld(Odd, observation=gym.spaces.MultiDiscrete([2, 3]))])
    assert several.bounds == ((-0.5, -0.5), (1.5, 2.5))
    both = fs.GymFleet([fs.GymWorld(Odd, observation=gym.spaces.MultiBinary(3))])
    assert both.counts == [2, 2, 2]
    box = fs.GymFleet([fs.GymWorld(Odd, action=gym.spaces.Box(-2, 2, (2,)))])
    assert box.action_count is None
    assert box.action_bounds is None
    assert [action.tolist() for action in box.actions(2)] == [[-2, -2], [-2, 2], [2, -2], [2, 2]]
    many = fs.GymFleet([fs.GymWorld(Odd, action=gym.spaces.MultiDiscrete([2, 2]))])
    assert many.action_count == 4


def test_bounds_may_differ():
    worlds = [
        fs.GymWorld(Odd, observation=gym.spaces.Box(-a, a, (1,)), action=gym.spaces.Box(-a, a, (1,)))
        for a in (1, 2)
    ]
    fleet = fs.GymFleet(worlds)
    assert fleet.bounds == ((-2.0,), (2.0,))
    assert fleet.action_bounds == (-1.0, 1.0)


def test_numbers_that_never_change_need_bounds_of_features_only():
    boxes = [gym.spaces.Box(np.zeros(2), np.array([high, 0.0]), dtype=np.float64) for high in (1.0, 2.0)]
    fleet = fs.GymFleet([fs.GymWorld(Odd, observation=box) for box in boxes])
    assert fleet.bounds == ((0.0, 0.0), (2.0, 0.0))
    with pytest.raises(ValueError, match=r"observations \[1\] must have low below high"):
        fs.FedSARSA(fs.TileCoding(1, 2)).problem(fleet, 1, 1, 0)
    bounds = ([0.0, -1.0], [2.0, 1.0])
    assert fs.FedSARSA(fs.TileCoding(1, 2, bounds)).problem(fleet, 1, 1, 0).features.dim == 27


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": gym.spaces.Dict({"a": gym.spaces.Box(0, 1, (2,))})}, "FlattenObservation"),
        ({"observation": gym.spaces.Tuple([gym.spaces.MultiBinary(2)])}, "FlattenObservation"),
        (
            {
                "observation": gym.spaces.Dict(
                    {"a": gym.spaces.Discrete(2), "b": gym.spaces.Discrete(3, start=1)}
                )
            },
            r"TransformObservation.* MultiDiscrete\(\[2, 3\], start=\[0, 1\]\)",
        ),
        ({"action": gym.spaces.Tuple([gym.spaces.Discrete(2)])}, "TransformAction"),
        ({"action": gym.spaces.Box(-np.inf, np.inf, (1,))}, "actions must be bounded.*TransformAction"),
        ({"observation": gym.spaces.Text(5)}, "TransformObservation"),
        ({"observation": gym.spaces.Sequence(gym.spaces.Discrete(2))}, "TransformObservation"),
        ({"observation": gym.spaces.Graph(gym.spaces.Discrete(2), None)}, "TransformObservation"),
        (
            {"observation": gym.spaces.Dict({"a": gym.spaces.Sequence(gym.spaces.Discrete(2))})},
            "TransformObservation",
        ),
    ],
)
def test_spaces_that_cannot_be_handled_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        fs.GymFleet([fs.GymWorld(Odd, **options)])


class Talking(Odd):
    """It says a text, and takes any number."""

    def __init__(self):
        super().__init__(gym.spaces.Text(5), gym.spaces.Box(-np.inf, np.inf, (1,)))


def test_the_wrappers_that_messages_name_fit():
    nested = Odd(gym.spaces.Dict({"a": gym.spaces.Discrete(2), "b": gym.spaces.Box(0, 1, (2,))}))
    fleet = fs.GymFleet([fs.GymWorld(lambda: gym.wrappers.FlattenObservation(nested))])
    assert fleet.bounds == ((0.0,) * 4, (1.0,) * 4)

    def made():
        space = gym.spaces.Box(0, 5, (1,))
        told = gym.wrappers.TransformObservation(Talking(), lambda text: np.array([len(text)]), space)
        return gym.wrappers.TransformAction(told, lambda action: action, gym.spaces.Box(-2, 2, (1,)))

    fleet = fs.GymFleet([fs.GymWorld(made)])
    assert fleet.bounds == ((0.0,), (5.0,))
    assert fleet.action_bounds == (-2.0, 2.0)


def test_the_wrapper_that_is_named_for_tuples_of_whole_numbers_fits():
    with pytest.raises(
        ValueError, match=r"wrappers.TransformObservation.*\[32, 11, 2\], start=\[0, 0, 0\]\)"
    ):
        fs.GymFleet([fs.GymWorld("Blackjack-v1")])

    def table():
        space = gym.spaces.MultiDiscrete([32, 11, 2], start=[0, 0, 0])
        return gym.wrappers.TransformObservation(gym.make("Blackjack-v1"), np.array, space)

    fleet = fs.GymFleet([fs.GymWorld(table)] * 2, 1.0, processes=0)
    history = fs.FedSARSA(fs.OneHot(), fs.EpsilonGreedy(0.1), 0.1).train(fleet, 300, runs=1)
    assert history.data.clipped.sum() == 0
    assert history.data.episodes.sum() > 200


def test_other_mistakes():
    with pytest.raises(TypeError, match="make_env must be a registered id"):
        fs.GymWorld(3)
    with pytest.raises(TypeError, match=r"must make a gymnasium.Env, got 7"):
        fs.GymFleet([fs.GymWorld(lambda: 7)])
    with pytest.raises(ValueError, match=r"share actions: agent 0 has .*agent 1"):
        fs.GymFleet([fs.GymWorld(Odd), fs.GymWorld(Odd, action=gym.spaces.Discrete(2))])
    apart = [gym.spaces.Box(0, 1, (1,)), gym.spaces.Box(2, 3, (1,))]
    with pytest.raises(ValueError, match="nothing in common"):
        fs.GymFleet([fs.GymWorld(Odd, action=space) for space in apart])
    with pytest.raises(ValueError, match="at least one GymWorld"):
        fs.GymFleet([])


def test_frozen_lake_is_the_mdp_in_its_table():
    world = fs.GymWorld("FrozenLake-v1", is_slippery=True)
    mdp = world.to_finite(discount=0.9)
    env = gym.make("FrozenLake-v1", is_slippery=True)
    goal = env.observation_space.n - 1
    assert (mdp.states, mdp.actions) == (16, 4)
    # From beside the goal, "right" reaches it with a third: reward 1, and the next episode begins at 0.
    assert mdp.transition[2, goal - 1, 0] == pytest.approx(1 / 3)
    assert mdp.reward[goal - 1, 2, 0] == 1.0
    assert mdp.initial.tolist() == np.eye(16)[0].tolist()
    absorbing = world.to_finite(0.9, ends="absorbing")
    assert absorbing.transition[2, goal - 1, goal] == pytest.approx(1 / 3)
    assert absorbing.reward[goal - 1, 2, goal] == 1.0
    assert absorbing.transition[0, goal, goal] == 1.0
    assert absorbing.reward[goal].tolist() == np.zeros((4, 16)).tolist()


def test_chances_and_mean_rewards_are_those_of_the_table():
    lake = fs.GymWorld("FrozenLake-v1", success_rate=0.8, reward_schedule=(10, -5, -1)).to_finite(0.9)
    left, right = 0, 2
    # In the corner, "left" stays, and slips against the other wall or down.
    np.testing.assert_allclose(lake.transition[left, 0, [0, 4]], [0.9, 0.1], rtol=1e-12)
    # Below it, "right" falls into a hole and begins anew in the corner, or slips there or down.
    np.testing.assert_allclose(lake.transition[right, 4, [0, 8]], [0.9, 0.1], rtol=1e-12)
    np.testing.assert_allclose(lake.reward[4, right, [0, 8]], [(0.8 * -5 + 0.1 * -1) / 0.9, -1.0], rtol=1e-12)
    # Beside the goal: there, up, or against the wall.
    np.testing.assert_allclose(lake.transition[right, 14, [0, 10, 14]], [0.8, 0.1, 0.1], rtol=1e-12)
    np.testing.assert_allclose(lake.reward[14, right, [0, 10, 14]], [10.0, -1.0, -1.0], rtol=1e-12)

    taxi = fs.GymWorld("Taxi-v4", is_rainy=True, rainy_probability=0.7).to_finite(0.9)

    def at(row, column):
        return ((5 * row + column) * 5 + 1) * 4 + 2  # the passenger waits at place 1 to go to place 2

    # From the middle "south" goes there, east or west.
    onward = [at(3, 2), at(2, 3), at(2, 1)]
    np.testing.assert_allclose(taxi.transition[0, at(2, 2), onward], [0.7, 0.15, 0.15], rtol=1e-12)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_rollouts_agree_with_the_tables(name):
    world = fs.GymWorld(name)
    mdp = world.to_finite(0.9)
    env = world.make()
    rng = np.random.default_rng(0)
    s, _ = env.reset(seed=0)
    for _ in range(500):
        a = int(rng.integers(mdp.actions))
        s_next, reward, terminated, truncated, _ = env.step(a)
        if terminated:
            onward, _ = env.reset()
        else:
            onward = s_next
        assert mdp.transition[a, s, onward] > 0
        if not terminated:
            assert mdp.reward[s, a, onward] == pytest.approx(reward)
        s = env.reset()[0] if truncated and not terminated else onward
    env.close()


def test_theory_applies_to_toy_text():
    fleet = fs.Fleet(
        [fs.GymWorld("FrozenLake-v1", is_slippery=slip).to_finite(0.5) for slip in (True, False)]
    )
    assert fleet.eps_p > 0
    world, policy = fleet[0], fs.Softmax(1.0)
    values = fs.theory.fixed_point(world, fs.OneHot(), policy).reshape(16, 4)
    # Bellman's equation, where episodes come by: not in holes, nor at the goal.
    ahead = [policy.probabilities(row, 0) @ row for row in values]
    targets = np.einsum("asn, san -> sa", world.transition, world.reward + 0.5 * np.array(ahead))
    places = [place for place in range(16) if place not in {5, 7, 11, 12, 15}]
    np.testing.assert_allclose(values[places], targets[places], rtol=0, atol=1e-9)
    assert values[14].max() > 0.3  # beside the goal
    # Training goes where the theory says.
    history = fs.FedSARSA(fs.OneHot(), policy, 0.05).train(fleet, 20_000, runs=4)
    error = history.mse(fs.theory.federated_point(fleet, fs.OneHot(), policy)).mean("run")
    assert error[-1] < 0.1 * error[0]


def test_environments_without_tables_are_named():
    with pytest.raises(ValueError, match="CartPole-v1: expected an environment with tables"):
        fs.GymWorld("CartPole-v1").to_finite()


def test_what_is_not_in_the_tables_is_refused():
    with pytest.raises(ValueError, match="is its tables, got fickle_passenger=True"):
        fs.GymWorld("Taxi-v4", fickle_passenger=True).to_finite()
    rainy = fs.GymWorld("Taxi-v4", is_rainy=True).to_finite()
    assert not np.array_equal(rainy.transition, fs.GymWorld("Taxi-v4").to_finite().transition)


def test_the_package_imports_without_gymnasium():
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import fedsarsa as fs\n"
        "fs.control.fleet('CartPole', 2)\n"
        "for use in (fs.control.CartPole().to_gymnasium, fs.GymWorld('CartPole-v1').make):\n"
        "    try: use()\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("pip install 'fedsarsa[gym]'") == 2


def test_actions_of_several_numbers_begin_where_their_space_does():
    class Odd(gym.Env):
        observation_space = gym.spaces.Box(0.0, 1.0, (1,))
        action_space = gym.spaces.MultiDiscrete([2, 3], start=[5, 7])

    actions = fs.GymFleet([fs.GymWorld(Odd)], 0.9).actions(None)
    assert len(actions) == 6
    assert all(Odd.action_space.contains(action) for action in actions)


def test_grids_over_integers_hold_each_once():
    def grid(count, low, high, kind=np.int64):
        space = gym.spaces.Box(np.array(low, kind), np.array(high, kind), dtype=kind)
        actions = fs.GymFleet([fs.GymWorld(Odd, action=space)]).actions(count)
        assert all(space.contains(action) for action in actions)
        return [action.tolist() for action in actions]

    assert grid(5, [0], [3]) == [[0], [1], [2], [3]]
    assert grid(3, [-4], [4]) == [[-4], [0], [4]]
    assert grid(4, [0], [255], np.uint8) == [[0], [85], [170], [255]]
    assert grid(5, [7], [7]) == [[7]]
    assert grid(3, [-(2**63)], [2**63 - 1]) == [[-(2**63)], [0], [2**63 - 1]]
    # Numbers of a different reach: two values of the first, four of the second.
    assert grid(4, [0, 0], [1, 9]) == [[a, b] for a in (0, 1) for b in (0, 3, 6, 9)]


@pytest.mark.parametrize(
    ("space", "numbers"),
    [
        (gym.spaces.Discrete(49, start=-3), [(s,) for s in range(-3, 46)]),
        (gym.spaces.Discrete(1), [(0,)]),
        (
            gym.spaces.MultiDiscrete([2, 1, 3], start=[0, 5, 1]),
            [(a, 5, c) for a in (0, 1) for c in (1, 2, 3)],
        ),
        (gym.spaces.MultiBinary(2), [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ],
    ids=str,
)
def test_one_hot_parameters_are_those_of_the_finite_world(space, numbers):
    phi = (
        fs.FedSARSA(fs.OneHot()).problem(fs.GymFleet([fs.GymWorld(Odd, observation=space)]), 1, 1, 0).features
    )
    finite = fs.OneHot().on(len(numbers), 3)
    assert phi.dim == finite.dim
    for s, seen in enumerate(numbers):
        for a in range(3):
            np.testing.assert_array_equal(dense(phi, np.array(seen, float), a), dense(finite, [s], a))
    for beyond in (-1e9, 1e9):  # clipped, not the place of another combination
        index, _ = phi.active(np.full(len(numbers[0]), beyond), 0)
        assert index == [0 if beyond < 0 else phi.dim - 3]


def test_one_hot_of_many_numbers():
    algo = fs.FedSARSA(fs.OneHot())
    wide, wider = (fs.GymFleet([fs.GymWorld(Odd, observation=gym.spaces.MultiBinary(n))]) for n in (16, 99))
    assert algo.problem(wide, 1, 1, 0).features.dim == 3 * 2**16
    with pytest.raises(
        ValueError, match=r"OneHot\(\) has about 10\^30 parameters for 99 inputs and 3 actions"
    ):
        algo.problem(wider, 1, 1, 0)


def test_parameters_of_an_environment_and_of_its_tables_are_the_same():
    world, policy = fs.GymWorld("FrozenLake-v1", is_slippery=False), fs.Greedy()
    table = world.to_finite(0.9, ends="absorbing")
    values = np.zeros((16, 4))
    for _ in range(50):
        values = np.einsum("asn, san -> sa", table.transition, table.reward + 0.9 * values.max(axis=1))
    played = fs.rollouts(fs.GymFleet([world]), fs.FedSARSA(fs.OneHot(), policy), values.ravel(), 3)
    assert played.mean_return.values.tolist() == [1.0]


class Dial(Odd):
    """The reward is what the dials show."""

    def __init__(self):
        dials = gym.spaces.Box(np.array([0, 0]), np.array([1, 9]), dtype=np.int64)
        super().__init__(gym.spaces.Discrete(1), dials)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, float(action @ [100, 1]), True, False, {}


def test_what_is_learned_on_a_grid_over_integers_is_what_is_played():
    fleet = fs.GymFleet([fs.GymWorld(Dial)], 0.9, processes=0)
    algo = fs.FedSARSA(fs.OneHot(), fs.FixedPolicy("uniform"), 1.0, 1, actions=fs.GridActions(4))
    history = algo.train(fleet, 200, runs=1)
    values = [100 * a + b for a in (0, 1) for b in (0, 3, 6, 9)]
    assert [value for value in history.final.values[0] if value] == values[1:]
    assert fs.rollouts(fleet, algo, history.final[0], 2).mean_return.values.tolist() == [109.0]


def test_whole_numbers_are_not_drawn():
    space = gym.spaces.Box(0, 9, (1,), np.int64)
    algo = fs.FedSARSA(fs.TileCoding(), actions=fs.RandomActions(4))
    with pytest.raises(ValueError, match="must be GridActions where an action is a whole number, got Random"):
        algo.problem(fs.GymFleet([fs.GymWorld(Odd, action=space)]), 1, 1, 0)


def test_too_many_actions_are_named():
    for space, message in (
        (gym.spaces.Box(-1, 1, (64,)), r"at most 4096 combinations, got more in Box.*with 5 values of each"),
        (gym.spaces.MultiDiscrete([4] * 32), r"at most 4096 combinations, got more in MultiDiscrete"),
    ):
        fleet = fs.GymFleet([fs.GymWorld(Odd, action=space)])
        candidates = fs.GridActions(5) if fleet.action_count is None else None
        with pytest.raises(ValueError, match=message):
            fs.FedSARSA(fs.TileCoding(1, 1), actions=candidates).problem(fleet, 1, 1, 0)


def test_an_environment_that_does_not_exist_is_named():
    for name, why in (
        ("CartPool-v1", "CartPool"),
        ("no_such_module:Cart-v0", "No module named 'no_such_module'"),
        ("json:Cart-v0", "`Cart` doesn't exist"),
        ("one:two:three", "too many values"),
    ):
        with pytest.raises(ValueError, match=f"environment '{name}' cannot be made: .*{why}"):
            fs.GymFleet([fs.GymWorld(name)], 0.9)


def test_pictures_are_too_many_numbers():
    picture = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)
    fleet = fs.GymFleet([fs.GymWorld(Odd, observation=picture)])
    for features, message in (
        (
            fs.TileCoding(),
            r"has about 10\^96189 parameters for 100800 inputs and 3 actions; at most 5",
        ),
        (fs.FourierBasis(1), r"has about 10\^30344 functions of 100800 inputs; at most 496"),
        (fs.RBF(2), r"has about 10\^30344 functions of 100800 inputs; at most 496"),
    ):
        with pytest.raises(ValueError, match=message):
            fs.FedSARSA(features).problem(fleet, 1, 1, 0)


def test_the_agent_whose_environment_cannot_be_made_is_named():
    def broken(length=1.0):
        raise OSError("no such port")

    worlds = [fs.GymWorld("CartPole-v1"), fs.GymWorld(broken, length=2.0)]
    with pytest.raises(OSError, match="no such port") as caught:
        fs.GymFleet(worlds)
    assert caught.value.__notes__ == ["This is worlds[1], broken(length=2.0)."]


def test_a_discount_that_is_not_given_is_shown():
    """What is usual for episodes; finite worlds of one's own need one."""
    poles = fs.GymFleet([fs.GymWorld("CartPole-v1")])
    for fleet in (poles, fs.GymFleet.make("CartPole-v1", 1), fs.control.fleet("CartPole", 1)):
        assert fleet.discount == 0.99
        assert "discount=0.99" in str(fleet)
    lake = fs.Fleet([fs.GymWorld("FrozenLake-v1").to_finite()])
    assert str(lake) == "1 agents, discount 0.99, measured eps_p = 0, eps_r = 0"
    with pytest.raises(TypeError, match="discount"):
        fs.FiniteMDP(np.full((1, 2, 2), 0.5), np.zeros(2))
