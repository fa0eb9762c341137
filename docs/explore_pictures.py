"""Make the pictures of the page "Explore" and the animation in README, in Chromium.

    python docs/explore_pictures.py RESULTS

RESULTS is the folder of a sweep or a reproduction, for the picture of the results view.
"""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from fedsarsa.explore.page import BLUE, GREEN, GREY, ORANGE, RED, SKY

FIGURES = Path(__file__).parent / "figures"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PATIENCE = 180_000  # milliseconds
SECONDS, LAST = 1.0, 5.0  # that a picture of the animation is shown, and the last one: 20 seconds in all
TITLES = (
    "Error of the central parameter",
    "Who gains by federating",
    "Where parameters settle",
    "What the policies are worth, exactly",
)
SAID = "By theory agent 0 gains by federating"
DRAWN = """title => Bokeh.documents.flatMap(one => [...one.all_models])
    .filter(model => model.type === "Figure" && model.title.text === title)
    .flatMap(model => model.renderers).map(one => one.data_source.get_length())"""


def main(results: str) -> None:
    """Write explore-federation, -plan, -control and -results as PNG, and explore.gif."""
    command = [sys.executable, "-m", "fedsarsa", "explore", results]
    environment = os.environ | {"BROWSER": "true"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        address = server.stdout.readline().rpartition(" ")[2].strip().removesuffix("results")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1240, "height": 760})
            page.set_default_timeout(PATIENCE)
            page.goto(f"{address}results")
            page.get_by_text("cells are trained").wait_for()
            page.wait_for_timeout(3000)
            page.screenshot(path=FIGURES / "explore-results.png")
            plan(page, address)
            control(page, address)
            animation(page, address)
            page.screenshot(path=FIGURES / "explore-federation.png", full_page=True)
        server.terminate()


def plan(page: Page, address: str) -> None:
    """The plan view, after its plan was trained."""
    page.goto(
        f"{address}plan?fleet.states=20&fleet.actions=20&fleet.agents=8&fleet.eps_p=0.1&fleet.eps_r=0.1&target=2.0"
    )
    page.get_by_text("Press Plan").wait_for()
    page.get_by_role("button", name="Plan", exact=True).click()
    page.get_by_text("To reach an error of").wait_for()
    page.get_by_role("button", name="Train this").click()
    page.get_by_text("Trained:").wait_for()
    page.wait_for_timeout(1000)
    page.screenshot(path=FIGURES / "explore-plan.png")


def control(page: Page, address: str) -> None:
    """Carts that have learned, in the middle of what they play."""
    page.set_viewport_size({"width": 1240, "height": 1180})
    page.goto(f"{address}control?fleet.spread=0.4&watch=0|5|14")
    page.get_by_text("steps each").wait_for()
    drawn(page, "Value of the best action, first run")
    page.wait_for_timeout(4000)
    page.screenshot(path=FIGURES / "explore-control.png")
    page.set_viewport_size({"width": 1240, "height": 760})


def animation(page: Page, address: str) -> None:
    """Heterogeneity of kernels and rewards on sliders, then what theory says."""
    page.goto(f"{address}federation?fleet.agents=10&fleet.seed=1&fleet.eps_p=0.0&fleet.eps_r=0.0")
    shots = [settled(page)]
    for name in ("kernels differ by eps_p", "rewards differ by eps_r"):
        for step in range(7):
            page.get_by_label(name).focus()
            page.keyboard.press("ArrowRight")
            key = name.rpartition(" ")[2]
            page.wait_for_url(f"**fleet.{key}={0.05 * (step + 1):.2g}&**")
            shots.append(settled(page))
    page.evaluate("document.activeElement.blur()")
    shots.append(settled(page))
    frames = [Image.open(io.BytesIO(shot)).convert("RGB").resize((868, 532)) for shot in shots]
    # One palette for all frames: of the last one, with as much of every colour as small marks need.
    every = frames[-1].copy()
    for place, colour in enumerate((BLUE, SKY, ORANGE, GREEN, RED, GREY)):
        every.paste(colour, (60 * place, 0, 60 * place + 60, 60))
    palette = every.quantize(128, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    times = [round(1000 * SECONDS)] * (len(few) - 1) + [round(1000 * LAST)]
    few[0].save(
        FIGURES / "explore.gif", save_all=True, append_images=few[1:], duration=times, loop=0, optimize=True
    )


def drawn(page: Page, title: str, parts: slice = slice(None)) -> None:
    """Wait until parts of a picture have something to show."""
    for _ in range(PATIENCE // 500):
        page.wait_for_timeout(500)
        lengths = page.evaluate(DRAWN, title)[parts]
        if lengths and all(lengths):
            return
    raise TimeoutError(f"{title!r} was not drawn")


def settled(page: Page) -> bytes:
    """A picture, once everything is drawn."""
    for title in TITLES:
        drawn(page, title)
    page.get_by_text(SAID).first.wait_for()
    page.wait_for_timeout(1000)
    return page.screenshot()


if __name__ == "__main__":
    main(sys.argv[1])
