"""Continuous worlds from configurations to films, on the command line."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedsarsa as fs
from fedsarsa.experiments import config, learning_curves, playing, plots
from tests.experiments.commands import command, command_in_its_own_process

FOLDER = Path(__file__).parents[2] / "examples"

CART = """
[fleet]
kind = "control"
world = "CartPole"
agents = 3
seed = 2
vary = { length = { low = 0.4, high = 0.6 } }
physics = { time_limit = 30 }

[algorithm]
features = { kind = "tile-coding", tilings = 4, bins = 3 }
policy = { kind = "epsilon-greedy", eps = 0.1 }
step_size = 0.2
trace_decay = 0.5
sync_every = 20

[training]
steps = 200
runs = 2
"""

UNDRIVEN = CART.replace("CartPole", "Pendulum").replace("vary =", "# vary =")


def test_whole_numbers_are_drawn_from_ranges_of_them(tmp_path):
    toml = tmp_path / "cart.toml"
    vary = "vary = { time_limit = { low = 20, high = 22 }, length = { low = 1, high = 2 } }"
    text = re.sub("vary = .*", vary, CART).replace("agents = 3", "agents = 20")
    toml.write_text(re.sub("physics = .*", "", text))
    drawn = config.load(toml).build(tmp_path)[0].varied()
    assert set(drawn["time_limit"]) == {20, 21, 22}
    assert not any(length.is_integer() for length in drawn["length"])


def test_train_and_play(tmp_path):
    toml, out = tmp_path / "cart.toml", tmp_path / "out"
    toml.write_text(CART)
    done = command("train", toml, "--out", out)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "history.nc",
        "learning-curve.pdf",
        "learning-curve.png",
    ]
    assert "agent    length" in done.stdout
    written = fs.History.load(out / "history.nc")
    group = fs.control.fleet("CartPole", 3, vary={"length": (0.4, 0.6)}, seed=2, time_limit=30)
    algo = fs.FedSARSA(fs.TileCoding(4, 3), fs.EpsilonGreedy(0.1), 0.2, 20, trace_decay=0.5)
    assert written.data.equals(algo.train(group, 200, runs=2).data)

    film = tmp_path / "film.gif"
    done = command("play", out, "--agent", 2, "--gif", film)
    assert done.returncode == 0, done.stderr
    assert "agent 2: return" in done.stdout
    with Image.open(film) as pictures:
        assert pictures.n_frames > 5
    for arguments, message in (
        (("--agent", 3), "agent must be below 3, got 3"),
        (("--run", 2), "run must be below 2, got 2"),
        (("--gif", tmp_path / "nowhere" / "a.gif"), "expected a directory that can be written to"),
        (("--gif", tmp_path / "film.mp4"), "gif must be a file name that ends in .gif, got"),
    ):
        done = command("play", out, *arguments)
        assert done.returncode == 2
        assert message in done.stderr.replace("\n", " ")


@pytest.mark.slow
def test_gymnasium_environments_from_a_configuration(tmp_path):
    text = (FOLDER / "gymnasium.toml").read_text()
    toml, out = tmp_path / "pendulum.toml", tmp_path / "out"
    toml.write_text(text.replace("10_000", "400"))
    done = command("train", toml, "--out", out)
    assert done.returncode == 0, done.stderr
    history = fs.History.load(out / "history.nc")
    assert history.settings["environments"] == [f"Pendulum-v1(g={g})" for g in (9.8, 3.7, 1.6)]
    assert history.data.episodes.sum() == 6
    done = command("play", out, "--agent", 1, "--softmax", "--local", "--gif", tmp_path / "film.gif")
    assert done.returncode == 0, done.stderr


def test_play_says_what_it_cannot_play(tmp_path):
    group = fs.control.fleet("CartPole", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0))
    algo.train(group, 10, runs=1).save(tmp_path / "history.nc")
    done = command("play", tmp_path)
    assert done.returncode == 2
    assert "without its configuration" in done.stderr.replace("\n", " ")


BLIND = """
[fleet]
kind = "gym"
id = "tests.experiments.environments:Blind-v0"
each = [{}, { breaks = "step" }]

[algorithm]
features = { kind = "tile-coding", tilings = 1, bins = 2 }

[training]
steps = 10
runs = 1
"""


TANK = """
import gymnasium as gym
import numpy as np


