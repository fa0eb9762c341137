"""The report of the leaderboard: one HTML file that needs nothing else."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from fedsarsa._version import __version__
from fedsarsa.experiments import html_report
from fedsarsa.experiments.leaderboard.entries import BOARDS, CONTROL
from fedsarsa.experiments.leaderboard.fleets import Ground
from fedsarsa.experiments.leaderboard.scale import Scale
from fedsarsa.experiments.leaderboard.tables import Row, columns, count, leaders, shown

ABOUT = {
    CONTROL: "Exact discounted returns of the learned policies. Mean return: over agents. Worst agent: the "
    "smallest return of any. Gaps are means over agents: to each agent's own optimum, and to the best common "
    "policy found from several starts, which a method that learns a policy per agent may beat.",
    "prediction": "Squared distances of the learned parameters, in units of that of &theta; = 0 to the "
    "agents' fixed points: to the point that the method tends to, to the federated point, and to each "
    "agent's own fixed point.",
}


def page(
    rows: Sequence[Row],
    grounds: Sequence[Ground],
    pictures: Mapping[str, Path],
    scale: Scale,
    seed: int,
    seconds: float,
) -> str:
    """The whole report."""
    sections = "".join(
        f'<h2 id="{board}">{board.capitalize()}</h2><p>{ABOUT[board]}</p>'
        f"{html_report.picture(pictures[board], f'The {board} board')}"
        f"{''.join(board_table(rows, board, ground) for ground in grounds)}"
        for board in BOARDS
        if board in pictures
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Federated RL: the leaderboard</title>
<link rel="icon" href="data:,"><style>{html_report.STYLE}</style></head><body>
<h1>Federated RL: the leaderboard</h1>
<p>All methods of fedsarsa {escape(__version__)} on the same fleets, with as many samples per agent. Step
sizes, and temperatures of methods that act by what they learn, come from one grid and were chosen on runs
that are not shown. Numbers are means over runs with 95% intervals; <strong>bold</strong> rows are not
significantly different from the best of their block. No learned policy beats an agent's own optimum, as was
checked.</p>
{sections}
<h2 id="settings">Settings</h2>
{html_report.settings_table(scale, seed, seconds)}
</body></html>
"""


def board_table(rows: Sequence[Row], board: str, ground: Ground) -> str:
    """The rows of one fleet, block by block."""
    ours = [row for row in rows if row.board == board and row.fleet == ground.name]
    names = (*columns(board), "floats sent per agent", "samples", "step size", "temperature")
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("method", *names))
    best, body, block = leaders(rows), "", ""
    for row in ours:
        if row.block != block:
            block = row.block
            body += f'<tr><th colspan="{len(names) + 1}">{escape(block)}</th></tr>'
        body += _line(row, board, row in best)
    table = f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    return f"<h3>{escape(ground.name)}</h3><p>{escape(ground.about)}; {escape(str(ground.fleet))}.</p>{table}"


def _line(row: Row, board: str, leads: bool) -> str:
    label = f"<strong>{escape(row.label)}</strong>" if leads else escape(row.label)
    if row.refused:
        return f'<tr><td>{label}</td><td colspan="{len(columns(board)) + 4}">{escape(row.refused)}</td></tr>'
    failed = f" ({row.failed} runs failed)" if row.failed else ""
    numbers = [shown(row.numbers.get(name)) for name in columns(board)]
    rest = [count(row.sent), f"{row.samples:,}" if row.samples else "-", _plain(row.step_size)]
    cells = [*numbers, *rest, _plain(row.temperature)]
    return f"<tr><td>{label}{failed}</td>{''.join(f'<td class=number>{cell}</td>' for cell in cells)}</tr>"


def _plain(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:g}"
