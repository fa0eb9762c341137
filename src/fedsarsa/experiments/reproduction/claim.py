"""One claim of the paper beside what was measured, and how a verdict is reached."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedsarsa.experiments.statistics import Estimate

HOLDS, PARTLY, FAILS, OPEN = "holds", "holds in part", "does not hold", "cannot be tested here"


@dataclass(frozen=True)
class Claim:
    """One row of the table.

    Attributes
    ----------
    claim, where : str
        What the paper says, and the label of the theorem, corollary or figure where it does.
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


# A power law counts as one if the confidence interval of its exponent comes this near.
EXPONENT = 0.1


def power(estimate: Estimate, exponent: float) -> str:
    """Whether an estimated exponent agrees with the claimed one; terms of higher order shift it a little."""
    agrees = estimate.low <= exponent + EXPONENT and estimate.high >= exponent - EXPONENT
    return HOLDS if agrees else FAILS


def by_level(good: Iterable[float], bad: Iterable[float]) -> str:
    """The verdict where a claim was tested at several levels."""
    if any(True for _ in good):
        return PARTLY if any(True for _ in bad) else HOLDS
    return FAILS


def levels(values: Iterable[float]) -> str:
    """Levels in words."""
    listed = ", ".join(f"{value:g}" for value in values)
    return f"level {listed}" if listed else "no level"
