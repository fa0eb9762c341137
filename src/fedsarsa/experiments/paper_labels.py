"""What the labels of the paper's source, such as ``eq:w``, are in print.

Numbers follow the order of the source. Sections, equations, figures, tables and algorithms have LaTeX's own
counters; theorems, definitions and assumptions have one each. The style file that numbers corollaries and
lemmas does not come with the source, so those are named by what they are about.
"""

import csv
import re
from collections.abc import Callable
from functools import cache
from importlib import resources


@cache
def printed() -> dict[str, str]:
    """Every label that we cite, and what it is in print: "eq. 19", "Lemma on client drift"."""
    text = resources.files(__package__).joinpath("paper_labels.csv").read_text(encoding="utf-8")
    return {row["label"]: row["printed"] for row in csv.DictReader(text.splitlines())}


def in_print(text: str, show: Callable[[str, str], str] = "{1} ({0})".format) -> str:
    """A text whose labels are given as ``show(label, printed)``: "Theorem 2 (thm)" for "thm"."""
    labels = printed()
    known = "|".join(map(re.escape, labels))
    return re.sub(rf"(?<![\w:-])({known})(?![\w:-])", lambda found: show(found[1], labels[found[1]]), text)
