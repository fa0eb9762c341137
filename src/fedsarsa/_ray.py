"""Ray, which is an extra: with a clear word where it is needed and missing, and how to join a cluster."""

import atexit
import logging
import os
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsarsa._interrupts import Interrupted, held_interrupt
from fedsarsa._version import __version__

if TYPE_CHECKING:
    import ray
else:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "this needs Ray, which is not installed; install it with: pip install 'fedsarsa[ray]'"
        ) from error

__all__ = ["RETRIES", "check_version", "connect", "ray", "reason"]

LOCAL = "local"
# How often work whose worker died is begun again before that is an error.
RETRIES = 3
PATIENCE = 5.0  # seconds in which a cluster's port must answer

# Reads a line from a process that has started Ray. Where none comes, and Ray has written to the log of that
# process (in the directory $0, of process $1) that it ends it, it says why and ends the rest of Ray.
WITNESS = """
read -r line && exit
grep -qs "Terminate the process" "$0"/python-core-driver-*_"$1".log || exit
shift
echo "fedsarsa: Ray's raylet on this machine was killed, perhaps for memory, and Ray ended this program." \
    "What was stored is there, and the same command resumes." >&2
for process in "$@"; do
    grep -qi ray "/proc/$process/cmdline" 2>/dev/null && kill -9 "$process"
done
"""

_drawn: dict[str, str] = {}  # the token of a Ray that this process has started, as environment variables


def connect(address: str | None = None, cores: int | None = None) -> None:
    """Connect this process to Ray.

    Parameters
    ----------
    address : str, optional
        "host:port" of a cluster, or "local": one on this machine that ends with the process. Unless given:
        the Ray that this process is connected to, else the cluster that RAY_ADDRESS names, else "local".
    cores : int, optional
        Of a Ray that is started here; all unless given.
    """
    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address is not None and not _is_at(here, address):
            raise ValueError(f"ray: this process is connected to {here}; expected that, got {address}")
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # What needs more memory than there is would be begun again for ever.
    os.environ.setdefault("RAY_task_oom_retries", str(RETRIES))
    if address is None:
        address = os.environ.get("RAY_ADDRESS") or LOCAL
    if address != LOCAL:
        _knock(address)
    _settle_token(address)
    waiting = "RAY_gcs_server_port_wait_time_s"
    before = os.environ.get(waiting)
    if address != LOCAL:
        # At a port that answers, but not as Ray does: try once (some 40 s), not for many minutes.
        os.environ.setdefault(waiting, "1")
    try:
        with held_interrupt() as pressed:  # Ray crashes where it is interrupted while it starts
            ray.init(
                address,
                num_cpus=cores,
                include_dashboard=False if address == LOCAL else None,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except ray.exceptions.AuthenticationError:
        raise ValueError(
            f"ray: expected the token of the cluster at {address} in RAY_AUTH_TOKEN, with "
            "RAY_AUTH_MODE=token, got none or another"
        ) from None
    except Exception as error:  # Ray raises plain ones, too
        if address == LOCAL:
            raise ValueError(f"ray: it does not start on this machine: {reason(error)}") from None
        raise ValueError(
            f"ray: expected a cluster at {address}, got: {reason(error)}; if it asks for a token, expected "
            "that in RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token"
        ) from None
    finally:
        if before is None:
            os.environ.pop(waiting, None)
    if address == LOCAL:
        _have_a_witness()
    if pressed.is_set():
        raise Interrupted("interrupted")


def _have_a_witness() -> None:
    """Have a shell say why, should Ray end this process at once and without a word.

    Ray does so where its raylet was killed and an object is stored or fetched.
    """
    own: Any = ray._private.worker._global_node
    if sys.platform != "linux" or own is None:
        return
    started = {name: [one.process.pid for one in made] for name, made in own.all_processes.items()}
    others = [str(pid) for name, pids in started.items() for pid in pids if name != "raylet"]
    for children in Path(f"/proc/{started['raylet'][0]}/task").glob("*/children"):  # its agents among them
        others += children.read_text().split()
    witness = subprocess.Popen(
        ["sh", "-c", WITNESS, own.get_logs_dir_path(), str(os.getpid()), *others],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )
    atexit.register(witness.communicate, b"all is well\n")


def _settle_token(address: str) -> None:
    """Draw a token for a Ray of one's own, or forget the one that was drawn, where the user gave none."""
    if address == LOCAL:
        if os.environ.get("RAY_AUTH_MODE", "token") == "token" and "RAY_AUTH_TOKEN" not in os.environ:
            # Ray listens on every interface: nobody without this token may use what is started here. Ray
            # itself would keep one where others can read it.
            _drawn.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
            os.environ.update(_drawn)
    elif _drawn and os.environ.get("RAY_AUTH_TOKEN") == _drawn["RAY_AUTH_TOKEN"]:
        for name in _drawn:
            os.environ.pop(name, None)
    # Ray has read its settings when it was imported, and the token when it was last used.
    ray._raylet.Config.initialize("")  # type: ignore[attr-defined]
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()  # type: ignore[attr-defined]


def check_version(wanted: str) -> None:
    """On a worker: do not work for another version of fedsarsa."""
    if wanted != __version__:
        raise ValueError(
            f"ray: expected fedsarsa {wanted} on every machine of the cluster, got {__version__} on "
            f"{socket.gethostname()}"
        )


def reason(error: BaseException) -> str:
    """Why Ray failed: a part of it that has died, else the last line of what it says."""
    own: Any = ray._private.worker._global_node  # if this process started Ray
    for name, process in own.dead_processes() if own is not None else ():
        return f"Ray's {name} on this machine ended with code {process.returncode}, killed perhaps for memory"
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        return "its machine had too little memory left, and Ray killed it; fewer runs or records need less"
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()


def _is_at(here: str, address: str) -> bool:
    """Whether the cluster at ``here`` is what ``address`` asks for, by whatever name of its machine."""
    own = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
    if address == LOCAL:
        return here.rpartition(":")[0] == own
    host, _, port = address.rpartition(":")
    try:
        host = socket.gethostbyname(host)
    except (OSError, UnicodeError):
        return False
    return here == f"{own if host.startswith('127.') else host}:{port}"


def _knock(address: str) -> None:
    """Say at once that nobody is at ``host:port``: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"ray: expected the address host:port of a cluster, or local, got {address}")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"ray: expected a cluster at {address}, got: {error}") from None
