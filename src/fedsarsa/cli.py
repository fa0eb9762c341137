"""The command ``fedsarsa``: train, sweep, reproduce, leaderboard, theory, plan, explore and others."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedsarsa._version import __version__
from fedsarsa.deploy import commands as deploy

app = typer.Typer(
    help="Federated on-policy reinforcement learning across environments that differ.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(deploy.app, name="deploy")
app.command()(deploy.agent)
console = Console(markup=False, highlight=False, soft_wrap=True)

# What the processes of a reproduction import, the last three only when drawing begins.
BEHIND_FIGURES = (
    "fedsarsa.experiments.predictions",
    "fedsarsa.experiments.reproduction.figures",
    "matplotlib.cm",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
)

Config = Annotated[Path, typer.Argument(help="A TOML file; see the examples folder.")]
Out = Annotated[Path, typer.Option(help="Directory for the results; made if it is not there.")]
Engine = Annotated[
    str | None,
    typer.Option(help="cuda trains all cells that fit into a GPU at once; see fedsarsa engines."),
]


def _version(asked: bool) -> None:
    if asked:
        console.print(f"fedsarsa {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before any command."""


@app.command()
def train(
    config: Config,
    out: Out = Path("results"),
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override a key of CONFIG: key=value, such as algorithm.step_size=0.1."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Overwrite the training in OUT.")] = False,
    extend: Annotated[
        bool,
        typer.Option(help="Keep the checkpoint; with more steps, resume from one that --extend kept in OUT."),
    ] = False,
) -> None:
    """Train what CONFIG describes; write history.nc and a picture to OUT, and print the outcome.

    Ctrl-C saves what is done; the same command resumes from there.
    """
    import json

    from fedsarsa import _files
    from fedsarsa._interrupts import Interrupted
    from fedsarsa.algorithm import FedSARSA
    from fedsarsa.experiments import config as configs
    from fedsarsa.federation.training import NoAgentLeftError, check_records
    from fedsarsa.learning.continuous_features import BoxMap, many
    from fedsarsa.learning.tile_coding import Tiles
    from fedsarsa.methods.setting import Setting

    changes = change or []
    settings = configs.load(config, changes)
    features = None
    with configs.named_errors(config, settings):
        fleet, algo = settings.build(config.parent)
        if isinstance(algo, FedSARSA | Setting):  # do they fit together? before anything is written
            asked = settings.training
            problem = algo.problem(fleet, asked.steps, asked.runs, asked.seed)
            check_records(problem, asked.record_every)
            features = problem.features
    _files.writable_directory(out)
    checkpoint, result = out / "checkpoint.nc", out / "history.nc"
    if force:
        checkpoint.unlink(missing_ok=True)
    elif result.exists() and not extend:
        raise ValueError(
            f"{result}: already exists; choose another --out, or pass --force to retrain, or --extend to "
            "resume from the checkpoint that a training with --extend kept"
        )
    elif result.exists() and not checkpoint.exists():
        raise ValueError(
            f"{checkpoint}: expected the checkpoint that a training with --extend keeps, got none; "
            "pass --force to retrain"
        )
    console.print(str(fleet))
    tiles = features.basis if isinstance(features, BoxMap) else None
    if isinstance(tiles, Tiles) and tiles.slots:
        sharing = tiles.collisions()["sharing"]
        console.print(
            f"hashing: {sharing:.1%} of the {many(tiles.tiles)} tiles of a grid share a parameter with "
            f"others, in {tiles.slots} slots"
        )
    if checkpoint.exists():
        console.print(f"resuming from {checkpoint}")
    failure: str | None = None
    try:
        worlds: Any = fleet
        history = algo.train(worlds, **settings.training.model_dump(), progress=True, checkpoint=checkpoint)
    except NoAgentLeftError as stop:
        if stop.history is None:
            _complain(str(stop))
            raise typer.Exit(1) from None
        history, failure = stop.history, str(stop)
    except Interrupted as stop:
        console.print(f"{stop}; saved in {checkpoint}")
        set_again = [word for one in changes for word in ("--set", one)] + ["--extend"] * extend
        command = shlex.join(["fedsarsa", "train", str(config), "--out", str(out), *set_again])
        console.print(f"resume with: {command}")
        raise typer.Exit(130) from None
    # What ``play`` builds the worlds from.
    history.data.attrs |= {"config": config.read_text(), "changes": json.dumps(changes)}
    try:
        _files.write_patiently(lambda: history.save(result), console.print)
    except Interrupted:
        console.print(f"interrupted; {result} was not written, and this training is lost")
        raise typer.Exit(130) from None
    if not extend:
        checkpoint.unlink(missing_ok=True)
    console.print(history)
    for run, step in enumerate(history.failed_at.values.tolist()):
        if step >= 0:
            console.print(
                f"run {run}: parameters stopped being finite at step {step}; try a smaller step size"
            )
    if failure is None and (history.failed_at >= 0).all():
        first = int(history.failed_at[0])
        failure = f"every run failed: the parameters of run 0 stopped being finite at step {first}"
    for report in history.settings.get("stopped", []):
        console.print("run {run}: agent {agent} stopped at step {step}: {environment}".format(**report))
        console.print(report["why"])
    console.print(f"wrote {result}")
    from fedsarsa.experiments import plots, training_report

    title = f"{config.stem}: {len(fleet)} agents, {history.data.sizes['run']} runs"
    try:
        name, figure = training_report.picture(history, settings, config.parent, title)
        for path in plots.save(figure, out, name):
            console.print(f"wrote {path}")
    finally:  # also where it cannot be drawn or written
        console.print(training_report.line(history, settings, config.parent))
        if failure is not None:
            _complain(failure)
    if failure is not None:
        raise typer.Exit(1)


