"""The Flower app that a deployment runs: the bridge for its nodes, the strategy for its server."""

from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from flwr.cli.build import build_fab_from_files

from fedsarsa._version import __version__

HERE = Path(__file__).parent
PYPROJECT = f"""\
[project]
name = "fedsarsa-bridge"
version = "{__version__}"
description = "Hands rounds to fedsarsa agents"
license = "MIT"
dependencies = []

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.flwr.app]
publisher = "fedsarsa"

[tool.flwr.app.components]
serverapp = "fedsarsa_bridge.server:app"
clientapp = "fedsarsa_bridge.bridge:app"

[tool.flwr.app.config]
home = ""
config = ""
keys = ""
attempt = ""
"""


def sources() -> dict[str, bytes]:
    """The app's files: the client side comes along, the server side is the installed package."""
    return {
        "pyproject.toml": PYPROJECT.encode(),
        "fedsarsa_bridge/__init__.py": b'"""Hands rounds to fedsarsa agents."""\n',
        "fedsarsa_bridge/bridge.py": (HERE / "bridge.py").read_bytes(),
        "fedsarsa_bridge/wire.py": (HERE / "wire.py").read_bytes(),
        "fedsarsa_bridge/server.py": b"from fedsarsa.deploy import server_app\n\napp = server_app.app\n",
    }


def write(folder: Path) -> None:
    """Write the app where ``flwr run`` can find it."""
    for name, content in sources().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def is_ours(bundle: bytes) -> bool:
    """Whether a Flower App Bundle is this app and nothing else, file by file."""
    return _unpacked(bundle) == _unpacked(build_fab_from_files(sources())[0])


def _unpacked(bundle: bytes) -> dict[str, bytes]:
    try:
        with ZipFile(BytesIO(bundle)) as files:
            return {name: files.read(name) for name in files.namelist()}
    except BadZipFile:
        return {}
