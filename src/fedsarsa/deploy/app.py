"""The Flower app that a deployment runs: the bridge for its nodes, the strategy for its server."""

import tomllib
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from flwr.cli.build import build_fab_from_files

from fedsarsa._version import __version__

HERE = Path(__file__).parent
NAME = "fedsarsa-bridge"
PYPROJECT = f"""\
[project]
name = "{NAME}"
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


def bundle() -> bytes:
    """The app as Flower sends it to those who run it: a Flower App Bundle, which is a zip file."""
    return build_fab_from_files(sources())[0]


def objection(given: bytes) -> str:
    """Why a Flower App Bundle is not this app and nothing else, file by file; "" if it is."""
    files = _unpacked(given)
    if files == _unpacked(bundle()):
        return ""
    try:
        project = tomllib.loads(files["pyproject.toml"].decode())["project"]
        name, version = str(project["name"])[:50], str(project["version"])[:50]
    except (KeyError, TypeError, ValueError):
        name, version = "", ""
    theirs = f"that of fedsarsa {version}" if name == NAME else "one that is not fedsarsa's"
    if (name, version) == (NAME, __version__):
        theirs += " with other files"
    return f"its node runs the app of its own fedsarsa {__version__} alone, and was sent {theirs}"


def _unpacked(given: bytes) -> dict[str, bytes]:
    try:
        with ZipFile(BytesIO(given)) as files:
            return {name: files.read(name) for name in files.namelist()}
    except BadZipFile:
        return {}
