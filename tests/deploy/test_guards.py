"""Doors that Flower leaves open: who may give orders, take tasks, and have code run."""

import asyncio
import hashlib
import json
import re
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest

from fedsarsa.deploy import app, guards, superlink_api
from tests.deploy.deployments import deaf_port

SECRET = "0123456789abcdef"


def served(client, path, server=("10.0.0.7", 8000), secret=""):
    """Whether a request gets through to the SuperLink, and the status otherwise."""
    passed, sent = [], []

    async def inside(scope, receive, send):
        passed.append(scope["path"])

    async def send(message):
        sent.append(message.get("status"))

    headers = [(b"host", b"x"), (guards.SECRET_HEADER.encode(), secret.encode())]
    scope = {"type": "http", "path": path, "client": client, "server": server, "headers": headers}
    asyncio.run(guards.Doors(inside, SECRET)(scope, None, send))
    return bool(passed) or sent[0]


@pytest.mark.parametrize("path", ["/v1/control/start-run", "/docs", "/", "/v1/fleet", "/v1/runtime"])
def test_orders_are_taken_on_the_servers_own_machine_from_those_who_know_its_secret(path):
    for here in ("127.0.0.1", "::1", "10.0.0.7"):  # the last: to its own address, from its own address
        assert served((here, 5), path, secret=SECRET) is True
        assert served((here, 5), path) == 403
        assert served((here, 5), path, secret=SECRET[:-1]) == 403
    for elsewhere in (("10.0.0.8", 5), None, ("nonsense", 5)):
        assert served(elsewhere, path, secret=SECRET) == 403


def test_tasks_are_handed_out_on_the_servers_own_machine_alone():
    assert served(("127.0.0.1", 5), "/v1/runtime/acquire-task") is True  # Flower asks for the secret
    assert served(("10.0.0.8", 5), "/v1/runtime/acquire-task", secret=SECRET) == 403


def test_nodes_are_heard_from_anywhere():
    assert served(("10.0.0.8", 5), "/v1/fleet/pull-messages") is True


@pytest.mark.parametrize("begun", [False, True])
def test_a_superlink_whose_database_is_locked_says_that_it_is_busy(caplog, begun):
    from sqlalchemy.exc import OperationalError

    sent = []

    async def locked(scope, receive, send):
        if begun:
            await send({"status": 200})
        raise OperationalError("UPDATE node", {}, Exception("database is locked"))

    async def send(message):
        sent.append(message.get("status"))

    asking = guards.Doors(locked, SECRET)({"type": "http", "path": "/v1/fleet/pull-messages"}, None, send)
    if begun:  # too late to say anything else
        with pytest.raises(OperationalError):
            asyncio.run(asking)
        return
    asyncio.run(asking)
    assert sent[0] == 503
    assert "too busy for /v1/fleet/pull-messages" in caplog.text


def superlink(monkeypatch, tmp_path):
    """Guard Flower's SuperLink, and do not run it."""
    from flwr.superlink import extensions
    from flwr.superlink.servicer.fleet import fleet_handlers

    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.setattr(sys, "argv", ["superlink", guards.SECRET_FILE, str(tmp_path / "secret")])
    monkeypatch.setattr(extensions, "get_middleware", extensions.get_middleware)
    monkeypatch.setattr(fleet_handlers, "push_messages", fleet_handlers.push_messages)
    monkeypatch.setattr("flwr.superlink.cli.flower_superlink", lambda: None)
    guards.superlink()


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ([{}], True),
        ([{"reply_to_message_id": ""}], False),  # an order to the server
        ([{"reply_to_message_id": "", "src_node_id": 1, "dst_node_id": 8}], False),  # to another node
        ([{"src_node_id": 8}], False),  # in another node's name
        ([{"dst_node_id": 8}], False),
        ([{}, {"src_node_id": 8}], False),
    ],
)
def test_a_node_may_send_replies_of_its_own_to_the_server_alone(
    monkeypatch, tmp_path, caplog, changes, passes
):
    from flwr.proto.fleet_pb2 import PushMessagesRequest
    from flwr.proto.message_pb2 import Message, Metadata
    from flwr.proto.node_pb2 import Node
    from flwr.superlink.routers.fleet import router
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.exceptions import HTTPException

    pushed = []
    monkeypatch.setattr(fleet_handlers, "push_messages", lambda request, state: pushed.append(request))
    superlink(monkeypatch, tmp_path)
    reply = {"src_node_id": 7, "dst_node_id": 1, "reply_to_message_id": "question"}
    messages = [Message(metadata=Metadata(**(reply | change))) for change in changes]
    request = PushMessagesRequest(node=Node(node_id=7), messages_list=messages)
    if passes:
        router.fleet_push_messages(request, None)
        assert pushed == [request]
        return
    with pytest.raises(HTTPException, match="403: a node may send replies of its own to the server alone"):
        router.fleet_push_messages(request, None)
    assert pushed == []
    assert "rejected a message of node 7" in caplog.text


