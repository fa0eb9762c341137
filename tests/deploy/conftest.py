import logging

import pytest
from flwr.supercore.task_identity import TaskIdentity

from fedsarsa.deploy import exchange, federation_config
from fedsarsa.deploy.agent import Agent
from fedsarsa.deploy.ledger import Ledger
from fedsarsa.deploy.round_loop import RoundLoop
from tests.deploy.deployments import short_home
from tests.deploy.federations import CONFIG
from tests.deploy.grids import NODES, FakeGrid


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(CONFIG)
    return federation_config.load(path)


@pytest.fixture
def short_path():
    with short_home() as made:
        yield made


@pytest.fixture
def homes(short_path):
    made = [short_path / f"agent{i}" for i in range(3)]
    for home in made:
        home.mkdir(mode=0o700)
    return made


@pytest.fixture
def _quick(monkeypatch):
    monkeypatch.setattr(exchange, "POLL", 0.001)
    monkeypatch.setattr(exchange, "LONGEST_POLL", 0.001)
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def grid(settings, homes):
    return FakeGrid({node: Agent(settings, i, homes[i]) for i, node in enumerate(NODES)})


@pytest.fixture
def server(settings, tmp_path, said, _quick):
    home = tmp_path / "server"
    home.mkdir(exist_ok=True)

    def make(changed=settings, keys=None):
        made = RoundLoop(changed, Ledger(changed, home), keys)
        made.said, made.home = said("server"), home
        return made

    return make


@pytest.fixture
def said(caplog):
    """What a part of a deployment has logged, from now on: ``said("server")``."""
    logger = logging.getLogger("fedsarsa.deploy")
    heard = {}

    class Handler(logging.Handler):
        def emit(self, record):
            heard.setdefault(record.name.rpartition(".")[2], []).append(record.getMessage())

    handler = Handler()
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, logger.name)
    yield lambda part: heard.setdefault(part, [])
    logger.removeHandler(handler)
