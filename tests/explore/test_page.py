"""The page in Chromium: what is drawn is what training and theory say, and the address restores it."""

import csv
import itertools
import shutil
import urllib.error
import urllib.request
from http.client import HTTPConnection
from urllib.parse import urlsplit

import numpy as np
import pytest

import fedsarsa as fs
from fedsarsa.experiments import grid, plots, sweep
from fedsarsa.experiments.leaderboard import tables
from fedsarsa.experiments.leaderboard.entries import BLOCKS, CONTROL
from fedsarsa.experiments.statistics import Estimate
from fedsarsa.explore import drawn_worlds
from fedsarsa.explore.control_measurements import Learned, play, value_map
from tests.browser import needs_a_browser
from tests.explore.pages import (
    brightness,
    browsing,
    columns,
    hover,
    out_of_reach,
    served,
    slider,
    until,
    well_placed,
)

pytestmark = [pytest.mark.slow, needs_a_browser]
SMALL = "?fleet.states=10&fleet.actions=10&fleet.agents=3&fleet.eps_p=0.2&fleet.eps_r=0.2&training.steps=1000"
CARTS = "?fleet.agents=2&algorithm.features.tilings=2&algorithm.features.bins=3&training.steps=1000"
CARTS += "&training.runs=2&algorithm.sync_every=100"
CURVE, GAINS = "Error of the central parameter", "Who gains by federating"
LEARNING, VALUES = "Learning curves", "Value of the best action, first run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reproduction with a claim, and its sweep of two cells; the second is kept beside its folder."""
    path = tmp_path_factory.mktemp("results")
    small = "fleet = { agents = 2, states = 10, actions = 10 }\ntraining = { steps = 40, runs = 2 }\n"
    (path / "sweep.toml").write_text(small + "sweep.fleet.eps_r = [0.0, 0.5]")
    with sweep.opened(grid.load(path / "sweep.toml"), path / "sweep") as work:
        sweep.run(work, lambda cell, history: None)
    (path / "sweep/0001.nc").rename(path / "0001.nc")
    whole = path / "published"
    (whole / "cells").mkdir(parents=True)
    (path / "sweep").rename(whole / "cells/small")
    (whole / "identity.json").write_text('{"seed": 0, "scale": {}}')
    plots.save(plots.panels("what was found", 1)[0], whole, "small")
    rows = "claim,where,quantity,value,low,high,verdict,detail,figure\n"
    (whole / "claims.csv").write_text(rows + "it falls,sec:a,slope,1.0,0.9,1.1,holds,,small\n")
    return whole


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
    return browser.page(address + SMALL)


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
    for name in ("PNG", "SVG", "netCDF"):
        with page.expect_download() as coming:
            page.get_by_text(name, exact=True).click()
        coming.value.save_as(tmp_path / name)
    assert (tmp_path / "PNG").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "SVG").read_text()
    fleet, algo = settings()
    kept = fs.History.load(tmp_path / "netCDF").final
    assert np.array_equal(kept, algo.train(fleet, steps=1000).final)
    page.get_by_role("button", name="Copy as TOML").click()
    page.get_by_role("button", name="Copied").wait_for()
    until(page, lambda: "states = 10" in page.evaluate("navigator.clipboard.readText()"), "TOML")
    # Elsewhere than on loopback pages have no clipboard.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
    page.get_by_role("button", name="Copy as Python").click()
    copied = (
        "Object.getOwnPropertyDescriptor(Navigator.prototype, 'clipboard').get.call(navigator).readText()"
    )
    until(page, lambda: "fs.paper.fleet(agents=3" in page.evaluate(copied), "Python")


def test_a_slider_changes_the_curve_and_the_address_restores_it(page, browser):
    before, visited = columns(page, CURVE)[1]["error"], page.evaluate("history.length")
    page.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    until(page, lambda: "fleet.agents=4" in page.url, "the address")
    page.keyboard.press("ArrowRight")
    until(page, lambda: "fleet.agents=5" in page.url, "the address")
    assert page.evaluate("history.length") == visited  # Back leaves the view
    fleet, algo = settings(5)
    point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    wanted = algo.train(fleet, steps=1000).mse(point).mean("run")
    until(page, lambda: np.allclose(columns(page, CURVE)[1]["error"], wanted, rtol=1e-9), "the new curve")
    assert not np.allclose(before, columns(page, CURVE)[1]["error"])
    expected = fs.theory.predict(fleet, algo, 1000).mse

    def predicted():
        drawn = columns(page, CURVE)[2]["error"]
        return len(drawn) == len(expected) and np.allclose(drawn, expected, rtol=1e-6)

    until(page, predicted, "the new prediction")
    again = browser.page(page.url)
    assert np.allclose(trained(again)[1]["error"], wanted, rtol=1e-9)
    again.close()


