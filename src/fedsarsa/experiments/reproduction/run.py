"""One command: train, predict, draw, judge and report."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fedsarsa import _files
from fedsarsa._version import __version__
from fedsarsa.engines.compiled import available_cores
from fedsarsa.experiments import store
from fedsarsa.experiments.reproduction import data as trained
from fedsarsa.experiments.reproduction import figures, report
from fedsarsa.experiments.reproduction.claim import Claim
from fedsarsa.experiments.reproduction.claims import claims, to_csv
from fedsarsa.experiments.reproduction.exact import exact
from fedsarsa.experiments.reproduction.settings import Scale
from fedsarsa.experiments.workers import processes

DATASET = "dataset.nc"
CLAIMS = "claims.csv"
REPORT = "report.html"


@dataclass(frozen=True)
class Outcome:
    """What a reproduction wrote, and the claims it judged (none if only some figures were asked for)."""

    written: list[Path]
    claims: list[Claim]


def reproduce(
    out: Path,
    scale: Scale,
    seed: int,
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
    engine: str = "auto",
) -> Outcome:
    """Make the figures of these ``names``, or all of them with the dataset, the claims and the report.

    What ``out`` already holds of the same scale, seed and ``engine`` of the sweeps is not computed again.

    Parameters
    ----------
    out : Path
        The folder. What it already holds of the same scale, seed and engine is not computed again.
    scale : Scale
        How much is trained.
    seed : int
        Of worlds and runs.
    names : sequence of str
        Figures to make; all of them unless given.
    say : callable
        What prints a line.
    engine : str
        Trains the sweeps.

    Returns
    -------
    Outcome
        The files that were ``written``, and the ``claims``.

    Raises
    ------
    ValueError
        A figure is unknown, or ``out`` holds something else.

    Examples
    --------
    As ``fedsarsa reproduce --quick`` does:

    >>> from pathlib import Path
    >>> from fedsarsa.experiments.reproduction import run, settings
    >>> outcome = run.reproduce(Path("results/quick"), settings.QUICK, seed=0)  # doctest: +SKIP
    """
    begun = time.perf_counter()
    wanted = figures.chosen(scale, names)
    resumed = (out / store.MANIFEST).exists()
    identity = {"fedsarsa": __version__, "seed": seed, "scale": json.loads(json.dumps(asdict(scale)))}
    with store.opened(out, identity, say), processes(available_cores()) as pool:
        facts = [] if names else [pool.submit(exact, level, scale.small_team, seed) for level in scale.levels]
        parts = {part for drawing in wanted.values() for part in drawing.needs}
        data = trained.compute(out, scale, seed, parts, pool, say, engine)
        drawn = [
            pool.submit(figures.save, name, drawing, {part: data[part] for part in drawing.needs}, out)
            for name, drawing in wanted.items()
        ]
        if not names:
            trained.write(data, scale, seed, out / DATASET)
            judged = claims(data, [fact.result() for fact in facts], scale)
            _files.write_text(to_csv(judged), out / CLAIMS)
        for figure in drawn:
            figure.result()
    written = [out / f"{name}.png" for name in wanted]
    if names:
        return Outcome(written, [])
    seconds = time.perf_counter() - begun
    _files.write_text(report.page(out, wanted, judged, scale, seed, seconds, resumed), out / REPORT)
    return Outcome([out / REPORT, out / CLAIMS, out / DATASET, *written], judged)
