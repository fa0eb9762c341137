"""A federation's rounds as a table, while they happen and afterwards."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsarsa._checks import Floats
from fedsarsa.deploy import ledger

SHOWN = 20  # rounds, the last ones


def rounds(
    lines: Sequence[dict[str, Any]], agents: int, errors: Floats | None = None, news: str | None = None
) -> Table:
    """The last rounds; ``errors[k]`` is that of the central parameter after round k, if it is known.

    ``news`` is the last that the server said.
    """
    measure = "moved" if errors is None else "error"
    caption = None if news is None else Text(news)
    table = Table("round", "agents", measure, "KB sent", "seconds", "left out", caption=caption)
    for column in table.columns[:5]:
        column.justify = "right"
    private = any("epsilon" in line for line in lines)
    if private:
        table.add_column("epsilon", justify="right")
    for line in [line for line in lines if line["round"]][-SHOWN:]:
        number = line["round"]
        value = line["moved"] if errors is None else errors[number]
        out = [f"{name}: {reason}" for name, reason in line["rejected"].items()]
        out += [f"{name}: no reply" for name in line["missing"]]
        out += [f"{name}: has lost round {lost}" for name, lost in line.get("lost", {}).items()]
        out += [f"{name}, at first: {reason}" for name, reason in line.get("earlier", {}).items()]
        table.add_row(
            str(number),
            f"{len(line['agents'])} of {agents}",
            f"{value:.4g}",
            f"{line['bytes_sent'] / 1000:.1f}",
            f"{line['seconds']:.1f}",
            "; ".join(out),
            *([f"{line['epsilon']:.3g}"] if private else []),
        )
    return table


def status(home: Path) -> None:
    """Print where the federation in a server's directory stands."""
    from fedsarsa.deploy.server_process import is_running

    found = ledger.checkpoint(home)
    if found is None:
        raise FileNotFoundError(
            f"{home}: no round has been run there; expected a server's directory, with {ledger.CHECKPOINT}"
        )
    about, arrays = found
    console = Console(markup=False, highlight=False)
    running = "a server is at work" if is_running(home) else "no server is at work"
    norm = float(np.linalg.norm(arrays["theta"]))
    console.print(
        f"federation {about['federation']}: round {about['round']} is done, {running}; norm {norm:.6g}"
    )
    console.print(rounds(ledger.read(home), int(about["promised"]["agents"])))