@app.command()
def play(
    result: Annotated[Path, typer.Argument(help="What train wrote: its directory, or the history.nc in it.")],
    gif: Annotated[Path, typer.Option(help="The film to write.")] = Path("play.gif"),
    agent: Annotated[int, typer.Option(help="In whose world to play.", min=0)] = 0,
    run: Annotated[int, typer.Option(help="Of which run to take the parameter.", min=0)] = 0,
    local: Annotated[bool, typer.Option(help="Take the agent's own parameter, not the central one.")] = False,
    softmax: Annotated[bool, typer.Option(help="Act as in training, not greedily.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the episode.", min=0)] = 0,
) -> None:
    """Film one episode of a learned policy in an agent's world (control worlds and Gymnasium)."""
    from fedsarsa.experiments import playing

    if gif.suffix.lower() != ".gif":
        raise ValueError(f"gif must be a file name that ends in .gif, got {gif}")
    film = playing.play(result, agent, run, local, softmax, seed)
    playing.write_gif(film, gif)
    console.print(f"agent {agent}: return {film.total:g} in {film.steps} steps; wrote {gif}")


@app.command()
def sweep(
    config: Config,
    out: Out = Path("results/sweep"),
    threads: Annotated[int | None, typer.Option(help="All cores unless given.", min=1)] = None,
    ray: Annotated[str | None, typer.Option(help="host:port of a Ray cluster, or local.")] = None,
    engine: Engine = None,
) -> None:
    """Train every cell of the grid in CONFIG's sweep section; keep each in a file of its own in OUT.

    Ctrl-C, or a crash, loses no finished cell; the same command trains the rest.
    """
    from fedsarsa._interrupts import Interrupted
    from fedsarsa.experiments import grid, plots, summary, sweep_figure
    from fedsarsa.experiments import sweep as sweeps
    from fedsarsa.experiments.progress_bars import sweep_bar

    if ray is not None and threads is not None:
        raise ValueError(f"threads: expected none with --ray, where every cell has one core, got {threads}")
    with sweeps.opened(grid.load(config, engine), out, say=console.print) as work:
        try:
            with sweep_bar(work) as report:
                if ray is not None:
                    from fedsarsa.experiments import cluster

                    cluster.train(work, ray, report)
                    report = sweeps.silent  # every cell is there, and was counted
                outcomes = sweeps.run(work, summary.outcome(work), threads, report)
        except Interrupted:
            given = {"--ray": ray, "--engine": engine}
            where = [word for name, value in given.items() if value is not None for word in (name, value)]
            command = shlex.join(["fedsarsa", "sweep", str(config), "--out", str(out), *where])
            console.print(f"interrupted; resume with: {command}")
            raise typer.Exit(130) from None
        said = summary.meanings([cell.config for cell in work.grid.cells], outcomes)
        console.print(summary.table(summary.rows(work, outcomes), said))
        written = summary.write(summary.records(work, outcomes), out)
        console.print(f"wrote {written}, and a history per cell")
        figure = sweep_figure.figure(work.grid, outcomes, f"{config.stem}: mean over runs, 95% intervals")
        if isinstance(figure, str):
            console.print(f"no figure: {figure}")
            return
        for path in plots.save(figure, out, "summary"):
            console.print(f"wrote {path}")


