"""What several server rules do: project on a ball, and combine only the agents that took part."""

from collections.abc import Callable

import numpy as np

from fedsarsa import _checks
from fedsarsa._checks import Floats
from fedsarsa.federation.participation import Present


def checked_radius(radius: float | None) -> float | None:
    """``radius`` if it is positive, or None."""
    return None if radius is None else _checks.positive("radius", radius)


def project(theta: Floats, radius: float | None) -> Floats:
    """The nearest point of the ball of ``radius`` around 0, for every vector of ``theta`` (..., d)."""
    if radius is None:
        return theta
    largest = np.abs(theta).max(axis=-1, keepdims=True)
    # Squares of theta could overflow, so its largest entry is taken out.
    scaled = np.divide(theta, largest, out=np.zeros_like(theta), where=largest > 0)
    norm = largest * np.sqrt(np.sum(scaled**2, axis=-1, keepdims=True))
    return np.where(
        norm > radius, theta * np.divide(radius, norm, where=norm > 0, out=np.ones_like(norm)), theta
    )


def of_present(
    rule: Callable[[Floats], Floats],
    fewest: int,
    before: Floats,
    after: Floats,
    present: Present,
) -> Floats:
    """Apply ``rule``, (..., n, d) -> (..., d), to the agents that took part; for ``Server.combine``.

    Where fewer took part than the ``fewest`` that the rule needs, the server keeps its parameter.
    """
    if present is None or present.all():
        return rule(after)
    return np.stack(
        [
            rule(theta[who]) if who.sum() >= fewest else start
            for theta, who, start in zip(after, present, before, strict=True)
        ]
    )
