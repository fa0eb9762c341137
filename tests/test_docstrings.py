"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import fedsarsa

ROOT = Path(fedsarsa.__file__).parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # that a setting is outside the theory, say
def test_examples(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def test_there_are_examples():
    assert len(MODULES) >= 15