@app.command()
def reproduce(
    out: Out = Path("results/published"),
    quick: Annotated[bool, typer.Option(help="Fewer sizes, levels and runs: a first look.")] = False,
    figure: Annotated[list[str] | None, typer.Option(help="Only this figure; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of worlds and runs.", min=0)] = 0,
    engine: Engine = None,
) -> None:
    """Make every figure of the paper from nothing, test every claim, and write a report.

    Ctrl-C, or a crash, loses no finished cell; the same command trains the rest.
    """
    from fedsarsa.experiments import workers

    workers.prepare(*BEHIND_FIGURES)
    from fedsarsa.experiments.reproduction import settings
    from fedsarsa.experiments.reproduction.run import reproduce as make

    scale = settings.QUICK if quick else settings.FULL
    try:
        outcome = make(out, scale, seed, figure or [], console.print, engine or "auto")
    except KeyboardInterrupt:
        console.print("interrupted; the same command resumes from here")
        raise typer.Exit(130) from None
    if outcome.claims:
        table = Table("claim", "measured", "verdict", title="Claims of the paper", title_justify="left")
        for claim in outcome.claims:
            table.add_row(claim.claim, str(claim.measured), claim.verdict)
        console.print(table)
    for path in outcome.written:
        console.print(f"wrote {path}")


@app.command()
def leaderboard(
    out: Out = Path("results/leaderboard"),
    quick: Annotated[bool, typer.Option(help="Three fleets, few samples and runs: a first look.")] = False,
    fleet: Annotated[list[str] | None, typer.Option(help="Only this fleet; repeatable.")] = None,
    add: Annotated[
        list[str] | None, typer.Option(help="A method of yours, module:Method; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of worlds and runs.", min=0)] = 0,
    engine: Engine = None,
) -> None:
    """Train all methods on the same fleets, measure them exactly, and write tables, figures and a report.

    Ctrl-C, or a crash, loses no finished cell; the same command trains the rest.
    """
    from fedsarsa.experiments import workers

    workers.prepare("fedsarsa.experiments.leaderboard.run")
    from fedsarsa.experiments.leaderboard import run, scale, tables

    names = fleet or (scale.QUICK_FLEETS if quick else [])
    size = scale.QUICK if quick else scale.FULL
    try:
        outcome = run.leaderboard(out, size, seed, names, add or [], console.print, engine or run.AUTO)
    except KeyboardInterrupt:
        console.print("interrupted; the same command resumes from here")
        raise typer.Exit(130) from None
    for board, name in dict.fromkeys((row.board, row.fleet) for row in outcome.rows):
        console.print(tables.table(outcome.rows, board, name))
    for path in outcome.written:
        console.print(f"wrote {path}")
    failed = dict.fromkeys(row.label for row in outcome.rows if row.error)
    if failed:
        console.print(f"failed, as the tables say: {', '.join(failed)}")
        raise typer.Exit(1)


