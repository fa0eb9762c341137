"""The boards as pictures: a panel per fleet, a dot per method with its 95% interval."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from fedsarsa.experiments import plots
from fedsarsa.experiments.leaderboard.entries import BLOCKS, BOARDS, CONTROL, OPTIMUM
from fedsarsa.experiments.leaderboard.tables import TO_AGENTS, TO_COMMON, TO_FEDERATED, Row

COLUMNS, WIDTH, LINE = 4, 2.2, 0.19  # panels in a row; inches of a panel, and of a method's line
LEFT, TOP, BOTTOM, GAP = 2.1, 0.75, 0.75, 0.75
TITLES = {
    CONTROL: "Mean return lost to the best common policy (left is better; beyond 0 it is beaten)",
    "prediction": "Squared error, where that of $\\theta$ = 0 is 1: dots to each agent's own fixed point, "
    "crosses to the federated point",
}


def write(rows: Sequence[Row], folder: Path) -> dict[str, Path]:
    """Draw every board that has rows; the pictures by board."""
    pictures = {}
    for board in BOARDS:
        ours = [row for row in rows if row.board == board and row.numbers and row.label != OPTIMUM]
        if ours:
            pictures[board] = plots.save(figure(ours, board), folder, f"leaderboard-{board}")[0]
    return pictures


def figure(rows: Sequence[Row], board: str) -> Figure:
    """One board; methods from top to bottom in the order of its tables, coloured by block."""
    fleets = list(dict.fromkeys(row.fleet for row in rows))
    labels = list(dict.fromkeys(row.label for row in sorted(rows, key=lambda row: BLOCKS.index(row.block))))
    colours = plots.coloured(BLOCKS)
    columns = min(COLUMNS, len(fleets))
    lines = -(-len(fleets) // columns)
    height = LINE * len(labels)
    size = (LEFT + columns * (WIDTH + 0.25), TOP + lines * height + (lines - 1) * GAP + BOTTOM)
    result = Figure(figsize=size)
    panels = list(result.subplots(lines, columns, sharey=True, squeeze=False).flat)
    result.subplots_adjust(
        left=LEFT / size[0],
        right=1 - 0.15 / size[0],
        top=1 - TOP / size[1],
        bottom=BOTTOM / size[1],
        hspace=GAP / height,
        wspace=0.12,
    )
    for panel in panels[len(fleets) :]:
        panel.set_axis_off()
    for panel, fleet in zip(panels, fleets, strict=False):
        for row in (row for row in rows if row.fleet == fleet):
            marks = {TO_COMMON: "o"} if board == CONTROL else {TO_AGENTS: "o", TO_FEDERATED: "x"}
            for name, marker in marks.items():
                one, place = row.numbers[name], labels.index(row.label)
                panel.plot([one.low, one.high], [place, place], color=colours[row.block], linewidth=1.2)
                panel.plot(one.value, place, marker=marker, color=colours[row.block], markersize=4)
        panel.set_title(fleet, fontsize="small")
        panel.grid(alpha=0.3, linewidth=0.5)
        panel.tick_params(labelsize="x-small")
        if board == CONTROL:
            panel.axvline(0.0, **plots.DOTTED, linewidth=0.8)
        else:
            panel.set_xscale("log")
            panel.xaxis.set_minor_formatter(NullFormatter())
    panels[0].set_yticks(range(len(labels)), labels)
    panels[0].set_ylim(len(labels) - 0.5, -0.5)
    result.suptitle(TITLES[board], fontsize="medium", y=1 - 0.15 / size[1])
    present = {row.block for row in rows}
    plots.legend(result, {block: colours[block] for block in BLOCKS if block in present})
    return result
