"""The page in a browser: one server in a process of its own, and one browser."""

import re
from contextlib import contextmanager

from fedsarsa.explore.controls import ALGORITHM, FLEET, METHODS, TRAINING
from fedsarsa_benchmarks import page
from tests.browser import CHROMIUM

CONTROLS = (*FLEET, METHODS, *ALGORITHM, *TRAINING)
PATIENCE = 120_000  # milliseconds: the machine may be busy


@contextmanager
def served(*arguments, folder=None):
    """The address of a page that ``fedsarsa explore`` serves; no browser is opened."""
    with page.served(*arguments, folder=folder) as command:
        yield command.address


@contextmanager
def browsing():
    """A browser, and what its pages complained of or loaded from elsewhere."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield Browser(browser)
        browser.close()


class Browser:
    """One window whose tabs share what they have loaded."""

    def __init__(self, browser):
        allowed = ["clipboard-read", "clipboard-write"]
        self.context = browser.new_context(viewport={"width": 1300, "height": 900}, permissions=allowed)
        self.context.set_default_timeout(PATIENCE)
        self.opened, self.complaints, self.elsewhere = 0, [], []

    def page(self, address, text="fedsarsa explore"):
        """An open page that shows ``text``; errors on its console are noted."""
        page = self.context.new_page()
        page.on("console", lambda line: self.complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note)
        page.goto(address, wait_until="commit")
        page.get_by_text(text).first.wait_for()
        self.opened += 1
        return page

    def _note(self, request):
        if not request.url.startswith(("http://127.0.0.1:", "data:", "blob:")):
            self.elsewhere.append(request.url)


def columns(page, title):
    """The numbers behind a picture: every source of the newest figure whose title begins so, as lists."""
    return page.evaluate(
        """title => {
            const figures = Bokeh.documents.flatMap(one => [...one.all_models])
                .filter(model => model.type === "Figure" && model.title)
                .filter(model => model.title.text.startsWith(title));
            const plain = value => value && value.length !== undefined && typeof value !== "string"
                ? Array.from(value, plain) : value;
            const listed = data => Object.entries(data).map(([key, value]) => [key, plain(value)]);
            return figures.at(-1).renderers.map(one => Object.fromEntries(listed(one.data_source.data)));
        }""",
        title,
    )


def slider(page, name):
    """The handle of the slider whose name begins so."""
    return page.locator(".bk-Slider").filter(has_text=re.compile(f"^{name}")).locator(".noUi-handle")


# Every control that is seen, also in the parts of the page that are closed to CSS from outside.
INSIDE = """
function inside(root) {
    const within = one => one.shadowRoot ? inside(one.shadowRoot) : []
    return [...root.querySelectorAll("*")].flatMap(one => [one, ...within(one)])
}
function named(one) {
    const label = one.getAttribute("aria-label") || one.textContent || one.name || ""
    return one.tagName + " " + one.className + " " + label.trim().slice(0, 40)
}
window.controls = inside(document).filter(one =>
    one.matches("a[href], button, select, input, textarea, .noUi-handle, .card-header, .bk-btn")
    && !one.closest(".slick-viewport, .slick-header")  // a grid is one stop; arrows move within it
    && one.checkVisibility({visibilityProperty: true, opacityProperty: true}) && !one.disabled)
window.reached = new Set()
"""
FOCUSED = """() => {
    let one = document.activeElement
    while (one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement
    reached.add(one)
}"""


def out_of_reach(page):
    """How many controls are seen, and those that Tab does not lead to."""
    page.evaluate(f"() => {{ {INSIDE} }}")
    count = page.evaluate("controls.length")
    page.evaluate("document.activeElement.blur()")
    for _ in range(count + 30):  # there may be more places to stop at
        page.keyboard.press("Tab")
        page.evaluate(FOCUSED)
    left = "controls.filter(one => ![...reached].some(had => one === had || one.contains(had)))"
    return count, page.evaluate(f"() => {{ {INSIDE.partition('window.')[0]}; return {left}.map(named) }}")


def until(page, test, what):
    """Wait until ``test()`` is true."""
    for _ in range(PATIENCE // 20):
        found = test()
        if found:
            return found
        page.wait_for_timeout(20)
    raise AssertionError(f"waited for {what} in vain")
