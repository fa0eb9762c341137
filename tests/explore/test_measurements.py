"""What a view computes, without a page: trainings, theory, sentences, files."""

import csv
import io
import itertools
import re
import sys
import tomllib
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import fedsarsa as fs
from fedsarsa.experiments import config as configs
from fedsarsa.experiments import plots
from fedsarsa.experiments.statistics import squared_distance
from fedsarsa.explore import control_values, exports, measurements, sentence, theory_answers
from fedsarsa.explore.jobs import StoppedError
from fedsarsa.explore.pictures import FloorPicture
from tests.explore.pages import CONTROLS

SMALL = "fleet.agents=3&fleet.eps_p=0.2&fleet.eps_r=0.2&fleet.states=10&fleet.actions=10&training.steps=2000"


def content(query=SMALL):
    base = control_values.base_of()
    values, errors = control_values.from_query(query, base, CONTROLS)
    assert errors == {}
    return control_values.content_of(base, values)


def config(query=SMALL):
    return configs.validate(content(query), "address")


@pytest.fixture(scope="module")
def trained():
    return measurements.train(config())


@pytest.fixture(scope="module")
def answers():
    return {type(one): one for one in theory_answers.answers(config())}


def test_curves_are_those_of_train(trained):
    fleet = fs.paper.fleet(3, 0.2, 0.2, states=10, actions=10)
    algo = fs.FedSARSA()
    history = algo.train(fleet, steps=2000)
    point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    assert np.allclose(trained.curves["error"], history.mse(point).mean("run"), rtol=1e-12)
    curves = trained.curves
    assert (curves["low"] <= curves["error"]).all()
    assert (curves["error"] <= curves["high"]).all()
    assert curves["drift"].notnull().sum() == 200


def test_a_curve_has_few_points_and_ends_with_the_training():
    many = measurements.train(config(SMALL + "&training.steps=5003&algorithm.sync_every=1&training.runs=1"))
    assert len(many.curves["t"]) < 450
    assert int(many.curves["t"][-1]) == 5003
    never = measurements.train(config(SMALL + "&algorithm.sync_every=never"))
    assert never.curves["t"].values.tolist() == [0, 2000]
    plain = ((never.history.final - never.point) ** 2).sum("d").mean("run")
    assert float(never.curves["error"][-1]) == pytest.approx(float(plain))


def test_the_floor_is_the_mean_of_the_late_errors(trained):
    parts = trained.floor()
    late = trained.error().sel(t=slice(1500, None))
    assert parts["bias"] + parts["noise"] == pytest.approx(float(late.mean()))
    means = trained.late().mean("t")
    assert parts["bias"] == pytest.approx(squared_distance(means, trained.point).value)


def test_agents_in_one_world_have_hardly_any_bias():
    """Noise of a mean over ten runs is not taken for bias: the rest is of second order in the step size."""
    parts = measurements.train(config(SAME)).floor()
    assert parts["bias"] < 0.05 * parts["noise"]


SAME = SMALL + "&fleet.eps_p=0.0&fleet.eps_r=0.0&training.steps=20000&algorithm.step_size.value=0.05"


@pytest.mark.parametrize(
    ("query", "trend", "said"),
    [
        (SMALL, "falling", "It is still falling."),
        (SMALL + "&algorithm.server.kind=median", "falling", "It is still falling."),
        (SMALL + "&algorithm.method=QAvg&training.runs=2", "falling", "It is still falling."),
        (SAME, "settled", "of the floor is noise: smaller steps or more agents take it away."),
        (SMALL + "&training.steps=100000&fleet.eps_r=1.0", "settled", "of the floor is bias"),
        (SAME + "&training.runs=1", "unknown", "These runs do not tell whether it has settled."),
        (SAME + "&algorithm.sync_every=never", "unknown", "These runs do not tell"),
    ],
)
def test_nothing_is_said_of_a_floor_that_was_not_reached(query, trend, said):
    found = measurements.train(config(query))
    assert found.trend == trend
    words = sentence.sentences(found)
    assert said in words
    assert ("of the floor" in words) == (trend == "settled")
    picture = FloorPicture()
    picture.show(found, None)
    assert (sum(picture.source.data[part][1] for part in ("bias", "noise")) > 0) == (trend == "settled")
    assert picture.note.visible == ("not split" in picture.note.text) == (trend != "settled")


def test_a_curve_that_goes_up_is_still_rising(trained):
    back = replace(
        trained, parameters=trained.parameters.assign_coords(t=trained.parameters["t"].values[::-1])
    )
    assert replace(back, parameters=back.parameters.sortby("t")).trend == "rising"


def test_planning_with_exact_kernels_has_no_noise_to_speak_of():
    query = SMALL + "&algorithm.method=QAvg&training.runs=2&training.steps=20000"
    found = measurements.train(config(query))
    assert found.trend == "settled"
    assert "floor" not in sentence.sentences(found)


