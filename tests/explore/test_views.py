"""Views without a browser: what they say, and what their addresses hold."""

import csv
import tomllib

import pytest

from fedsarsa.explore import control_values
from fedsarsa.explore.control_view import ControlView
from fedsarsa.explore.federation_view import FederationView
from fedsarsa.explore.plan_view import PlanView
from tests.explore.tabs import opened, wait

pytestmark = pytest.mark.filterwarnings("ignore:.*will be removed in version 2.0:PendingDeprecationWarning")
SMALL = "?fleet.states=10&fleet.actions=10&fleet.agents=3&training.steps=200&training.runs=2"


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


def test_what_takes_its_time_is_said_and_stopped_and_begun_again(open_view):
    view = open_view(FederationView)
    assert not view.busy.layout.visible
    view.tab.later_on.pop()()  # a while later
    assert view.busy.layout.visible
    assert "Training." in view.busy._words.object
    wait(view.tab, lambda: view.trained is not None and len(view.pending) < 2)
    view.stop()
    assert "Stopped." in view.busy._words.object
    view.busy._button.clicks += 1  # start again
    assert view.busy._button.name == "Start again"
    assert len(view.pending) == 2
    wait(view.tab, lambda: not view.pending)
    assert not view.busy.layout.visible
    view.tab.later_on.pop()()
    assert not view.busy.layout.visible


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


def test_a_plan_is_taken_elsewhere(open_view):
    view = open_view(PlanView, SMALL.partition("&training")[0] + "&target=30.0")
    view.plan()
    wait(view.tab, lambda: view.found is not None)
    reached = list(csv.DictReader(view.downloads.made("choices").decode().splitlines()))
    assert [int(row["agents"]) for row in reached] == view.found.choices["agents"].values.tolist()
    settings = tomllib.loads(view.downloads._texts["TOML"].value)
    assert settings["training"]["steps"] == view.found.steps
    view.run()
    wait(view.tab, lambda: "Trained:" in view.words.object)
    last = view.downloads.made("CSV").decode().splitlines()[-1].split(",")
    assert f"Trained: {float(last[1]):.3g} " in view.words.object
    assert float(last[4]) == pytest.approx(float(view.predicted.mse[-1]))
