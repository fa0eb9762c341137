"""All benchmarks as one table."""

from rich.console import Console
from rich.table import Table

from fedsarsa_benchmarks import control, deploy, foundation, reproduction, theory


def report(console: Console, quick: bool = False) -> None:
    """Measure and print."""
    table = Table("what", "measured", "wanted", "met", title="fedsarsa bench")
    with console.status("measuring; keep the machine quiet"):
        parts = (foundation, theory, control, reproduction, deploy)
        results = [result for part in parts for result in part.measure(quick)]
    for result in results:
        mark = ("yes" if result.met else "no") if result.wanted else ""
        table.add_row(result.what, result.measured, result.wanted, mark)
    console.print(table)
