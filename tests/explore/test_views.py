"""Views without a browser: what they say, and what their addresses hold."""

import pytest

from fedsarsa.explore import control_values, page
from fedsarsa.explore.control_view import ControlView
from fedsarsa.explore.federation_view import FederationView
from tests.explore.tabs import opened, wait

pytestmark = pytest.mark.filterwarnings("ignore:Widget.name is deprecated:PendingDeprecationWarning")
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
    assert view.answers.styles == {}
    view.form.set({"fleet.agents": 4, "algorithm.server.kind": "trimmed-mean"})
    wait(view.tab, lambda: "cannot be trained" in view.words.object)
    assert "These settings cannot be trained: " in view.words.object
    assert "After 200 steps" not in view.words.object
    assert view.answers.styles == page.STALE
    assert view.trained is None
    view.form.set({"algorithm.server.kind": "mean"})
    wait(view.tab, lambda: "After 200 steps" in view.words.object)
    assert view.answers.styles == {}
    view.form.set({"fleet.agents": 0})
    assert "These settings cannot be trained: fleet.agents: expected at least 1, got 0" in view.words.object


@pytest.mark.parametrize("key", ["training.engine=reference", "fleet.reward_cap=1", "algorithm.weights=[1]"])
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
    assert view.answers.styles == page.STALE
