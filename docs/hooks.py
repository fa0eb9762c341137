"""What the site says in numbers and options is made when it is built, so that it cannot go stale.

A page asks for it with a comment, such as ``<!-- claims -->`` or ``<!-- options -->``: the keys of `MADE`.
Formulas become MathML, which browsers show without a script. Labels of the paper's source, such as ``eq:w``,
come with what they are in print.
"""

import csv
import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from html import escape, unescape
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click
from latex2mathml.converter import convert
from pydantic.fields import FieldInfo
from typer.main import get_command

import fedsarsa as fs
from fedsarsa.cli import app
from fedsarsa.experiments import config, config_errors
from fedsarsa.experiments.leaderboard import fleets, report, tables
from fedsarsa.experiments.leaderboard.entries import BLOCKS, CONTROL, PREDICTION
from fedsarsa.experiments.paper_labels import in_print, printed
from fedsarsa.experiments.reproduction.claim import CLASSES
from fedsarsa.experiments.statistics import Estimate

CLAIMS = Path(__file__).parent / "claims.csv"
LEADING = {tables.MEAN, tables.TO_AGENTS}
BOARDS = Path(__file__).parent / "leaderboard.csv"
PERCENT = 0.01
NOTEBOOKS = [
    CLAIMS.parent.parent / f"examples/notebooks/{name}.ipynb" for name in ("own-fleet", "gymnasium-fleet")
]
PAPER = "https://arxiv.org/abs/2401.15273"


def claims() -> str:
    """The claims table of a full reproduction, as HTML."""
    with CLAIMS.open(newline="", encoding="utf-8") as file:
        rows = [_claim(row) for row in csv.DictReader(file)]
    heads = "".join(f"<th>{name}</th>" for name in ("claim", "tested by", "measured", "verdict", "figure"))
    table = f'<table class="claims"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<div class="wide">{table}</div>'


def _claim(row: dict[str, str]) -> str:
    value = float(row["value"])
    measured = Estimate(value, float(row["low"] or value), float(row["high"] or value))
    figure = f'<a href="#{row["figure"]}">{row["figure"]}</a>' if row["figure"] else ""
    return (
        f"<tr><td>{escape(row['claim'])}<small>{in_print(escape(row['where']), _code)}</small></td>"
        f"<td>{escape(row['quantity'])}<small>{escape(row['detail'])}</small></td>"
        f"<td>{escape(str(measured))}</td>"
        f'<td class="{CLASSES[row["verdict"]]}">{escape(row["verdict"])}</td><td>{figure}</td></tr>'
    )


def options() -> str:
    """The fields of FedSARSA and the arguments of its training, with defaults and meanings, as a table."""
    algo, train = fs.FedSARSA(), inspect.signature(fs.FedSARSA.train).parameters
    defaults = {field.name: getattr(algo, field.name) for field in dataclasses.fields(algo)}
    arguments = {name: one.default for name, one in train.items() if one.default is not one.empty}
    rows = []
    for described, owner in ((defaults, fs.FedSARSA), (arguments, fs.FedSARSA.train)):
        meanings = _meanings(owner.__doc__ or "")
        rows += [f"| `{name}` | `{value!r}` | {meanings[name]} |" for name, value in described.items()]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])


