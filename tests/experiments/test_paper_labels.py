"""Labels of the paper's source come with what they are in print."""

import re
from pathlib import Path

import fedsarsa as fs
from fedsarsa.experiments.paper_labels import in_print, printed
from fedsarsa.experiments.theory_report import LETTERS, bounds_table

ROOT = Path(__file__).parent.parent.parent
KINDS = "alg|asmp|cor|def|eq|fig|lem|prop|rmk|sec|tb|thm"


def cited():
    """Every label in the documentation and the source, and where."""
    for folder, ending in (("docs", "md"), ("docs", "csv"), ("src", "py"), (".", "README.md")):
        pattern = f"**/*.{ending}" if folder != "." else ending
        for path in sorted((ROOT / folder).glob(pattern)):
            for label in re.findall(
                rf"(?<![\w-])(?:{KINDS}):[A-Za-z][\w-]*", path.read_text(encoding="utf-8")
            ):
                yield label, path.relative_to(ROOT)


def test_every_label_that_is_cited_has_a_name_in_print():
    found = list(cited())
    assert len(found) > 100
    assert [(label, place) for label, place in found if label not in printed()] == []


def test_numbers_beside_labels_are_those_in_print():
    kinds = r"(?:Algorithm|Theorem|Assumption|Definition|Appendix|Figure|Table|Section|eq\.)"
    number = re.compile(rf"({kinds}\s[\w.]+)(?:\s\(|,\s)`+([a-z]+(?::[\w-]+)?)`+")
    found = [
        (" ".join(name.split()), label)
        for folder, kind in (("docs", "*.md"), ("src", "*.py"))
        for path in sorted((ROOT / folder).rglob(kind))
        for name, label in number.findall(path.read_text())
        if label in printed()
    ]
    assert len(found) > 50
    assert [(name, label) for name, label in found if printed()[label] != name] == []


def test_labels_become_names():
    assert in_print("after thm; lem:drift") == "after Theorem 2 (thm); Lemma on client drift (lem:drift)"
    assert in_print("thm:fix-drift sharp") == "Theorem 1 (thm:fix-drift) sharp"
    assert in_print("athm, sec:tables") == "athm, sec:tables"
    assert in_print("fig:sarsa-np", lambda label, name: f"<b>{name}</b>") == "<b>Figure 4</b>"


def test_figures_are_numbered_in_the_order_of_the_reproduction():
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    titles = re.findall(r"^### (Figure \d): .* \((fig:\S+)\)", page, re.MULTILINE)
    assert [number for number, _ in titles] == [f"Figure {k}" for k in range(1, 8)]
    assert all(printed()[label] == number for number, label in titles)


def test_the_theory_command_shows_printed_numbers():
    bounds = fs.theory.bounds(fs.paper.fleet(2, 0.5, 0.5, states=6, actions=6), fs.FedSARSA(), 100)
    names = list(bounds_table(bounds).columns[0].cells)
    assert names[:2] == [
        "Lemma on steady distribution differences (lem:distri-hetero)",
        "Lemma on TD operator differences (lem:td-hetero) A",
    ]
    assert "Theorem 2 (thm)" in names
    assert "Theorem thm" not in "".join(LETTERS.values())