def test_while_a_slider_is_dragged_fewer_runs_are_drawn(page):
    box = page.get_by_label("agents N", exact=True).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 20, y, steps=4)
    fleet, algo = settings(
        int(float(page.get_by_label("agents N", exact=True).get_attribute("aria-valuetext")))
    )
    assert len(fleet) > 5
    point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
    for runs, release in ((2, lambda: None), (10, page.mouse.up)):
        release()
        wanted = algo.train(fleet, steps=1000, runs=runs).mse(point).mean("run")
        until(
            page, lambda wanted=wanted: np.allclose(columns(page, CURVE)[1]["error"], wanted), f"{runs} runs"
        )
    for _ in range(len(fleet) - 5):
        page.keyboard.press("ArrowLeft")
    until(page, lambda: "fleet.agents=5" in page.url, "the address")


def test_an_error_is_beside_its_control_in_the_words_of_the_command_line(address, browser):
    page = browser.page(address + SMALL + "&fleet.agents=0&fleet.path=/etc/passwd")
    said = "fleet.agents: expected at least 1, got 0"
    page.get_by_text(f"These settings cannot be trained: {said}").wait_for()
    page.get_by_text(said, exact=True).wait_for()
    page.get_by_text("address: fleet.path: unknown key").wait_for()
    assert len(columns(page, CURVE)[1]["t"]) == 0
    page.close()


@pytest.fixture(scope="module")
def planning(address, browser):
    return browser.page(address.replace("/federation", "/plan") + SMALL + "&target=30.0", "Press Plan.")


def test_a_plan_is_found_and_trained(planning):
    page = planning
    page.get_by_role("button", name="Plan", exact=True).click()
    page.get_by_text("To reach an error of 30").wait_for()
    reached = until(page, lambda: columns(page, "What N agents can reach")[0]["agents"], "what is reached")
    assert reached == [1, 2, 3]
    page.get_by_role("button", name="Train this").click()
    page.get_by_text("Trained:").wait_for()
    drawn = trained(page)
    assert drawn[1]["error"][-1] < 40
    assert drawn[2]["error"][-1] <= 30
    page.reload()
    page.get_by_text("Trained:").wait_for()
    assert trained(page)[1] == drawn[1]
    page.get_by_label("error to reach").fill("-1")
    page.keyboard.press("Enter")
    page.get_by_text("target must be a positive number, got -1").wait_for()


@pytest.fixture(scope="module")
def results(address, browser):
    return browser.page(address.replace("/federation", "/results"), "1 of 2 cells are trained; 1 are shown.")


def test_results_are_shown_as_they_come(results, browser, folder):
    page = results
    cells = folder / "cells/small"
    history = fs.History.load(cells / "0000.nc")
    shutil.copy(folder.parent / "0001.nc", cells)
    page.get_by_text("2 of 2 cells are trained; 2 are shown.").wait_for()
    until(page, lambda: len(columns(page, "Cells over time")) == 4, "both curves")
    assert columns(page, "Cells over time")[0]["t"] == history.central["t"].values.tolist()
    hover(page, "Cells over time", 2)
    page.locator(".bk-Tooltip").get_by_text("eps_r = 0").wait_for()
    page.mouse.move(0, 0)
    browser.page(page.url + "&only.eps_r=0.5", "2 of 2 cells are trained; 1 are shown.").close()


def test_cells_are_compared_and_claims_lead_to_figures(results):
    results.locator(".slick-row.odd input[type=checkbox]").click()
    until(results, lambda: "cells=1" in results.url, "the address")
    results.keyboard.press("ArrowUp")
    results.keyboard.press("Space")
    results.get_by_text("less the first").wait_for()
    until(results, lambda: "cells=0%7C1" in results.url, "the address")
    results.get_by_role("link", name="small").click()
    results.get_by_text("2 of 2 cells are trained").wait_for()
    results.locator("img:visible").wait_for()
    assert "figure=small" in results.url
    results.get_by_text("less the first").wait_for()  # what is compared is kept


