"""Views without a browser: what they say, and what their addresses hold."""

import csv
import threading
import time
import tomllib

import pytest

import fedsarsa as fs
from fedsarsa.experiments.method_sections import ours
from fedsarsa.explore import control_measurements, control_values, jobs, measurements
from fedsarsa.explore.control_view import ControlView
from fedsarsa.explore.federation_view import FederationView
from fedsarsa.explore.plan_view import PlanView
from tests.explore.tabs import opened, wait

pytestmark = pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
SMALL = "?fleet.states=10&fleet.actions=10&fleet.agents=3&training.steps=200&training.runs=2"
CARTS = "?fleet.agents=3&algorithm.features.tilings=2&algorithm.features.bins=3&training.steps=200"
CARTS += "&training.runs=2&algorithm.sync_every=100"


@pytest.fixture
def open_view():
    """A function that opens a view, whose threads end with the test."""
    made = []

    def make(kind, query=SMALL, base=None):
        made.append(opened(kind, base or control_values.base_of(), query))
        return made[-1]

    yield make
    for view in made:
        for end in view.tab.ends:
            end()


def test_settings_that_cannot_be_trained_take_the_place_of_what_was_said(open_view):
    view = open_view(FederationView)
    wait(view.tab, lambda: "After 200 steps" in view.words.object)
    assert view.answers.css_classes == ["mixed"]
    view.form.set({"fleet.agents": 4, "algorithm.server.kind": "trimmed-mean"})
    wait(view.tab, lambda: "cannot be trained" in view.words.object)
    assert "These settings cannot be trained: " in view.words.object
    assert "After 200 steps" not in view.words.object
    assert view.answers.css_classes == ["mixed", "stale"]
    assert view.trained is None
    view.form.set({"algorithm.server.kind": "mean"})
    wait(view.tab, lambda: "After 200 steps" in view.words.object)
    assert view.answers.css_classes == ["mixed"]
    view.form.set({"fleet.agents": 0})
    assert "These settings cannot be trained: fleet.agents: expected at least 1, got 0" in view.words.object


@pytest.mark.parametrize("key", ["training.engine=reference", "fleet.start=1", "algorithm.weights=[1]"])
def test_what_is_wrong_with_an_address_is_said_until_something_changes(open_view, key):
    view = open_view(FederationView, f"{SMALL}&{key}")
    wait(view.tab, lambda: "After 200 steps" in view.words.object)
    name = key.partition("=")[0]
    assert f"address: {name}: unknown key" in view.words.object
    view.form.set({"fleet.agents": 2})
    wait(view.tab, lambda: "2 agents together" in view.words.object)
    assert "unknown key" not in view.words.object


def test_what_follows_a_training_may_fail_without_it(open_view):
    view = open_view(FederationView)
    wait(view.tab, lambda: view.apart is not None)
    view.show(ValueError("no returns here"), view.turn)
    assert "After 200 steps" in view.words.object
    assert "no returns here" in view.words.object
    assert "cannot be trained" not in view.words.object


def test_the_control_view_says_what_cannot_be_trained(open_view):
    view = open_view(ControlView, "?fleet.agents=2&training.steps=0", control_values.control_base())
    assert "These settings cannot be trained: training.steps: expected at least 1" in view.words.object
    assert view.answers.css_classes == ["mixed", "stale"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("fleet.agents=2.5", "fleet.agents: expected a whole number, got 2.5"),
        ("training.runs=1.5", "training.runs: expected a whole number, got 1.5"),
        ("algorithm.features.d1=1.5", "algorithm.features.d1: expected a whole number, got 1.5"),
        ("fleet.eps_p=inf", "fleet.eps_p: expected a finite number, got inf"),
        ("fleet.eps_p=nan", "fleet.eps_p: expected"),
        ("fleet.agents=1e400", "fleet.agents: expected"),
        ("fleet.agents=" + 400 * "9", "fleet.agents: expected at most 1000000"),
        ("algorithm.sync_every=2.5", "algorithm.sync_every: expected"),
        ("algorithm.policy.temperature=[1]", "algorithm.policy.temperature: expected"),
        ("training.steps=2020-01-01", "training.steps: expected a whole number"),
    ],
)
def test_values_that_no_control_can_show_are_errors_of_the_configuration(open_view, given, said):
    view = open_view(FederationView, f"{SMALL}&{given}")
    assert f"These settings cannot be trained: {said}" in view.words.object
    for widgets in view.form._widgets.values():
        for one in widgets.values():
            assert one.value == one.value
            assert getattr(one, "end", 0) < 2**53


def test_a_schedule_in_a_link_is_refused_and_not_trained(open_view):
    given = "algorithm.policy.temperature={kind=%22linear%22,start=9.0,end=1.0,steps=50}"
    view = open_view(FederationView, f"{SMALL}&{given}")
    assert view.form.values["algorithm.policy.temperature"] == 100.0
    assert "temperature" in view.form._errors["algorithm.policy.temperature"]


