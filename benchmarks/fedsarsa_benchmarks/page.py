"""How fast the page of ``fedsarsa explore`` answers in Chromium, with the published setting."""

import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedsarsa_benchmarks.measuring import Result, at_least, at_most

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 120_000  # milliseconds
CURVE = "Error of the central parameter"
AGENTS = "agents N"
RUNS = 10  # of the published setting; fewer are drawn while a slider moves
# Notes when a picture with new numbers has been painted: what is new in it, of how many runs, and the time.
WATCH = """title => {
    window.clock = () => performance.timeOrigin + performance.now()
    window.painted = []
    window.released = []
    const figures = Bokeh.documents.flatMap(one => [...one.all_models])
        .filter(model => model.type === "Figure" && model.title && model.title.text.startsWith(title))
    const figure = figures.at(-1), view = Bokeh.index.find_one(figure), paint = view.repaint.bind(view)
    let fresh = []
    for (const [place, name] of [[1, "trained"], [2, "predicted"]]) {
        const source = figure.renderers[place].data_source
        source.properties.data.change.connect(() => { if (source.data.t.length) fresh.push(name) })
    }
    view.repaint = () => {
        paint()
        const names = fresh, runs = figure.tags[0]
        fresh = []
        const note = () => names.forEach(name => painted.push({name, runs, at: clock()}))
        // The next task after a frame: the picture is on screen.
        requestAnimationFrame(() => setTimeout(note))
    }
    for (const name of ["pointerup", "keydown"])
        window.addEventListener(name, () => released.push(clock()), true)
}"""


@dataclass(frozen=True)
class Served:
    """A page that a command serves: its address, when the command was given, and its process."""

    address: str
    begun: float
    process: Any


@contextmanager
def served(*arguments: str, folder: Path | None = None) -> Iterator[Served]:
    """The page of ``fedsarsa explore``, once it has printed its address; no browser is opened."""
    command = [sys.executable, "-m", "fedsarsa", "explore", *arguments]
    environment, begun = {**os.environ, "BROWSER": "true"}, time.time()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        if not line.startswith("the page is at http://127.0.0.1:"):
            raise RuntimeError(line + process.stderr.read())
        yield Served(line.rpartition(" ")[2].strip(), begun, process)
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


def slider(page: Any, label: str) -> Any:
    """The handle of a slider."""
    return page.locator(".bk-Slider").filter(has_text=label).locator(".noUi-handle")


def answered(page: Any) -> None:
    """Wait until the page has said all of the published setting, and rests."""
    page.get_by_text("By theory agent 0 gains").or_(page.get_by_text("Agent 0 does best")).wait_for()
    page.wait_for_timeout(300)


def opened(browser: Any, command: Served) -> Any:
    """The federation view in a tab, which has answered and notes what it paints."""
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.set_default_timeout(PATIENCE)
    page.goto(command.address, wait_until="commit")
    answered(page)
    page.evaluate(WATCH, CURVE)
    return page


def drag(page: Any, right: int, moves: int, pause: int) -> None:
    """Drag the number of agents by some pixels, every so many milliseconds; the button stays down."""
    box = slider(page, AGENTS).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for move in range(1, moves + 1):
        page.mouse.move(x + right * move, y)
        page.wait_for_timeout(pause)


def answer(
    page: Any, release: Callable[[], None], names: Sequence[str] = ("trained", "predicted")
) -> list[float]:
    """Milliseconds from releasing a control to the curve of all runs, and from there to the prediction."""
    page.evaluate("painted.length = released.length = 0")
    release()
    times = []
    for name in names:
        new = f'painted.find(one => one.name === "{name}" && one.runs === {RUNS} && one.at > released.at(-1))'
        times.append(page.wait_for_function(new).evaluate("one => one.at"))
    found: list[float] = np.diff([page.evaluate("released.at(-1)"), *times]).tolist()
    return found


def start(browser: Any) -> dict[str, float]:
    """Seconds from the command to its address, to controls and axes on screen, and to the first curve."""
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    with served() as page:
        found = {"address": time.time() - page.begun}
        tab.goto(page.address, wait_until="commit")
        slider(tab, AGENTS).wait_for()
        tab.locator(".bk-Figure canvas").first.wait_for()
        found["page"] = time.time() - page.begun
        tab.get_by_text("steps the error of").wait_for()
        found["curve"] = time.time() - page.begun
        answered(tab)
    tab.close()
    return found


