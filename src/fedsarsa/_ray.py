"""Ray, which is an extra: with a clear word where it is needed and missing, and how to join a cluster."""

import logging
import os
import secrets
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ray
else:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "this needs Ray, which is not installed; install it with: pip install 'fedsarsa[ray]'"
        ) from error

__all__ = ["RETRIES", "connect", "ray", "reason"]

LOCAL = "local"
# How often work whose worker died is begun again before that is an error.
RETRIES = 3
PATIENCE = 5.0  # seconds in which a cluster's port must answer


def connect(address: str | None = None) -> None:
    """Connect this process to Ray.

    Parameters
    ----------
    address : str, optional
        "host:port" of a cluster, or "local": one on this machine that ends with the process. Unless given:
        the Ray that this process is connected to, else the cluster that RAY_ADDRESS names, else "local".
    """
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address is not None and not _is_at(here, address):
            raise ValueError(f"ray: this process is connected to {here}; expected that, got {address}")
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS") or LOCAL
    dashboard = None
    if address == LOCAL:
        dashboard = False
        if "RAY_AUTH_MODE" not in os.environ:
            # Ray listens on every interface: nobody without this token may use what is started here.
            os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)
            # Ray has read its settings when it was imported.
            ray._raylet.Config.initialize("")  # type: ignore[attr-defined]
    else:
        _knock(address)
        # At a port that answers, but not as Ray does: try once (some 40 s), not for many minutes.
        os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "1")
    try:
        ray.init(address, include_dashboard=dashboard, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(f"ray: expected a cluster at {address}, got: {reason(error)}") from None


def reason(error: BaseException) -> str:
    """The last line of what Ray says, which may begin with a traceback."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()


def _is_at(here: str, address: str) -> bool:
    """Whether the cluster at ``here`` is what ``address`` asks for; by its loopback address, too."""
    own = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    if address == LOCAL:
        return here.rpartition(":")[0] == own
    host, _, port = address.rpartition(":")
    return here == (f"{own}:{port}" if host in {"localhost", "127.0.0.1"} else address)


def _knock(address: str) -> None:
    """Say at once that nobody is at ``host:port``: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"ray: expected the address host:port of a cluster, or local, got {address}")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise ValueError(f"ray: expected a cluster at {address}, got: {error}") from None
