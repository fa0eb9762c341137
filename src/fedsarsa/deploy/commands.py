"""The commands ``fedsarsa agent`` and ``fedsarsa deploy ...``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Run a federation over real machines.", no_args_is_help=True, pretty_exceptions_enable=False
)

Config = Annotated[Path, typer.Argument(help="A TOML file; see docs/deploy.md.")]
Home = Annotated[Path, typer.Option(help="Directory for keys and state, for its owner alone.")]


def say(line: str) -> None:
    """Print at once: others wait for these lines."""
    print(line, flush=True)


@app.command()
def agent(
    config: Config,
    number: Annotated[int, typer.Option(help="Which agent this is, counted from 0.", min=0)],
    home: Home,
) -> None:
    """Hold the world and learner of one agent, and answer the SuperNode beside it."""
    from fedsarsa.deploy import agent as agents
    from fedsarsa.deploy.config import load

    agents.serve(load(config), number, home, say)
