"""What ``fedsarsa explore`` opens: a configuration, an example, a folder of results, or an address."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import fedsarsa
from fedsarsa.experiments import config as configs
from fedsarsa.explore.control_values import FILE, Base, base_of, wrong_file

if TYPE_CHECKING:
    from fedsarsa.explore.results import AnyResults

# Beside the package's own modules, or in a checkout, of which an installation may be a link.
EXAMPLES = (Path(fedsarsa.__file__).parent / "examples", Path(fedsarsa.__file__).parents[2] / "examples")
NAMES = "acrobot alike cart-pole federated-td frozen-lake methods mountain-car pendulum published q-learning"


def explore(what: str | None, link: str | None, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve the page for what was asked for, until Ctrl-C; what is imported by then is never garbage.

    Raises
    ------
    ValueError
        The configuration is wrong, or of Gymnasium environments; a folder holds no results; or the address
        was made with another file or folder.
    ImportError
        The extra ``explore`` is not installed.
    """
    try:
        base, view, query, results = asked(what, link)
        server = _server()
    finally:
        gc.freeze()
        gc.enable()
    server.serve(base, view, query, host, port, results, say)


def _server() -> Any:
    try:
        from fedsarsa.explore import server
    except ModuleNotFoundError as error:
        raise ImportError(f"{error.name} is not installed; pip install 'fedsarsa[explore]'") from None
    return server


def asked(what: str | None, link: str | None = None) -> tuple[Base, str, str, "AnyResults | None"]:
    """The base, the view, its query and the folder of results that arguments of the command stand for."""
    if link is None and what is not None and _is_link(what):
        what, link = None, what
    base, view, results = _opened(what)
    if link is None:
        return base, view, "", results
    if not _is_link(link):
        raise ValueError(f"link: expected an address of the page such as 'http://...', got {link!r}")
    parts = urlsplit(link)
    view = parts.path.rpartition("/")[2] or view
    if view == "results" and results is None:
        raise ValueError("link: expected the folder of its results: fedsarsa explore RESULTS 'http://...'")
    file = dict(parse_qsl(parts.query)).get(FILE, base.name)
    if file != base.name:
        raise ValueError(wrong_file(file, base.name))
    return base, view, f"?{parts.query}", results


def _is_link(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _opened(what: str | None) -> tuple[Base, str, "AnyResults | None"]:
    """The base, the first view and the folder of results of a file, an example or a folder."""
    if what is None:
        return base_of(), "federation", None
    path = Path(what)
    if path.is_dir():
        from fedsarsa.explore import results

        return base_of(), "results", results.of_folder(path)
    if not path.exists() and path.name == what and not path.suffix:
        path = _example(what)
    config = configs.load(path)
    if config.fleet.kind == "gym":
        raise ValueError(f"{path}: fleet.kind: expected finite or control worlds to explore, got 'gym'")
    view = "control" if config.fleet.kind == "control" else "federation"
    return base_of(config, path.parent, path.name), view, None


def _example(name: str) -> Path:
    """The file of an example."""
    for folder in EXAMPLES:
        if (folder / f"{name}.toml").exists():
            return folder / f"{name}.toml"
    raise ValueError(
        f"{name}: expected a configuration, a folder of results, or an example ({', '.join(NAMES.split())})"
    )
