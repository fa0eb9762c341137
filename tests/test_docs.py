"""The documentation runs as it stands, and the site builds without a warning."""

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import pytest

import fedsarsa as fs
from fedsarsa import engines
from fedsarsa.experiments.reproduction.figures import drawings
from fedsarsa.experiments.reproduction.settings import FULL
from tests.browser import needs_a_browser, opened

with warnings.catch_warnings():  # Typer uses names that Click is about to drop
    warnings.simplefilter("ignore", DeprecationWarning)
    from typer.main import get_command

    from fedsarsa.cli import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/methods").glob("*.md"), ROOT / "README.md"])
NOT_RUN = "<!-- not run: needs a reproduction -->"
BLOCK = re.compile(
    rf'(?<!{NOT_RUN}\n)^```(python|bash|toml)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE
)
# Commands that take long, or start others: those are only parsed.
LONG = {"agent", "bench", "deploy", "explore", "leaderboard", "reproduce"}
# Fleets have at most so many agents here: theory takes longer the more worlds there are.
AGENTS = 3


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    """Files are written, commands and Python are run, as a reader would from the repository's root."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    whole = fs.paper.fleet
    monkeypatch.setattr(engines, "ENGINES", dict(engines.ENGINES))  # a page may add some
    monkeypatch.setattr(fs.paper, "fleet", lambda agents=20, *a, **k: whole(min(agents, AGENTS), *a, **k))
    monkeypatch.setitem(mpl.rcParams, "backend", "agg")
    names = {"__name__": "__main__"}
    for language, title, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(content, encoding="utf-8")
        if language == "python":
            exec(compile(content, f"{page.name}", "exec"), names)
        elif language == "bash":
            for line in content.splitlines():
                run_command(shlex.split(line, comments=True))


def run_command(words):
    """Run a ``fedsarsa`` command in this process; other programs are not ours to test."""
    if not words or words[0] != "fedsarsa":
        return
    group = get_command(app)
    name, *arguments = words[1:]
    if name in LONG:
        command = group.commands[name]
        while hasattr(command, "commands"):  # a group, such as deploy
            command = command.commands[arguments.pop(0)]
        command.make_context(name, arguments)
    else:
        group.main([name, *arguments], standalone_mode=False)


def test_numbers_that_several_pages_give_are_the_same():
    pages = [page.read_text(encoding="utf-8") for page in (*PAGES, ROOT / "examples/lunar-lander.py")]
    for words in (r"machine compiles for (.+) and says so", r"takes (.+) of one core"):
        said = [found for page in pages for found in re.findall(words, page, re.IGNORECASE)]
        assert len(said) > 1
        assert len(set(said)) == 1, said


def test_the_citation_leads_to_the_paper():
    cited = (ROOT / "CITATION.cff").read_text()
    (address,) = re.findall(r'^PAPER = "(.+)"$', (ROOT / "docs/hooks.py").read_text(), re.MULTILINE)
    assert f'url: "{address}"' in cited
    assert f"arXiv:{address.rsplit('/', 1)[-1]}" in cited


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    described = set(re.findall(r"^::: fedsarsa\.(?:.+\.)?(\w+)$", reference, re.MULTILINE))
    modules = {name for name in fs.__all__ if inspect.ismodule(getattr(fs, name))} | {"__version__"}
    assert {
        *fs.__all__,
        *fs.theory.__all__,
        *(rule.__name__ for rule in fs.servers.RULES.values()),
        *(method.__name__ for method in fs.methods.METHODS),
    } - modules <= described


def test_every_method_has_a_page():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs/methods").glob("*.md")]
    titles = [re.findall(r"^##? (.*)$", page, re.MULTILINE) for page in pages]
    assert {own[0] for own in titles} == {method.__name__ for method in fs.methods.METHODS}
    for own in titles:
        parts = ["Equations", "The command", "How it differs from its paper", "What we measured"]
        assert [part.replace("papers", "paper") for part in own[1:]] == parts, own[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as ``make docs`` does; nothing is said unless there is a warning."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


@pytest.mark.slow
def test_pages_are_whole_and_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|link|iframe)\b[^>]*?(?:src|href)="?(https?://[^"\s>]+)', text)
        assert not loaded, f"{page.name} loads from other hosts: {loaded}"
        missing = set(re.findall(r'href="#([^"]+)"', text)) - set(re.findall(r'id="([^"]+)"', text))
        assert not missing, f"{page.name} links to places that it does not have: {missing}"
        assert not re.search(r"<!-- [a-z ]+ -->", text), f"{page.name}: left empty"
        untypeset = re.findall(r"arithmatex|<m[ion][^>]*>\\\w+", text)
        assert not untypeset, f"{page.name}: formulas that are not typeset: {untypeset[:3]}"


@pytest.mark.slow
@needs_a_browser
def test_site_is_read_and_searched_from_disk(site):
    with opened(site / "reproduction.html") as page:
        images = page.locator("article img")
        assert images.count() == len(drawings(FULL))
        for k in range(images.count()):
            images.nth(k).scroll_into_view_if_needed()
            assert images.nth(k).evaluate("image => image.complete && image.naturalWidth > 300")
        assert page.locator("table.claims tbody tr").count() > 15
        page.click(".md-search__input")
        page.keyboard.type("projection")
        page.locator(".md-search-result__item").first.wait_for(state="visible")
