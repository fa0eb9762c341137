"""The values of a view: from a configuration, through an address, to a training."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import config as configs
from fedsarsa.explore import control_values
from fedsarsa.explore.controls import FLEETS, METHOD, METHODS, SERVERS, shown
from tests.explore.pages import CONTROLS

EXAMPLES = Path(__file__).parents[2] / "examples"


def finite_examples():
    for path in sorted(EXAMPLES.glob("*.toml")):
        content = configs.read(path)
        if content.get("fleet", {}).get("kind", "paper") == "paper" and "sweep" not in content:
            yield path


@pytest.mark.parametrize("path", list(finite_examples()), ids=lambda path: path.stem)
def test_values_of_an_example_give_its_configuration_again(path):
    config = configs.load(path)
    base = control_values.base_of(config)
    values = control_values.first_values(base, CONTROLS)
    again, errors = control_values.from_query(
        control_values.to_query(values), control_values.base_of(), CONTROLS
    )
    assert errors == {}
    assert again == values
    theirs = control_values.config_of(control_values.base_of(), again)
    assert theirs.fleet == config.fleet
    assert theirs.training == config.training
    assert repr(theirs.algorithm.build()) == repr(config.algorithm.build())


def test_published_setting_is_the_default():
    base = control_values.base_of()
    made = control_values.config_of(base, control_values.first_values(base, CONTROLS))
    assert repr(made.algorithm.build()) == repr(configs.Config().algorithm.build())
    assert made.fleet == configs.Config().fleet


def test_numbers_come_and_go_with_the_kind():
    base = control_values.base_of()
    values, _ = control_values.from_query("algorithm.policy.kind=epsilon-greedy", base, CONTROLS)
    assert values["algorithm.policy.eps"] == 0.1
    assert "algorithm.policy.temperature" not in values
    assert control_values.config_of(base, values).algorithm.policy.eps == 0.1


def test_wrong_values_are_blamed_on_their_control_in_the_words_of_the_command_line(tmp_path):
    base = control_values.base_of()
    values, _ = control_values.from_query("fleet.agents=0&algorithm.policy.temperature=hot", base, CONTROLS)
    with pytest.raises(control_values.SettingsError) as wrong:
        control_values.config_of(base, values)
    path = tmp_path / "wrong.toml"
    path.write_text('fleet.agents = 0\nalgorithm.policy = { kind = "softmax", temperature = "hot" }')
    with pytest.raises(ValueError, match="agents") as said:
        configs.load(path)
    lines = str(said.value).replace(f"{path}: ", "").splitlines()
    assert wrong.value.errors == dict(
        zip(["fleet.agents", "algorithm.policy.temperature"], lines, strict=True)
    )


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("fleet.agentz=3", "address: fleet.agentz: unknown key; did you mean 'fleet.agents'?"),
        ("fleet.path=/etc/passwd", "address: fleet.path: unknown key"),
        ("fleet.kind=file", "address: fleet.kind: expected paper or random-mdps"),
        ("fleet.kind=gym", "address: fleet.kind: expected paper or random-mdps"),
        ("fleet.id=os:remove", "address: fleet.id: expected FrozenLake-v1 or CliffWalking-v1 or Taxi-v3"),
        (
            "file=own.toml",
            "address: file: expected a page that was opened with own.toml, got one with no file",
        ),
        (
            "algorithm.policy.temperature={kind=%22linear%22,start=9.0,end=1.0,steps=50}",
            "address: algorithm.policy.temperature: expected a number, a word or a list, got { kind",
        ),
        (
            "algorithm.policy.eps=0.5",
            "address: algorithm.policy.eps: expected algorithm.policy.kind = epsilon-greedy, got softmax",
        ),
        ("algorithm.features.file=x.npy", "address: algorithm.features.file: unknown key"),
        (
            "algorithm.features.kind=tabular",
            "address: algorithm.features.kind: expected modulo or one-hot, got 'tabular'",
        ),
        ("algorithm.policy.kind=soft", "expected softmax or greedy or epsilon-greedy or fixed, got 'soft'"),
    ],
)
def test_an_address_names_no_files_and_no_other_keys(query, said):
    values, errors = control_values.from_query(query, control_values.base_of(), CONTROLS)
    assert any(said in error for error in errors.values()), errors
    assert values == control_values.first_values(control_values.base_of(), CONTROLS)


@pytest.mark.parametrize(
    "value", [1, 0.5, 1e-4, True, [0.05, 0.01], "never", "1", 'a "b" \\ c', "true", "", {"a": [1, "b"]}]
)
def test_values_are_read_as_they_were_written(value):
    again = control_values.parsed(control_values.written(value))
    assert again == value
    assert type(again) is type(value)


def test_values_in_toml_are_toml():
    line = f"value = {control_values.toml({'kind': 'fixed', 'pi': [[0.5, 0.5]], 'is': True})}"
    assert tomllib.loads(line)["value"] == {"kind": "fixed", "pi": [[0.5, 0.5]], "is": True}


@pytest.mark.parametrize(
    ("message", "key"),
    [
        ("eps_p = 1.9 cannot be reached by 3 calibrated agents", "fleet.eps_p"),
        ("algorithm.policy: temperature must be a positive number, got -1", "algorithm.policy.temperature"),
        ("step_size is too large", "algorithm.step_size.kind"),
        ("sync_every must be an integer of at least 1, got 0", "algorithm.sync_every"),
        ("nothing that a control has", ""),
        ("target must be below the error before training, 3, got 5", "target"),
    ],
)
def test_errors_find_their_control(message, key):
    values = {"target": 5.0} | control_values.first_values(control_values.base_of(), CONTROLS)
    assert control_values.blamed(message, values) == key


def test_what_no_control_has_stays_as_in_the_file(tmp_path):
    np.save(tmp_path / "phi.npy", np.ones((100, 100, 2)) / 2)
    path = tmp_path / "own.toml"
    path.write_text(
        'fleet.agents = 2\nalgorithm.features = { kind = "tabular", file = "phi.npy" }\n'
        "algorithm.step_size = [0.1, 0.2]\nalgorithm.weights = [0.3, 0.7]\nalgorithm.trace_decay = 0.5\n"
    )
    base = control_values.base_of(configs.load(path), tmp_path)
    values = control_values.first_values(base, CONTROLS)
    kept = [key for key in values if key.startswith(("algorithm.features", "algorithm.step_size"))]
    assert kept == ["algorithm.features.kind"]
    config = control_values.config_of(base, values | {"algorithm.sync_every": "never"})
    algo = config.algorithm.build(tmp_path)
    assert algo.sync_every is None
    assert algo.step_size == [0.1, 0.2]
    assert algo.trace_decay == 0.5
    assert np.array_equal(algo.weights, [0.3, 0.7])
    assert algo.features.on(100, 100).dim == 2


def test_a_temperature_that_follows_a_schedule_stays(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(
        'algorithm.policy.temperature = { kind = "linear", start = 9.0, end = 1.0, steps = 50 }\n'
        'algorithm.step_size = { kind = "exponential", start = 0.1, end = 0.01, steps = 50 }\n'
    )
    base = control_values.base_of(configs.load(path), tmp_path)
    values = control_values.first_values(base, CONTROLS)
    assert not [key for key in values if key.startswith("algorithm.policy")]
    assert values["algorithm.step_size.end"] == 0.01
    algo = control_values.config_of(base, values).algorithm.build(tmp_path)
    assert algo.policy == fs.Softmax(fs.LinearSchedule(9.0, 1.0, 50))
    assert algo.step_size == fs.ExponentialSchedule(0.1, 0.01, 50)


def test_controls_of_a_method_are_the_keys_it_has():
    base = control_values.base_of()
    for method in METHODS.options:
        values, errors = control_values.from_query(f"{METHOD}={method}", base, CONTROLS)
        assert errors == {}
        assert values[METHOD] == method
        assert list(values) == [one.key for one in shown(CONTROLS, values)]
        algorithm = control_values.config_of(base, values).algorithm
        assert getattr(algorithm, "method", "FedSARSA") == method
        assert values["algorithm.step_size.value"] == getattr(algorithm, "step_size", None)


def test_controls_come_back_with_the_method_that_has_them():
    base = control_values.base_of()
    first = control_values.first_values(base, CONTROLS)
    gone = control_values.only_shown(CONTROLS, first | {METHOD: "FedTD"})
    assert not [key for key in gone if key.startswith("algorithm.server.")]
    assert control_values.only_shown(CONTROLS, gone | {METHOD: "FedSARSA"}) == first


def test_a_method_in_a_file_is_kept_until_another_is_chosen(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('algorithm = { method = "NStepTD", n = 5, step_size = 0.02 }')
    base = control_values.base_of(configs.load(path))
    values = control_values.first_values(base, CONTROLS)
    assert control_values.config_of(base, values).algorithm.n == 5
    other = control_values.only_shown(CONTROLS, values | {METHOD: "FedTD"})
    other = control_values.config_of(base, other).algorithm
    assert (other.method, other.step_size) == ("FedTD", 0.02)
    ours = control_values.only_shown(CONTROLS, values | {METHOD: "FedSARSA"})
    ours = control_values.config_of(base, ours).algorithm.build()
    assert (ours.step_size, ours.server) == (0.02, None)


@pytest.mark.parametrize("kind", FLEETS)
def test_every_kind_of_worlds_has_controls_for_what_it_has(kind):
    base = control_values.base_of()
    values, errors = control_values.from_query(f"fleet.kind={kind}", base, CONTROLS)
    assert errors == {}
    keys = {key for key in values if key.startswith("fleet.")}
    fields = set(FLEETS[kind].model_fields) - {"options", "each"}
    assert keys == {f"fleet.{name}" for name in fields}
    fleet = control_values.config_of(base, values).fleet
    plain = FLEETS[kind].model_validate(
        {"kind": kind, **({"id": "FrozenLake-v1", "agents": 4} if "id" in fields else {})}
    )
    assert fleet == plain  # the section's own defaults, not those of the worlds before
    again, errors = control_values.from_query(control_values.to_query(values), base, CONTROLS)
    assert (again, errors) == (values, {})


@pytest.mark.parametrize("rule", SERVERS)
def test_every_server_rule_has_controls_for_its_numbers(rule):
    base = control_values.base_of()
    values, errors = control_values.from_query(f"algorithm.server.kind={rule}", base, CONTROLS)
    assert errors == {}
    names = {key.rpartition(".")[2] for key in values if key.startswith("algorithm.server.")}
    assert names == set(SERVERS[rule].model_fields)
    server = control_values.config_of(base, values).algorithm.server
    assert server is None or server == SERVERS[rule].model_validate({"kind": rule})


def test_methods_have_controls_for_their_own_settings():
    base = control_values.base_of()
    for given, name, value in (
        ("NStepTD&algorithm.n=5", "n", 5),
        ("QAvg&algorithm.form=released", "form", "released"),
        ("FedQ&algorithm.averaging=importance", "averaging", "importance"),
        ("SoftPAvg", "decay", 0.8),
        ("ProjPAvg", "decay", 0.9),
    ):
        values, errors = control_values.from_query(f"{METHOD}={given}", base, CONTROLS)
        assert errors == {}
        assert values[f"algorithm.{name}"] == value
        assert getattr(control_values.config_of(base, values).algorithm, name) == value


def test_worlds_of_a_file_can_be_left_and_come_back(tmp_path):
    base = control_values.base_of(configs.load(EXAMPLES / "frozen-lake.toml"))
    values = control_values.first_values(base, CONTROLS)
    assert "fleet.agents" not in values  # there is a table per agent in its place
    assert control_values.config_of(base, values).fleet.each is not None
    other, _ = control_values.from_query("fleet.kind=two-state", base, CONTROLS)
    assert control_values.config_of(base, other).fleet.kind == "two-state"
    np.savez(tmp_path / "worlds.npz", reward=np.ones((2, 4)), P0=np.full((2, 4, 4), 0.25))
    (tmp_path / "own.toml").write_text(
        'fleet = { kind = "file", path = "worlds.npz", discount = 0.5, actions = 3 }'
    )
    base = control_values.base_of(configs.load(tmp_path / "own.toml"), tmp_path)
    values = control_values.first_values(base, CONTROLS)
    assert [key for key in values if key.startswith("fleet.")] == ["fleet.kind"]
    assert control_values.config_of(base, values).fleet.path == Path("worlds.npz")
    other, _ = control_values.from_query("fleet.kind=paper", base, CONTROLS)
    assert control_values.config_of(base, other).fleet == configs.Config().fleet


def test_an_address_names_the_file_that_it_needs():
    base = control_values.base_of(configs.load(EXAMPLES / "frozen-lake.toml"), EXAMPLES, "frozen-lake.toml")
    values = control_values.first_values(base, CONTROLS)
    query = control_values.whole_query(base, values, CONTROLS, {})
    assert query.startswith("?file=frozen-lake.toml&")
    assert control_values.from_query(query, base, CONTROLS) == (values, {})
    _, errors = control_values.from_query(query, control_values.base_of(), CONTROLS)
    assert "expected a page that was opened with frozen-lake.toml, got one with no file" in errors["file"]
    base = control_values.base_of(configs.load(EXAMPLES / "published.toml"), EXAMPLES, "published.toml")
    values = control_values.first_values(base, CONTROLS)
    assert "file=" not in control_values.whole_query(base, values, CONTROLS, {})
