"""One claim of the paper beside what was measured, and how a verdict is reached.

Claims are in the paper's own words where it has words for them; quotation marks say so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedsarsa.experiments.statistics import Estimate

HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
UNCLEAR = "inconclusive"  # the confidence interval is too wide to tell
OPEN = "condition not met"  # so that the claim says nothing about this setting
# How pages style a verdict.
CLASSES = {UNCLEAR: "open", HOLDS: "holds", PARTLY: "part", FAILS: "fails", OPEN: "open"}


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    Attributes
    ----------
    claim, where : str
        What the paper says, quoted or as a formula, and the label of the place where it does.
    quantity, measured : str, Estimate
        What was measured to test it, and the result.
    detail : str
        What else to know, such as the levels at which the claim does not hold.
    figure : str
        Name of the figure that shows it; empty if there is none.
    """

    claim: str
    where: str
    quantity: str
    measured: Estimate
    verdict: str
    detail: str = ""
    figure: str = ""


# A power law counts as one if the confidence interval of its exponent comes this near, ...
EXPONENT = 0.1
# ... and is narrow enough to tell: not further away than this on either side.
WIDEST = 0.25


def power(estimate: Estimate, exponent: float) -> str:
    """Whether an estimated exponent agrees with the claimed one; terms of higher order shift it a little."""
    if not (estimate.low <= exponent + EXPONENT and estimate.high >= exponent - EXPONENT):
        return FAILS
    narrow = estimate.low >= exponent - WIDEST and estimate.high <= exponent + WIDEST
    return HOLDS if narrow else UNCLEAR


def within(estimate: Estimate, low: float, high: float) -> str:
    """Whether a number is known to lie between two others."""
    if estimate.low >= low and estimate.high <= high:
        return HOLDS
    return FAILS if estimate.low > high or estimate.high < low else UNCLEAR


def by_level(good: Sequence[float], bad: Sequence[float]) -> str:
    """The verdict where a claim was tested at several levels."""
    if good:
        return PARTLY if bad else HOLDS
    return FAILS


def levels(values: Iterable[float]) -> str:
    """Levels in words."""
    listed = ", ".join(f"{value:g}" for value in values)
    return f"level {listed}" if listed else "no level"
