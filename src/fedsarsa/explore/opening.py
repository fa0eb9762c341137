"""What ``fedsarsa explore`` opens: a configuration, an example, a folder of results, or an address."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fedsarsa.experiments import config as configs
from fedsarsa.explore.control_values import Base, base_of

if TYPE_CHECKING:
    from fedsarsa.explore.results import AnyResults

EXAMPLES = Path("examples")


def explore(what: str | None, port: int, say: Callable[[str], None]) -> None:
    """Serve the page for what was asked for, until Ctrl-C; what is imported by then is never garbage.

    Raises
    ------
    ValueError
        The configuration is wrong, or of Gymnasium environments; or a folder holds no results.
    ImportError
        The extra ``explore`` is not installed.
    """
    try:
        base, view, query, results = asked(what)
        server = _server()
    finally:
        gc.freeze()
        gc.enable()
    server.serve(base, view, query, port, results, say)


def _server() -> Any:
    try:
        from fedsarsa.explore import server
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed; pip install 'fedsarsa[explore]'") from None
    return server


def asked(what: str | None) -> tuple[Base, str, str, "AnyResults | None"]:
    """The base, the view, its query and the folder of results that an argument of the command stands for."""
    if what is None:
        return base_of(), "federation", "", None
    if what.startswith(("http://", "https://")):
        link = urlsplit(what)
        return base_of(), link.path.rpartition("/")[2] or "federation", f"?{link.query}", None
    path = Path(what)
    if path.is_dir():
        from fedsarsa.explore import results

        return base_of(), "results", "", results.of_folder(path)
    example = EXAMPLES / f"{what}.toml"
    if not path.exists() and example.exists():
        path = example
    config = configs.load(path)
    if config.fleet.kind == "gym":
        raise ValueError(f"{path}: fleet.kind: expected finite or control worlds to explore, got 'gym'")
    view = "control" if config.fleet.kind == "control" else "federation"
    return base_of(config, path.parent), view, "", None
