"""The server of the page: on loopback unless told otherwise, under an address that cannot be guessed."""

import ipaddress
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import panel as pn

from fedsarsa.explore import page
from fedsarsa.explore.control_values import Base, base_of, control_base
from fedsarsa.explore.control_view import ControlView
from fedsarsa.explore.federation_view import FederationView
from fedsarsa.explore.plan_view import PlanView
from fedsarsa.explore.session import Session

if TYPE_CHECKING:
    from fedsarsa.explore.results import AnyResults

LOOPBACK = "127.0.0.1"
ANYWHERE = ("0.0.0.0", "::")
TOKEN_BYTES = 16
VIEWS: dict[str, Callable[..., Any]] = {
    "federation": FederationView,
    "plan": PlanView,
    "control": ControlView,
}


@dataclass(frozen=True, eq=False)
class Opened:
    """A server that listens: its address, and how to end it."""

    address: str
    server: Any

    def serve(self) -> None:
        """Answer until Ctrl-C."""
        self.server.start()
        self.server.io_loop.start()


def open_page(
    base: Base,
    view: str = "federation",
    query: str = "",
    port: int = 0,
    results: "AnyResults | None" = None,
    host: str = LOOPBACK,
) -> Opened:
    """Listen on ``host``; a page is only there for those who know its address.

    Parameters
    ----------
    base : Base
        What the controls change.
    view : str
        The view that the address opens.
    query : str
        Settings of that view, as addresses hold them.
    port : int
        Any that is free unless given.
    results : Results, optional
        A folder to look at.
    host : str
        An address of this machine, 0.0.0.0 for all of them.

    Raises
    ------
    ValueError
        There is no such view.
    """
    views = dict(VIEWS)
    if results is not None:
        views["results"] = _of_results(results)
    if view not in views:
        raise ValueError(f"view must be one of {', '.join(views)}, got {view!r}")
    pn.extension(raw_css=[page.STYLE], sizing_mode=None, notifications=False)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    control = base.content["fleet"].get("kind") == "control"
    bases = {"control": base if control else control_base()}  # of others: the one that is of their worlds
    others = base_of() if control else base
    made = {name: _page(make, bases.get(name, others), name, list(views)) for name, make in views.items()}
    server = pn.serve(
        made,
        port=port,
        address=host,
        # Elsewhere than on loopback the page has names that only its users know; its address stays a secret.
        websocket_origin=None if on_loopback(host) else "*",
        prefix=token,
        title={name: f"{name.capitalize()} · fedsarsa explore" for name in made},
        show=False,
        start=False,
        verbose=False,
        use_index=False,
        ico_path="none",
        # Lost sessions end soon: their threads should not wait for a tab that is closed.
        unused_session_lifetime=15_000,
        check_unused_sessions=5_000,
    )
    seen = socket.gethostname() if host in ANYWHERE else f"[{host}]" if ":" in host else host
    return Opened(f"http://{seen}:{server.port}/{token}/{view}{query}", server)


def on_loopback(host: str) -> bool:
    """Whether only this machine can reach a host's address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return host == "localhost"


def serve(
    base: Base,
    view: str,
    query: str,
    host: str,
    port: int,
    results: "AnyResults | None",
    say: Callable[[str], None],
) -> None:
    """Serve the page and open it in the browser, until Ctrl-C."""
    opened = open_page(base, view, query, port, results, host)
    if not on_loopback(host):
        say(
            f"warning: host {host} is not loopback: whoever can reach it and has the address sees the page, "
            "trains on this machine, and nothing on the way is encrypted"
        )
    say(f"the page is at {opened.address}")
    say("Ctrl-C ends it")
    threading.Thread(target=webbrowser.open, args=(opened.address,), daemon=True).start()
    try:
        opened.serve()
    except KeyboardInterrupt:
        say("ended")


def _of_results(results: "AnyResults") -> Callable[..., Any]:
    """A view of one folder, made as the others are; what it needs is imported where there is a folder."""
    from fedsarsa.explore.leaderboard_view import LeaderboardView
    from fedsarsa.explore.results import Results
    from fedsarsa.explore.results_view import ResultsView

    def make(_: Base, query: str, session: Session) -> Any:
        if isinstance(results, Results):
            return ResultsView(results, query, session)
        return LeaderboardView(results, query, session)

    return make


def _page(view: Callable[..., Any], base: Base, name: str, views: list[str]) -> Callable[[], Any]:
    """A function that makes the page of one tab."""

    def make() -> Any:
        given = pn.state.location.search if pn.state.location is not None else ""
        return view(base, given, Session(name, views)).layout

    return make