def test_a_leaderboard_and_a_file_are_opened(browser, tmp_path):
    rows = [
        tables.Row(CONTROL, "small", block, block, dict.fromkeys(tables.RETURNS, Estimate(1.0, -0.5, 2.0)))
        for block in BLOCKS
    ]
    (tmp_path / "leaderboard.csv").write_text(tables.to_csv(rows))
    with served(str(tmp_path)) as address:
        page = browser.page(address, "Within reach of the best")
        drawn = columns(page, "With 95% intervals")
        assert [one["method"] for one in drawn[::2]] == [[block] for block in BLOCKS]
        for width in (400, 1300):
            page.set_viewport_size({"width": width, "height": 900})
            assert well_placed(page) > 8
        (tmp_path / "leaderboard.csv").unlink()
        page.get_by_text("The table comes when all are.").wait_for()
        page.close()
    (tmp_path / "small.toml").write_text(
        "fleet = { agents = 2, states = 10, actions = 10 }\ntraining = { steps = 500 }\n"
        'algorithm = { features = { kind = "modulo", d1 = 3, d2 = 2 } }\n'
    )
    with served(str(tmp_path / "small.toml")) as address:
        page = browser.page(address, "After 500 steps")
        fleet = fs.paper.fleet(2, states=10, actions=10)
        algo = fs.FedSARSA(fs.ModuloFeatures(3, 2))
        point = fs.theory.fixed_point(fleet[0], algo.features, algo.policy)
        assert np.allclose(
            columns(page, CURVE)[1]["error"], algo.train(fleet, steps=500).mse(point).mean("run")
        )
        page.close()


def test_another_method_is_trained_and_theory_says_that_it_is_silent(page):
    page.get_by_label("method", exact=True).select_option("ScaffoldSARSA")
    page.get_by_text("No prediction: algorithm.method: expected FedSARSA for theory").wait_for()
    until(page, lambda: "algorithm.method=ScaffoldSARSA" in page.url, "the address")
    fleet = settings(5)[0]
    method = fs.methods.ScaffoldSARSA(fs.ModuloFeatures(5, 5), fs.Softmax(100.0), 0.01, 10)
    wanted = method.train(fleet, steps=1000).mse(method.target(fleet)).mean("run")
    until(page, lambda: np.allclose(columns(page, CURVE)[1]["error"], wanted, rtol=1e-9), "the new curve")
    page.get_by_label("method", exact=True).select_option("FedSARSA")
    until(page, lambda: len(columns(page, CURVE)[2]["t"]) > 1, "a prediction")


@pytest.fixture(scope="module")
def control(address, browser):
    seen = "&watch=1&plane=0|2"
    return browser.page(address.replace("/federation", "/control") + CARTS + seen, "steps each")


def carts(length=0.5):
    fleet = fs.control.fleet("CartPole", agents=2, spread=0.2, length=length)
    return fleet, fs.FedSARSA(fs.TileCoding(2, 3), fs.EpsilonGreedy(0.01), step_size=0.3, sync_every=100)


def learning(fleet, algo):
    """The mean learning curve, without bins in which no episode ended."""
    curve = algo.train(fleet, steps=1000, runs=2).learning_curve(bins=50)
    return curve.mean("agent").mean("run").dropna("t").values


def test_carts_learn_play_and_are_changed_by_a_slider(control):
    def mean():
        return [one for one in columns(control, LEARNING)[1]["mean"] if one is not None and one == one]

    assert np.allclose(mean(), learning(*carts()))
    fleet, algo = carts()
    value = until(control, lambda: columns(control, VALUES)[0]["image"], "values")[0]
    learned = Learned(fleet, algo, algo.train(fleet, steps=1000, runs=2))
    assert np.allclose(value, value_map(learned, across=0, up=2).values.ravel())
    assert control.locator(".bk-Figure:visible").count() == 4  # one agent is watched, as the link says
    seat, states = f"agent 1: return {play(learned, 1).total:.0f}", play(learned, 1).states
    last = drawn_worlds.columns(drawn_worlds.look_of(fs.control.CartPole).moving(fleet[1], states[-1]))
    until(control, lambda: columns(control, seat)[1]["xs"] == last["xs"], "the end of the film")
    assert columns(control, seat)[1]["ys"] == last["ys"]
    slider(control, "length").focus()
    control.keyboard.press("ArrowRight")
    until(control, lambda: "fleet.physics.length=0.525" in control.url, "the address")
    wanted = learning(*carts(0.525))
    until(control, lambda: len(mean()) == len(wanted) and np.allclose(mean(), wanted), "the new curve")