@app.command("theory")
def show_theory(config: Config) -> None:
    """Print what is known before training: assumptions, constants, bounds and the error to expect."""
    from fedsarsa.experiments import config as configs
    from fedsarsa.experiments import theory_report
    from fedsarsa.experiments.method_sections import ours

    settings = configs.load(config)
    with configs.named_errors(config, settings):
        fleet, algo = settings.build(config.parent)
        theory_report.show(console, configs.finite(fleet), ours(algo, "theory"), settings.training.steps)


@app.command()
def plan(
    config: Config,
    target: Annotated[float | None, typer.Option(help="Mean squared error to reach.")] = None,
    gap: Annotated[
        float | None, typer.Option(help="Return gap to the optimum to reach, instead of an error.")
    ] = None,
    sync_every: Annotated[list[int] | None, typer.Option(help="Only consider this K; repeatable.")] = None,
) -> None:
    """Print the N, K and step size that reach an error or a return gap, and who gains by federating."""
    from fedsarsa import theory
    from fedsarsa.experiments import config as configs
    from fedsarsa.experiments.method_sections import ours
    from fedsarsa.theory.planning import PERIODS

    if (target is None) == (gap is None):
        got = "neither" if target is None else "both"
        raise ValueError(f"expected either --target or --gap, got {got}")
    settings = configs.load(config)
    with configs.named_errors(config, settings):
        built, algo = settings.build(config.parent)
        fleet, checked = configs.finite(built), ours(algo, "a plan")
    answer = theory.plan(fleet, checked, target, gap=gap, periods=sync_every or PERIODS)
    console.print(str(answer))


@app.command()
def explore(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[CONFIG | RESULTS | LINK]",
            help="A TOML file, the name of one in examples, a folder of results, or an address of the page.",
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Argument(metavar="[LINK]", help="An address that was made with this file or folder."),
    ] = None,
    port: Annotated[int, typer.Option(help="Any that is free unless given.", min=0, max=65535)] = 0,
    host: Annotated[str, typer.Option(help="Listen there, for others to see the page.")] = "127.0.0.1",
) -> None:
    """Open a page on which sliders rerun a federation; the published setting unless CONFIG is given."""
    import gc

    from fedsarsa.explore import jobs

    jobs.prepare()  # on another core, while this process imports what the page needs
    gc.disable()  # what is imported stays: looking through it for garbage takes a quarter of a second
    from fedsarsa.explore import opening

    opening.explore(what, link, host, port, console.print)


@app.command()
def engines() -> None:
    """List the engines: what they train, and why one does not work here."""
    from fedsarsa.engines import ENGINES

    table = Table("engine", "trains", "what it is", "here")
    for name, entry in ENGINES.items():
        worlds = ", ".join(kind.__name__ for kind in entry.worlds)
        table.add_row(name, worlds, entry.about, entry.missing or "yes")
    console.print(table)


@app.command()
def bench(
    quick: Annotated[bool, typer.Option(help="A tenth of the work, for a first look.")] = False,
    part: Annotated[
        list[str] | None,
        typer.Option(
            help="foundation, methods, theory, predictions, control, reproduction, deploy, page, gpu; all "
            "unless given."
        ),
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="Only the GPU, beside the CPU and JAX.")] = False,
) -> None:
    """Measure speed and memory beside a plain NumPy loop, and how far predictions hold, in one run."""
    from fedsarsa_benchmarks.report import report

    if gpu:
        from fedsarsa.engines import working

        working("cuda")
    report(console, quick, [*(part or ()), *(["gpu"] if gpu else [])])


def _complain(message: str) -> None:
    """Print what went wrong on standard error."""
    errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    errors.print(f"fedsarsa: {message}", style="red")


def main() -> None:
    """Run the command; mistakes in the input end with one message and exit code 2.

    FEDSARSA_TRACEBACK=1 shows where an error came from.
    """
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:  # ImportError: an extra is not installed
        if os.environ.get("FEDSARSA_TRACEBACK"):
            raise
        _complain(" ".join([str(error), *getattr(error, "__notes__", [])]))
        raise SystemExit(2) from None