class Tank(gym.Env):
    observation_space, action_space = gym.spaces.Box(0.0, 1.0, (1,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


gym.register("Tank-v0", Tank)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "configs"])
def test_modules_of_environments_are_found_as_files_are(tmp_path, place):
    """In the working directory and beside the configuration, by a command that knows neither from Python."""
    (tmp_path / "configs").mkdir()
    (tmp_path / place / "tanks.py").write_text(TANK)
    (tmp_path / "configs/tanks.toml").write_text(
        '[fleet]\nkind = "gym"\nid = "tanks:Tank-v0"\nagents = 2\n'
        '[algorithm]\nfeatures = { kind = "tile-coding", tilings = 2, bins = 2 }\n'
        "[training]\nsteps = 20\nruns = 1\n"
    )
    safe = {**os.environ, "PYTHONSAFEPATH": "1"}  # as an installed command: no directory of its own
    done = command_in_its_own_process("train", "configs/tanks.toml", cwd=tmp_path, env=safe)
    assert done.returncode == 0, done.stderr
    assert fs.History.load(tmp_path / "results/history.nc").settings["environments"] == ["tanks:Tank-v0"] * 2


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (0, r"agent 0: GymWorld\(.*Blind-v0\) cannot be filmed: .*render\(\) must answer an array.*got None"),
        (1, r"agent 1: .*breaks='step'\)\) cannot be filmed: KeyError\('the cable came off'\)"),
    ],
)
def test_environments_that_cannot_be_filmed_are_named(tmp_path, agent, message):
    settings = config.validate(tomllib.loads(BLIND), "blind.toml")
    history = settings.algorithm.build().train(settings.fleet.build(tmp_path), 10, runs=1)
    history.data.attrs["config"] = BLIND
    history.save(tmp_path / "history.nc")
    with pytest.raises(ValueError, match=message):
        playing.play(tmp_path, agent)


