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
from fedsarsa.experiments.leaderboard.tables import Row, columns, count, shown

ABOUT = {
    CONTROL: "Exact discounted returns of the learned policies. Mean return: over agents. Worst agent: the "
    "smallest return of any. Gaps are means over agents: to each agent's own optimum, and to the best common "
    "policy. That is the best local optimum found, from as many starts as its row says; its stationarity gap "
    "is the rate at which a small change can still improve it. Methods may beat it, above all those that "
    "learn a policy per agent. Step sizes and temperatures were chosen by the mean return, by which rows are "
    "compared with the best.",
    "prediction": "Squared distances of the learned parameters, in units of that of &theta; = 0 to the "
    "agents' fixed points: to the point that the method tends to, to the federated point, and to each "
    "agent's own fixed point. Step sizes were chosen by the first; rows are compared with the best by the "
    "last.",
}
BOLD = (
    "Rows in <strong>bold</strong> cannot be told from the best row of their block, the one with the best "
    "mean. The column <em>behind the best</em> has the mean difference to it, run by run, as the runs of all "
    "methods have the same random numbers, with Student's interval. Of m rows in the block each of these "
    "intervals is at the level 1 - 0.05 / (m - 1) (Bonferroni), and a row is bold if its interval reaches 0. "
    "So with 95% confidence the row that is truly best with its settings is a bold one, if differences are "
    "near enough to normal. Nothing corrects for the number of fleets and blocks."
)
SETTINGS = ("floats sent per agent", "steps per exchange", "samples", "step size", "temperature")


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
        f"{''.join(board_table(rows, board, one) for one in grounds if one.control or board != CONTROL)}"
        for board in BOARDS
        if board in pictures
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Federated RL: the leaderboard</title>
<link rel="icon" href="data:,"><style>{html_report.STYLE}</style></head><body>
<h1>Federated RL: the leaderboard</h1>
<p>All methods of fedsarsa {escape(__version__)} on the same fleets, with the same budget of samples per
agent; the column of samples says how many were taken. Step sizes, and temperatures of methods that act by
what they learn, come from one grid, which stands under Settings, and were chosen on runs that are not shown.
Temperatures are in units of the largest difference of two rewards of the fleet. Other arguments have their
defaults, unless a label says otherwise. Numbers are means over runs with 95% intervals. No learned policy
beats an agent's own optimum, as was checked.</p>
<p>{BOLD}</p>
{sections}
<h2 id="settings">Settings</h2>
{html_report.settings_table(scale, seed, seconds)}
</body></html>
"""


def board_table(rows: Sequence[Row], board: str, ground: Ground) -> str:
    """The rows of one fleet, block by block."""
    ours = [row for row in rows if row.board == board and row.fleet == ground.name]
    names = (*columns(board), *SETTINGS)
    heads = "".join(f"<th>{escape(name)}</th>" for name in ("method", *names))
    body, block = "", ""
    for row in ours:
        if row.block != block:
            block = row.block
            body += f'<tr><th colspan="{len(names) + 1}">{escape(block)}</th></tr>'
        body += _line(row, board)
    table = f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    given = repr(ground.features) if board == CONTROL else f"{ground.state_features!r}, {ground.policy!r}"
    about = f"{ground.about}; {ground.fleet}; {given}."
    return f"<h3>{escape(ground.name)}</h3><p>{escape(about)}</p>{table}"


def _line(row: Row, board: str) -> str:
    label = f"<strong>{escape(row.label)}</strong>" if row.leads else escape(row.label)
    if row.reason:
        width = len(columns(board)) + len(SETTINGS)
        return f'<tr><td>{label}</td><td colspan="{width}">{escape(row.reason)}</td></tr>'
    failed = f" ({row.failed} runs failed)" if row.failed else ""
    note = f"<br><small>{escape(row.note)}</small>" if row.note else ""
    numbers = [shown(row.numbers.get(name)) for name in columns(board)]
    rest = [count(row.sent), count(row.period), f"{row.samples:,}" if row.samples else "-"]
    cells = [*numbers, *rest, _plain(row.step_size), _plain(row.temperature)]
    return (
        f"<tr><td>{label}{failed}{note}</td>{''.join(f'<td class=number>{cell}</td>' for cell in cells)}</tr>"
    )


def _plain(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:g}"
