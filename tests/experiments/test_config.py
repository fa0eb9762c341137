import copy
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa import _checks
from fedsarsa.experiments import config, grid
from fedsarsa.federation import state

EXAMPLES = Path(__file__).parents[2] / "examples"


def read(tmp_path, text):
    path = tmp_path / "config.toml"
    path.write_text(text)
    return config.load(path)


def test_an_empty_file_is_the_published_setting(tmp_path):
    settings = read(tmp_path, "")
    algo = settings.algorithm.build()
    assert (algo.features, algo.policy) == (fs.ModuloFeatures(5, 5), fs.Softmax(100.0))
    assert (algo.step_size, algo.sync_every, algo.radius) == (0.01, 10, None)
    assert (settings.training.steps, settings.training.runs) == (20_000, 10)
    assert len(settings.fleet.build(tmp_path)) == 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("policy = { temperature = 2 }", {"policy": fs.Softmax(2.0)}),
        ('policy = { kind = "greedy" }', {"policy": fs.Greedy("share")}),
        ('policy = { kind = "greedy", ties = "first" }', {"policy": fs.Greedy("first")}),
        ('policy = { kind = "epsilon-greedy", ties = "first" }', {"policy": fs.EpsilonGreedy(0.1, "first")}),
        ('policy = { kind = "epsilon-greedy", eps = 0.2 }', {"policy": fs.EpsilonGreedy(0.2)}),
        ('features = { kind = "one-hot" }', {"features": fs.OneHot()}),
        ("features = { d1 = 2, d2 = 3 }", {"features": fs.ModuloFeatures(2, 3)}),
        ('step_size = { kind = "linear-decay", w = 1, a = 2 }', {"step_size": fs.LinearDecay(1.0, 2.0)}),
        (
            'step_size = { kind = "piecewise-decay", values = [0.2, 0.1], boundaries = [9] }',
            {"step_size": fs.PiecewiseDecay([0.2, 0.1], [9])},
        ),
        ("step_size = [0.1, 0.2]", {"step_size": [0.1, 0.2]}),
        ('sync_every = "never"', {"sync_every": None}),
        ("radius = 3", {"radius": 3.0}),
    ],
)
def test_algorithms(tmp_path, text, expected):
    algo = read(tmp_path, f"[algorithm]\n{text}").algorithm.build()
    for name, value in expected.items():
        assert getattr(algo, name) == value


@pytest.mark.parametrize(
    ("written", "bounds"),
    [
        ("[0.0, 10]", (0.0, 10.0)),
        ("{ low = 0, high = 10.0 }", (0.0, 10.0)),
        ("[[0.0, 1.0], [2.0, 3.0]]", ((0.0, 1.0), (2.0, 3.0))),
        ("{ low = [0.0, 1.0], high = [2.0, 3.0] }", ((0.0, 1.0), (2.0, 3.0))),
    ],
)
def test_bounds(tmp_path, written, bounds):
    for kind in ("tile-coding", "fourier", "rbf", "random-fourier"):
        text = f'[algorithm]\nfeatures = {{ kind = "{kind}", bounds = {written} }}'
        assert read(tmp_path, text).algorithm.build().features.bounds == bounds


@pytest.mark.parametrize("scheme", ["released", "calibrated", "symmetric"])
def test_schemes(tmp_path, scheme):
    text = f'[fleet]\nagents = 5\neps_r = 0.5\nscheme = "{scheme}"\nstates = 10\nactions = 5'
    fleet = read(tmp_path, text).fleet.build(tmp_path)
    expected = fs.paper.fleet(5, 1.0, 0.5, scheme=scheme, states=10, actions=5)
    np.testing.assert_array_equal(fleet[2].reward, expected[2].reward)
    np.testing.assert_array_equal(fleet[2].kernel.P0, expected[2].kernel.P0)


def test_fixed_policies(tmp_path):
    for pi in ("3", '"uniform"'):
        policy = (
            read(tmp_path, f'[algorithm]\npolicy = {{ kind = "fixed", pi = {pi} }}').algorithm.build().policy
        )
        assert repr(policy) == f"FixedPolicy({pi.replace(chr(34), chr(39))})"


