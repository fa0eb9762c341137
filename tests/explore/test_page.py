"""The page in Chromium: what is drawn is what training and theory say, and the address restores it."""

import csv
import shutil
import urllib.error
import urllib.request
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import grid, sweep
from tests.browser import needs_a_browser
from tests.explore.pages import browsing, columns, served, until

pytestmark = [pytest.mark.slow, needs_a_browser]
SMALL = "?fleet.states=10&fleet.actions=10&fleet.agents=3&fleet.eps_p=0.2&fleet.eps_r=0.2&training.steps=1000"
CURVE, GAINS = "Error of the central parameter", "Who gains by federating"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep of two cells, trained; the second is kept beside its folder."""
    path = tmp_path_factory.mktemp("results")
    small = "fleet = { agents = 2, states = 10, actions = 10 }\ntraining = { steps = 40, runs = 2 }\n"
    (path / "sweep.toml").write_text(small + "sweep.fleet.eps_r = [0.0, 0.5]")
    with sweep.opened(grid.load(path / "sweep.toml"), path / "sweep") as work:
        sweep.run(work, lambda cell, history: None)
    (path / "sweep/0001.nc").rename(path / "0001.nc")
    return path / "sweep"


@pytest.fixture(scope="module")
def address(folder):
    """Of the federation view; the same server has all views."""
    with served(str(folder)) as found:
        assert found.endswith("/results")
        yield found.replace("/results", "/federation")


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


def settings(agents=3, eps=0.2):
    return fs.paper.fleet(agents, eps, eps, states=10, actions=10), fs.FedSARSA()


def trained(page):
    """The drawn error curve, once it has some points."""
    return until(page, lambda: len(columns(page, CURVE)[1]["t"]) > 1 and columns(page, CURVE), "a curve")


def test_only_those_who_know_the_address_see_the_page(address):
    host = address.rsplit("/", 2)[0]
    for path in (
        "/",
        "/federation",
        "/static/js/bokeh.min.js",
        "/components/os/a/css/b",
        "/guess/federation",
    ):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(host + path)
    assert len(address.rsplit("/", 2)[1]) >= 20


def test_pages_from_elsewhere_cannot_talk_to_it(address):
    place = urlsplit(address)
    hello = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    hello |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": "bokeh, token"}
    answers = {}
    for origin in (f"http://{place.netloc}", "http://elsewhere.example"):
        line = HTTPConnection(place.hostname, place.port, timeout=60)
        line.request("GET", f"{place.path}/ws", headers=hello | {"Origin": origin})
        answers[origin] = line.getresponse().status
        line.close()
    assert list(answers.values()) == [101, 403]


@pytest.fixture(scope="module")
def page(address, browser):
    return browser.page(address + SMALL, permissions=["clipboard-read", "clipboard-write"])


def test_curves_are_those_of_train_and_predict(page):
    drawn = trained(page)
    fleet, algo = settings()
    point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    measured = algo.train(fleet, steps=1000).mse(point).mean("run")
    assert np.allclose(drawn[1]["error"], measured, rtol=1e-9)
    until(page, lambda: len(columns(page, CURVE)[2]["t"]) > 1, "a prediction")
    assert np.allclose(columns(page, CURVE)[2]["error"], fs.theory.predict(fleet, algo, 1000).mse, rtol=1e-6)


def test_who_gains_and_a_sentence(page):
    until(page, lambda: len(columns(page, GAINS)[0]["mean"]) == 3, "bars")
    page.get_by_text("agents together is").wait_for()
    until(
        page, lambda: len(columns(page, "What the policies are worth, exactly")[0]["agent"]) == 3, "returns"
    )
    until(page, lambda: "agent 0" in page.get_by_text("agents together is").inner_text().lower(), "agent 0")


def test_downloads_and_copies_hold_the_numbers(page, tmp_path):
    with page.expect_download() as coming:
        page.get_by_text("CSV", exact=True).click()
    rows = list(csv.DictReader(coming.value.path().read_text().splitlines()))
    assert np.allclose([float(row["error"]) for row in rows], columns(page, CURVE)[1]["error"])
    page.get_by_role("button", name="Copy as TOML").click()
    until(page, lambda: "states = 10" in page.evaluate("navigator.clipboard.readText()"), "TOML")
    page.get_by_role("button", name="Copy as Python").click()
    until(
        page, lambda: "fs.paper.fleet(agents=3" in page.evaluate("navigator.clipboard.readText()"), "Python"
    )


def test_a_slider_changes_the_curve_and_the_address_restores_it(page, browser):
    before = columns(page, CURVE)[1]["error"]
    page.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    until(page, lambda: "fleet.agents=5" in page.url, "the address")
    fleet, algo = settings(5)
    point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    wanted = algo.train(fleet, steps=1000).mse(point).mean("run")
    until(page, lambda: np.allclose(columns(page, CURVE)[1]["error"], wanted, rtol=1e-9), "the new curve")
    assert not np.allclose(before, columns(page, CURVE)[1]["error"])
    again = browser.page(page.url)
    assert np.allclose(trained(again)[1]["error"], wanted, rtol=1e-9)
    again.context.close()


def test_keyboard_alone_reaches_every_control(page):
    page.locator("body").click(position={"x": 5, "y": 5})
    reached = set()
    for _ in range(70):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                """() => { let one = document.activeElement;
                    while (one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement;
                    return one.className + "|" + one.tagName + "|" + (one.textContent || "").trim(); }"""
            )
        )
    count = page.locator(".noUi-handle").count()
    assert count >= 8
    assert any("noUi-handle" in one for one in reached)
    for name in ("SELECT", "INPUT", "Copy as Python", "netCDF"):
        assert any(name in one for one in reached), (name, reached)


def test_an_error_is_beside_its_control_in_the_words_of_the_command_line(address, browser):
    page = browser.page(address + SMALL + "&fleet.agents=0&fleet.path=/etc/passwd")
    page.get_by_text("fleet.agents: expected at least 1, got 0").wait_for()
    page.get_by_text("address: fleet.path: unknown key").wait_for()
    assert len(columns(page, CURVE)[1]["t"]) == 0
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1500, "dark")])
def test_nothing_is_cut_off(address, browser, width, scheme):
    page = browser.page(address + SMALL, width, color_scheme=scheme)
    trained(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.locator(".bk-Figure")
    assert boxes.count() == 6
    for box in [boxes.nth(k).bounding_box() for k in range(boxes.count())]:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["width"] >= 300
    page.context.close()


def test_a_plan_is_found_and_trained(address, browser):
    target = SMALL + "&target=30.0"
    page = browser.page(address.replace("/federation", "/plan") + target)
    page.get_by_text("Press Plan.").wait_for()
    page.get_by_role("button", name="Plan", exact=True).click()
    page.get_by_text("To reach an error of 30").wait_for()
    reached = until(page, lambda: columns(page, "What N agents can reach")[0]["agents"], "what is reached")
    assert reached == [1, 2, 3]
    page.get_by_role("button", name="Train this").click()
    page.get_by_text("Trained:").wait_for()
    drawn = trained(page)
    assert drawn[1]["error"][-1] < 40
    assert drawn[2]["error"][-1] <= 30
    page.get_by_label("error to reach").fill("-1")
    page.keyboard.press("Enter")
    page.get_by_text("target must be a positive number, got -1").wait_for()
    page.context.close()


def test_results_are_shown_as_they_come(address, browser, folder):
    page = browser.page(address.replace("/federation", "/results"))
    page.get_by_text("1 of 2 cells are trained; 1 are shown.").wait_for()
    history = fs.History.load(folder / "0000.nc")
    shutil.copy(folder.parent / "0001.nc", folder)
    page.get_by_text("2 of 2 cells are trained; 2 are shown.").wait_for()
    until(page, lambda: len(columns(page, "Cells over time")) == 4, "both curves")
    assert columns(page, "Cells over time")[0]["t"] == history.central["t"].values.tolist()
    again = browser.page(page.url + "&only.eps_r=0.5")
    again.get_by_text("2 of 2 cells are trained; 1 are shown.").wait_for()
    again.context.close()
    page.context.close()


def test_pages_complain_of_nothing_and_load_nothing_from_elsewhere(browser):
    assert browser.opened > 5
    assert browser.complaints == []
    assert browser.elsewhere == []
