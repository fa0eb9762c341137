"""Docstrings of public names: their examples are true, and they have the sections that apply."""

import doctest
import importlib
import inspect
import pydoc
import re
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import fedsarsa as fs
from fedsarsa.learning.bases import CONTINUOUS
from fedsarsa.learning.policies import POLICIES

ROOT = Path(fs.__file__).parent
REPOSITORY = Path(__file__).parent.parent
MODULES = [
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text()
]
# What implements an equation says which.
EQUATIONS = [
    fs.FedSARSA,
    fs.ShiftKernel,
    *(getattr(fs.theory, name) for name in fs.theory.__all__),
    *fs.servers.RULES.values(),
    *fs.methods.METHODS,
    *POLICIES.values(),
    *(fs.ConstantStep, fs.LinearDecay, fs.PiecewiseDecay, fs.LinearSchedule, fs.ExponentialSchedule),
    *CONTINUOUS.values(),
]
LONGEST = 600  # characters of a signature in help(): six lines of a terminal


def internal():
    """Names of members that are not for users: those that the site filters out."""
    (pattern,) = re.findall(r'"!(\^\(\S+\)\$)"', (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
    return re.compile(pattern)


def found(name):
    """The object that the reference shows under a dotted name."""
    place, _, last = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(found(place), last)


def public():
    """All objects of the reference but modules, by their names there."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (REPOSITORY / "docs/api").glob("*.md"))
    objects = {name: found(name) for name in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)}
    return {name: one for name, one in objects.items() if not inspect.ismodule(one)}


def function_of(kind, name):
    """A method of ours, or None."""
    one = inspect.getattr_static(kind, name, None)
    one = one.__func__ if isinstance(one, classmethod | staticmethod) else one
    return one if inspect.isfunction(one) and one.__module__.startswith("fedsarsa") else None


PUBLIC = public()
CLASSES = {name: one for name, one in PUBLIC.items() if inspect.isclass(one)}
FUNCTIONS = {name: one for name, one in PUBLIC.items() if not inspect.isclass(one)}
HIDDEN = internal()
METHODS = {
    f"{name}.{member}": (kind, member)
    for name, kind in CLASSES.items()
    for member in dir(kind)
    if not member.startswith("_") and not HIDDEN.search(member) and function_of(kind, member)
}


def sections(one):
    return set(re.findall(r"^(\w+)\n-+$", inspect.cleandoc(one.__doc__ or ""), re.MULTILINE))


def arguments(one):
    return [each for each in inspect.signature(one).parameters if each not in {"self", "cls"}]


def needed(function):
    """The sections that a function needs for its arguments, its answer and its errors."""
    if arguments(function):
        yield "Parameters"
    if inspect.signature(function).return_annotation not in {None, "None"}:
        yield "Returns"
    if re.search(r"\n +raise (?!NotImplementedError)\w", inspect.getsource(function)):
        yield "Raises"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_sections_that_apply(name):
    assert {"Examples", *needed(FUNCTIONS[name])} <= sections(FUNCTIONS[name])


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_sections_that_apply(name):
    kind, has = CLASSES[name], sections(CLASSES[name])
    if "Attributes" in has:  # what functions answer: they have the example
        return
    made = not getattr(kind, "_is_protocol", False) and arguments(kind)
    expected = {"Examples"} | ({"Parameters"} if made else set())
    maker = function_of(kind, "__init__" if not is_dataclass(kind) else "__post_init__")
    if maker and re.search(r"\braise\b|_checks\.", inspect.getsource(maker)):
        expected.add("Raises")
    assert expected <= has


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_the_sections_that_apply(name):
    """One that overrides another may say in one line what it does differently."""
    kind, member = METHODS[name]
    own = [function_of(base, member) for base in kind.__mro__ if member in vars(base)]
    assert own[0].__doc__
    assert any(set(needed(one)) <= sections(one) for one in own)


@pytest.mark.parametrize("one", EQUATIONS, ids=lambda one: one.__name__)
def test_what_implements_an_equation_has_it_in_its_notes(one):
    assert "Notes" in sections(one)


@pytest.mark.parametrize("name", [name for name in PUBLIC if "Attributes" not in sections(PUBLIC[name])])
def test_signatures_fit_a_screen(name):
    lines = pydoc.plain(pydoc.render_doc(PUBLIC[name])).splitlines()
    assert max(map(len, lines)) <= LONGEST


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore::UserWarning")  # that a setting is outside the theory, say
def test_examples(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def test_there_are_examples():
    assert len(MODULES) >= 15
