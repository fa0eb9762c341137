"""Pages of ours in a browser, where one is installed."""

from contextlib import contextmanager

import pytest

from fedsarsa_benchmarks.page import CHROMIUM

needs_a_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium is installed: the page was not opened"
)


@contextmanager
def opened(path):
    """The page, opened from disk: it must complain of nothing and load nothing from elsewhere."""
    from playwright.sync_api import sync_playwright

    complaints, requests = [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        yield page
        browser.close()
    assert complaints == []
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
