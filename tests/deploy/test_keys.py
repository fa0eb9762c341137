"""Certificates, keys and doors: what is refused, and how it is said."""

import re
import resource
import shlex
import shutil
import socket
import ssl
import threading

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.x509 import SubjectAlternativeName
from typer.testing import CliRunner

from fedsarsa.cli import app as command
from fedsarsa.deploy import addresses, files, keys, node, server_process
from fedsarsa.deploy.addresses import check_free, free_port
from fedsarsa.deploy.guards import DIED
from tests.deploy.deployments import deaf_port
from tests.deploy.federations import CONFIG


@pytest.fixture
def home(tmp_path):
    made = files.private_directory(tmp_path / "server")
    keys.make_server(made, ["localhost", "10.0.0.7", "server.example.org"])
    return made


def test_keys_are_for_their_owner_alone(home, tmp_path):
    keys.check_server(home)
    mine = files.private_directory(tmp_path / "node")
    keys.make_node(mine)
    for path in (home / "ca.key", home / "server.key", mine / "node.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match=r"node.key: already exists"):
        keys.make_node(mine)
    (home / "server.key").chmod(0o644)
    with pytest.raises(PermissionError, match="expected a key that only its owner can read"):
        keys.check_server(home)


def test_a_servers_certificate_is_for_its_names_and_for_its_own_parts_on_loopback(home):
    extension = keys._read(home / "server.crt").extensions.get_extension_for_class(SubjectAlternativeName)
    names = {str(name.value) for name in extension.value}
    assert names == {"localhost", "127.0.0.1", "::1", "10.0.0.7", "server.example.org"}


def test_a_renewal_keeps_the_names_and_the_advised_command_works(home):
    with pytest.raises(ValueError, match=r"other\.example\.org") as error:
        keys.check_address(home, "other.example.org")
    advised = re.search(r"; fedsarsa (deploy keys server .*) makes one that is for it too$", str(error.value))
    done = CliRunner().invoke(command, shlex.split(advised[1]))
    assert done.exit_code == 0
    known = "localhost, 10.0.0.7, server.example.org, 127.0.0.1, ::1"
    assert done.output.startswith(f"{home / 'server.crt'} is for other.example.org, {known}\n")
    for host in ("other.example.org", *known.split(", ")):
        keys.check_address(home, host)
    keys.check_server(home)


@pytest.mark.parametrize(
    "host",
    [
        "fed.example.org:8000",
        "https://fed.example.org",
        "*",
        "*.example.org",
        "",
        "a b",
        "-fed.org",
        "fed..org",
        "10.0.0.300",
        "[::1]",
        "münchen.de",
        "a" * 64,
        ".".join(["a" * 50] * 6),
    ],
)
def test_hosts_that_are_no_names_nor_addresses_are_refused(tmp_path, host):
    making = ("deploy", "keys", "server", "--home", tmp_path / "home", "--host", "fed.example.org")
    code, said = commanded(*making, "--host", host)
    assert code != 0
    assert said == f"host: expected an IP address or a DNS name, without a port, got {host!r}"
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("host", ["fed", "fed-1.example.org", "2001:db8::1", "4fed.org", "fed_server"])
def test_hosts_that_are_names_or_addresses(tmp_path, host):
    home = files.private_directory(tmp_path / "home")
    assert keys.make_server(home, [host]) == [host, *keys.LOCAL]
    keys.check_address(home, host)


def test_directories_that_others_can_open_are_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(PermissionError, match=r"expected a directory that only its owner, you, can open"):
        files.private_directory(tmp_path / "open")


def test_a_nodes_directory_gets_no_servers_certificate(home, tmp_path):
    mine = files.private_directory(tmp_path / "node")
    keys.make_node(mine)
    shutil.copy(home / "ca.crt", mine)
    with pytest.raises(
        ValueError, match=r"node: expected the server's directory, got one with ca\.crt, as nodes have"
    ):
        keys.make_server(mine, ["localhost"])
    assert {path.name for path in mine.iterdir()} == {"node.key", "node.pub", "ca.crt"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "10.0.0.7", "server.example.org"])
def test_addresses_that_the_servers_certificate_is_for(home, host):
    keys.check_address(home, host)