@pytest.mark.parametrize("shift", [True, False])
def test_worlds_from_a_file(tmp_path, shift):
    rng = np.random.default_rng(0)
    arrays = {"reward": rng.random((3, 4))}
    if shift:
        arrays["P0"] = rng.dirichlet(np.ones(4), size=(3, 4))
    else:
        arrays["transition"] = rng.dirichlet(np.ones(4), size=(3, 2, 4))
        arrays["initial"] = np.tile(np.eye(4)[0], (3, 1))
    np.savez(tmp_path / "worlds.npz", **arrays)
    actions = "actions = 5" if shift else ""
    settings = read(tmp_path, f'[fleet]\nkind = "file"\npath = "worlds.npz"\ndiscount = 0.9\n{actions}')
    fleet = settings.fleet.build(tmp_path)
    assert (len(fleet), fleet.states, fleet.actions, fleet.discount) == (3, 4, 5 if shift else 2, 0.9)
    np.testing.assert_array_equal(fleet[1].reward, arrays["reward"][1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[flet]\n", "flet: unknown key; did you mean 'fleet'?; valid: algorithm, fleet, training"),
        ("[fleet]\nagnets = 3", "fleet.agnets: unknown key; did you mean 'agents'?"),
        ("[training]\nstpes = 3", "training.stpes: unknown key; did you mean 'steps'?"),
        ("[algorithm]\nfeatures = { d3 = 1 }", "algorithm.features.d3: unknown key"),
        (
            "[algorithm]\npolicy = { eps = 0.1 }",
            "algorithm.policy.eps: unknown key of this kind, but one of kind epsilon-greedy; valid: kind,",
        ),
        (
            "[algorithm]\nserver = { damping = 0.1 }",
            "algorithm.server.damping: unknown key; valid: kind, radius, weights",
        ),
        (
            '[algorithm]\npolicy = { kind = "sofmax" }',
            "expected softmax or greedy or epsilon-greedy or fixed, got 'sofmax'; did you mean 'softmax'?",
        ),
        (
            '[algorithm]\npolicy = { kind = "greedy", ties = "last" }',
            "algorithm.policy.ties: expected 'share' or 'first', got 'last'",
        ),
        (
            '[fleet]\nscheme = "symetric"',
            "fleet.scheme: expected 'released', 'calibrated' or 'symmetric', got 'symetric'",
        ),
        ('[algorithm]\nstep_size = "big"', "algorithm.step_size: expected a number, got 'big'"),
        (
            "[training]\nruns = 2.5",
            "training.runs: expected a whole number, got 2.5",
        ),
        ("[training]\nruns = true", "training.runs: expected a whole number, got True"),
        ('[training]\nruns = "3"', "training.runs: expected a whole number, got '3'"),
        ('[fleet]\neps_p = "0.5"', "fleet.eps_p: expected a number, got '0.5'"),
        ("[algorithm]\nradius = true", "algorithm.radius: expected a number, got True"),
        ("[algorithm]\nstep_size = { w = 1, a = 2 }", "expected a number, a list or a table with a kind"),
        (
            '[algorithm]\nsync_every = "often"',
            "algorithm.sync_every: expected a whole number or 'never', got 'often'",
        ),
        ("[fleet]\nagents = 0", "fleet.agents: expected at least 1, got 0"),
        ('[fleet]\nkind = "control"', "fleet.world: expected a value, got none"),
        (
            '[fleet]\nkind = "control"\nworld = "CartPole"\nvary = { length = { low = 0.4 } }',
            "config.toml: fleet.vary.length.high: expected a value, got none",
        ),
        (
            '[algorithm]\nstep_size = [0.1, { kind = "constant", value = "big" }]',
            "algorithm.step_size.1.value: expected a number, got 'big'",
        ),
        (
            '[algorithm]\nfeatures = { kind = "rbf", bounds = "wide" }',
            "algorithm.features.bounds: expected a table or a list, got 'wide'",
        ),
        ("[training\n", "expected TOML"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=r"config\.toml: ") as error:
        read(tmp_path, text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "extra", "message"),
    [
        ({"transition": np.ones((1, 1, 1, 1))}, "", "expected reward, either transition or P0"),
        (
            {"reward": np.ones((2, 1)), "P0": np.ones((1, 1, 1))},
            "actions = 1",
            r"expected P0 with a first axis of 2 agents, got \(1, 1, 1\)",
        ),
        ({"reward": np.ones((1, 1)), "P0": np.ones((1, 1, 1))}, "", "expected the number of actions"),
        ({"reward": np.array([None])}, "", "expected an .npz file of arrays"),
    ],
)
def test_bad_world_files(tmp_path, arrays, extra, message):
    np.savez(tmp_path / "worlds.npz", allow_pickle=True, **arrays)
    settings = read(tmp_path, f'[fleet]\nkind = "file"\npath = "worlds.npz"\ndiscount = 0.9\n{extra}')
    with pytest.raises(ValueError, match=message):
        settings.fleet.build(tmp_path)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_examples_are_sound(path):
    settings = grid.load(path).cells[0].config if path.stem == "sweep" else config.load(path)
    fleet = settings.fleet.build(path.parent)
    history = settings.algorithm.build().train(fleet, steps=20, runs=1)
    assert np.isfinite(history.final).all()


def test_there_are_examples():
    assert len(list(EXAMPLES.glob("*.toml"))) >= 3


HUGE = 10**30
ALGORITHM = {"features": {"kind": "tile-coding"}}
CONTROL = {"kind": "control", "world": "CartPole"}
PENDULUM = {"kind": "control", "world": "Pendulum"}


@pytest.mark.parametrize("number", [HUGE, 10**15])
@pytest.mark.parametrize(
    ("key", "around"),
    [
        ("fleet.agents", {}),
        ("fleet.states", {}),
        ("fleet.actions", {}),
        ("fleet.agents", {"fleet": CONTROL}),
        ("fleet.agents", {"fleet": {"kind": "gym", "id": "CartPole-v1"}}),
        ("training.steps", {}),
        ("training.runs", {}),
        ("training.threads", {}),
        ("training.record_every", {}),
        ("algorithm.sync_every", {}),
        ("algorithm.features.d1", {"algorithm": {"features": {"kind": "modulo"}}}),
        ("algorithm.features.tilings", {"fleet": CONTROL, "algorithm": ALGORITHM}),
        ("algorithm.features.bins", {"fleet": CONTROL, "algorithm": ALGORITHM}),
        ("algorithm.features.memory", {"fleet": CONTROL, "algorithm": ALGORITHM}),
        ("algorithm.features.order", {"fleet": CONTROL, "algorithm": {"features": {"kind": "fourier"}}}),
        ("algorithm.features.centres", {"fleet": CONTROL, "algorithm": {"features": {"kind": "rbf"}}}),
        ("algorithm.actions.count", {"fleet": PENDULUM, "algorithm": {"actions": {"kind": "grid"}}}),
    ],
)
def test_huge_numbers_are_refused_with_a_limit(key, around, number):
    content = copy.deepcopy(around)
    *above, last = key.split(".")
    section = content
    for name in above:
        section = section.setdefault(name, {})
    section[last] = number
    with pytest.raises(ValueError, match=rf"^x: {re.escape(key)}: expected at most \d+, got {number}$"):
        config.validate(content, "x")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"fleet": {"states": 10**6}},
            "agents and states must leave worlds that fit into .*, got 20 and 1000000",
        ),
        (
            {"fleet": {"agents": 10**6}},
            "agents and states must leave worlds that fit into .*, got 1000000 and 100",
        ),
        ({"training": {"steps": 10**12}}, "record_every must leave at most 4 GiB of records, .* got"),
        (
            {"training": {"runs": 10**6, "steps": 5}, "fleet": {"agents": 10**6, "eps_p": 0.0, "eps_r": 0.0}},
            "runs must leave local parameters that fit into memory, got 1000000",
        ),
        (
            {
                "fleet": {"actions": 10**6, "agents": 1},
                "training": {"steps": 5},
                "algorithm": {"features": {"kind": "modulo", "d2": 10**6}},
            },
            "runs must leave local parameters that fit into memory",
        ),
    ],
)
def test_numbers_that_are_too_large_together_are_refused_before_memory_is_taken(
    monkeypatch, sections, message
):
    monkeypatch.setattr(_checks, "MEMORY", 4 * 2**30)
    monkeypatch.setattr(state, "MEMORY", 2**24)
    settings = config.validate(sections, "x")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            settings.algorithm.build().train(
                settings.fleet.build(Path()), **settings.training.model_dump(), progress=False
            )
        assert tracemalloc.get_traced_memory()[1] < 2**29
    finally:
        tracemalloc.stop()