def test_an_address_without_its_file_is_refused(open_view):
    view = open_view(FederationView, f"{SMALL}&file=frozen-lake.toml")
    assert "cannot be trained: address: file: expected a page that was opened with frozen-lake.toml" in (
        view.words.object
    )
    view.form.set({"fleet.agents": 2})
    assert "cannot be trained: address: file" in view.words.object


def test_views_of_the_same_settings_carry_what_only_others_have(open_view):
    given = "algorithm.sync_every=50&algorithm.step_size.value=0.05&algorithm.method=FedTD&target=3.0"
    federation = open_view(FederationView, f"{SMALL}&{given}")
    there = federation.tab.query
    assert "target=3.0" in there
    plan = open_view(PlanView, there)
    assert plan.form.values["target"] == 3.0
    refused = "algorithm.method: expected FedSARSA for a plan, got 'FedTD'"
    assert plan.form._errors == {"algorithm.method": refused}
    with pytest.raises(ValueError, match=refused):
        ours(fs.methods.FedTD(), "a plan")
    plan.plan()
    assert not plan.busy.layout.visible
    back = open_view(FederationView, plan.tab.query)
    assert back.form.values == federation.form.values
    assert back.form.values["training.runs"] == 2


def test_kinds_that_come_back_have_their_numbers_of_before(open_view):
    view = open_view(FederationView)
    form = view.form
    given = {"algorithm.step_size.value": 0.05, "fleet.eps_p": 0.3}
    form.set(given)
    for key, other, own in (
        ("algorithm.step_size.kind", "linear", "constant"),
        ("fleet.kind", "two-state", "paper"),
        ("algorithm.method", "QAvg", "FedSARSA"),
    ):
        before = dict(form.values)
        form._widgets[next(t for t, c in form.groups.items() if key in [o.key for o in c])][key].value = other
        assert form.values != before
        form._widgets[next(t for t, c in form.groups.items() if key in [o.key for o in c])][key].value = own
        assert form.values == before
    assert form.values["fleet.agents"] == 3


def test_controls_that_stay_keep_their_widgets(open_view):
    """The focus stays with a list when what it chooses has other controls."""
    form = open_view(FederationView).form
    rows, before = form._columns["Algorithm"], dict(form._widgets["Algorithm"])
    chooser = before["algorithm.policy.kind"]
    above = rows.objects[: rows.objects.index(chooser) + 1]
    chooser.value = "greedy"
    assert rows.objects[: len(above)] == above
    assert "algorithm.policy.temperature" not in form._widgets["Algorithm"]
    assert form._widgets["Algorithm"]["algorithm.server.kind"] is before["algorithm.server.kind"]
    chooser.value = "softmax"
    form.set({"algorithm.policy.temperature": 5.0})
    assert form._widgets["Algorithm"]["algorithm.policy.temperature"].value == 5.0
    assert chooser in rows.objects


def test_what_takes_its_time_is_said_and_stopped_and_begun_again(open_view):
    view = open_view(FederationView)
    assert not view.busy.layout.visible
    patience_ends(view)
    assert view.busy.layout.visible
    assert "Training." in view.busy._words.object
    wait(view.tab, lambda: view.apart is not None and not view.pending)
    assert not view.busy.layout.visible
    view.form.set({"fleet.agents": 4})
    view.stop()
    assert "Stopped." in view.busy._words.object
    view.busy._close.clicks += 1
    assert not view.busy.layout.visible
    view.compute(False)
    view.stop()
    view.busy._button.clicks += 1  # start again
    assert view.busy._button.name == "Start again"
    assert len(view.pending) == 2
    wait(view.tab, lambda: view.apart is not None and not view.pending)
    assert not view.busy.layout.visible
    patience_ends(view)
    assert not view.busy.layout.visible


@pytest.mark.parametrize(
    ("kind", "base"), [(FederationView, None), (ControlView, control_values.control_base())]
)
def test_pictures_of_other_settings_are_grey_and_nothing_is_said_of_them(open_view, kind, base):
    view = open_view(kind, SMALL if base is None else CARTS, base)
    wait(view.tab, lambda: "After 200 steps" in view.words.object and not view.pending)
    view.form.set({"fleet.agents": 4})  # the work of threads is only seen when the tab works
    assert not grey(view)
    patience_ends(view)
    assert grey(view)
    assert "These settings are being trained." in view.words.object
    assert "200 steps" not in view.words.object
    view.stop()
    assert grey(view)
    assert "These settings were not trained." in view.words.object
    view.compute(False)
    wait(view.tab, lambda: not view.pending)
    assert not grey(view)
    assert "4 agents" in view.words.object
    view.stop()  # what is drawn is of these settings
    assert not grey(view)


