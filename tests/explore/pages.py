"""The page in a browser: one server in a process of its own, and one browser."""

import io
import re
from contextlib import contextmanager

import numpy as np
from PIL import Image

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
    one.matches("a[href], button, select, input, textarea, .noUi-handle, .card-header, .bk-btn, "
        + ".slick-header-column")
    && !one.closest(".slick-viewport")  // rows are one stop; arrows move within them
    && one.checkVisibility({visibilityProperty: true, opacityProperty: true}) && !one.disabled)
window.reached = new Set()
"""
FOCUSED = """() => {
    let one = document.activeElement
    while (one.shadowRoot && one.shadowRoot.activeElement) one = one.shadowRoot.activeElement
    reached.add(one)
}"""


# Texts and controls that leave the window, whose words are cut, or that lie over each other.
MISPLACED = (
    INSIDE.partition("function named")[0]
    + """
const kinds = "p, h3, label, .bk-slider-title, .noUi-target, .bk-input, .bk-btn, nav a, td, th"
const seen = inside(document).filter(one => one.matches(kinds) && one.getClientRects().length
    && !one.closest(".slick-viewport, .slick-header")
    && one.checkVisibility({visibilityProperty: true, opacityProperty: true}))
const leaf = one => !seen.some(other => other !== one && one.contains(other))
const places = seen.filter(leaf).map(one => ({one, box: one.getBoundingClientRect()}))
    .filter(({box}) => box.width > 1 && box.height > 1)
const name = ({one}) => (one.tagName + " " + one.className + " " + one.textContent).trim().slice(0, 60)
const beyond = places.filter(({box}) => box.left < 0 || box.right > innerWidth + 1)
const cut = places.filter(({one}) => !one.matches("input, select, .noUi-target")
    && (one.scrollWidth > one.clientWidth + 1) && getComputedStyle(one).display !== "inline")
const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2
const above = []
places.forEach((a, k) => places.slice(k + 1).forEach(b => {
    if (over(a.box, b.box)) above.push(name(a) + " / " + name(b))
}))
return {count: places.length, wrong: [...beyond.map(name), ...cut.map(name), ...above]}
"""
)


def well_placed(page):
    """Wait until no text or control is cut or lies over another, and count them.

    What is under way is said in a box that lies over others until it is done.
    """
    found = {}

    def nothing_wrong():
        found.update(page.evaluate(f"() => {{ {MISPLACED} }}"))
        return not found["wrong"]

    until(page, nothing_wrong, lambda: f"these to be well placed: {found['wrong']}")
    return found["count"]


def brightness(page, *selectors):
    """The median brightness, 0 to 1, of what is on the screen in the first element of each."""
    shot = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L")) / 255
    found = []
    for one in selectors:
        box = page.locator(f"{one}:visible").first.bounding_box()
        left, top = round(box["x"]), round(box["y"])
        found.append(np.median(shot[top : top + round(box["height"]), left : left + round(box["width"])]))
    return found


def hover(page, title, point):
    """Move the pointer to a point of the first line of a picture."""
    place = page.evaluate(
        """([title, point]) => {
            const figure = Bokeh.documents.flatMap(one => [...one.all_models])
                .filter(model => model.type === "Figure" && model.title.text.startsWith(title)).at(-1)
            const view = Bokeh.index.find_one(figure)
            const line = view.views.find_one(figure.renderers.find(one => one.glyph.type === "Line"))
            const box = view.canvas_view.el.getBoundingClientRect()
            return [box.x + line.glyph.sx[point], box.y + line.glyph.sy[point]]
        }""",
        [title, point],
    )
    page.mouse.move(*place)


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
    """Wait until ``test()`` is true; ``what``, or what it returns then, is said if that never happens."""
    for _ in range(PATIENCE // 20):
        found = test()
        if found:
            return found
        page.wait_for_timeout(20)
    raise AssertionError(f"waited in vain for {what() if callable(what) else what}")
