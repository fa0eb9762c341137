"""Orders to a SuperLink, through Flower's Control interface: which nodes may join, and what to run."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from flwr.app.user_config import UserConfig
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.constant import NodeStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufClientInterceptor, ProtobufRequestContext

from fedsarsa.deploy.guards import SECRET_HEADER


class Orders:
    """Orders to one SuperLink; what it rejects is a `RuntimeError`."""

    def __init__(self, client: ControlHttpClient) -> None:
        self.client = client

    def admit(self, keys: dict[int, bytes]) -> dict[int, int]:
        """Let in the nodes with these public keys, ``keys[agent]``, and no others; the node of each agent."""
        listed = self.client.ListNodes(ListNodesRequest()).nodes_info
        known = {node.public_key: node for node in listed}
        for key, node in known.items():
            if key not in keys.values() and node.status != NodeStatus.UNREGISTERED:
                self.client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        nodes = {}
        for number, key in keys.items():
            if key not in known:
                nodes[number] = self.client.RegisterNode(RegisterNodeRequest(public_key=key)).node_id
            elif known[key].status == NodeStatus.UNREGISTERED:
                raise ValueError(
                    f"nodes/{number}.pub: expected a key that was never taken back, got one that was removed "
                    "before; make a new one with fedsarsa deploy keys node"
                )
            else:
                nodes[number] = known[key].node_id
        return nodes

    def run(self, bundle: bytes, config: UserConfig) -> None:
        """Run an app."""
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        self.client.StartRun(
            StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(config))
        )


@contextmanager
def orders(address: str, authority: Path | None, secret: str) -> Iterator[Orders]:
    """Orders to the SuperLink at ``address``, without TLS if there is no authority."""
    interceptors: list[ProtobufClientInterceptor] = [
        _Secretly(secret),
        RuntimeVersionHttpInterceptor(component_name="flwr CLI"),
    ]
    certificates = None if authority is None else authority.read_bytes()
    with ControlHttpClient.from_server_address(
        address, authority is None, certificates, interceptors
    ) as client:
        yield Orders(client)


class _Secretly:
    """Tells the secret with every request, and in a sentence what went wrong."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Send a request."""
        order = context.rpc_method.rpartition("/")[2]
        context.request.headers[SECRET_HEADER] = self.secret
        try:
            response = call_next(context)
        except httpx.HTTPError as error:
            raise RuntimeError(f"the SuperLink does not answer to {order}: {error}") from None
        if response.is_error:
            told = FlowerError.from_json(response.text)
            why = told.message if told else response.text
            raise RuntimeError(f"the SuperLink rejects {order}: {response.status_code} {why[:300]}")
        return response
