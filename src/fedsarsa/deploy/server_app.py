"""The Flower server app: runs the rounds in the directory that the run's configuration names."""

import fcntl
import json
import logging
import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsarsa import _files
from fedsarsa.deploy import exchange, federation_config, logs
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.round_loop import RoundLoop

LOCK, OUTCOME, LOG = "server.lock", "outcome.json", "server.log"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train to the end, from the checkpoint if there is one; how it ended is in outcome.json."""
    home = Path(str(context.run_config["home"]))
    # Null until training returned, then empty or a sentence: Flower may stop this process at any time.
    outcome: dict[str, str | None] = {"attempt": str(context.run_config["attempt"]), "error": None}
    with (home / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a server that was given up may still be on its way out
        lock.write(str(os.getpid()))
        lock.flush()
        logs.configure(logging.FileHandler(home / LOG))
        try:
            settings = federation_config.load(Path(str(context.run_config["config"])))
            exchange.limit_uploads(settings.deadline.upload)
            RoundLoop(settings, Ledger(settings, home), _keys(str(context.run_config["keys"]))).train(grid)
            outcome["error"] = ""
        except Exception as error:
            outcome["error"] = _sentence(error)
            raise
        finally:
            with _files.replacing(home / OUTCOME) as temporary:
                temporary.write_text(json.dumps(outcome))


def _sentence(error: Exception) -> str:
    """What an error says; of others than those that we and the system make, what kind they are as well."""
    kind, said = type(error).__name__, str(error)
    if isinstance(error, ValueError | RuntimeError | OSError):
        return said or kind
    return f"{kind}: {said}"


def _keys(path: str) -> dict[int, int] | None:
    """Which agent's key each node has; None without node keys."""
    if not path:
        return None
    return {entry["node"]: int(number) for number, entry in json.loads(Path(path).read_text()).items()}
