"""All benchmarks, line by line as they are measured."""

from collections.abc import Sequence

from rich.console import Console

from fedsarsa_benchmarks import (
    control,
    deploy,
    foundation,
    gpu,
    methods,
    page,
    predictions,
    reproduction,
    theory,
)
from fedsarsa_benchmarks.measuring import Result

WIDTH = 72  # of what was measured; numbers stand below each other

PARTS = {
    "foundation": foundation,
    "methods": methods,
    "theory": theory,
    "predictions": predictions,
    "control": control,
    "reproduction": reproduction,
    "deploy": deploy,
    "page": page,
    "gpu": gpu,
}


def report(console: Console, quick: bool = False, parts: Sequence[str] = ()) -> None:
    """Measure all parts, or some, and print every number as soon as it is there."""
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    with console.status("measuring; keep the machine quiet"):
        for part in parts or PARTS:
            for result in PARTS[part].measure(quick):
                console.print(line(result), soft_wrap=True, highlight=False, markup=False)


def line(result: Result) -> str:
    """What was measured, the number, what it should be, and whether it is."""
    told = f"{result.what:<{WIDTH}}  {result.measured}"
    if result.wanted:
        told += f" ({result.wanted}: {'met' if result.met else 'missed'})"
    return told
