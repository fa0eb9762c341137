"""All benchmarks as one table."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

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
    """Measure and print all parts, or some."""
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r}")
    table = Table("what", "measured", "wanted", "met", title="fedsarsa bench")
    with console.status("measuring; keep the machine quiet"):
        results = [result for part in parts or PARTS for result in PARTS[part].measure(quick)]
    for result in results:
        mark = ("yes" if result.met else "no") if result.wanted else ""
        table.add_row(result.what, result.measured, result.wanted, mark)
    console.print(table)
