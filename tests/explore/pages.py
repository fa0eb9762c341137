"""The page in a browser: one server in a process of its own, and one browser."""

import os
import subprocess
import sys
from contextlib import contextmanager

from fedsarsa.explore.controls import ALGORITHM, FLEET, METHODS, TRAINING
from tests.browser import CHROMIUM

CONTROLS = (*FLEET, METHODS, *ALGORITHM, *TRAINING)
PATIENCE = 120_000  # milliseconds: the machine may be busy


@contextmanager
def served(*arguments, folder=None):
    """The address of a page that ``fedsarsa explore`` serves, as it prints it; no browser is opened."""
    command = [sys.executable, "-m", "fedsarsa", "explore", *arguments]
    environment = {**os.environ, "BROWSER": "true"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("the page is at http://127.0.0.1:"), line + process.stderr.read()
        yield line.rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


@contextmanager
def browsing():
    """A browser, and what its pages complained of or loaded from elsewhere."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Browser(browser)
        browser.close()


class Browser:
    def __init__(self, browser):
        self.browser, self.opened, self.complaints, self.elsewhere = browser, 0, [], []

    def page(self, address, width=1300, **options):
        """An open page; errors on its console are noted."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note)
        page.goto(address)
        page.get_by_text("fedsarsa explore").wait_for()
        self.opened += 1
        return page

    def _note(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.elsewhere.append(request.url)


def columns(page, title):
    """The numbers behind a picture: every source of the figure with this title, as lists."""
    return page.evaluate(
        """title => {
            const figures = Bokeh.documents.flatMap(one => [...one.all_models])
                .filter(model => model.type === "Figure" && model.title && model.title.text === title);
            const listed = data => Object.entries(data).map(([key, value]) => [key, Array.from(value)]);
            return figures[0].renderers.map(one => Object.fromEntries(listed(one.data_source.data)));
        }""",
        title,
    )


def until(page, test, what):
    """Wait until ``test()`` is true."""
    for _ in range(PATIENCE // 100):
        found = test()
        if found:
            return found
        page.wait_for_timeout(100)
    raise AssertionError(f"waited for {what} in vain")
