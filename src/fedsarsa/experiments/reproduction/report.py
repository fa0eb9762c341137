"""The report: one HTML file that needs nothing else: figures, claims, settings and the code behind them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import ModuleType

from fedsarsa._version import __version__
from fedsarsa.experiments import html_report
from fedsarsa.experiments.paper_labels import in_print
from fedsarsa.experiments.reproduction import claims as table
from fedsarsa.experiments.reproduction import (
    collaboration_claims,
    data,
    figure_claims,
    settings,
    theory_claims,
)
from fedsarsa.experiments.reproduction.claim import CLASSES, FAILS, HOLDS, OPEN, PARTLY, UNCLEAR, Claim
from fedsarsa.experiments.reproduction.figures import Drawing
from fedsarsa.experiments.reproduction.settings import Scale

SIGNS = {UNCLEAR: "?", HOLDS: "&#10003;", PARTLY: "&#9680;", FAILS: "&#10007;", OPEN: "&#8211;"}


def page(
    folder: Path,
    drawings: Mapping[str, Drawing],
    claims: Sequence[Claim],
    scale: Scale,
    seed: int,
    seconds: float,
    resumed: bool,
) -> str:
    """The whole report; pictures are read from ``folder``, which may have held results before."""
    totals = {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in SIGNS}
    counts = ", ".join(f"{verdict}: {count}" for verdict, count in totals.items() if count)
    training = (settings.sweeps, data.compute)
    modules = (theory_claims, collaboration_claims, figure_claims)
    judging = (table.claims, *(function for module in modules for function in _functions(module)))
    origin = "with what an earlier run had left, " if resumed else "from nothing "
    code: dict[str, Callable[..., object]] = {}
    sections = [section(name, drawing, folder, code) for name, drawing in drawings.items()]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>FedSARSA, reproduced</title>
<link rel="icon" href="data:,"><style>{html_report.STYLE}</style></head><body>
<h1>FedSARSA, reproduced</h1>
<p>Every simulation figure and every claim of <em>Finite-Time Analysis of On-Policy Heterogeneous Federated
Reinforcement Learning</em> (Zhang, Wang, Mitra and Anderson, ICLR 2024), computed {origin}by fedsarsa
{escape(__version__)} in {seconds:.0f} seconds. Claims by verdict: {escape(counts)}.</p>
<h2 id="claims">Claims</h2>
{claims_table(claims, drawings)}
<p>Intervals are 95% confidence intervals over runs; numbers without one are exact. {links(judging, code)}</p>
<h2 id="figures">Figures</h2>
{"".join(sections)}
<h2 id="settings">Settings</h2>
{html_report.settings_table(scale, seed, seconds)}
<p>Everything else is the published setting, which is the package's default. {links(training, code)}</p>
<h2 id="code">The code behind it</h2>
{listings(code)}
</body></html>
"""


def claims_table(claims: Sequence[Claim], drawings: Mapping[str, Drawing]) -> str:
    """One row per claim; figures are links."""
    rows = []
    for claim in claims:
        shown = claim.figure in drawings
        figure = f'<a href="#figure-{claim.figure}">{escape(claim.figure)}</a>' if shown else ""
        rows.append(
            f"<tr><td>{escape(claim.claim)}<br><small>{escape(in_print(claim.where))}</small></td>"
            f"<td>{escape(claim.quantity)}<br><small>{escape(claim.detail)}</small></td>"
            f'<td class="number">{escape(str(claim.measured))}</td>'
            f'<td class="{CLASSES[claim.verdict]}">{SIGNS[claim.verdict]} {escape(claim.verdict)}</td>'
            f"<td>{figure}</td></tr>"
        )
    heads = "".join(f"<th>{name}</th>" for name in ("claim", "tested by", "measured", "verdict", "figure"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def section(name: str, drawing: Drawing, folder: Path, code: dict[str, Callable[..., object]]) -> str:
    """A figure with what it shows and links to the code that drew it."""
    caption = f"{escape(drawing.text)} {links(drawing.code, code)}"
    picture = html_report.picture(folder / f"{name}.png", drawing.title, caption)
    return f'<section><h3 id="figure-{name}">{escape(drawing.title)}</h3>{picture}</section>\n'


def links(functions: Sequence[Callable[..., object]], code: dict[str, Callable[..., object]]) -> str:
    """Links to the listings of some functions, which are noted in ``code``."""
    names = [f"{function.__module__}.{function.__qualname__}" for function in functions]
    code.update(zip(names, functions, strict=True))
    listed = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)
    return f'<span class="code">Code: {listed}.</span>'


def listings(code: Mapping[str, Callable[..., object]]) -> str:
    """The source of every function that a section links to."""
    return "".join(
        f'<h3 id="{escape(name)}">{escape(name)}</h3><pre>{escape(inspect.getsource(function))}</pre>'
        for name, function in code.items()
    )


def _functions(module: ModuleType) -> list[Callable[..., object]]:
    """The public functions of a module, in their order."""
    return [
        one
        for name, one in vars(module).items()
        if inspect.isfunction(one) and one.__module__ == module.__name__ and not name.startswith("_")
    ]