def test_another_world_comes_with_its_own_settings(control):
    control.get_by_label("world", exact=True).select_option("MountainCar")
    until(control, lambda: "fleet.world=MountainCar" in control.url, "the address")
    assert "fleet.physics.gravity=0.0025" in control.url
    assert "length" not in control.url
    assert "algorithm.policy.kind=greedy" in control.url
    until(control, lambda: columns(control, LEARNING)[1]["mean"][-1] < 0, "cars")
    until(control, lambda: control.locator(".bk-Figure:visible").count() == 5, "both cars at play")


def test_long_trainings_are_stopped(control):
    control.get_by_role("button", name="Stop").wait_for(state="hidden")
    for name in ("runs", "steps per agent"):
        control.get_by_label(name, exact=True).focus()
        control.keyboard.press("End")
    control.get_by_role("button", name="Stop").click()
    control.get_by_role("button", name="Start again").wait_for()
    control.get_by_role("button", name="Stop").wait_for(state="hidden")
    until(control, lambda: "training.steps=1000000" in control.url, "the address")
    control.get_by_role("button", name="Close").click()
    control.get_by_role("button", name="Start again").wait_for(state="hidden")


def test_the_curve_stays_in_sight_of_every_control(page, control):
    for one, name in ((page, "temperature"), (control, "trace decay")):
        one.bring_to_front()
        for width in (400, 1300):
            one.set_viewport_size({"width": width, "height": 700})
            one.get_by_label(name, exact=True).focus()
            handle = one.get_by_label(name, exact=True).bounding_box()
            curve = one.locator(".bk-Figure.first").bounding_box()
            assert curve["y"] >= 0
            assert curve["y"] + curve["height"] <= (700 if width == 1300 else handle["y"])


def test_keyboard_alone_chooses_kinds_and_sorts_tables(page, results):
    page.bring_to_front()
    page.get_by_label("policy", exact=True).focus()
    for key, policy in (("ArrowDown", "greedy"), ("ArrowDown", "epsilon-greedy"), ("Home", "softmax")):
        page.keyboard.press(key)  # the focus has stayed
        until(page, lambda policy=policy: f"algorithm.policy.kind={policy}" in page.url, policy)
    results.bring_to_front()
    column = results.locator(".slick-header-column", has_text="eps_r")
    column.focus()
    for first in ("0", "0.5"):
        results.keyboard.press("Enter")
        until(
            results,
            lambda first=first: results.locator(".slick-row.even .slick-cell").nth(1).inner_text() == first,
            f"{first} in the first row",
        )


def test_keyboard_alone_reaches_every_control(page, planning, control, results):
    for one, least in ((page, 30), (planning, 20), (control, 40), (results, 8)):
        one.bring_to_front()
        count, left = out_of_reach(one)
        assert count >= least
        assert left == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (1500, "dark")])
def test_nothing_is_cut_off(page, planning, control, results, width, scheme):
    for one, pictures in ((page, 6), (planning, 2), (control, 5), (results, 2)):
        one.bring_to_front()
        one.emulate_media(color_scheme=scheme)
        one.set_viewport_size({"width": width, "height": 900})
        boxes = one.locator(".bk-Figure:visible")

        def fits(one=one, boxes=boxes, pictures=pictures):
            found = [boxes.nth(k).bounding_box() for k in range(boxes.count())]
            inside = [box["x"] >= 0 and box["x"] + box["width"] <= width for box in found]
            large = all(box["width"] >= 300 for box in found)
            apart = not any(overlap(*two) for two in itertools.combinations(found, 2))
            none_beyond = one.evaluate("document.documentElement.scrollWidth") <= width
            return len(found) == pictures and all(inside) and large and apart and none_beyond

        one.evaluate("window.scrollTo(0, 0)")
        until(one, fits, f"{pictures} pictures in {width} pixels")
        assert well_placed(one) > 15
        grounds = brightness(one, "body", "nav", ".bk-Figure", ".bk-input")
        assert min(grounds) > 0.8 if scheme == "light" else max(grounds) < 0.2


def overlap(one, other):
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"])
    return across > 1 and down > 1


def test_pages_complain_of_nothing_and_load_nothing_from_elsewhere(browser):
    assert browser.opened > 5
    assert browser.complaints == []
    assert browser.elsewhere == []