@pytest.mark.parametrize("host", ["127.0.0.2", "10.0.0.8", "other.example.org", "example.org"])
def test_an_address_that_the_certificate_is_not_for_is_found_before_anything_is_started(home, tmp_path, host):
    config = tmp_path / "federation.toml"
    config.write_text(CONFIG)
    message = rf"address: expected one that .*server\.crt is for, got {host}: .* mismatch"
    with pytest.raises(ValueError, match=message):
        server_process.serve(config, home, host, free_port(), False)
    assert not (home / "link.db").exists()


def test_certificates_that_do_not_belong_together(home, tmp_path):
    other = files.private_directory(tmp_path / "other")
    keys.make_server(other, ["localhost"])
    kept = (home / "server.key").read_bytes()
    shutil.copy(other / "server.key", home)
    with pytest.raises(ValueError, match=r"server.key: expected the key of server.crt, got another one's"):
        keys.check_server(home)
    (home / "server.key").write_bytes(kept)
    shutil.copy(other / "ca.crt", home)
    with pytest.raises(ValueError, match=r"server.crt: expected a certificate signed by ca.crt"):
        keys.check_server(home)
    (home / "ca.crt").write_text("nonsense")
    with pytest.raises(ValueError, match=r"ca.crt: expected a certificate in PEM"):
        keys.check_server(home)
    (home / "ca.crt").unlink()
    with pytest.raises(FileNotFoundError, match=r"make one with fedsarsa deploy keys server"):
        keys.check_server(home)


def spoilt_keys():
    """What may be in the file of a key, and is none of ours."""
    rsa_key, own = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1())
    plain, locked = keys.NoEncryption(), BestAvailableEncryption(b"password")
    pem, ssh = keys.PrivateFormat.PKCS8, keys.PrivateFormat.OpenSSH
    return {
        "empty": b"",
        "nonsense": b"nonsense",
        "locked": own.private_bytes(keys.Encoding.PEM, pem, locked),
        "pem": own.private_bytes(keys.Encoding.PEM, pem, plain),
        "rsa": rsa_key.private_bytes(keys.Encoding.PEM, pem, plain),
        "rsa ssh": rsa_key.private_bytes(keys.Encoding.PEM, ssh, plain),
    }


def test_keys_that_cannot_be_used_are_named(home, tmp_path):
    spoilt = spoilt_keys()
    mine = files.private_directory(tmp_path / "node")
    keys.make_node(mine)
    shutil.copy(home / "ca.crt", mine)
    before = (home / "server.crt").read_bytes()

    def says(folder, name, contents, message, work):
        for content in contents:
            (folder / name).write_bytes(spoilt[content])
            with pytest.raises(ValueError, match=rf"^{re.escape(str(folder / name))}: expected a {message}"):
                work()

    def join():
        node.join("127.0.0.1:1", mine, None, None, False, 0.2)

    unreadable = "private key in {} without a password, as fedsarsa deploy keys makes them$"
    other = "key made by fedsarsa deploy keys, got another kind$"
    pem, ssh = unreadable.format("PEM"), unreadable.format("OpenSSH's format")
    says(home, "server.key", ("empty", "nonsense", "locked"), pem, lambda: keys.check_server(home))
    says(home, "ca.key", ("empty", "nonsense", "locked"), pem, lambda: keys.make_server(home, ["localhost"]))
    says(home, "ca.key", ("rsa",), other, lambda: keys.make_server(home, ["localhost"]))
    says(mine, "node.key", ("empty", "nonsense", "locked", "pem"), ssh, join)
    says(mine, "node.key", ("rsa ssh",), other, join)
    assert (home / "server.crt").read_bytes() == before


def test_an_expired_certificate_is_renewed_by_the_same_authority(home):
    authority = (home / "ca.crt").read_bytes()
    keys.make_server(home, ["localhost"], days=0)
    with pytest.raises(
        ValueError, match=r"server.crt: expected a certificate that is valid now, got one valid"
    ):
        keys.check_server(home)
    keys.make_server(home, ["localhost"])
    keys.check_server(home)
    assert (home / "ca.crt").read_bytes() == authority


def expire(path, home):
    """Make the certificate of an authority one that has ended."""
    authority = keys.load_pem_private_key((home / "ca.key").read_bytes(), None)
    path.write_bytes(keys._authority(authority, days=0).public_bytes(keys.Encoding.PEM))


