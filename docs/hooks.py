"""What the site says in numbers and options is made when it is built, so that it cannot go stale.

A page asks for it with a comment: ``<!-- claims -->``, ``<!-- options -->``, ``<!-- commands -->``.
"""

import csv
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import click
from typer.main import get_command

import fedsarsa as fs
from fedsarsa.cli import app
from fedsarsa.experiments.reproduction.claim import FAILS, HOLDS, OPEN, PARTLY
from fedsarsa.experiments.statistics import Estimate

CLAIMS = Path(__file__).parent / "claims.csv"
CLASSES = {HOLDS: "holds", PARTLY: "part", FAILS: "fails", OPEN: "open"}


def claims() -> str:
    """The claims table of a full reproduction, as HTML."""
    with CLAIMS.open(newline="", encoding="utf-8") as file:
        rows = [_claim(row) for row in csv.DictReader(file)]
    heads = "".join(f"<th>{name}</th>" for name in ("claim", "tested by", "measured", "verdict", "figure"))
    return f'<table class="claims"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _claim(row: dict[str, str]) -> str:
    value = float(row["value"])
    measured = Estimate(value, float(row["low"] or value), float(row["high"] or value))
    figure = f'<a href="#{row["figure"]}">{row["figure"]}</a>' if row["figure"] else ""
    return (
        f"<tr><td>{escape(row['claim'])}<small>{escape(row['where'])}</small></td>"
        f"<td>{escape(row['quantity'])}<small>{escape(row['detail'])}</small></td>"
        f"<td>{escape(str(measured))}</td>"
        f'<td class="{CLASSES[row["verdict"]]}">{escape(row["verdict"])}</td><td>{figure}</td></tr>'
    )


def options() -> str:
    """The fields of FedSARSA and the arguments of its training, with their defaults, as a table."""
    algo = fs.FedSARSA()
    rows = [f"| `{field.name}` | `{getattr(algo, field.name)!r}` |" for field in dataclasses.fields(algo)]
    for name, parameter in inspect.signature(fs.FedSARSA.train).parameters.items():
        if parameter.default is not parameter.empty:
            rows.append(f"| `train({name}=)` | `{parameter.default!r}` |")
    return "\n".join(["| option | default |", "|---|---|", *rows])


def commands() -> str:
    """Every command with its arguments and options, from the command itself."""
    group = get_command(app)
    assert isinstance(group, click.Group)
    return "\n\n".join(_command(name, command) for name, command in group.commands.items())


def _command(name: str, command: click.Command) -> str:
    usage = " ".join([f"fedsarsa {name}", *_usage(command)])
    lines = [f"## {name}", inspect.cleandoc(command.help or ""), f"```text\n{usage}\n```"]
    rows = [_parameter(parameter) for parameter in command.params if parameter.name != "help"]
    lines.append("\n".join(["| | meaning | default |", "|---|---|---|", *rows]))
    return "\n\n".join(lines)


def _usage(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            yield (parameter.name or "").upper()
        elif parameter.name != "help":
            value = "" if _flag(parameter) else f" {(parameter.name or '').upper()}"
            shown = f"{parameter.opts[0]}{value}"
            yield shown if parameter.required else f"[{shown}]"


def _parameter(parameter: click.Parameter) -> str:
    named = isinstance(parameter, click.Argument)
    name = (parameter.name or "").upper() if named else parameter.opts[0]
    default: Any = parameter.default
    shown = "needed" if parameter.required else "" if default is None or _flag(parameter) else f"`{default}`"
    return f"| `{name}` | {getattr(parameter, 'help', '')} | {shown} |"


def _flag(parameter: click.Parameter) -> bool:
    return bool(getattr(parameter, "is_flag", False))


MADE: dict[str, Callable[[], str]] = {"claims": claims, "options": options, "commands": commands}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what a page asks for in the place of its comment."""
    for name, make in MADE.items():
        mark = f"<!-- {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown
