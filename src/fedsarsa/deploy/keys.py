"""Certificates and node keys: made, renewed and checked, readable by their owner alone.

A server's directory holds ``ca.crt``, which nodes need, and ``ca.key``, ``server.crt``, ``server.key``, and
in ``nodes/`` the public keys of its nodes; a node's holds ``node.key``, and ``node.pub``, which the server
needs. The secret by which the parts on one machine know each other is drawn anew at every start.
"""

import datetime as dt
import ipaddress
import re
import secrets
import shlex
import ssl
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedsarsa import _files
from fedsarsa.deploy import files

DAYS = 365
LOCAL = ("localhost", "127.0.0.1", "::1")  # the server's own parts speak to it there
LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
DNS_NAME = re.compile(rf"(?=.{{1,253}}$)({LABEL}\.)*(?![0-9]+$){LABEL}")  # none ends like an address
NEEDED = ("ca.crt", "server.crt", "server.key")
SECRET = "parts.secret"


def make_server(home: Path, hosts: list[str], days: int = DAYS) -> list[str]:
    """A certificate authority and the server's certificate; the names and addresses that it is for.

    These are ``hosts``, those of the existing certificate, and loopback. An authority that is
    there already signs the new certificate, so that nodes need no update. Its own certificate is renewed
    if it would expire before the server's: nodes need it then, once the one they have expires.
    """
    if (home / "ca.crt").exists() and not (home / "ca.key").exists():
        raise ValueError(
            f"{home}: expected the server's directory, got one with ca.crt, as nodes have, without ca.key; "
            "choose another, or bring ca.key back"
        )
    names = list(dict.fromkeys([*map(_name, hosts), *_names(home / "server.crt"), *map(_name, LOCAL)]))
    if (home / "ca.key").exists():
        authority = _read_own_key(home / "ca.key")
    else:
        authority = ec.generate_private_key(ec.SECP384R1())
        files.write_private(home / "ca.key", _pem(authority))
    until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
    if not (home / "ca.crt").exists() or _read(home / "ca.crt").not_valid_after_utc < until:
        made = _authority(authority, max(10 * DAYS, days))
        _write(home / "ca.crt", made)
    certificate = _read(home / "ca.crt")
    key = ec.generate_private_key(ec.SECP384R1())
    extra = x509.SubjectAlternativeName(names)
    use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    signed = (
        _builder("fedsarsa server", certificate.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(extra, critical=False)
        .add_extension(use, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False
        )
        .sign(authority, hashes.SHA384())
    )
    files.write_private(home / "server.key", _pem(key))
    _write(home / "server.crt", signed)
    return [str(name.value) for name in names]


def make_node(home: Path) -> Path:
    """A node's key pair; the path of the public half."""
    if (home / "node.key").exists():
        raise ValueError(f"{home / 'node.key'}: already exists; expected a directory without one")
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    files.write_private(home / "node.key", secret)
    public = home / "node.pub"
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def check_node(home: Path) -> Path:
    """A node's key, if it is one that the SuperNode can read."""
    _read_own_key(home / "node.key", load_ssh_private_key)
    return home / "node.key"


def check_server(home: Path) -> None:
    """Reject certificates that are missing, expired, or do not belong together."""
    for name in NEEDED:
        if not (home / name).is_file():
            raise FileNotFoundError(
                f"{home / name}: no such file; make one with fedsarsa deploy keys server, or use --insecure "
                "on loopback"
            )
    authority = _read(home / "ca.crt")
    server = _read(home / "server.crt")
    key = _read_key(home / "server.key")
    again = "fedsarsa deploy keys server makes a new one"
    _check_dates(home / "ca.crt", authority, f"{again}, which every node needs")
    _check_dates(home / "server.crt", server, again)
    if key.public_key() != server.public_key():
        raise ValueError(f"{home / 'server.key'}: expected the key of server.crt, got another one's")
    try:
        server.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise ValueError(
            f"{home / 'server.crt'}: expected a certificate signed by ca.crt, got another's"
        ) from None


def check_address(home: Path, host: str) -> None:
    """Reject an address that the server's certificate is not for, as its callers would: by shaking hands."""
    answers, calls = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.create_default_context(cafile=str(home / "ca.crt"))
    caller = trusting.wrap_bio(answers, calls, server_hostname=host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.crt", home / "server.key")
    server = context.wrap_bio(calls, answers, server_side=True)
    for side in (caller, server, caller):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            raise ValueError(
                f"address: expected one that {home / 'server.crt'} is for, got {host}: "
                f"{error.verify_message}; fedsarsa deploy keys server --home {shlex.quote(str(home))} "
                f"--host {host} makes one that is for it too"
            ) from None


def check_authority(path: Path) -> Path:
    """``path`` if it is a certificate by which a node can know the server now."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected that of the server")
    _check_dates(path, _read(path), "ask for the server's new one")
    return path


def read_nodes(home: Path, agents: int) -> dict[int, bytes]:
    """The public keys in ``nodes/NUMBER.pub`` by the agent's number; files that are nobody's are rejected."""
    found: dict[int, bytes] = {}
    for path in sorted((home / "nodes").glob("*.pub")):
        if not re.fullmatch("0|[1-9][0-9]*", path.stem) or int(path.stem) >= agents:
            raise ValueError(
                f"{path}: expected the number of an agent below {agents} for a name, got {path.stem}; "
                "remove it, or name it after its agent"
            )
        try:
            key = load_ssh_public_key(path.read_bytes())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ValueError(f"{path}: expected a node's public key, got: {error}") from None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError(f"{path}: expected a key made by fedsarsa deploy keys node, got another kind")
        raw = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        for other, known in found.items():
            if known == raw:
                raise ValueError(f"{path}: expected a key of its own, got that of {other}.pub")
        found[int(path.stem)] = raw
    return found


def new_secret(home: Path) -> Path:
    """A file with a new secret for the parts of a deployment on this machine."""
    files.write_private(home / SECRET, secrets.token_hex(32).encode())
    return home / SECRET


def _check_dates(path: Path, certificate: x509.Certificate, otherwise: str) -> None:
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not first <= dt.datetime.now(dt.UTC) <= last:
        raise ValueError(
            f"{path}: expected a certificate that is valid now, got one valid from {first:%Y-%m-%d} to "
            f"{last:%Y-%m-%d}; {otherwise}"
        )


def _authority(key: ec.EllipticCurvePrivateKey, days: int) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedsarsa authority")])
    uses = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return (
        _builder("fedsarsa authority", name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **uses), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))  # clocks differ
        .not_valid_after(now + dt.timedelta(days=days))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not DNS_NAME.fullmatch(host):
            raise ValueError(
                f"host: expected an IP address or a DNS name, without a port, got {host!r}"
            ) from None
        return x509.DNSName(host)


def _names(path: Path) -> list[x509.GeneralName]:
    """What a certificate is for; nothing if it is not there."""
    if not path.exists():
        return []
    try:
        named = [extension.value for extension in _read(path).extensions]
    except ValueError as error:
        raise ValueError(f"{error}; remove it to make a new one for other names") from None
    return [name for one in named if isinstance(one, x509.SubjectAlternativeName) for name in one]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write(path: Path, certificate: x509.Certificate) -> None:
    with _files.replacing(path) as temporary:
        temporary.write_bytes(certificate.public_bytes(Encoding.PEM))


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: expected a certificate in PEM, got: {error}") from None


def _read_key(path: Path, load: Callable[..., PrivateKeyTypes] = load_pem_private_key) -> PrivateKeyTypes:
    try:
        return load(files.check_secret(path).read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a TypeError: it has a password
        form = "PEM" if load is load_pem_private_key else "OpenSSH's format"
        raise ValueError(
            f"{path}: expected a private key in {form} without a password, as fedsarsa deploy keys makes them"
        ) from None


def _read_own_key(
    path: Path, load: Callable[..., PrivateKeyTypes] = load_pem_private_key
) -> ec.EllipticCurvePrivateKey:
    key = _read_key(path, load)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{path}: expected a key made by fedsarsa deploy keys, got another kind")
    return key
