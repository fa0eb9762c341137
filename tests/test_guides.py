"""The guides of docs/extending.md, followed in a copy of the package: one file, one line in a registry."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedsarsa

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")

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


def blocks(title):
    """The code blocks of the page with this title."""
    return re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def package(tmp_path):
    """A copy of the package's sources."""
    copied = tmp_path / "src/fedsarsa"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(fedsarsa.__file__).parent, copied, ignore=ignored)
    return copied


def run(package, program):
    """Run a program with a copy of the package."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": str(package.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_add_a_policy(package):
    (file,) = blocks("learning/policies/proportional.py")
    (line,) = blocks("learning/policies/__init__.py")
    (package / "learning/policies/proportional.py").write_text(file, encoding="utf-8")
    registry = package / "learning/policies/__init__.py"
    text = registry.read_text(encoding="utf-8")
    text = text.replace("\nPOLICIES:", "\nfrom .proportional import Proportional\nPOLICIES:")
    registry.write_text(text.replace('    "fixed": FixedPolicy,\n', '    "fixed": FixedPolicy,\n' + line))
    run(package, TRAIN_WITH_A_POLICY)