def test_the_doors_are_outermost(monkeypatch, tmp_path):
    from flwr.superlink import main

    superlink(monkeypatch, tmp_path)
    outermost = main._get_middleware()[0]
    assert outermost.cls is guards.Doors
    assert outermost.kwargs == {"secret": SECRET}


# ---- a node runs its own app alone ----


def sent_to_a_node(monkeypatch, bundle):
    """What a SuperNode holds after it was asked to run a bundle: the tasks, and its reply if any."""
    from flwr.app import Metadata, RecordDict
    from flwr.app.message import make_message
    from flwr.common.constant import SUPERLINK_NODE_ID
    from flwr.supercore.fab import Fab
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.supercore.run import Run
    from flwr.supernode import start_client_internal as inside
    from flwr.supernode.nodestate import NodeStateFactory

    for name in ("_pull_and_store_message", "_push_messages", "pull_objects"):
        monkeypatch.setattr(inside, name, getattr(inside, name))
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr("flwr.supernode.cli.flower_supernode", lambda: None)
    monkeypatch.setattr(guards, "_end", lambda error: None)
    guards.supernode()
    stores = ObjectStoreFactory()
    state, store = NodeStateFactory(objectstore_factory=stores).state(), stores.store()
    state.set_node_id(7)
    metadata = Metadata(1, "", SUPERLINK_NODE_ID, 7, "", "", time.time(), 60.0, "train")
    message = make_message(metadata, RecordDict())
    message.metadata.__dict__["_message_id"] = message.object_id
    parts = get_all_nested_objects(message)
    run = Run.create_empty(1)
    run.fab_hash = hashlib.sha256(bundle).hexdigest()
    ran = inside._pull_and_store_message(
        state=state,
        object_store=store,
        node_config={},
        receive=lambda: (message, get_object_tree(message)),
        get_run=lambda number: run,
        get_fab=lambda digest, number: Fab(digest, bundle, {}),
        pull_object=lambda number, digest: parts[digest].deflate(),
        confirm_message_received=lambda number, digest: None,
        trusted_entities=None,
    )
    assert ran == 1
    return state.get_fab(run.fab_hash), state.get_messages_legacy(is_reply=True)


def test_a_supernode_runs_the_installed_app(monkeypatch):
    stored, replies = sent_to_a_node(monkeypatch, app.bundle())
    assert stored.content == app.bundle()
    assert replies == []


def other_version(files):
    files["pyproject.toml"] = files["pyproject.toml"].replace(b'version = "', b'version = "9.')


def other_code(files):
    files["fedsarsa_bridge/bridge.py"] += b"import os\n"