def test_a_training_is_stopped_and_says_how_far_it_is():
    seen = []
    with pytest.raises(StoppedError):
        measurements.train(config(), stopped=lambda: bool(seen), report=seen.append)
    assert len(seen) == 1
    assert 0 < seen[0] <= 1


def test_theory_says_what_predict_and_personal_weights_say(answers):
    fleet, algo = config().build(None)
    predicted = fs.theory.predict(fleet, algo, 2000)
    assert np.allclose(answers[theory_answers.Predicted].mse, predicted.mse)
    assert answers[theory_answers.Predicted].floor == predicted.floor
    best = fs.theory.personal_weights(fleet, algo, 2000)
    assert np.array_equal(answers[theory_answers.Gains].alone, best.alone)
    assert np.array_equal(answers[theory_answers.Gains].together, best.together)
    assert np.allclose(answers[theory_answers.Points].own, best.points)
    numbers = answers[theory_answers.ByNumber]
    assert numbers.agents == [1, 2, 3]
    assert numbers.error[-1] == pytest.approx(float(predicted.mse[-1]))


def test_theory_says_why_it_knows_nothing():
    said = list(theory_answers.answers(config(SMALL + "&algorithm.policy.kind=greedy")))
    why = {one.part: one.why for one in said if isinstance(one, theory_answers.Unknown)}
    assert why.keys() >= {theory_answers.Predicted, theory_answers.Gains, theory_answers.ByNumber}
    assert "Greedy" in why[theory_answers.Predicted]


