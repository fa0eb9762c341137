"""The Flower server app: runs the strategy in the directory that the run's configuration names."""

import fcntl
import json
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsarsa.deploy import config
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.strategy import FedSarsaStrategy

LOCK, OUTCOME, LOG = "server.lock", "outcome.json", "server.log"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train to the end, from the checkpoint if there is one; how it ended is in outcome.json."""
    home = Path(str(context.run_config["home"]))
    attempt = str(context.run_config["attempt"])
    with (home / LOCK).open("w") as lock, (home / LOG).open("a") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a server that was given up may still be on its way out

        def say(line: str) -> None:
            print(line, flush=True)
            log.write(line + "\n")
            log.flush()

        try:
            settings = config.load(Path(str(context.run_config["config"])))
            FedSarsaStrategy(settings, Ledger(settings, home), say).train(grid)
            outcome = {"attempt": attempt, "error": ""}
        except Exception as error:
            outcome = {"attempt": attempt, "error": str(error) or type(error).__name__}
            raise
        finally:
            (home / OUTCOME).write_text(json.dumps(outcome))
