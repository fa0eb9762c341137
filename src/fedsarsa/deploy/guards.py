"""Flower's SuperLink and SuperNode with a lock on the doors that Flower leaves open.

Without accounts, Flower lets whoever reaches the SuperLink's port submit apps, which nodes then run. So

- this SuperLink takes orders (the Control and Runtime interfaces) from its own machine alone; from others
  it answers SuperNodes and nobody else;
- this SuperNode runs the app of the installed fedsarsa and no other code, whatever it is sent.

    python -m fedsarsa.deploy.guards superlink ARGUMENTS
    python -m fedsarsa.deploy.guards supernode ARGUMENTS
"""

import ipaddress
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

FLEET = "/v1/fleet/"

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class FleetOnly:
    """Web middleware: from other machines, nothing but the interface for SuperNodes."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan" or from_here(scope) or scope["path"].startswith(FLEET):
            await self.app(scope, receive, send)
            return
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"orders are taken on this machine alone"})


def from_here(scope: Scope) -> bool:
    """Whether a request comes from the machine itself: over loopback, or from the address it went to."""
    client, server = scope.get("client") or ("",), scope.get("server") or (None,)
    try:
        return ipaddress.ip_address(client[0]).is_loopback or client[0] == server[0]
    except ValueError:
        return False


def superlink() -> None:
    """Run ``flower-superlink``, guarded."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    others = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(FleetOnly), *others())
    flower_superlink()


def supernode() -> None:
    """Run ``flower-supernode``, guarded."""
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import start_client_internal as inside
    from flwr.supernode.cli import flower_supernode

    from fedsarsa.deploy import app

    pull = inside._pull_and_store_message

    def guarded(*, get_fab: Callable[[str, int], Any], **rest: Any) -> int | None:
        def only_ours(digest: str, run: int) -> Any:
            bundle = get_fab(digest, run)
            if app.is_ours(bundle.content):
                return bundle
            print("fedsarsa: refused to run an app that is not this version of fedsarsa's", file=sys.stderr)
            raise RunNotRunningException  # Flower's word for: leave this message alone

        return pull(get_fab=only_ours, **rest)

    inside._pull_and_store_message = guarded  # type: ignore[assignment]
    flower_supernode()


def main() -> None:
    """Take the first argument for the part to run."""
    part = sys.argv.pop(1)
    {"superlink": superlink, "supernode": supernode}[part]()


if __name__ == "__main__":
    main()