def other_name(files):
    files["pyproject.toml"] = files["pyproject.toml"].replace(b"fedsarsa-bridge", b"stranger")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (other_version, r"was sent that of fedsarsa 9\.\S+$"),
        (other_code, r"was sent that of fedsarsa \S+ with other files"),
        (other_name, "was sent one that is not fedsarsa's"),
        (None, "was sent one that is not fedsarsa's"),
    ],
)
def test_a_supernode_runs_no_other_app_and_tells_the_server(monkeypatch, caplog, change, words):
    from flwr.cli.build import build_fab_from_files

    bundle = b"PK nonsense"
    if change is not None:
        files = app.sources()
        change(files)
        bundle = build_fab_from_files(files)[0]
    stored, (reply,) = sent_to_a_node(monkeypatch, bundle)
    assert stored is None
    pattern = f"its node runs the app of its own fedsarsa .* alone, and {words}"
    assert re.search(pattern, reply.error.reason), reply.error.reason
    assert "rejected an app" in caplog.text


# ---- tokens are on no command line ----


@pytest.fixture
def launch(monkeypatch, tmp_path):
    """Launch a task of a guarded SuperExec whose process runs these lines of Python."""
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
    from flwr.supercore.superexec.executor import ExecutionSpec
    from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor

    script = tmp_path / "task"
    started, begin = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **b: started.append(begin(*a, **b)) or started[-1])
    monkeypatch.setitem(TASK_TYPE_TO_COMMAND, TaskType.SERVER_APP, str(script))
    monkeypatch.setattr(SubprocessExecutor, "launch", SubprocessExecutor.launch)
    monkeypatch.setattr("flwr.supercore.cli.flower_superexec", lambda: None)
    monkeypatch.setattr("fedsarsa.deploy.launcher.Launcher", lambda: None)  # of client tasks
    guards.superexec()

    def launched(lines, token="c0ffee"):
        new = tmp_path / "new"  # a task that was launched before may still be about to read its own
        new.write_text(f"#!{sys.executable}\n{lines}")
        new.chmod(stat.S_IRWXU)
        new.replace(script)
        spec = ExecutionSpec(TaskType.SERVER_APP, "127.0.0.1:1", token, True, None, False, 1, False, 1)
        SubprocessExecutor().launch(spec)
        return started[-1]

    yield launched
    for process in started:
        process.kill()
        process.wait()


def test_a_tasks_token_is_nowhere_that_others_can_read(launch, tmp_path):
    # It writes down what others could see of it, and what its token file holds.
    seen, token = tmp_path / "seen", "c0ffee" * 20
    task = launch(
        f"""
import importlib, json

task = importlib.import_module("flwr.superlink.cli.flwr_serverapp")
args = task._parse_args_run_flwr_serverapp().parse_args()
found = [task.try_obtain_flwr_app_token(args)]
for name in ("cmdline", "environ"):
    with open("/proc/self/" + name) as file:
        found.append(file.read())
with open("{seen}", "w") as file:
    json.dump(found, file)
""",
        token,
    )
    assert task.wait(60) == 0
    found, command, environment = json.loads(seen.read_text())
    assert found == token
    assert "--token-file" in command
    assert token not in command + environment


# ---- which nodes may join ----


class Link:
    """A SuperLink's list of nodes, with the rules that Flower's has."""

    def __init__(self):
        self.nodes = {}

    def ListNodes(self, request):  # noqa: N802
        return SimpleNamespace(
            nodes_info=[
                SimpleNamespace(public_key=key, node_id=number, status=status)
                for key, (number, status) in self.nodes.items()
            ]
        )

    def RegisterNode(self, request):  # noqa: N802
        assert request.public_key not in self.nodes, "409 Public key already in use"
        self.nodes[request.public_key] = [len(self.nodes) + 1, "registered"]
        return SimpleNamespace(node_id=len(self.nodes))

    def UnregisterNode(self, request):  # noqa: N802
        (key,) = (key for key, (number, _) in self.nodes.items() if number == request.node_id)
        self.nodes[key][1] = "unregistered"


