"""The guides in docs/extending.md: what is new takes one file and one line in a registry."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedsarsa import _numba

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
FILES = re.findall(
    r'^```python title="(?:src/fedsarsa/)?([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE
)
LINES = re.findall(r'^```diff title="src/fedsarsa/([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with the guides' files and lines, as an environment for processes."""
    source = tmp_path_factory.mktemp("extended") / "src"
    shutil.copytree(_numba.PACKAGE, source / "fedsarsa", ignore=shutil.ignore_patterns("__pycache__"))
    for place, content in FILES:
        place = "engines/timed_engine.py" if place == "timed_engine.py" else place
        (source / "fedsarsa" / place).write_text(content, encoding="utf-8")
    for place, lines in LINES:
        registry = source / "fedsarsa" / place
        text = registry.read_text(encoding="utf-8")
        for line in lines.splitlines():
            added = line.removeprefix("+")
            if added.startswith("from "):
                text = text.replace("\nfrom ", f"\n{added}\nfrom ", 1)
            else:  # an entry of the registry, which is the first dictionary of the file
                text = text.replace("\n}\n", f"\n{added}\n}}\n", 1)
        registry.write_text(text, encoding="utf-8")
    # Code that is optimised less gives the same numbers, and is compiled in two thirds of the time. What is
    # not optimised at all Numba cannot keep.
    less = {"NUMBA_OPT": "1", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", **less}


def run(environment, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_page_has_a_file_and_a_line_for_each():
    assert sorted(place for place, _ in FILES) == [
        "federation/servers/midrange.py",
        "learning/policies/proportional.py",
        "learning/polynomial.py",
        "timed_engine.py",
        "worlds/control/point_mass.py",
    ]
    assert sorted(place for place, _ in LINES) == [
        "engines/__init__.py",
        "federation/servers/__init__.py",
        "learning/bases.py",
        "learning/policies/__init__.py",
        "worlds/control/registry.py",
    ]


@pytest.mark.slow
@pytest.mark.timeout(1500)  # compiles every kernel of a package, beside other tests
def test_engines_agree_on_them_and_a_second_process_does_not_compile(extended):
    first, second = (run(extended, "-m", "tests.guides").stderr for _ in range(2))
    assert "compiling the cpu engine" in first
    assert "compiling" not in second


@pytest.mark.slow
def test_the_tests_over_the_registries_pick_them_up(extended):
    done = run(
        extended,
        *("-m", "pytest", "-p", "no:cacheprovider", "-vv"),
        *("-k", "PointMass or Polynomial or Midrange or timed or derived"),
        *("tests/worlds/control/test_fleet.py", "tests/learning/test_continuous_features.py"),
        *("tests/engines/test_contracts.py::test_every_control_world", "tests/engines/test_engines.py"),
        "tests/engines/test_compiled_rules.py",
    )
    for name, least in {"PointMass": 6, "Polynomial": 6, "Midrange": 3, "timed": 2}.items():
        assert len(re.findall(rf"{name}.* PASSED", done.stdout)) >= least, done.stdout
