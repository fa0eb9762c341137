"""Flower's SuperLink, SuperNode and SuperExec with a lock on the doors that Flower leaves open.

Without accounts, Flower lets whoever reaches the SuperLink's port submit apps, which nodes then run. And its
SuperExec, which starts a process for every task, writes the task's token on that process's command line,
where every user of the machine can read it. So

- this SuperLink takes orders (the Control interface) from its own machine alone, and only with the secret
  of its directory; tasks (the Runtime interface) are handed out there, where Flower asks for the same
  secret; from elsewhere it answers SuperNodes and nobody else;
- this SuperLink says that it is busy where its database is, so that whoever asks tries again;
- this SuperLink takes from a node what it replies to the server, and nothing that it says to other nodes,
  in the server's name or in theirs, which Flower would hand on;
- this SuperNode runs the app of the installed fedsarsa and no other code, whatever it is sent;
- this SuperNode waits neither for hours for a question whose sender died while sending it, nor with a reply
  for the next question, and ends when a part of it has died, its main thread included;
- this SuperExec gives tokens to the processes it starts as an open file without a name, and starts client
  tasks as forks (`launcher`).

    python -m fedsarsa.deploy.guards superlink ARGUMENTS
    python -m fedsarsa.deploy.guards supernode ARGUMENTS
    python -m fedsarsa.deploy.guards superexec ARGUMENTS
"""

import hmac
import ipaddress
import logging
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from fedsarsa.deploy import logs