def test_nodes_join_by_the_keys_that_are_there_now():
    link = Link()
    orders = superlink_api.Orders(link)
    assert orders.admit({0: b"a", 1: b"b", 2: b"c"}) == {0: 1, 1: 2, 2: 3}
    assert orders.admit({0: b"a", 1: b"b", 2: b"c"}) == {0: 1, 1: 2, 2: 3}
    assert orders.admit({0: b"b", 1: b"a", 2: b"c"}) == {0: 2, 1: 1, 2: 3}  # two files were swapped
    assert orders.admit({0: b"b", 1: b"d"}) == {0: 2, 1: 4}  # one is replaced, one removed
    assert [status for _, status in link.nodes.values()] == [
        "unregistered",
        "registered",
        "unregistered",
        "registered",
    ]
    with pytest.raises(ValueError, match=r"nodes/2.pub: expected a key that was never taken back"):
        orders.admit({0: b"b", 1: b"d", 2: b"c"})


@contextmanager
def answering(status):
    """A port that answers every request with a status."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"for some reason")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_orders_that_fail_are_one_sentence():
    silent = pytest.raises(RuntimeError, match=r"the SuperLink does not answer to ListNodes: .*refused")
    with deaf_port() as deaf, superlink_api.orders(f"127.0.0.1:{deaf}", None, SECRET) as orders, silent:
        orders.admit({})
    refusing = pytest.raises(RuntimeError, match="the SuperLink rejects StartRun: 503 for some reason")
    with answering(503) as port, superlink_api.orders(f"127.0.0.1:{port}", None, SECRET) as orders, refusing:
        orders.run(b"", {})


def test_a_late_reply_does_not_hold_up_the_next_ones():
    """Flower pushes what there is, once for a question: first the late reply to an older one, then ours."""
    ready = [["late"], ["other", "asked"], ["next"]]
    pushed = []

    def push(*, send, store):
        for name in ready.pop(0):
            send(SimpleNamespace(metadata=SimpleNamespace(reply_to_message_id=name)), store)

    pushing = guards.until_answered(push, ["old", "asked"])
    pushing(send=lambda message, store: pushed.append((message.metadata.reply_to_message_id, store)), store=1)
    assert pushed == [("late", 1), ("other", 1), ("asked", 1)]
    assert ready == [["next"]]


SUPERNODE = """
import threading, time
from fedsarsa.deploy import guards
from flwr.supernode import cli, start_client_internal as inside

def ending():
    threading.Thread(target=time.sleep, args=[300]).start()  # of uvicorn's, say
    END

cli.flower_supernode = ending
inside._pull_and_store_message = lambda **_: 1 / 0
guards.supernode()
"""
SWALLOWING = """
    try:
        inside._pull_and_store_message(receive=None, get_fab=None)
    except ZeroDivisionError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (
            "raise OSError('_ssl.c:1011: The handshake operation timed out')",
            "OSError: _ssl.c:1011: The handshake",
        ),
        ("return", "RuntimeError: Flower's main loop has ended"),
        (SWALLOWING.strip(), "ZeroDivisionError: division by zero"),  # as Flower does
    ],
)
def test_a_supernode_ends_with_its_main_thread(end, why):
    script = SUPERNODE.replace("END", end)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(guards.DIED + why)


def test_a_supernode_ends_with_the_first_of_its_threads_that_dies():
    script = """
import threading, time
from fedsarsa.deploy import guards
from flwr.supernode import cli

def beat(error):
    raise error

def lose_its_heartbeat():
    quiet = threading.Thread(target=beat, args=[SystemExit(3)])
    quiet.start()
    quiet.join()
    print("goes on", flush=True)
    threading.Thread(target=beat, args=[ValueError("500 for\\nsome reason")]).start()
    time.sleep(300)

cli.flower_supernode = lose_its_heartbeat
guards.supernode()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert ended.stdout == "goes on\n"
    assert "Traceback" in ended.stderr
    assert ended.stderr.splitlines()[-1] == guards.DIED + "ValueError: 500 for"
