"""Where the page listens, and what it says where others can reach it."""

import pytest

from fedsarsa.explore import server
from fedsarsa.explore.control_values import base_of
from fedsarsa.explore.server import Opened, on_loopback, open_page, serve


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("cluster", False),
    ],
)
def test_what_only_this_machine_can_reach(host, alone):
    assert on_loopback(host) == alone


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_a_page_for_others_begins_with_a_warning(monkeypatch, host, warned):
    said, at = [], []
    monkeypatch.setattr(server.webbrowser, "open", at.append)
    monkeypatch.setattr(Opened, "serve", lambda self: at.append(self.server.address))
    serve(base_of(), "federation", "", host, 0, None, said.append)
    assert host in at
    assert any("is not loopback" in line for line in said[:1]) == warned


def test_pages_of_elsewhere_are_let_in_only_where_they_are_asked_for():
    with pytest.raises(ValueError, match="view must be one of"):
        open_page(base_of(), "nothing")
    alone, shared = (open_page(base_of(), host=host) for host in ("127.0.0.1", "0.0.0.0"))
    assert "*" not in {origin.partition(":")[0] for origin in alone.server._tornado.websocket_origins}
    assert "*" in {origin.partition(":")[0] for origin in shared.server._tornado.websocket_origins}
    for one in (alone, shared):
        one.server.stop()
