"""Sections of a configuration are derived from the arguments of what they make."""

import dataclasses
import inspect
import pickle
import typing
from collections.abc import Sequence

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config, fleet_sections, grid
from fedsarsa.experiments.algorithm_sections import ACTIONS, FEATURES, POLICIES, SERVERS, STEP_SIZES
from fedsarsa.experiments.section import DerivedSection, keys_of, sections
from fedsarsa.federation import servers
from fedsarsa.learning import actions, bases, features, policies, step_sizes
from fedsarsa.worlds import control

SCHEDULES = [
    kind
    for _, kind in inspect.getmembers(step_sizes, dataclasses.is_dataclass)
    if kind.__module__ == step_sizes.__name__
]
REGISTRIES = [
    (FEATURES, [*features.FINITE.values(), *bases.CONTINUOUS.values()]),
    (POLICIES, policies.POLICIES.values()),
    (STEP_SIZES, SCHEDULES),
    (SERVERS, servers.RULES.values()),
    (ACTIONS, typing.get_args(actions.Candidates)),
]
KINDS = [(registry, kind) for registry, kinds in REGISTRIES for kind in kinds]
# Arguments that TOML writes under another name, or that are no setting.
FILES = {(fs.TabularFeatures, "table"): "file"}
FLEETS = [
    (fs.paper.fleet, fleet_sections.PaperFleet, {}),
    (control.fleet, fleet_sections.ControlSection, {}),
    *((section.source, section, {}) for section in fleet_sections.OF_PAPERS.values()),
    (fs.GymFleet, fleet_sections.GymSection, {"worlds": "id"}),
    (fs.GymWorld.to_finite, fleet_sections.GymTablesSection, {"self": "id"}),
    (fs.FiniteMDP, fleet_sections.FileFleet, {"transition": "path", "reward": "path", "initial": "path"}),
]


def arguments(source):
    """The names and defaults of the arguments of a class or function."""
    found = inspect.signature(source).parameters.values()
    return {one.name: one.default for one in found if one.kind is not one.VAR_KEYWORD}


def check_keys(section, source, names):
    """Every argument of ``source`` has its key, with its default."""
    for name, default in arguments(source).items():
        key = section.model_fields.get(names.get(name, name))
        assert key is not None, f"{source.__name__}({name}=...) has no key in TOML"
        if name not in names and default is not inspect.Parameter.empty:
            assert key.get_default() == default or (default is None and not key.get_default())


