"""The registry of engines: which one trains what, and what is said of those that do not."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
from numba import njit

import fedsarsa as fs
from fedsarsa import _netcdf, engines
from fedsarsa._interrupts import Interrupted
from fedsarsa.federation.engine import Engine
from tests.experiments.commands import command
from tests.worlds_of_tests import fleet

FINITE, CARTS = fleet(0, agents=3), fs.control.fleet("CartPole", 3)


# Those that train both kinds of worlds here, with no package and no device.
HERE = [
    name for name, entry in engines.ENGINES.items() if entry.worlds == engines.COMPUTED and not entry.needs
]


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("group", [FINITE, CARTS], ids=["finite", "control"])
def test_every_engine_keeps_the_contract(name, group):
    features = fs.OneHot() if group is FINITE else fs.TileCoding(2, 2)
    problem = fs.FedSARSA(features, fs.Softmax(1.0), 0.1, 5).problem(group, 20, 2, 0)
    engine = engines.build(name, problem, threads=1)
    assert isinstance(engine, Engine)
    assert (engine.name, engine.opened, engine.can_be_saved) == (name, True, True)
    assert engine.first_steps >= 1
    engine.close()


def test_automatic_choice():
    assert set(HERE) >= {"cpu", "reference"}
    assert engines.resolve("auto", FINITE) == engines.resolve("auto", CARTS) == "cpu"


@pytest.fixture
def gpu(monkeypatch):
    """As where there is a GPU; nothing can be trained on it."""
    monkeypatch.setitem(
        engines.ENGINES, "cuda", replace(engines.ENGINES["cuda"], needs=None, device=lambda: None)
    )


@pytest.mark.parametrize(
    ("group", "settings", "name"),
    [
        (FINITE, {}, "cuda"),
        (CARTS, {"features": fs.TileCoding(2, 2)}, "cuda"),
        (CARTS, {"features": njit(lambda x: x / 3)}, "cpu"),
        (FINITE, {"policy": fs.FixedPolicy(0), "server": fs.servers.FirstDirections()}, "cpu"),
    ],
    ids=["finite", "control", "function", "opens"],
)
def test_automatic_choice_of_a_gpu(gpu, group, settings, name):
    algo = fs.FedSARSA(**({"features": fs.OneHot(), "policy": fs.Softmax(1.0)} | settings))
    assert engines.automatic(algo.problem(group, 10**7, 1000, 0)) == name
    assert engines.automatic(algo.problem(group, 10**6, 1000, 0)) == "cpu"
    assert engines.automatic(algo.problem(group, 10**9, 10, 0)) == "cpu"


def test_float32_is_for_a_gpu_even_where_there_is_none(monkeypatch, gpu):
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0))
    assert engines.automatic(replace(algo.problem(FINITE, 10, 2, 0), precision="float32")) == "cuda"
    none = replace(engines.ENGINES["cuda"], device=lambda: "there is no NVIDIA GPU here")
    monkeypatch.setitem(engines.ENGINES, "cuda", none)
    for engine in ("auto", "cuda"):
        with pytest.raises(ValueError, match="engine 'cuda', which precision 'float32' needs, does not work"):
            algo.train(FINITE, 10, engine=engine, precision="float32")
    with pytest.raises(
        ValueError, match=r"precision must be 'float64' with engine 'cpu'.*; use engine 'cuda'$"
    ):
        algo.train(FINITE, 10, engine="cpu", precision="float32")
    gyms = fs.GymFleet([fs.GymWorld("CartPole-v1")], processes=0)
    with pytest.raises(ValueError, match=r"precision must be 'float64' with engine 'gym', got 'float32'$"):
        fs.FedSARSA(lambda x: x / 9, fs.Softmax(1.0)).train(gyms, 10, precision="float32")


@pytest.mark.parametrize(
    "algo",
    [
        fs.FedSARSA(fs.OneHot(), fs.FixedPolicy("uniform"), 0.1, 5, server=fs.servers.FirstDirections()),
        fs.methods.NStepTD(fs.OneHot(), fs.FixedPolicy("uniform"), 0.1, n=2),
    ],
    ids=["opens", "windows"],
)
def test_an_engine_of_ones_own_takes_what_its_class_takes(monkeypatch, algo):
    monkeypatch.setitem(engines.ENGINES, "own", replace(engines.ENGINES["cpu"], about="another name"))
    one, two = (algo.train(FINITE, 20, runs=2, engine=name) for name in ("cpu", "own"))
    np.testing.assert_array_equal(one.central, two.central)
    assert two.data.attrs["engine"] == "own"
    with pytest.raises(ValueError, match="precision must be 'float64' with engine 'own'"):
        algo.train(FINITE, 20, engine="own", precision="float32")
    with pytest.raises(ValueError, match=r"engine must be cpu or reference or own for .*, got 'ray'"):
        algo.train(FINITE, 20, engine="ray")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gym", r"engine 'gym' does not train a Fleet, got .*; use cpu or cuda or ray or reference"),
        ("cqu", "engine must be one of auto, cpu, cuda, gym, ray, reference.*cpu"),
    ],
)
def test_engines_that_do_not_fit(name, words):
    with pytest.raises(ValueError, match=words):
        fs.FedSARSA(fs.OneHot()).train(FINITE, 10, engine=name)


def test_an_engine_whose_package_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.ENGINES["ray"].missing == "it needs ray: pip install 'fedsarsa[ray]'"
    assert engines.ENGINES["cpu"].missing is None


def test_the_command_lists_them():
    done = command("engines")
    assert done.returncode == 0
    for name in engines.ENGINES:
        assert name in done.stdout


@pytest.fixture
def stopped_after(monkeypatch, tmp_path):
    """Trains, and presses Ctrl-C once a number of steps, taken at once, are over; where it saved."""

    def train(steps, algo, group, length, engine):
        problem, path = algo.problem(group, length, 2, 0), tmp_path / "checkpoint.nc"
        kind = type(engines.build(engine, problem, 1))
        advance = kind.advance

        def cut(self, state, steps):
            seen = advance(self, state, steps)
            os.kill(os.getpid(), signal.SIGINT)
            return seen

        with monkeypatch.context() as patched:
            patched.setattr(kind, "advance", cut)
            patched.setattr("fedsarsa.federation.training.span_length", lambda *_: steps)
            with pytest.raises(Interrupted, match=f"interrupted after {steps} of {length} steps"):
                algo.train(group, length, runs=2, engine=engine, checkpoint=path)
        return path

    return train


@pytest.mark.parametrize("first", ["cpu", "reference"])
@pytest.mark.parametrize(
    ("group", "algo"),
    [
        (FINITE, fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), 0.1, 5)),
        (CARTS, fs.FedSARSA(fs.TileCoding(2, 2), fs.Softmax(1.0), 0.1, 5, trace_decay=0.5)),
    ],
    ids=["finite", "control"],
)
def test_a_checkpoint_moves_between_engines(stopped_after, group, algo, first):
    path = stopped_after(3, algo, group, 40, first)  # inside a round
    (other,) = {"cpu", "reference"} - {first}
    moved = algo.train(group, 40, runs=2, engine=other, checkpoint=path)
    whole = algo.train(group, 40, runs=2)
    np.testing.assert_allclose(moved.central, whole.central, rtol=0, atol=1e-12)
    np.testing.assert_allclose(moved.local, whole.local, rtol=0, atol=1e-12)


@pytest.mark.parametrize("first", ["cpu", "reference"])
@pytest.mark.parametrize("steps", [40, 43])
def test_averages_move_between_engines_where_rounds_end(stopped_after, first, steps):
    algo = fs.FedSARSA(fs.OneHot(), fs.Softmax(1.0), fs.LinearDecay(4.0, 8.0), 5)
    (other,) = {"cpu", "reference"} - {first}
    path = stopped_after(10, algo, FINITE, steps, first)
    moved = algo.train(FINITE, steps, runs=2, engine=other, checkpoint=path)
    whole = algo.train(FINITE, steps, runs=2, engine=other)
    for name in ("central", "local", "averaged"):
        np.testing.assert_allclose(moved.data[name], whole.data[name], rtol=0, atol=1e-12)
    assert f'"engine": "{other}"' in _netcdf.read(path, "checkpoint", ()).attrs["fingerprint"]
    path.unlink()
    path = stopped_after(3, algo, FINITE, steps, first)
    with pytest.raises(
        ValueError, match=f"of engine '{other}', got one of '{first}' after 3 steps, inside a"
    ):
        algo.train(FINITE, steps, runs=2, engine=other, checkpoint=path)
    again = algo.train(FINITE, steps, runs=2, engine=first, checkpoint=path)
    np.testing.assert_allclose(again.averaged, whole.averaged, rtol=0, atol=1e-12)