def test_more_tiles_than_a_float_can_count_are_told(tmp_path):
    toml = tmp_path / "wide.toml"
    text = BLIND.replace('{}, { breaks = "step" }', "{ numbers = 330 }")
    toml.write_text(text.replace("tilings = 1, bins = 2", "tilings = 1, bins = 8, memory = 64"))
    done = command("train", toml, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "hashing: 100.0% of the about 10^315 tiles of a grid share a parameter" in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CART.replace("CartPole", "CartPol"), "bad.toml: fleet.world must be one of"),
        (CART.replace("CartPole", "CartPol"), "did you mean 'CartPole'?"),
        (CART.replace("low = 0.4", "low = 4.0"), "bad.toml: fleet.vary['length'] must have low <= high"),
        (CART.replace("time_limit = 30", "force = 0"), "bad.toml: CartPole.force must be a positive number"),
        (
            CART.replace("features", "# features"),
            "bad.toml: algorithm.features must be TileCoding, FourierBasis",
        ),
        (CART.replace("features", "# features"), 'in TOML features = { kind = "tile-coding" }, got Modulo'),
        (
            UNDRIVEN,
            "bad.toml: algorithm.actions must be GridActions or RandomActions where actions are numbers",
        ),
        (UNDRIVEN, 'in TOML actions = { kind = "grid", count = 5 }, got None'),
        (CART.replace("length =", "lenght ="), "bad.toml: CartPole has no 'lenght'; did you mean 'length'?"),
        (CART.replace("tilings", "tilngs"), "did you mean 'tilings'?"),
        (CART.replace('"tile-coding"', '"tiles"'), "did you mean 'tile-coding'?"),
        (
            CART.replace("{ low = 0.4, high = 0.6 }", '"long"'),
            "fleet.vary.length: expected a table or a list, got 'long'",
        ),
        (
            CART.replace("{ low = 0.4,", '{ low = "short",'),
            "fleet.vary.length.low: expected a number, got 'short'",
        ),
        (
            CART.replace("trace_decay = 0.5", "trace_decay = 2.0"),
            "bad.toml: algorithm: trace_decay must be a number in [0, 1]",
        ),
        (CART.replace("trace_decay = 0.5", 'actions = { kind = "grid" }'), "algorithm.actions must be None"),
        (CART.replace("time_limit", "agents"), "got agents = 30, which belongs in [fleet]"),
        ('[fleet]\nkind = "gym"\nid = "CartPole-v1"', "expected either agents or each"),
        ('[fleet]\nkind = "gym-tables"\nid = "Taxi-v4"', "expected either agents or each"),
        (
            '[fleet]\nkind = "gym-tables"\nid = "CartPole-v1"\nagents = 1',
            "expected an environment with tables",
        ),
    ],
)
def test_bad_configurations_write_nothing(tmp_path, text, message):
    toml = tmp_path / "bad.toml"
    toml.write_text(text)
    done = command("train", toml, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert not (tmp_path / "out").exists()


def test_theory_is_for_finite_worlds(tmp_path):
    toml = tmp_path / "cart.toml"
    toml.write_text(CART)
    done = command("theory", toml)
    assert done.returncode == 2
    assert "expected finite worlds" in done.stderr.replace("\n", " ")


LAKES = """
[fleet]
kind = "gym-tables"
id = "FrozenLake-v1"
each = [{ success_rate = 0.5 }, { success_rate = 0.7 }]
discount = 0.9

[algorithm]
features = { kind = "one-hot" }
policy = { kind = "softmax", temperature = 0.5 }
step_size = 0.05

[training]
steps = 400
runs = 2
"""


@pytest.mark.slow
def test_toy_text_tables_from_a_configuration(tmp_path):
    toml, out = tmp_path / "lakes.toml", tmp_path / "out"
    toml.write_text(LAKES)
    done = command("train", toml, "--out", out)
    assert done.returncode == 0, done.stderr
    worlds = [fs.GymWorld("FrozenLake-v1", success_rate=rate).to_finite(0.9) for rate in (0.5, 0.7)]
    expected = fs.FedSARSA(fs.OneHot(), fs.Softmax(0.5), 0.05).train(fs.Fleet(worlds), 400, runs=2)
    assert fs.History.load(out / "history.nc").data.equals(expected.data)

    done = command("theory", toml)
    assert done.returncode == 0, done.stderr
    assert "the error ends at" in done.stdout
    assert "5 of 16 states are left for ever" in done.stdout.replace("\n", " ")

    toml.write_text(LAKES + "[sweep]\nalgorithm.sync_every = [1, 10]\n")
    done = command("sweep", toml, "--out", tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    target = fs.theory.fixed_point(worlds[0], fs.OneHot(), fs.Softmax(0.5))
    error = float(((expected.final.values - target) ** 2).sum(axis=1).mean())
    second = (tmp_path / "sweep" / "summary.csv").read_text().splitlines()[2]
    assert float(second.split(",")[1]) == pytest.approx(error, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "ends"), [("FrozenLake-v1", "absorbing"), ("CliffWalking-v1", "restart"), ("Taxi-v4", "restart")]
)
def test_tables_are_those_of_the_environments(tmp_path, name, ends):
    toml = tmp_path / "table.toml"
    toml.write_text(f'[fleet]\nkind = "gym-tables"\nid = "{name}"\nagents = 2\nends = "{ends}"')
    fleet = config.load(toml).fleet.build(tmp_path)
    expected = fs.GymWorld(name).to_finite(0.99, ends)
    assert len(fleet) == 2
    assert fleet[0] is fleet[1]
    np.testing.assert_array_equal(fleet[0].transition, expected.transition)
    np.testing.assert_array_equal(fleet[0].reward, expected.reward)


def test_hashed_tiles_say_what_they_share(tmp_path):
    toml = tmp_path / "cart.toml"
    for hashed, memory in ((False, ""), (True, ", memory = 64")):
        toml.write_text(CART.replace("bins = 3", f"bins = 3{memory}"))
        done = command("train", toml, "--out", tmp_path / f"out{hashed}")
        assert done.returncode == 0, done.stderr
        assert ("share a parameter with others" in done.stdout) == hashed
    found = fs.TileCoding(4, 3, memory=64).on_box(4).collisions()
    assert f"{found['sharing']:.1%} of the {found['tiles']:.0f} tiles of a grid" in done.stdout


@pytest.mark.slow
def test_the_study_is_made_by_one_command(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "study.md").write_text("before <!-- numbers: begin --> old <!-- numbers: end --> after")
    script = [sys.executable, str(FOLDER / "control-study.py"), "--docs", str(docs)]
    small = ["--steps", "500", "--seeds", "2", "--worlds", "mountain-car"]
    done = subprocess.run([*script, *small], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    page = (docs / "study.md").read_text()
    assert page.startswith("before <!-- numbers: begin -->")
    assert page.endswith("<!-- numbers: end --> after")
    assert "old" not in page
    for level in ("10%", "30%", "50%", "70%", "90%"):
        assert page.count(f"| {level} |") == 5  # four sizes, and training on alone
    with Image.open(docs / "study" / "mountain-car.png") as picture:
        assert picture.width > 1000


def test_coarse_curves_keep_every_episode():
    group = fs.control.fleet("CartPole", 2)
    history = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0)).train(group, 1000, runs=2)
    curve = history.learning_curve(bins=10)
    assert curve.sizes == {"run": 2, "agent": 2, "t": 10}
    np.testing.assert_array_equal(curve["t"], np.arange(100, 1001, 100))
    first = history.data.isel(bin=slice(0, 20)).sum("bin")
    np.testing.assert_allclose(curve[:, :, 0], first["returns"] / first["episodes"])
    figure = learning_curves.figure(history, "carts")
    assert len(figure.axes[0].lines) == 4


@pytest.mark.parametrize(("steps", "ends"), [(1000, [335, 670, 1000]), (199, [67, 134, 199]), (2, [1, 2])])
def test_coarse_curves_end_with_the_training(steps, ends):
    group = fs.control.fleet("MountainCar", 2, time_limit=1)  # every step is an episode, worth -1
    history = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0)).train(group, steps, runs=2)
    history.data["returns"][..., -1] *= 5  # so that a curve without the last bin is another
    bins = history.data.sizes["bin"]
    curve = history.learning_curve(bins=3)
    np.testing.assert_array_equal(curve["t"], ends)
    shares = np.diff(ends, prepend=0)
    assert float((curve * shares).sum("t").mean()) == pytest.approx(-steps - 4 * steps / bins)


@pytest.mark.parametrize(("steps", "runs"), [(5, 1), (5, 2), (300, 1)])
def test_figures_of_few_episodes_or_none(steps, runs, tmp_path):
    group = fs.control.fleet("Pendulum", 2)
    algo = fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0), actions=fs.GridActions(2))
    plots.save(learning_curves.figure(algo.train(group, steps, runs), "short"), tmp_path, "curve")
    assert (tmp_path / "curve.png").stat().st_size > 0