def test_an_expired_authority_is_renewed_and_nodes_are_told(home, tls, tmp_path):
    mine = tmp_path / "ca.crt"
    shutil.copy(home / "ca.crt", mine)
    expire(home / "ca.crt", home)
    with pytest.raises(
        ValueError, match=r"ca.crt: .* valid now, .*; .* makes a new one, which every node needs"
    ):
        keys.check_server(home)
    with pytest.raises(ValueError, match=r"ca.crt: .* valid now, .*; ask for the server's new one"):
        keys.check_authority(home / "ca.crt")
    keys.make_server(home, ["localhost"])
    keys.check_server(home)
    keys.check_authority(home / "ca.crt")
    # The authority's key is the same: certificates that nodes have are good until their own end.
    addresses.check_reachable("127.0.0.1", tls, home / "ca.crt")
    addresses.check_reachable("127.0.0.1", tls, mine)


def test_an_authority_lasts_as_long_as_what_it_signs(home):
    before = (home / "ca.crt").read_bytes()
    keys.make_server(home, ["localhost"], days=20 * 365)
    assert (home / "ca.crt").read_bytes() != before
    last = [keys._read(home / name).not_valid_after_utc for name in ("ca.crt", "server.crt")]
    assert last[0] >= last[1]


def test_public_keys_are_named_after_their_agents(home, tmp_path):
    nodes = home / "nodes"
    nodes.mkdir()
    for number in range(2):
        shutil.copy(
            keys.make_node(files.private_directory(tmp_path / f"node{number}")), nodes / f"{number}.pub"
        )
    assert sorted(keys.read_nodes(home, agents=2)) == [0, 1]
    with pytest.raises(ValueError, match=r"1.pub: expected the number of an agent below 1 for a name, got 1"):
        keys.read_nodes(home, agents=1)
    for name, content, message in (
        ("alice", "", "expected the number of an agent below 3 for a name, got alice"),
        ("02", "", "expected the number of an agent below 3 for a name, got 02"),
        ("2", "nonsense", "expected a node's public key"),
        ("2", (nodes / "0.pub").read_text(), "expected a key of its own, got that of 0.pub"),
    ):
        path = nodes / f"{name}.pub"
        path.write_text(content)
        with pytest.raises(ValueError, match=rf"{name}.pub: {message}"):
            keys.read_nodes(home, agents=3)
        path.unlink()