def changes(browser: Any, repeats: int) -> Iterator[Result]:
    """What happens after a slider is released, and while it is dragged."""
    with served() as command:
        page = opened(browser, command)
        for how, release in (("mouse", _let_go), ("key", _press)):
            times = []
            for repeat in range(repeats + 1):
                times.append(answer(page, release(page, right=repeat % 2 == 0)))
                page.wait_for_timeout(4000)  # what follows the prediction comes too
            curves, predictions = zip(*times[1:], strict=True)
            yield _times(f"from a {how} released to the curve, median (range)", curves, 300)
            yield _times("from there to the prediction", predictions, 700)
        page.evaluate("painted.length = 0")
        drag(page, 3, 40, 50)
        seen = [one["at"] for one in page.evaluate("painted") if one["runs"] < RUNS]
        page.mouse.up()
        shown = (len(seen) - 1) / (seen[-1] - seen[0]) * 1000
        yield at_least("pictures while dragging", shown, " a second", 5)


def memory(browser: Any, count: int) -> Iterator[Result]:
    """What many changes leave in the server's memory, and what ten tabs take."""
    with served() as command:
        page, taken = opened(browser, command), {}
        for change in range(1, count + 1):
            answer(page, _press(page, right=change % 2 == 1), ("trained",))
            if change % (count // 10) == 0:
                taken[change] = _resident(command.process.pid) / 2**20
        warm = 3 * count // 10  # caches are full by then
        what = f"memory of the server after {count} changes / after {warm}"
        yield at_most(what, taken[count] / taken[warm], "x", 1.05)
        told = ", ".join(f"{size:.0f}" for size in taken.values())
        yield Result(f"the same after every {count // 10} changes", f"{told} MiB")
        tabs = [browser.new_page() for _ in range(9)]
        for tab in tabs:
            tab.set_default_timeout(PATIENCE)
            tab.goto(command.address, wait_until="commit")
            tab.get_by_text("steps the error of").wait_for()
        answer(page, _press(page, right=True), ("trained",))
        yield Result(
            "memory of the server with ten tabs", f"{_resident(command.process.pid) / 2**20:.0f} MiB"
        )
        for tab in tabs:
            tab.close()


def _let_go(page: Any, right: bool) -> Callable[[], None]:
    """Drag the number of agents a little; what releases it."""
    drag(page, 2 if right else -2, 3, 100)
    page.wait_for_timeout(300)
    release: Callable[[], None] = page.mouse.up
    return release


def _press(page: Any, right: bool) -> Callable[[], None]:
    """What changes the number of agents by one."""
    slider(page, AGENTS).focus()
    return lambda: page.keyboard.press("ArrowRight" if right else "ArrowLeft")


def _resident(process: int) -> int:
    """Bytes of memory that a process has."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _times(what: str, times: Sequence[float], wanted: float) -> Result:
    middle = statistics.median(times)
    told = f"{middle:,.0f} ms ({min(times):,.0f} to {max(times):,.0f})"
    return Result(what, told, f"at most {wanted:,.0f} ms", middle <= wanted)


def measure(quick: bool = False) -> Iterator[Result]:
    """Start, changes and memory; nothing where there is no Chromium, or no Playwright."""
    if CHROMIUM is None or find_spec("playwright") is None:
        yield Result("the page", "not measured: it needs Chromium and Playwright")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        begun = time.time()
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        browser.new_page().close()
        yield Result("Chromium's own start", f"{time.time() - begun:.1f} s")
        starts = [start(browser) for _ in range(3 if quick else 6)][1:]  # the first one fills caches
        for part, wanted in (("address", math.inf), ("page", 3.0), ("curve", math.inf)):
            times = [one[part] for one in starts]
            told = f"{min(times):.2f} to {max(times):.2f} s"
            limit = f"at most {wanted:g} s" if math.isfinite(wanted) else ""
            what = f"from the command to the {part}, in a second process"
            yield Result(what, told, limit, max(times) <= wanted)
        yield from changes(browser, 4 if quick else 10)
        yield from memory(browser, 50 if quick else 500)
        browser.close()