log = logging.getLogger("fedsarsa.deploy.flower")
FLEET, RUNTIME = "/v1/fleet/", "/v1/runtime/"
SECRET_FILE = "--superexec-auth-secret-file"  # Flower's option
SECRET_HEADER = "x-fedsarsa-secret"
DIED = "a thread of the SuperNode died: "
UPLOAD = 10.0  # seconds that a SuperNode waits for the parts of a question

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class Doors:
    """Web middleware: the interface for SuperNodes is open to all machines, the others to this one.

    Nodes sign their requests, and so does the SuperExec that asks for tasks; whoever gives orders must know
    ``secret``.
    """

    def __init__(self, app: App, secret: str) -> None:
        self.app, self.secret = app, secret

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] == "lifespan" or self._is_open(scope):
            await self._unless_busy(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"orders are taken from the owner alone"})

    async def _unless_busy(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer 503, after which Flower's parts ask again, where its own 500 would end them."""
        from sqlalchemy import exc

        begun = False

        async def noted(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except (exc.OperationalError, exc.TimeoutError) as error:
            if begun:
                raise
            log.warning("too busy for %s: %s", scope["path"], error.args[0])
            body = b"the SuperLink's database is busy"
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": body})

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"]
        if path.startswith(FLEET):
            return True
        return from_here(scope) and (path.startswith(RUNTIME) or self._knows_secret(scope))

    def _knows_secret(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(SECRET_HEADER.encode(), b"")
        return hmac.compare_digest(given, self.secret.encode())


def from_here(scope: Scope) -> bool:
    """Whether a request comes from the machine itself: over loopback, or from the address it went to."""
    client, server = scope.get("client") or ("",), scope.get("server") or (None,)
    try:
        return ipaddress.ip_address(client[0]).is_loopback or client[0] == server[0]
    except ValueError:
        return False


def superlink() -> None:
    """Run ``flower-superlink``, guarded."""
    from flwr.common.constant import SUPERLINK_NODE_ID
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from flwr.superlink.servicer.fleet import fleet_handlers
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware

    push = fleet_handlers.push_messages

    def replies_alone(request: Any, state: Any) -> Any:
        node = request.node.node_id  # Flower has compared it with the key that signed the request
        for metadata in (message.metadata for message in request.messages_list):
            way = (metadata.src_node_id, metadata.dst_node_id)
            if not metadata.reply_to_message_id or way != (node, SUPERLINK_NODE_ID):
                log.warning("rejected a message of node %d that is not a reply of its own", node)
                raise HTTPException(403, "a node may send replies of its own to the server alone")
        return push(request=request, state=state)

    fleet_handlers.push_messages = replies_alone

    secret = Path(sys.argv[sys.argv.index(SECRET_FILE) + 1]).read_text()
    others = extensions.get_middleware
    extensions.get_middleware = lambda: (Middleware(Doors, secret=secret), *others())
    flower_superlink()


class NotOursError(Exception):
    """The SuperLink sent an app that is not the installed fedsarsa's."""


def until_answered(push: Callable[..., None], asked: list[str]) -> Callable[..., None]:
    """Flower's ``_push_messages``, repeated until the reply to the last of ``asked`` is among those pushed.

    Flower pushes whatever replies there are, once for every question. If one of them is the late reply to
    an older question, all later ones would wait for the question after theirs.
    """

    def pushing(*, send: Callable[..., Any], **rest: Any) -> None:
        sent = set()

        def noted(message: Any, *more: Any) -> Any:
            sent.add(message.metadata.reply_to_message_id)
            return send(message, *more)

        while asked[-1] not in sent:
            push(send=noted, **rest)

    return pushing


def supernode() -> None:
    """Run ``flower-supernode``, guarded."""
    from flwr.app import Error, Message
    from flwr.common.constant import ErrorCode
    from flwr.supernode import start_client_internal as inside
    from flwr.supernode.cli import flower_supernode

    from fedsarsa.deploy import app

    pull, asked = inside._pull_and_store_message, [""]
    failures: list[Exception] = []

    @contextmanager
    def remembering() -> Iterator[None]:
        """Remember an error before Flower, which ends its main loop with it, logs and forgets it."""
        try:
            yield
        except Exception as error:
            failures[:] = [] if isinstance(error, NotOursError) else [error]
            raise

    def guarded(*, receive: Callable[[], Any], get_fab: Callable[[str, int], Any], **rest: Any) -> int | None:
        received: list[Any] = []

        def noted() -> Any:
            received.append(receive())
            if received[-1] is not None:
                asked[:] = [received[-1][0].metadata.message_id]
            return received[-1]

        def only_ours(digest: str, run: int) -> Any:
            bundle = get_fab(digest, run)
            if objection := app.objection(bundle.content):
                raise NotOursError(objection)
            return bundle

        try:
            with remembering():
                return pull(receive=noted, get_fab=only_ours, **rest)
        except NotOursError as error:
            log.warning("rejected an app: %s", error)
            message, _ = received[-1]
            reply = Message(Error(ErrorCode.INVALID_FAB, str(error)), reply_to=message)
            inside._insert_message(reply, rest["state"], rest["object_store"])
            return int(message.metadata.run_id)

    push = until_answered(inside._push_messages, asked)

    def pushing(**parts: Any) -> None:
        with remembering():
            push(**parts)

    threading.excepthook = _end_with_thread
    inside._pull_and_store_message = guarded  # type: ignore[assignment]
    inside._push_messages = pushing  # type: ignore[assignment]
    inside.pull_objects = partial(  # type: ignore[attr-defined]
        inside.pull_objects,  # type: ignore[attr-defined]
        max_time=UPLOAD,
        initial_backoff=0.1,
        backoff_cap=1.0,
    )
    try:
        flower_supernode()
    except Exception as error:
        traceback.print_exc()
        failures.append(error)
    _end(failures[-1] if failures else RuntimeError("Flower's main loop has ended"))


def _end_with_thread(died: threading.ExceptHookArgs) -> None:
    """End the process with its first thread that dies.

    Without the thread of its heartbeat, which any unexpected answer of the SuperLink's ends, a SuperNode
    lives on and never takes part again. Whoever watches it, watches its process.
    """
    threading.__excepthook__(died)
    if died.exc_type is not SystemExit:
        _end(died.exc_value or died.exc_type())


def _end(error: BaseException) -> NoReturn:
    """End the process at once: the thread of a web server, say, would keep it from ending for ever."""
    log.critical("%s%s", DIED, f"{type(error).__name__}: {error}".splitlines()[0])
    os._exit(1)


def superexec() -> None:
    """Run ``flower-superexec``, guarded."""
    from flwr.supercore.cli import flower_superexec
    from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
    from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult
    from flwr.supercore.superexec.executor.subprocess_executor import SubprocessExecutor

    from fedsarsa.deploy.launcher import Launcher

    clients = Launcher()

    def launch(_: SubprocessExecutor, spec: ExecutionSpec) -> LaunchResult:
        trust = ["--root-certificates", str(spec.root_certificates_path)]
        arguments = ["--runtime-api-address", spec.runtime_api_address]
        arguments += ["--insecure"] if spec.insecure else trust
        arguments += ["--parent-pid", str(spec.parent_pid)]
        if spec.task_type == TaskType.CLIENT_APP:
            clients.launch(arguments, spec.token, spec.suppress_output)
            return LaunchResult.accepted()
        with tempfile.TemporaryFile() as file:
            file.write(spec.token.encode())
            file.seek(0)
            command = [TASK_TYPE_TO_COMMAND[spec.task_type], *arguments]
            command += ["--token-file", f"/dev/fd/{file.fileno()}"]
            output = subprocess.DEVNULL if spec.suppress_output else None
            subprocess.Popen(command, stdout=output, stderr=output, pass_fds=[file.fileno()])
        return LaunchResult.accepted()

    SubprocessExecutor.launch = launch  # type: ignore[method-assign, assignment]
    flower_superexec()


def main() -> None:
    """Take the first argument for the part to run."""
    logs.configure(logging.StreamHandler())
    part = sys.argv.pop(1)
    {"superlink": superlink, "supernode": supernode, "superexec": superexec}[part]()


if __name__ == "__main__":
    main()
