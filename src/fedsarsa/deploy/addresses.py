"""Addresses: read, on this machine or not, free to listen on, and answering."""

import ipaddress
import socket
import ssl
from pathlib import Path


def parse(text: str) -> tuple[str, int]:
    """HOST:PORT as its two parts."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"address must be HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


def written(host: str, port: int) -> str:
    """HOST:PORT of its two parts."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def free_port() -> int:
    """A port on loopback that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_free(host: str, port: int) -> None:
    """Reject an address that somebody listens on already, or that is not this machine's."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(f"address: cannot listen on {written(host, port)}: {error.strerror}") from None


def check_reachable(host: str, port: int, authority: Path | None, patience: float = 10.0) -> None:
    """Reject a SuperLink that does not answer, or whose certificate this authority has not signed.

    Without an authority, it must answer without TLS.
    """
    place = written(host, port)
    try:
        with socket.create_connection((host, port), patience) as plain:
            if authority is not None:
                context = ssl.create_default_context(cafile=str(authority))
                context.wrap_socket(plain, server_hostname=host).close()
            elif not _speaks_plainly(plain):
                raise ValueError(f"superlink: {place} wants TLS and a node key, got --insecure")
    except ssl.SSLCertVerificationError as error:
        raise ValueError(
            f"superlink: the certificate of {place} does not match {authority}: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise ValueError(f"superlink: {place} does not speak TLS: {error.reason}") from None
    except TimeoutError:
        raise ValueError(f"superlink: {place} does not answer within {patience:g} seconds") from None
    except OSError as error:
        raise ValueError(f"superlink: {place} cannot be reached: {error.strerror or error}") from None


def _speaks_plainly(connection: socket.socket) -> bool:
    """Whether the other side answers a request without TLS."""
    try:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return connection.recv(5).startswith(b"HTTP/")
    except ConnectionError:
        return False