def test_the_plane_keeps_distances_of_points_that_lie_in_one():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(7, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    points = theory_answers.Points(flat[:4], flat[4], flat[5])
    seen, finals = theory_answers.plane(points, flat[6:])
    before = np.linalg.norm(flat[:4] - flat[6], axis=1)
    assert np.allclose(np.linalg.norm(seen.own - finals[0], axis=1), before)


def test_gains_and_returns(trained, answers):
    local = measurements.train_alone(trained)
    own = answers[theory_answers.Points].own
    alone, together = measurements.errors_alone(local, own), trained.errors_to(own)
    direct = ((local.values - own) ** 2).sum(axis=-1).mean(axis=0)
    assert np.allclose(alone.mean, direct)
    assert (together.low <= together.mean).all()
    worth = measurements.returns(trained, local)
    exact = fs.evaluate(trained.fleet, trained.algo, trained.history.final.mean("run"))
    assert np.allclose(worth["together"], exact["discounted_return"])
    assert (worth["optimal"] >= worth["alone"]).all()


@pytest.mark.filterwarnings("ignore:Personal. every agent listens to itself:RuntimeWarning")
@pytest.mark.parametrize("rule", ["personal", "consensus"])
def test_agents_gain_by_parameters_of_their_own(rule):
    found = measurements.train(
        config(SMALL + f"&algorithm.server.kind={rule}&fleet.agents=4&training.runs=4")
    )
    points = theory_answers.points(found.fleet, found.algo)
    own, mine = points.own, found.history.personal.isel(t=-1)
    direct = ((mine.values - own) ** 2).sum(axis=-1).mean(axis=0)
    assert np.allclose(found.errors_to(own).mean, direct)
    central = ((found.history.final.values[:, None] - own) ** 2).sum(axis=-1).mean(axis=0)
    assert not np.allclose(direct, central)
    worth = measurements.returns(found, measurements.train_alone(found))
    exact = fs.evaluate(found.fleet, found.algo, mine.mean("run"))
    assert np.allclose(worth["together"], exact["discounted_return"])


@pytest.mark.filterwarnings("ignore:Personal. every agent listens to itself:RuntimeWarning")
def test_agents_that_never_meet_have_learned_what_is_theirs():
    found = measurements.train(config(SMALL + "&algorithm.server.kind=personal&algorithm.sync_every=never"))
    assert np.array_equal(measurements.learned(found.history), found.history.local)


def test_gains_by_mixtures_are_those_of_personal_weights():
    fleet, algo = config(SMALL + "&algorithm.server.kind=personal").build(None)
    best = fs.theory.personal_weights(fleet, algo, 2000)
    assert np.array_equal(theory_answers.gains(fleet, algo, 2000).together, best.personal)
    known = replace(algo, server=fs.servers.Personal(weights=np.full((3, 3), 1 / 3)))
    expected = best.error(np.full((3, 3), 1 / 3))
    assert np.allclose(theory_answers.gains(fleet, known, 2000).together, expected)


@pytest.mark.parametrize("change", ["algorithm.target=max", "algorithm.trace_decay=0.5"])
def test_points_are_not_those_of_sarsa_where_agents_settle_elsewhere(change):
    base = control_values.base_of()
    values = control_values.first_values(base, CONTROLS) | dict([change.split("=")])
    values = {key: control_values.parsed(str(value)) for key, value in values.items()}
    said = {one.part: one.why for one in theory_answers.answers(control_values.config_of(base, values))}
    assert (
        "where agents settle is known for the sampled and the expected target"
        in (said[theory_answers.Points])
    )


@pytest.mark.filterwarnings("ignore:Personal. every agent listens to itself:RuntimeWarning")
def test_what_training_warns_of_is_said():
    found = measurements.train(config(SMALL + "&fleet.discount=0.95&algorithm.server.kind=personal"))
    said = measurements.remarks(found.fleet, found.algo, found.history)
    assert (
        "Here rewards count over 20 steps, and propagate slowly over that horizon: try a step size of"
        in said[1]
    )
    assert said[-1].startswith("Every agent listens to itself alone after 200 rounds")
    fine = measurements.train(config("training.steps=10&training.runs=1&fleet.agents=1"))
    assert fine.remarks == ()


def test_axes_of_the_plane_point_the_same_way_whoever_comes_first():
    own = np.array([[0.0, 0.0, 0.0], [1.0, 0.2, 0.0], [0.4, 0.5, 0.0]])
    for order in itertools.permutations(range(3)):
        there = theory_answers.Points(own[list(order)], own[1], own[1])
        flat, runs = theory_answers.plane(there, own)
        assert runs[1, 0] > runs[0, 0]
        assert runs[2, 1] > runs[0, 1]
        assert np.allclose(flat.own, runs[list(order)])


def bars(*means):
    means = np.array(means)
    return measurements.Bars(means, means - 0.1, means + 0.1)


def test_sentences_come_from_the_numbers(trained, answers):
    said = sentence.sentences(trained, answers[theory_answers.Predicted])
    last = float(trained.curves["error"][-1])
    assert f"the error of 3 agents together is {last:.3g}" in said
    assert f"theory predicted {float(answers[theory_answers.Predicted].mse[-1]):.3g}" in said
    gains = (bars(1.0, 1.0, 1.0), bars(0.5, 1.5, 1.0))
    said = sentence.sentences(trained, None, gains)
    assert "1 of 3 agents come nearer" in said
    assert "1 get further away; for 1 the intervals overlap." in said


@pytest.mark.parametrize(
    ("errors", "words"),
    [
        ([1.0, 0.5, 0.7, 1.2], "gains by federating up to N = 3; then the others pull it away"),
        ([1.0, 1.5, 1.7, 1.2], "Agent 0 does best alone"),
        ([1.0, 0.5, 0.4, 0.3], "up to 4, most with all of them"),
        ([1.0, 0.2, 0.4, 0.3], "up to 4, most with 2 agents"),
        ([1.0, 1.5, 0.7, 0.9], "gains by federating with N = 3 or 4, not with N = 2."),
        ([1.0, 0.5, 1.7, 0.9], "gains by federating with N = 2 or 4, not with N = 3."),
    ],
)
def test_sentences_say_how_many_agents_help(trained, errors, words):
    assert words in sentence.sentences(trained, by_number=theory_answers.ByNumber([1, 2, 3, 4], errors))


@pytest.mark.parametrize(
    ("bias", "noise", "words"),
    [
        (3.0, 1.0, "75% of the floor is bias"),
        (1.0, 3.0, "75% of the floor is noise"),
        (1.0, 0.001, "More than 99% of the floor is bias"),  # noise is drawn, too
        (0.001, 1.0, "More than 99% of the floor is noise"),
        (0.0, 1.0, "100% of the floor is noise"),
    ],
)
def test_the_floor_is_told_as_it_is_drawn(bias, noise, words):
    assert sentence.of_the_floor(bias, noise).startswith(words)


def test_failed_runs_are_named():
    wild = measurements.train(config(SMALL + "&algorithm.step_size.value=50.0&training.runs=2"))
    assert "In 2 of 2 runs parameters stopped being finite" in sentence.sentences(wild)


QUERIES = [
    SMALL,
    SMALL
    + "&algorithm.sync_every=never&algorithm.policy.kind=epsilon-greedy&algorithm.features.kind=one-hot",
    SMALL
    + "&fleet.agents=6&algorithm.server.kind=trimmed-mean&algorithm.server.radius=9.5&algorithm.target=max",
    SMALL + "&algorithm.step_size.kind=piecewise-decay&algorithm.policy.kind=fixed&algorithm.policy.pi=1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_copied_toml_is_the_same_configuration(query):
    again = configs.validate(tomllib.loads(exports.toml_text(content(query))), "copied")
    assert again == config(query)


@pytest.mark.parametrize("query", [QUERIES[0], QUERIES[2]])
def test_copied_python_trains_the_same(query):
    names = {"print": lambda text: None}
    exec(exports.python(content(query)), names)
    assert np.array_equal(names["history"].final, measurements.train(config(query)).history.final)


@pytest.mark.parametrize("method", ["SARSA", "FedTD", "QAvg", "ProjPAvg"])
def test_other_methods_are_trained_and_copied(method):
    query = SMALL + f"&algorithm.method={method}&training.steps=100&training.runs=2"
    found = measurements.train(config(query))
    names = {"print": lambda text: None}
    exec(exports.python(content(query)), names)
    assert np.array_equal(names["history"].final, found.history.final)
    target = found.algo.target(found.fleet)
    if target is None:
        assert f"{method} aims at no parameter" in sentence.sentences(found)
    else:
        assert np.allclose(found.curves["error"], names["history"].mse(target).mean("run"))
    (said,) = theory_answers.answers(config(query))
    assert said.why == f"algorithm.method: expected FedSARSA for theory, got {method!r}"


def test_copied_python_of_other_worlds_runs(tmp_path, monkeypatch):
    path = tmp_path / "own.toml"
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "worlds.npz", reward=rng.random((2, 4)), P0=np.full((2, 4, 4), 0.25))
    path.write_text(
        'fleet = { kind = "file", path = "worlds.npz", discount = 0.5, actions = 3 }\n'
        'algorithm.features.kind = "one-hot"'
    )
    base = control_values.base_of(configs.load(path), tmp_path)
    values = control_values.first_values(base, CONTROLS) | {"training.steps": 200}
    monkeypatch.chdir(tmp_path)
    names = {"print": lambda text: None}
    exec(exports.python(control_values.content_of(base, values)), names)
    here = measurements.train(control_values.config_of(base, values), tmp_path)
    assert np.array_equal(names["history"].final, here.history.final)


def lines(svg):
    """The points of every line of an SVG picture, (n, 2), upwards."""
    found = re.findall(r'<path d="([^"]*)"[^>]*fill: none', svg.decode())
    numbers = [np.array(re.findall(r"-?\d+\.?\d*", path), dtype=float) for path in found]
    return [one.reshape(-1, 2) * [1, -1] for one in numbers if len(one) > 10]


def is_drawn(line, times, values):
    """Whether a line is these values on a logarithmic axis, but for where it was placed and half a pixel."""
    along = (line[:, 0] - line[0, 0]) / (line[-1, 0] - line[0, 0]) * (times[-1] - times[0]) + times[0]
    heights = np.interp(along, times, np.log(values))
    slope, start = np.polyfit(heights, line[:, 1], 1)
    return slope > 0 and np.abs(slope * heights + start - line[:, 1]).max() < 0.5


@contextmanager
def files_opened():
    """The files that are opened meanwhile, and how."""
    opened, watching = [], True

    def note(event, details):
        if watching and event == "open":
            opened.append(details[:2])

    sys.addaudithook(note)  # it stays, and does nothing after
    yield opened
    watching = False


def test_files_hold_the_numbers(trained, answers, tmp_path):
    predicted = answers[theory_answers.Predicted]
    rows = list(csv.DictReader(io.StringIO(exports.csv_text(trained, predicted))))
    curves = trained.curves
    assert [int(row["t"]) for row in rows] == curves["t"].values.tolist()
    assert np.array_equal([float(row["error"]) for row in rows], curves["error"])
    assert np.array_equal([float(row["predicted"]) for row in rows], predicted.mse)
    assert rows[0]["drift"] == ""
    assert plots.STEPS  # Matplotlib keeps a list of fonts when it is first imported
    with files_opened() as opened:
        made = {name: make((trained, predicted), content()) for name, (_, make) in exports.FILES.items()}
    assert [path for path, mode in opened if set(str(mode)) & set("wax+")] == []  # they are made in memory
    drawn = lines(made["SVG"])
    for values in (curves["error"], predicted.mse):
        assert any(is_drawn(line, values["t"].values, values.values) for line in drawn)
    other = curves["error"].values * (1 + 0.1 * np.sin(np.linspace(0.0, 9.0, curves.sizes["t"])))
    assert not any(is_drawn(line, curves["t"].values, other) for line in drawn)
    seen = np.asarray(Image.open(io.BytesIO(made["PNG"])).convert("RGB")).reshape(-1, 3)
    assert len(seen) > 100_000
    apart = np.abs(seen - 255 * np.array(to_rgb(plots.shades(2)[-1]))).max(axis=1)
    assert (apart <= 2).sum() > 300  # a line from one side to the other
    (tmp_path / "history.nc").write_bytes(made["netCDF"])
    history = fs.History.load(tmp_path / "history.nc")
    assert np.array_equal(history.final, trained.history.final)
    assert tomllib.loads(history.data.attrs["config"]) == content()
