"""An inequality of the paper, and what it stands on."""

from dataclasses import dataclass

from fedsarsa.theory.paper_constants import Constants


@dataclass(frozen=True)
class Bound:
    """One inequality: exact <= bound.

    Attributes
    ----------
    name : str
        The paper's label, and what the inequality is about where one label has several.
    bound : float
        Infinite where there is none.
    exact : float or None
        The exact value where it can be computed.
    says : str
        What it promises.
    fails : str
        Which of the things that the bound stands on is not the case; empty where all are.
    printed : float or None
        The value of the paper's own formula, where it differs.
    """

    name: str
    bound: float
    exact: float | None
    says: str
    fails: str
    printed: float | None = None

    @property
    def applies(self) -> bool:
        """Whether everything the bound stands on is the case; otherwise it promises nothing."""
        return not self.fails

    @property
    def reason(self) -> str:
        """Why it does not apply, or what it says, in a sentence."""
        return f"does not apply: {self.fails}" if self.fails else self.says


MIXING = ("ergodic under every policy",)
FIXED = (*MIXING, "fixed points", "exploration")
SMOOTH = (*FIXED, "smooth policy")


def failing(constants: Constants, names: tuple[str, ...] | None = None) -> str:
    """The first condition that fails, as a sentence; empty where all of ``names`` hold (all unless given)."""
    for condition in constants.conditions:
        wanted = condition.needed if names is None else condition.name in names
        if wanted and not condition.holds:
            return condition.text
    return ""