@pytest.mark.parametrize(("registry", "kind"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_option_of_python_has_a_key(registry, kind):
    section = next((one for one in registry.values() if one.source is kind), None)
    assert section is not None, f"{kind.__name__} is in no registry of experiments/algorithm_sections.py"
    names = {name: key for (owner, name), key in FILES.items() if owner is kind}
    check_keys(section, kind, names)


def test_there_are_kinds():
    assert len(KINDS) >= 19
    assert {kind for _, kind in KINDS} >= {
        fs.ConstantStep,
        fs.TabularFeatures,
        servers.Krum,
        fs.RandomActions,
    }


def test_every_option_of_the_algorithm_has_a_key():
    names = [field.name for field in dataclasses.fields(fs.FedSARSA)]
    assert list(config.Algorithm.model_fields) == names
    made, default = config.Algorithm().build(), fs.FedSARSA()
    assert all(getattr(made, name) == getattr(default, name) for name in names)


@pytest.mark.parametrize(
    ("source", "section", "names"), FLEETS, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_option_of_a_world_has_a_key(source, section, names):
    own = {"agents": "agents"} if source is control.fleet else {}  # 16 in TOML, none in Python
    own |= {"discount": "discount"} if source is fs.FiniteMDP else {}  # needed in TOML
    check_keys(section, source, names | own)


@pytest.mark.parametrize("world", control.WORLDS)
def test_every_physical_quantity_has_a_key(world):
    default = control.WORLDS[world]()
    physics = {field.name: getattr(default, field.name) for field in dataclasses.fields(default)}
    fleet = {"kind": "control", "world": world, "agents": 1, "physics": physics}
    assert config.validate({"fleet": fleet}, "x").fleet.build()[0] == default


def test_the_training_takes_its_defaults_from_train():
    for name, default in arguments(fs.FedSARSA.train).items():
        if name not in {"self", "fleet", "theta0", "progress", "checkpoint", "callback"}:
            assert config.Training.model_fields[name].get_default() == default


@dataclasses.dataclass(frozen=True)
class Cautious:
    """A policy that is not in the package."""

    courage: float
    tries: int = 3
    levels: Sequence[float] = (0.5,)
    mood: typing.Literal["calm", "wild"] = "calm"


def test_a_new_kind_is_one_line():
    section = sections({"cautious": Cautious}, {})["cautious"]
    assert list(section.model_fields) == ["kind", "courage", "tries", "levels", "mood"]
    assert section(courage=1.0, levels=[0.1]).build() == Cautious(1.0, 3, [0.1])
    assert section.__doc__ == Cautious.__doc__
    for wrong in ({}, {"courage": "a"}, {"courage": 1.0, "tries": 10**7}, {"courage": 1.0, "mood": "odd"}):
        with pytest.raises(ValueError, match=r"1 validation error"):
            section(**wrong)


def test_an_argument_that_toml_cannot_write_is_found_at_once():
    def make(callback: typing.Callable[[], None]) -> None: ...

    with pytest.raises(TypeError, match=r"toml_types must say how TOML writes typing\.Callable"):
        keys_of(make)(DerivedSection)


def test_step_sizes_of_each_agent():
    listed = [0.1, {"kind": "constant", "value": 0.2}, {"kind": "linear-decay", "w": 1.0, "a": 2.0}]
    algo = config.validate({"algorithm": {"step_size": listed}}, "x").algorithm.build()
    assert algo.step_size == [0.1, fs.ConstantStep(0.2), fs.LinearDecay(1.0, 2.0)]


def test_behaviour_of_each_agent():
    listed = [{"kind": "fixed", "pi": 1}, {"pi": [0.5, 0.5]}]
    one, other = config.validate({"algorithm": {"behaviour": listed}}, "x").algorithm.build().behaviour
    assert one.pi == 1
    np.testing.assert_array_equal(other.pi, [0.5, 0.5])


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            {"step_size": [0.1, {"w": 1.0}]},
            "step_size.1: expected a number, a list or a table with a kind",
        ),
        (
            {"step_size": {"kind": "linear-deca"}},
            "linear-decay or piecewise-decay, got 'linear-deca'; did you mean 'linear-decay'?",
        ),
        ({"step_size": [{"kind": "constant", "valu": 1.0}]}, "did you mean 'value'?; valid: kind, value"),
        ({"step_size": [[0.1]]}, "step_size.0: expected a number or a table with a kind, got [0.1]"),
        ({"actions": {"count": 3}}, "algorithm.actions: expected a table with a kind, got {'count': 3}"),
        ({"behaviour": {"p": 3}}, "algorithm.behaviour.p: unknown key; did you mean 'pi'?"),
        ({"behaviour": [{"q": 3}]}, "algorithm.behaviour.0.q: unknown key; valid: kind, pi"),
        ({"behaviour": {"kind": "softmax"}}, "algorithm.behaviour.kind: expected fixed, got 'softmax'"),
        ({"behaviour": 3}, "algorithm.behaviour: expected a list or a table with a kind, got 3"),
        ({"features": {"kind": "tabular"}}, "algorithm.features.file: expected a value, got none"),
    ],
)
def test_errors_name_key_value_and_what_was_expected(algorithm, message):
    with pytest.raises(ValueError, match="x: algorithm") as error:
        config.validate({"algorithm": algorithm}, "x")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (
            {"policy": {"temperature": -1.0}},
            "algorithm.policy: temperature must be a positive number, got -1.0",
        ),
        ({"server": {"kind": "trimmed-mean", "share": 0.7}}, "algorithm.server: share must be a number in"),
        ({"target": "maks"}, "algorithm: target must be one of .*, got 'maks'; did you mean 'max'?"),
        ({"sync_every": 0}, "algorithm: sync_every must be an integer of at least 1, got 0"),
    ],
)
def test_numbers_out_of_range_are_told_with_their_section(algorithm, message):
    with pytest.raises(ValueError, match=message):
        config.validate({"algorithm": algorithm}, "x").algorithm.build()