@pytest.fixture
def tls(home):
    """A port that speaks TLS with the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.crt", home / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    try:
                        context.wrap_socket(connection, server_side=True).close()
                    except OSError:
                        continue

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_superlink_whose_certificate_has_expired_is_told(home, request):
    keys.make_server(home, ["localhost"], days=0)
    port = request.getfixturevalue("tls")
    expired = r"the certificate of 127.0.0.1:\d+ does not match .*ca.crt: certificate has expired"
    with pytest.raises(ValueError, match=expired):
        addresses.check_reachable("127.0.0.1", port, home / "ca.crt")


def test_a_superlink_that_is_frozen_is_told(home):
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # connections wait to be accepted
        port = frozen.getsockname()[1]
        for authority in (home / "ca.crt", None):
            with pytest.raises(ValueError, match=rf"127.0.0.1:{port} does not answer within 0.2 seconds"):
                addresses.check_reachable("127.0.0.1", port, authority, patience=0.2)


def test_superlinks_that_cannot_be_trusted_or_reached(home, tls, tmp_path):
    other = files.private_directory(tmp_path / "other")
    keys.make_server(other, ["localhost"])
    addresses.check_reachable("127.0.0.1", tls, home / "ca.crt")
    addresses.check_reachable("localhost", tls, home / "ca.crt")
    with pytest.raises(ValueError, match=r"the certificate of 127.0.0.1:\d+ does not match"):
        addresses.check_reachable("127.0.0.1", tls, other / "ca.crt")
    with pytest.raises(ValueError, match="wants TLS and a node key, got --insecure"):
        addresses.check_reachable("127.0.0.1", tls, None)
    refused = pytest.raises(
        ValueError, match=r"superlink: 127.0.0.1:\d+ cannot be reached: Connection refused"
    )
    with deaf_port() as deaf, refused:
        addresses.check_reachable("127.0.0.1", deaf, home / "ca.crt")
    with pytest.raises(ValueError, match=r"superlink: no.such.host.invalid:1 cannot be reached"):
        addresses.check_reachable("no.such.host.invalid", 1, None)


def test_a_name_that_the_certificate_does_not_have(home, tls, monkeypatch):
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda address, *rest: connect(("127.0.0.1", tls), *rest)
    )
    with pytest.raises(ValueError, match=r"the certificate of elsewhere.example.org:1 does not match"):
        addresses.check_reachable("elsewhere.example.org", 1, home / "ca.crt")


def test_addresses(home, tmp_path):
    assert addresses.parse("example.org:80") == ("example.org", 80)
    assert addresses.parse("[::1]:80") == ("::1", 80)
    for wrong in ("example.org", ":80", "example.org:", "example.org:0", "example.org:99999", "a:b"):
        with pytest.raises(ValueError, match="address must be HOST:PORT, got"):
            addresses.parse(wrong)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"address: cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            check_free("127.0.0.1", port)


def commanded(*arguments):
    done = CliRunner().invoke(command, [str(one) for one in arguments], standalone_mode=False)
    return done.exit_code, str(done.exception)


def test_bad_input_to_the_commands_is_one_sentence(home, tmp_path):
    config = tmp_path / "federation.toml"
    config.write_text(CONFIG)
    fresh = tmp_path / "fresh"
    cases = [
        (
            ("deploy", "server", config, "--home", fresh),
            "ca.crt: no such file; make one with",
        ),
        (
            ("deploy", "server", config, "--home", home),
            "nodes: expected the 1 public keys or more that a round needs, got 0; there is no 0.pub, 1.pub",
        ),
        (
            ("deploy", "server", config, "--home", fresh, "--insecure", "--address", "0.0.0.0:8000"),
            "insecure: expected a loopback address without TLS and node keys, got 0.0.0.0",
        ),
        (
            ("deploy", "node", "--superlink", "example.org:8000", "--home", fresh, "--insecure"),
            "insecure: expected a loopback SuperLink without TLS and node keys, got example.org",
        ),
        (("deploy", "node", "--superlink", "127.0.0.1:1", "--home", fresh), "ca.crt: no such file"),
        (
            ("deploy", "node", "--superlink", "127.0.0.1:1", "--home", fresh, "--insecure"),
            "superlink: 127.0.0.1:1 cannot be reached: Connection refused",
        ),
        (
            ("agent", config, "--number", 3, "--home", fresh),
            "number must be at least 0 and below the 3 agents",
        ),
        (("agent", tmp_path / "none.toml", "--number", 0, "--home", fresh), "none.toml: cannot be read"),
        (("deploy", "status", "--home", fresh), "fresh: no round has been run there"),
    ]
    for arguments, message in cases:
        code, said = commanded(*arguments)
        assert code != 0
        assert re.search(message, said), said


@pytest.mark.parametrize("port", [99_999, 65_536, 0, -1])
def test_ports_that_are_none(tmp_path, port):
    joining = ("deploy", "node", "--superlink", "127.0.0.1:1", "--home", tmp_path, "--insecure")
    code, said = commanded(*joining, "--port", port)
    assert code != 0
    assert said == f"{port} is not in the range 1<=x<=65535."


def test_certificates_last_a_century_at_most(tmp_path):
    making = ("deploy", "keys", "server", "--home", tmp_path / "home", "--host", "localhost", "--days")
    code, said = commanded(*making, 100_000_000)
    assert code != 0
    assert said == "100000000 is not in the range 1<=x<=36500."
    code, said = commanded(*making, 36_500)
    assert code == 0, said


def test_a_port_in_use_is_found_before_anything_is_started(home, tmp_path):
    config = tmp_path / "federation.toml"
    config.write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="cannot listen on"):
        server_process.serve(config, tmp_path / "new", "127.0.0.1", taken.getsockname()[1], True)
    assert not (tmp_path / "new" / "link.db").exists()


def test_a_directory_that_takes_no_more_is_found_before_a_run_is_submitted(tmp_path):
    server_process._check_room(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(RuntimeError, match=r"nothing can be written \(File too large\); the last"):
            server_process._check_room(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "said",
    [
        "SuperNode terminated gracefully",
        f"{DIED}HTTPStatusError: Client error '401 Unauthorized' for url '.../send-node-heartbeat'",
    ],
)
def test_a_node_whose_clock_is_wrong_is_told_that_it_may_be(said):
    """So it was in both ways, by hand, with the clock of a node or of the server an hour ahead."""
    assert "this machine's clock is more than 5 seconds ahead of the server's" in node.refusal(said)
    assert node.refusal("the SuperNode was killed") is None
