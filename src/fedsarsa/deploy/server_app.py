"""The Flower server app: runs the strategy in the directory that the run's configuration names."""

import fcntl
import json
import os
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsarsa import _files
from fedsarsa.deploy import config, exchange
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.strategy import BRIDGE_SHARE, FedSarsaStrategy

LOCK, OUTCOME, LOG = "server.lock", "outcome.json", "server.log"

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train to the end, from the checkpoint if there is one; how it ended is in outcome.json."""
    home = Path(str(context.run_config["home"]))
    # Null until training returned, then empty or a sentence: Flower may stop this process at any time.
    outcome: dict[str, str | None] = {"attempt": str(context.run_config["attempt"]), "error": None}
    with (home / LOCK).open("w") as lock, (home / LOG).open("a") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a server that was given up may still be on its way out
        lock.write(str(os.getpid()))
        lock.flush()

        def say(line: str) -> None:
            print(line, flush=True)
            log.write(line + "\n")
            log.flush()

        try:
            settings = config.load(Path(str(context.run_config["config"])))
            exchange.limit_uploads((1 - BRIDGE_SHARE) * settings.server.deadline)
            FedSarsaStrategy(
                settings, Ledger(settings, home), say, _keys(str(context.run_config["keys"]))
            ).train(grid)
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


class Log:
    """What the server app says from now on, for whoever watches it."""

    def __init__(self, home: Path) -> None:
        self.path = home / LOG
        self.at = self.path.stat().st_size if self.path.exists() else 0

    def news(self) -> list[str]:
        """The whole lines said since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.at)
            said = file.read()
        whole = said[: said.rfind(b"\n") + 1]
        self.at += len(whole)
        return whole.decode(errors="replace").splitlines()


def _keys(path: str) -> dict[int, int] | None:
    """Which agent's key each node has; None without node keys."""
    if not path:
        return None
    return {entry["node"]: int(number) for number, entry in json.loads(Path(path).read_text()).items()}
