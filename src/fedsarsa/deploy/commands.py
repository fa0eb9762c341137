"""The commands ``fedsarsa agent`` and ``fedsarsa deploy ...``."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fedsarsa.deploy import logs

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
keys = typer.Typer(help="Make certificates and node keys.", no_args_is_help=True)
app.add_typer(keys, name="keys")

Config = Annotated[Path, typer.Argument(help="A TOML file; see docs/deploy.md.")]
Home = Annotated[Path, typer.Option(help="Directory for keys and state, for its owner alone.")]
Insecure = Annotated[bool, typer.Option("--insecure", help="No TLS, no node keys; on loopback alone.")]


@app.command()
def agent(
    config: Config,
    number: Annotated[int, typer.Option(help="Which agent this is, counted from 0.", min=0)],
    home: Home,
) -> None:
    """Hold the world and learner of one agent, and answer the SuperNode beside it."""
    from fedsarsa.deploy import agent as agents
    from fedsarsa.deploy.federation_config import load

    logs.configure(logs.Console())
    agents.serve(load(config), number, home)


@keys.command("server")
def server_keys(
    home: Home,
    host: Annotated[
        list[str],
        typer.Option(help="Name or address that nodes use; may be given again. Those of before stay."),
    ],
    days: Annotated[int, typer.Option(help="How long the certificate is valid.", min=1, max=36_500)] = 365,
) -> None:
    """Make the server's certificate, and the authority that nodes must know."""
    from fedsarsa.deploy import files
    from fedsarsa.deploy import keys as makers

    home = files.private_directory(home)
    names = makers.make_server(home, host, days)
    (home / "nodes").mkdir(mode=0o700, exist_ok=True)
    logs.put(f"{home / 'server.crt'} is for {', '.join(names)}")
    logs.put(
        f"give {home / 'ca.crt'} to every node; keep their public keys as {home / 'nodes'}/0.pub, 1.pub, ..."
    )


@keys.command("node")
def node_keys(home: Home) -> None:
    """Make a node's key pair."""
    from fedsarsa.deploy import files
    from fedsarsa.deploy import keys as makers

    public = makers.make_node(files.private_directory(home))
    logs.put(f"give {public} to the server, which keeps it as nodes/NUMBER.pub")


@app.command()
def server(
    config: Config,
    home: Home,
    address: Annotated[str, typer.Option(help="HOST:PORT to listen on.")] = "127.0.0.1:8000",
    insecure: Insecure = False,
) -> None:
    """Run the SuperLink and train the federation, from its checkpoint if there is one."""
    from fedsarsa.deploy import addresses, server_process

    _in_one_sentence(lambda: server_process.serve(config, home, *addresses.parse(address), insecure))


@app.command()
def node(
    superlink: Annotated[str, typer.Option(help="HOST:PORT of the SuperLink.")],
    home: Home,
    agent: Annotated[
        Path | None, typer.Option(help="The agent's socket; HOME/agent.sock unless given.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port on loopback for the node's own parts.", min=1, max=65_535)
    ] = None,
    insecure: Insecure = False,
    poll: Annotated[
        float,
        typer.Option(
            help="Seconds between looks for work; more if many nodes share cores.", min=0.01, max=60
        ),
    ] = 0.2,
) -> None:
    """Join a federation: run the SuperNode of the agent on this machine."""
    from fedsarsa.deploy import node as nodes

    _in_one_sentence(lambda: nodes.join(superlink, home, agent, port, insecure, poll))


@app.command()
def demo(
    rounds: Annotated[int, typer.Option(help="Rounds to train.", min=1)] = 10,
    home: Annotated[
        Path | None, typer.Option(help="Directory to keep; a temporary one unless given.")
    ] = None,
    agents: Annotated[int, typer.Option(help="Agents, each with a SuperNode.", min=2, max=500)] = 3,
) -> None:
    """Run a whole federation on this machine: TLS, a SuperLink, and a SuperNode for every agent."""
    from fedsarsa.deploy import demo as demos

    _in_one_sentence(lambda: demos.run(rounds, home, agents))


@app.command()
def status(home: Home) -> None:
    """Show where the federation of a server's directory stands."""
    from fedsarsa.deploy import table

    table.status(home)


@app.callback()
def _needs_flower() -> None:
    """Run a federation over real machines."""
    from importlib.util import find_spec

    if find_spec("flwr") is None:
        raise ValueError("fedsarsa deploy needs Flower: pip install 'fedsarsa[flower]'")


def _in_one_sentence(work: Callable[[], None]) -> None:
    """Do the work; what goes wrong is said in a sentence, and Ctrl-C or SIGTERM is no error."""
    logs.configure(logs.Console())
    os.environ["no_proxy"] = "*"  # the parts of a deployment call each other directly
    try:
        work()
    except RuntimeError as error:
        if os.environ.get("FEDSARSA_TRACEBACK"):
            raise
        raise ValueError(str(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
