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
FILES = re.findall(r'^```python title="src/fedsarsa/([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
LINES = re.findall(r'^```diff title="src/fedsarsa/([^"]+)"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)
COMPARED = """
import numpy as np
import fedsarsa as fs
from fedsarsa.learning.bases import Polynomial

fleet = fs.control.fleet("PointMass", agents=3, spread=0.3, noise=0.1, time_limit=20)
algo = fs.FedSARSA(Polynomial(2), fs.Softmax(0.5), 0.2, sync_every=7, trace_decay=0.5)
slow, fast = (algo.train(fleet, 60, runs=2, engine=engine) for engine in ("reference", "cpu"))
assert slow.data.attrs["engine"] == "reference" and fast.data.attrs["engine"] == "cpu"
for name in ("central", "local", "returns"):
    np.testing.assert_allclose(fast.data[name], slow.data[name], rtol=0, atol=1e-12)
np.testing.assert_array_equal(fast.data.lengths, slow.data.lengths)
"""

TRAIN_WITH_A_POLICY = """
import numpy as np
import fedsarsa as fs
from fedsarsa.learning.policies import POLICIES

policy = POLICIES["proportional"](0.5)
finite = fs.paper.fleet(agents=3, eps_p=0.5, eps_r=0.5, states=7, actions=6)
carts = fs.control.fleet("CartPole", 3, spread=0.3, time_limit=15)
table = fs.TabularFeatures(np.random.default_rng(0).normal(size=(7, 6, 4)), normalise=True)
for fleet, features in (
    (finite, fs.ModuloFeatures(3, 2)),
    (finite, table),
    (carts, fs.TileCoding(3, 4, memory=60)),
):
    for target in ("sampled", "expected"):
        algo = fs.FedSARSA(features, policy, 0.05, sync_every=7, target=target)
        slow, fast = (algo.train(fleet, 50, 2, engine=engine) for engine in ("reference", "cpu"))
        np.testing.assert_allclose(fast.central, slow.central, rtol=0, atol=1e-12)
        assert np.abs(fast.final).max() > 1e-3
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory):
    """A copy of the package with the guides' files and lines, as an environment for processes."""
    source = tmp_path_factory.mktemp("extended") / "src"
    shutil.copytree(_numba.PACKAGE, source / "fedsarsa", ignore=shutil.ignore_patterns("__pycache__"))
    for place, content in FILES:
        (source / "fedsarsa" / place).write_text(content, encoding="utf-8")
    for place, lines in LINES:
        first, *entries = [line.removeprefix("+") for line in lines.splitlines()]
        registry = source / "fedsarsa" / place
        before, imports = registry.read_text(encoding="utf-8").split("\nfrom ", 1)
        text = f"{before}\n{first}\nfrom {imports}"
        for entry in entries:  # of the registry, which is the first dictionary of the file
            text = text.replace("\n}\n", f"\n{entry}\n}}\n", 1)
        registry.write_text(text, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}


def run(environment, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_page_has_a_file_and_a_line_for_each():
    assert sorted(place for place, _ in FILES) == [
        "learning/policies/proportional.py",
        "learning/polynomial.py",
        "worlds/control/point_mass.py",
    ]
    assert sorted(place for place, _ in LINES) == [
        "learning/bases.py",
        "learning/policies/__init__.py",
        "worlds/control/registry.py",
    ]


@pytest.mark.slow
def test_engines_agree_on_them_and_a_second_process_does_not_compile(extended):
    first, second = (run(extended, "-c", COMPARED).stderr for _ in range(2))
    assert "compiling the cpu engine" in first
    assert "compiling" not in second


@pytest.mark.slow
def test_engines_agree_on_a_new_policy_and_a_second_process_does_not_compile(extended):
    first, second = (run(extended, "-c", TRAIN_WITH_A_POLICY).stderr for _ in range(2))
    assert "compiling the cpu engine" in first
    assert "compiling" not in second


@pytest.mark.slow
def test_the_tests_over_the_registries_pick_them_up(extended):
    done = run(
        extended,
        *("-m", "pytest", "-p", "no:cacheprovider", "-k", "PointMass or Polynomial"),
        *("tests/worlds/control/test_fleet.py", "tests/learning/test_continuous_features.py"),
        *("tests/engines/test_contracts.py::test_every_control_world", "-vv"),
    )
    for name in ("PointMass", "Polynomial"):
        assert len(re.findall(rf"{name}.* PASSED", done.stdout)) > 5, done.stdout
