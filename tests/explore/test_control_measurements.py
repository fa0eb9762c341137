"""What the control view computes, without a page: trainings, episodes, values, pictures of worlds, files."""

import csv
import io
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config as configs
from fedsarsa.explore import control_measurements, control_values, exports
from fedsarsa.explore.control_view import CONTROLS, Wanted, _played, _wanted, sentence
from fedsarsa.explore.controls import PICTURED
from fedsarsa.explore.drawn_worlds import film, look_of
from fedsarsa.explore.jobs import StoppedError

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = "fleet.agents=2&algorithm.features.tilings=2&algorithm.features.bins=3&training.steps=600"
SMALL += "&training.runs=2&algorithm.sync_every=100"


def content(query=SMALL):
    base = control_values.control_base()
    values, errors = control_values.from_query(query, base, CONTROLS)
    assert errors == {}
    return control_values.content_of(base, values)


def config(query=SMALL):
    return configs.validate(content(query), "address")


@pytest.fixture(scope="module")
def learned():
    return control_measurements.train(config())


def test_curves_are_those_of_train(learned):
    fleet = fs.control.fleet("CartPole", agents=2, spread=0.2)
    algo = fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.01), step_size=0.3, sync_every=100)
    history = algo.train(fleet, steps=600, runs=2)
    assert np.array_equal(history.final, learned.history.final)
    curve = history.learning_curve(bins=control_measurements.POINTS)
    assert np.allclose(learned.curves["mean"], curve.mean(["agent", "run"]), equal_nan=True)
    assert np.allclose(learned.late["mean"], history.late_return().mean("run"), equal_nan=True)
    assert learned.curves.attrs["of"] == "return"
    mean = float(history.late_return().mean())
    assert f"2 agents have a return of {mean:.4g} on the mean" in sentence(learned)


@pytest.mark.parametrize(
    ("world", "example"), list(zip(PICTURED, ("cart-pole", "mountain-car", "acrobot"), strict=True))
)
def test_a_world_is_learned_in_as_in_its_example(world, example):
    wanted = configs.load(EXAMPLES / f"{example}.toml")
    found = config(f"fleet.world={world}")
    assert repr(found.fleet.build()) == repr(wanted.fleet.build())
    assert repr(found.algorithm.build()) == repr(wanted.algorithm.build())


@pytest.mark.parametrize("example", ["cart-pole", "mountain-car", "acrobot", "pendulum"])
def test_examples_of_control_worlds_are_opened(example):
    wanted = configs.load(EXAMPLES / f"{example}.toml")
    base = control_values.base_of(wanted)
    values = control_values.first_values(base, CONTROLS)
    assert control_values.config_of(base, values) == configs.validate(
        control_values.content_of(base, values), "again"
    )
    found = control_values.config_of(base, values)
    assert repr(found.fleet.build()) == repr(wanted.fleet.build())
    assert repr(found.algorithm.build()) == repr(wanted.algorithm.build())


def test_another_world_has_physics_of_its_own():
    base = control_values.base_of(configs.load(EXAMPLES / "acrobot.toml"))
    values, errors = control_values.from_query("fleet.world=MountainCar", base, CONTROLS)
    assert errors == {}
    assert values["fleet.physics.gravity"] == 0.0025
    assert control_values.config_of(base, values).fleet.build()[0].time_limit == 200


@pytest.mark.filterwarnings("ignore:Personal. every agent listens to itself:RuntimeWarning")
@pytest.mark.parametrize("rule", ["personal", "consensus"])
def test_agents_that_keep_policies_of_their_own_are_played_by_them(rule):
    found = control_measurements.train(config(SMALL + f"&algorithm.server.kind={rule}"))
    own = found.history.personal[0, -1]
    assert not np.array_equal(own[0], own[1])
    for agent in range(2):
        assert np.array_equal(found.policy(agent).theta, own[agent])
        wanted = found.algo.values(own[agent], np.zeros(4), found.fleet).max()
        middle = control_measurements.CELLS // 2
        assert float(control_measurements.value_map(found, 2, 3, agent)[middle, middle]) == wanted
    assert "Policies of their own serve all agents alike, as far as the runs tell." in sentence(found)


def test_a_training_is_stopped():
    with pytest.raises(StoppedError):
        control_measurements.train(config(), stopped=lambda: True)