def _meanings(docstring: str) -> dict[str, str]:
    """What a NumPy-style docstring says of every parameter."""
    found = re.findall(r"^(\w+) : .*\n((?:    .*\n?)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return {name: _plain(text) for name, text in found}


def keys() -> str:
    """The keys of a configuration with their defaults, as a table."""
    rows = [
        f"| `{place}` | {', '.join(_key(name, field) for name, field in section.model_fields.items())} "
        f"| {_about(section.__doc__ or '')} |"
        for place, section in _places()
    ]
    return "\n".join(["| section | keys | |", "|---|---|---|", *rows])


def _about(docstring: str) -> str:
    """What a docstring says first, and what it says of the parameters."""
    first = inspect.cleandoc(docstring).partition("\n\nParameters\n")[0]
    return " ".join([_plain(first), *(f"`{name}`: {text}" for name, text in _meanings(docstring).items())])


def _places() -> Iterator[tuple[str, type[config.Section]]]:
    """Every section of a configuration, and what stands before it in the file."""
    for name, field in config.Config.model_fields.items():
        for section in config_errors.tables(field.annotation):
            yield f"[{name}]", section
            for key, inner in section.model_fields.items():
                for table in config_errors.tables(inner.annotation):
                    yield f"{key} = {{ ... }}", table


def _key(name: str, field: FieldInfo) -> str:
    if name == "kind":
        return f"`kind = {get_args(field.annotation)[0]!r}`".replace("'", '"')
    if field.is_required():
        return f"`{name}` (needed)"
    default = field.get_default()
    if isinstance(default, config.Section):
        return f"`{name}` (below)"
    return f"`{name}` (none)" if default is None else f"`{name} = {json.dumps(default)}`"


def _plain(text: str) -> str:
    """A docstring on one line of a Markdown table."""
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|")


def commands() -> str:
    """Every command with its arguments and options, from the command itself."""
    group = get_command(app)
    assert isinstance(group, click.Group)
    return "\n\n".join(_command(name, command) for name, command in _leaves("", group))


def _leaves(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """A command, or those of a group, by their whole names."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    for part, own in command.commands.items():
        yield from _leaves(f"{name} {part}".strip(), own)


def _command(name: str, command: click.Command) -> str:
    usage = " ".join([f"fedsarsa {name}", *_usage(command)])
    lines = [f"## {name}", inspect.cleandoc(command.help or ""), f"```text\n{usage}\n```"]
    hints = get_type_hints(command.callback, include_extras=True)
    rows = [_parameter(one, hints[one.name].__metadata__[0].help) for one in _own(command)]
    lines.append("\n".join(["| | meaning | default |", "|---|---|---|", *rows]))
    return "\n\n".join(lines)


def _usage(command: click.Command) -> Iterator[str]:
    for parameter in _own(command):
        if isinstance(parameter, click.Argument):
            yield str(parameter.name).upper()
        else:
            value = "" if _flag(parameter) else f" {str(parameter.name).upper()}"
            shown = f"{parameter.opts[0]}{value}"
            yield shown if parameter.required else f"[{shown}]"


def _parameter(parameter: click.Parameter, meaning: str) -> str:
    named = isinstance(parameter, click.Argument)
    name = str(parameter.name).upper() if named else parameter.opts[0]
    default: Any = parameter.default
    shown = "needed" if parameter.required else "" if default is None or _flag(parameter) else f"`{default}`"
    return f"| `{name}` | {meaning} | {shown} |"


def _own(command: click.Command) -> list[click.Parameter]:
    return [parameter for parameter in command.params if parameter.name != "help"]


def _flag(parameter: click.Parameter) -> bool:
    return bool(getattr(parameter, "is_flag", False))


def board(name: str, number: str, unit: float = 1.0) -> str:
    """One number of a board of the leaderboard, methods by fleets; bold where it is what rows lead by."""
    rows = [row for row in tables.from_csv(BOARDS.read_text(encoding="utf-8")) if row.board == name]
    names = list(dict.fromkeys(row.fleet for row in rows))
    lines = [f"| method | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for block in BLOCKS:
        labels = dict.fromkeys(row.label for row in rows if row.block == block)
        lines += [f"| *{block}* |{' |' * len(names)}"] if labels else []
        for label in labels:
            own = {row.fleet: row for row in rows if row.label == label}
            cells = [_number(own[fleet], number, unit) for fleet in names]
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(row: tables.Row, number: str, unit: float) -> str:
    one = row.numbers.get(number)
    if one is None:
        return row.reason
    shown = tables.shown(Estimate(one.value / unit, one.low / unit, one.high / unit))
    return f"**{shown}**" if number in LEADING and row.leads else shown


def fleets_of(name: str) -> str:
    """All numbers of a board, a folded table per fleet."""
    rows = tables.from_csv(BOARDS.read_text(encoding="utf-8"))
    on = {row.fleet for row in rows if row.board == name}
    return "\n\n".join(
        f"<details><summary>{one.name}, all numbers</summary>{report.board_table(rows, name, one)}</details>"
        for one in fleets.grounds([], 0)
        if one.name in on
    )


def notebooks() -> str:
    """The text and the code of the example notebooks, each under a heading of its own."""
    return "\n\n".join(
        _cell(cell) for path in NOTEBOOKS for cell in json.loads(path.read_text("utf-8"))["cells"]
    )


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "code":
        return f"```python\n{source}\n```"
    return re.sub("^#", "##", source)


MADE: dict[str, Callable[[], str]] = {
    "notebooks": notebooks,
    "claims": claims,
    "options": options,
    "keys": keys,
    "commands": commands,
    "returns": lambda: board(CONTROL, tables.MEAN),
    "worst agents": lambda: board(CONTROL, tables.WORST),
    "errors": lambda: board(PREDICTION, tables.TO_AGENTS, PERCENT),
    "federated errors": lambda: board(PREDICTION, tables.TO_FEDERATED, PERCENT),
    "control fleets": lambda: fleets_of(CONTROL),
    "prediction fleets": lambda: fleets_of(PREDICTION),
}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what a page asks for in the place of its comment."""
    for name, make in MADE.items():
        mark = f"<!-- {name} -->"
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Number the paper's labels, and typeset the formulas that pymdownx.arithmatex has marked."""
    html = re.sub(_WITH_KIND, _numbered, html)
    html = re.sub(r'<span class="arithmatex">\\\((.*?)\\\)</span>', _inline, html, flags=re.DOTALL)
    return re.sub(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', _block, html, flags=re.DOTALL)


_LABEL = rf"<code>({'|'.join(printed())})</code>"
_NAME = "|".join(re.escape(name).replace(r"\ ", r"\s") for name in dict.fromkeys(printed().values()))
# With its number, as "Theorem 2 (thm)" or "Theorem 2, thm", or with no more than "Theorem".
_WITH_KIND = rf"(?:{_NAME})(?: \({_LABEL}\)|, {_LABEL})|([A-Z]\w+ )?{_LABEL}"


def _numbered(found: re.Match[str]) -> str:
    """A label with its number, linked to the paper; neither "Theorem" nor the number is said twice."""
    before, label = found[3] or "", found[1] or found[2] or found[4]
    name = printed()[label]
    before = "" if before.strip() in {name.split()[0], "Section"} else before
    return f"{before}{_linked(label, name)}"


def _code(label: str, name: str) -> str:  # noqa: ARG001
    """A label as a page has it, for `_numbered`."""
    return f"<code>{label}</code>"


def _linked(label: str, name: str) -> str:
    """What a label is in print, linked to the paper, and the label."""
    return f'<a href="{PAPER}">{name}</a> <code>{label}</code>'


def _inline(found: re.Match[str]) -> str:
    return convert(unescape(found[1].strip()))


def _block(found: re.Match[str]) -> str:
    return f'<div class="formula">{convert(unescape(found[1].strip()), display="block")}</div>'
