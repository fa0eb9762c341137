"""What agents and server must agree on, in words that they can compare."""

import hashlib

import numpy as np

from fedsarsa._checks import Floats
from fedsarsa.algorithm import FedSARSA
from fedsarsa.learning.targets import behaviours

LONGEST, SHOWN = 1000, 100  # letters of a term, and those shown of one that is longer


def of_step(algo: FedSARSA) -> dict[str, str]:
    """The options of the step."""
    return {
        "target": algo.target,
        "behaviour": repr([described(one) for one in behaviours(algo.behaviour)]),
        "trace_decay": repr(float(algo.trace_decay)),
        "traces": algo.traces,
        "step_per_feature": repr(algo.step_per_feature),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def numbers(vector: Floats) -> str:
    """A vector: its numbers, or if they are many, a digest."""
    return (
        repr(vector.tolist()) if len(vector) <= 16 else f"{len(vector)} numbers {_digest(vector.tobytes())}"
    )


def brief(text: str) -> str:
    """A text, or if it is long, its beginning and a digest: every message carries all terms."""
    return text if len(text) <= LONGEST else f"{text[:SHOWN]}... {_digest(text.encode())}"


def described(part: object) -> str:
    """What features or a policy are, their arrays by a digest: ``repr`` shows shapes alone."""
    arrays = [value for value in vars(part).values() if isinstance(value, np.ndarray)]
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return f"{part!r} {_digest(content)}" if arrays else repr(part)
