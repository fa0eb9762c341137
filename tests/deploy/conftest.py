import pytest

from fedsarsa.deploy import config
from tests.deploy.federations import CONFIG


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(CONFIG)
    return config.load(path)


@pytest.fixture
def homes(tmp_path):
    made = [tmp_path / f"agent{i}" for i in range(3)]
    for home in made:
        home.mkdir(mode=0o700)
    return made
