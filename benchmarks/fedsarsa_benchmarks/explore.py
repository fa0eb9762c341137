"""How soon the page answers, in Chromium: the published setting, N = 20, ten runs, 20 000 steps."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsarsa_benchmarks.measuring import Result, at_most

PATIENCE = 120_000  # milliseconds
SMALL = "?fleet.states=10&fleet.actions=10&fleet.agents=3&training.steps=1000"
# The last point of a curve of all runs, once it is another than before; ``place`` 1 is the trained curve, and
# 2 the predicted one.
CHANGED = """([place, before]) => {
    const figure = Bokeh.documents.flatMap(one => [...one.all_models])
        .filter(one => one.type === "Figure" && one.title.text === "Error of the central parameter")[0];
    if (figure.tags[0] !== 10) return null;
    const error = figure.renderers[place].data_source.data.error;
    return error.length > 0 && error[error.length - 1] !== before ? error[error.length - 1] : null; }"""


def measure(quick: bool = False) -> list[Result]:
    """From the command to the page, from a slider to the curve and the prediction, and memory."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        return [Result("explore", "no Chromium is installed")]
    from playwright.sync_api import sync_playwright

    begun = time.perf_counter()
    with served() as (address, process), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        page.get_by_text("fedsarsa explore").wait_for()
        first = time.perf_counter() - begun
        last = _value(page, 1, None)
        _value(page, 2, None)
        curves, predictions = [], []
        for _ in range(3 if quick else 10):
            pressed = time.perf_counter()
            page.locator(".noUi-handle").nth(1).press("ArrowLeft")
            last = _value(page, 1, last)
            curves.append(time.perf_counter() - pressed)
            _value(page, 2, None)
            predictions.append(time.perf_counter() - pressed - curves[-1])
        tabs = [browser.new_page() for _ in range(10)]
        for tab in tabs:
            tab.goto(address + SMALL)
        for tab in tabs:
            _value(tab, 1, None)
            tab.close()
        page.goto(address + SMALL)
        last = _value(page, 1, None)
        before = _memory(process)
        changes = 50 if quick else 500
        for change in range(changes):
            page.locator(".noUi-handle").nth(1).press("ArrowLeft" if change % 20 < 10 else "ArrowRight")
            last = _value(page, 1, last)
        grown = _memory(process) - before
        browser.close()
    return [
        at_most("explore: from the command to the page", first, " s", 3),
        at_most("explore: from a slider to its curve", 1e3 * statistics.median(curves), " ms", 300),
        at_most("explore: from there to the prediction", 1e3 * statistics.median(predictions), " ms", 700),
        at_most(f"explore: memory that {changes} changes add", grown, " MB", 50),
    ]


@contextmanager
def served() -> Iterator[tuple[str, int]]:
    """The address of a page, and its process."""
    command = [sys.executable, "-m", "fedsarsa", "explore"]
    environment = os.environ | {"BROWSER": "true"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.stdout.readline().rpartition(" ")[2].strip(), process.pid
        process.terminate()


def _value(page: Any, place: int, before: float | None) -> float:
    """The last point of a curve, once it is another than before."""
    return float(page.wait_for_function(CHANGED, arg=[place, before], polling=5).json_value())


def _memory(process: int) -> float:
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