def test_an_episode_follows_the_physics_and_the_policy(learned):
    episode = control_measurements.play(learned, 1)
    assert episode.total == len(episode.states) - 1  # one per step
    assert episode.world == learned.fleet[1]
    policy = fs.Policy.of(learned.fleet, learned.algo, learned.history.final[0], greedy=True)
    state = episode.states[0].copy()
    for after in episode.states[1:]:
        values = policy.values(state)
        if values[0] != values[1]:  # ties are broken by chance
            episode.world.move(state, float(np.argmax(values)), 0.0)
            assert np.allclose(state, after)
        state = after.copy()
    again = control_measurements.play(learned, 1)
    assert np.array_equal(again.states, episode.states)


def test_values_are_those_of_the_algorithm(learned):
    found = control_measurements.value_map(learned, across=2, up=3)
    up, across = 5, 30
    seen = [0.0, 0.0, float(found["across"][across]), float(found["up"][up])]
    wanted = learned.algo.values(learned.history.final[0], seen, learned.fleet).max()
    assert float(found[up, across]) == wanted


def test_what_is_wanted_is_played_where_it_is_there(learned):
    def played(wanted):
        (found,) = _played(learned, wanted, lambda: False)
        return found

    usual = played(Wanted())
    assert [one.agent for one in usual.episodes] == [0, 1]
    assert usual.plane == (2, 3)
    some = played(_wanted({"watch": "1|9|x", "plane": "0|1"}))
    assert [one.agent for one in some.episodes] == [1]
    assert some.plane == (0, 1)
    assert played(_wanted({"plane": "0|7"})).plane == (2, 3)


def length(line):
    return float(np.linalg.norm(np.diff(line, axis=0), axis=1).sum())


def test_worlds_are_drawn_to_scale():
    cart = fs.control.CartPole(length=0.7)
    _, pole = look_of(fs.control.CartPole).moving(cart, np.array([1.0, 0.0, 0.1, 0.0]))
    assert length(pole) == pytest.approx(1.4)
    assert pole[1][0] > pole[0][0] == 1.0  # an angle above zero leans to the right
    links = fs.control.Acrobot(length_1=0.8, length_2=1.3)
    (arm,) = look_of(fs.control.Acrobot).moving(links, np.array([math.pi, 0.0, 0.0, 0.0]))
    assert length(arm) == pytest.approx(2.1)
    assert arm[-1][1] == pytest.approx(2.1)  # upright
    car = fs.control.MountainCar()
    hill, flag = look_of(fs.control.MountainCar).still(car)
    assert flag[0][0] == car.goal
    assert np.argmin(hill[:, 1]) == np.argmin(abs(hill[:, 0] + math.pi / 6))  # gravity pulls to -pi / 6
    (rod,) = look_of(fs.control.Pendulum).moving(fs.control.Pendulum(length=1.5), np.zeros(4))
    assert rod[1].tolist() == [0.0, 1.5]  # an angle of zero is upright


def test_worlds_without_a_drawing_have_a_gauge_per_observation():
    class Unknown(fs.control.CartPole):
        pass

    look, world = look_of(Unknown), Unknown()
    high = np.array(world.bounds[1])
    assert len(look.dimensions(world)) == len(look.still(world)) == 4
    marks = look.moving(world, high * [1.0, 0.0, -1.0, 0.5])
    assert [mark[0, 1] for mark in marks] == pytest.approx([1.0, 0.5, 0.0, 0.75])
    assert [mark[:, 0].mean() for mark in marks] == [0, 1, 2, 3]


def test_a_film_has_a_row_per_state():
    states = np.zeros((3, 4))
    states[:, 0] = [0.0, 0.1, 0.2]
    shown = film(fs.control.CartPole(), states)
    assert [frame[1][0] for frame in shown["xs"]] == [0.0, 0.1, 0.2]
    assert len(shown["ys"]) == 3


def test_copies_and_files_hold_the_numbers(learned, tmp_path):
    said = []
    names = {"print": said.append}
    exec(exports.python(content()), names)
    assert np.array_equal(names["history"].final, learned.history.final)
    assert said[-1].identical(learned.curves["mean"].drop_attrs().rename(said[-1].name))
    assert configs.validate(tomllib.loads(exports.toml_text(content())), "copied") == config()
    made = {name: make(learned, content()) for name, (_, make) in exports.CONTROL_FILES.items()}
    assert made["PNG"].startswith(b"\x89PNG")
    assert b"<svg" in made["SVG"]
    rows = list(csv.DictReader(io.StringIO(made["CSV"].decode())))
    assert [int(row["t"]) for row in rows] == learned.curves["t"].values.tolist()
    own = learned.curves["agents"].sel(agent=1).values
    assert [float(row["agent 1"] or "nan") for row in rows] == pytest.approx(own, nan_ok=True)
    (tmp_path / "history.nc").write_bytes(made["netCDF"])
    assert np.array_equal(fs.History.load(tmp_path / "history.nc").final, learned.history.final)
