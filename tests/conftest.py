import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fedsarsa", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fedsarsa")
# Ray's workers give way to every other process, and so to the tests beside them: compiling took minutes.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112


@pytest.fixture(autouse=True)
def _quiet_terminal(monkeypatch):
    monkeypatch.setitem(os.environ, "COLUMNS", "200")
    monkeypatch.setitem(os.environ, "NO_COLOR", "1")