def test_work_after_a_training_is_said_and_stopped(open_view, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def alone(trained, stopped, report):
        begun.set()
        while not stopped():
            time.sleep(jobs.REPORT_SECONDS / 10)
            report(0.25)
        go_on.set()
        raise jobs.StoppedError

    monkeypatch.setattr(measurements, "train_alone", alone)
    view = open_view(FederationView)
    wait(view.tab, begun.is_set)
    patience_ends(view)
    wait(view.tab, lambda: view.busy._bar.value == 25)
    assert "Training agents alone" in view.busy._words.object
    assert "After 200 steps" in view.words.object  # the training is there, and current
    view.stop()
    assert go_on.wait(10)
    assert "Stopped." in view.busy._words.object


def test_playing_is_said_and_stopped(open_view, monkeypatch):
    begun, go_on, played = threading.Event(), threading.Event(), []

    def play(learned, agent):
        played.append(agent)
        begun.set()
        assert go_on.wait(10)

    monkeypatch.setattr(control_measurements, "play", play)
    view = open_view(ControlView, CARTS, control_values.control_base())
    wait(view.tab, begun.is_set)
    wait(view.tab, lambda: view.learned is not None)
    patience_ends(view)
    assert "Playing what was learned" in view.busy._words.object
    view.stop()
    go_on.set()
    view.training.close()
    view.training._thread.join(10)
    assert played == [0]


def test_empty_pictures_say_why(open_view):
    view = open_view(FederationView, f"{SMALL}&algorithm.method=FedTD")
    wait(view.tab, lambda: not view.pending)
    for picture, why in (
        (view.gains, "Agents alone are trained for FedSARSA only."),
        (view.returns, "Agents alone are trained for FedSARSA only."),
        (view.points, "Theory knows no fixed points here."),
    ):
        assert picture.note.visible
        assert why in picture.note.text
    view.form.set({"algorithm.method": "FedSARSA"})
    wait(view.tab, lambda: view.apart is not None and not view.pending)
    assert not any(one.note.visible for one in (view.gains, view.returns, view.points, view.error))


def patience_ends(view):
    """A while later."""
    while view.tab.later_on:
        view.tab.later_on.pop()()


def grey(view):
    return "stale" in view.answers.css_classes


def test_a_plan_that_is_stopped_says_so(open_view):
    view = open_view(PlanView, SMALL.partition("&training")[0])
    view.plan()
    assert "Planning" in view.busy._words.object
    view.stop()
    assert "Stopped." in view.busy._words.object
    assert "Planning" not in view.words.object


def test_files_come_when_there_is_something_in_them(open_view):
    view = open_view(FederationView)
    buttons = view.downloads._buttons
    assert all(one.disabled for one in buttons.values())
    wait(view.tab, lambda: view.trained is not None)
    assert not any(one.disabled for one in buttons.values())
    rows = view.downloads.made("CSV").decode().splitlines()
    view.form.set({"fleet.agents": 0})  # an error: what was drawn last can still be taken
    assert view.downloads.made("CSV").decode().splitlines() == rows


def test_a_plan_that_theory_cannot_make_says_why(open_view):
    view = open_view(PlanView, f"{SMALL.partition('&training')[0]}&algorithm.policy.kind=greedy")
    view.plan()
    wait(view.tab, lambda: not view.busy.layout.visible)
    (said,) = view.form._errors.values()
    assert "Greedy" in said
    assert view.train.disabled


@pytest.mark.slow
def test_a_plan_is_taken_elsewhere_restored_and_grey_after_a_change(open_view):
    view = open_view(PlanView, SMALL.partition("&training")[0] + "&target=30.0")
    copies = view.downloads._copies.values()
    assert "planned" not in view.tab.query
    view.plan()
    wait(view.tab, lambda: view.found is not None)
    assert view.tab.query.endswith("&planned=1")
    reached = list(csv.DictReader(view.downloads.made("choices").decode().splitlines()))
    assert [int(row["agents"]) for row in reached] == view.found.choices["agents"].values.tolist()
    settings = tomllib.loads(view.downloads._texts["TOML"].value)
    assert settings["training"]["steps"] == view.found.steps
    view.run()
    wait(view.tab, lambda: "Trained:" in view.words.object)
    assert view.tab.query.endswith("&planned=1&trained=1")
    last = view.downloads.made("CSV").decode().splitlines()[-1].split(",")
    assert f"Trained: {float(last[1]):.3g} " in view.words.object
    assert float(last[4]) == pytest.approx(float(view.predicted.mse[-1]))
    again = open_view(PlanView, view.tab.query)
    wait(again.tab, lambda: "Trained:" in again.words.object)
    assert (again.words.object, again.tab.query) == (view.words.object, view.tab.query)
    assert not grey(view)
    assert not any(one.disabled for one in copies)
    view.form.set({"target": 25.0})
    assert grey(view)
    assert all(one.disabled for one in copies)
    assert "planned" not in view.tab.query
    view.plan()
    wait(view.tab, lambda: view.found is not None)
    assert not grey(view)
    assert not any(one.disabled for one in copies)
    assert len(view.error.measured.data["t"]) == 0  # not those of the plan before