def test_a_configuration_is_pickled_by_its_content():
    written = {
        "fleet": {"kind": "file", "path": "w.npz", "discount": 0.5},
        "algorithm": {"sync_every": "never"},
    }
    settings = config.validate(written, "x")
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert hash(again) == hash(settings)


TABULAR = '[algorithm]\nfeatures = {{ kind = "tabular", file = "{}"{} }}\n'
WORLDS = "[fleet]\nagents = 2\nstates = 4\nactions = 3\n"


def tabular(folder, name="phi.npy", more=""):
    """The features of a configuration in ``folder``, read from the file of this name."""
    path = folder / "tabular.toml"
    path.write_text(WORLDS + TABULAR.format(name, more))
    return config.load(path).algorithm.build(folder).features


def test_tabular_features_from_a_file(tmp_path, monkeypatch):
    table = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 3, 2))
    np.save(tmp_path / "phi.npy", table)
    monkeypatch.chdir("/")  # the file is beside the configuration, wherever a command is started
    np.testing.assert_array_equal(tabular(tmp_path).table, table)
    np.save(tmp_path / "long.npy", 10 * table)
    longest = np.linalg.norm(10 * table, axis=2).max()
    np.testing.assert_allclose(
        tabular(tmp_path, "long.npy", ", normalise = true").table, 10 * table / longest
    )


def write_object_array(path):
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)


def write_archive(path):
    with path.open("wb") as file:
        np.savez(file, a=np.ones(2))


def write_endless(path):
    """Write the header of a table that no machine could hold."""
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6, 2)}
        np.lib.format.write_array_header_1_0(file, header)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "file must be an .npy file of an array (S, A, d), got: [Errno 2] No such file"),
        (lambda path: path.mkdir(), "file must be an .npy file of an array (S, A, d), got: [Errno 21]"),
        (write_object_array, "Object arrays cannot be loaded when allow_pickle=False"),
        (lambda path: path.write_bytes(pickle.dumps([1.0])), "got: the magic string is not correct"),
        (lambda path: path.write_bytes(b""), "got: EOF: reading magic string"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"), "got: EOF: reading array header length"),
        (write_archive, "got: the magic string is not correct"),
        (write_endless, "got: Unable to allocate"),
        (lambda path: np.save(path, np.ones((2, 3))), "phi.npy: table must have shape (S, A, d), got (2, 3)"),
        (lambda path: np.save(path, np.full((4, 3, 2), np.nan)), "phi.npy: table must be finite, got nan at"),
        (lambda path: np.save(path, np.full((4, 3, 2), 1j)), "table must be an array of real numbers"),
        (lambda path: np.save(path, np.ones((4, 3, 2))), "feature norms of at most 1, got 1.41421"),
    ],
)
def test_bad_files_of_features(tmp_path, write, message):
    write(tmp_path / "phi.npy")
    with pytest.raises(ValueError, match=r"algorithm\.features: file") as error:
        tabular(tmp_path)
    assert message in str(error.value)


def test_a_table_for_other_worlds_is_refused(tmp_path):
    np.save(tmp_path / "phi.npy", np.zeros((4, 2, 2)))
    toml = tmp_path / "tabular.toml"
    toml.write_text(WORLDS + TABULAR.format("phi.npy", ""))
    settings = config.load(toml)
    with pytest.raises(ValueError, match=r"features have a table for 4 states and 2 actions"):
        settings.algorithm.build(tmp_path).problem(settings.fleet.build(), 1, 1, 0)


def test_a_sweep_knows_the_content_of_a_table(tmp_path):
    toml = tmp_path / "sweep.toml"
    toml.write_text(WORLDS + TABULAR.format("phi.npy", "") + "[sweep]\nfleet.seed = [0, 1]\n")
    found = []
    for value in (0.1, 0.2):
        np.save(tmp_path / "phi.npy", np.full((4, 3, 2), value))
        found.append(grid.load(toml))
    assert found[0].cells[0].algorithm.features.table[0, 0, 0] == 0.1
    assert found[1].identity()["files"].keys() == {"phi.npy"}
    (tmp_path / "phi.npy").unlink()
    with pytest.raises(ValueError, match=r"algorithm\.features: file must be an \.npy file"):
        grid.load(toml)
