"""The server's memory: what it resumes from, and what it rejects."""

import json
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedsarsa.deploy import ledger, server_app, table
from fedsarsa.deploy import server_process as servers
from fedsarsa.deploy.ledger import Standing
from tests.damage import damaged
from tests.deploy.federations import CONFIG, reference
from tests.deploy.grids import (
    assert_central,
    changed,
    robust,
)


def test_a_full_disk_at_checkpoint_time_leaves_the_last_checkpoint(settings, server, grid, monkeypatch):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    made = server()
    combine = made.combine

    def fill(attempt):
        if attempt.examiner.number == 4:  # from now on, writing more than a little fails
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
        return combine(attempt)

    monkeypatch.setattr(made, "combine", fill)
    try:
        with pytest.raises(OSError, match=r"could not be written .* is intact"):
            made.train(grid)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    again = server()
    assert again.standing.round == 3
    again.train(grid)
    assert_central(again, settings, reference(settings))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seed = 11", "seed = 12", "whose seed is 12, got one whose seed is 11"),
        (
            "[0.2, 0.5, 0.3]",
            "[0.5, 0.2, 0.3]",
            r"weights is \[0.5, 0.2, 0.3\], got one whose weights is \[0.2, 0.5, 0.3\]",
        ),
        ("radius = 8.0", "radius = 9.0", "radius is 9.0, got one whose radius is 8.0"),
        (
            "[algorithm]",
            "reward_cap = 11.0\n[algorithm]",
            r"reward_cap is 11\.0, got one whose reward_cap is 10\.0",
        ),
    ],
)
def test_a_checkpoint_of_another_federation_is_refused(server, tmp_path, old, new, message):
    server()
    with pytest.raises(ValueError, match=message):
        server(changed(tmp_path, "", CONFIG.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"median"', '"mean"', "rule is mean, got one whose rule is median"),
        (
            '"trimmed-mean"\nshare = 0.3',
            '"trimmed-mean"\nshare = 0.4',
            "share is 0.4, got one whose share is 0.3",
        ),
        ('"krum"\nliars = 2', '"krum"\nliars = 1', "liars is 1, got one whose liars is 2"),
        (
            '"mean"\nprivacy = { clip = 0.5, noise = 2.0 }',
            '"mean"\nprivacy = { clip = 0.5, noise = 1.0 }',
            r"privacy is .*noise=1.0.*, got one whose privacy is .*noise=2.0",
        ),
        ('"mean"\nprivacy = { clip = 0.5, noise = 2.0 }', '"mean"', "privacy is None, got one whose"),
    ],
)
def test_a_server_does_not_go_on_with_another_average(server, tmp_path, old, new, message):
    server(robust(tmp_path, f"[server]\nrule = {old}\n"))
    with pytest.raises(ValueError, match=message):
        server(robust(tmp_path, f"[server]\nrule = {new}\n"))


def test_what_may_change_while_a_federation_lasts(settings, server, tmp_path):
    server()
    longer = CONFIG.replace("steps = 70", "steps = 140")
    made = server(changed(tmp_path, "[server]\ndeadline = 5.0\nat_least = 2\nfraction = 0.9\n", longer))
    assert made.settings.rounds == 20


def test_fewer_steps_than_were_done_are_refused(server, finished, tmp_path):
    with pytest.raises(
        ValueError, match=r"training\.steps: expected at least the 70 of the 10 rounds .* got 63"
    ):
        server(changed(tmp_path, "", CONFIG.replace("steps = 70", "steps = 63")))


def test_taking_rounds_back_never_leaves_half_a_file(settings, server, grid, monkeypatch):
    made = server()
    made.train(grid)
    text = (made.home / ledger.ROUNDS).read_text()

    def crash(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        server()
    assert (made.home / ledger.ROUNDS).read_text() == text


@pytest.mark.parametrize("kept", [None, 0, 2 * 6 * 8 + 5])
def test_central_parameters_that_were_lost_are_not_zeros(settings, server, grid, kept):
    def stop(number):
        if number == 5:
            raise ConnectionError

    grid.before = stop
    with pytest.raises(ConnectionError):
        server().train(grid)
    grid.before = lambda number: None
    path = server().home / ledger.CENTRAL
    if kept is None:
        path.unlink()
    else:
        with path.open("r+b") as file:
            file.truncate(kept)
    server().train(grid)
    expected = reference(settings)
    expected[2 if kept else 0 : 5] = np.nan
    np.testing.assert_allclose(ledger.central(path.parent, 6), expected, rtol=0, atol=1e-12)


BAD_LINES = {
    "not JSON": b'{"round": 3, "agents": [0,',
    "empty": b"",
    "no object": b"5",
    "no round": b"{}",
    "no fields": b'{"round": 3}',
    "other fields": b'{"round": 3, "agents": 3}',
    "no text": b'{"round": 3, "agents": [\xff\xfe',
}


@pytest.fixture
def finished(server, grid):
    """A directory in which ten rounds are done."""
    made = server()
    made.train(grid)
    return made.home


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_a_damaged_line_is_told_and_the_history_after_it_stays(settings, server, finished, tmp_path, bad):
    path = finished / ledger.ROUNDS
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:3], bad, *lines[4:], b""]))
    damaged = path.read_bytes()
    message = r"rounds\.jsonl: line 4: expected a round as a JSON object with round, agents, .* got "
    with pytest.raises(ValueError, match=message):
        server()
    with pytest.raises(ValueError, match=message):
        table.status(finished)
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("cut", [*BAD_LINES.values(), b"\0\0\0"], ids=[*BAD_LINES, "no bytes"])
def test_a_last_line_that_was_cut_off_is_none(settings, server, finished, cut):
    path = finished / ledger.ROUNDS
    whole = path.read_bytes()
    path.write_bytes(whole + cut)
    assert [line["round"] for line in ledger.read(finished)] == list(range(11))
    server()
    assert path.read_bytes() == whole
    path.write_bytes(whole.removesuffix(b"\n"))
    assert [line["round"] for line in ledger.read(finished)] == list(range(11))


def test_a_server_app_tells_of_a_damaged_line(finished, tmp_path):
    (finished / ledger.ROUNDS).write_text("5\n")
    values = {"home": str(finished), "config": str(tmp_path / "federation.toml"), "attempt": "a", "keys": ""}
    with pytest.raises(ValueError, match=r"line 1: expected a round"):
        server_app.main(None, SimpleNamespace(run_config=values))
    assert "line 1: expected a round" in json.loads((finished / server_app.OUTCOME).read_text())["error"]


def test_where_to_go_on_is_what_the_checkpoint_says(settings, finished, tmp_path):
    assert servers._last_round(finished) == 10
    before = shutil.copytree(finished, tmp_path / "before")
    last = ledger._lines(before)[-1]
    with (before / ledger.ROUNDS).open("ab") as lines:  # written, and then the disk was full
        lines.write(ledger._sealed(last.record | {"round": 11}, last.digest)[0])
    assert [line["round"] for line in ledger.read(before)][-1] == 11
    assert servers._last_round(before) == 10
    (before / ledger.CHECKPOINT).unlink()
    assert servers._last_round(before) == 0
    with pytest.raises(FileNotFoundError, match="before: no round has been run there"):
        table.status(before)


@pytest.mark.parametrize("gone", [ledger.ROUNDS, ledger.CENTRAL, None])
@pytest.mark.parametrize("old", [True, False])
def test_a_checkpoint_that_is_older_than_the_rest_costs_no_round(server, grid, old, gone):
    made = server()
    made.train(grid)
    first = Standing(made.settings.theta0, made.standing.starts)
    (made.home / ledger.CHECKPOINT).unlink()
    if old:
        made.ledger.save(first)
    if gone is not None:
        (made.home / gone).unlink()
    before = {path.name: path.read_bytes() for path in made.home.iterdir()}
    given = "that of round 0" if old else "none"
    with pytest.raises(ValueError, match=rf"checkpoint of round 10, .*, got {given}; put it back, or move"):
        server()
    assert {path.name: path.read_bytes() for path in made.home.iterdir()} == before
    for name in {ledger.ROUNDS, ledger.CENTRAL} - {gone}:
        (made.home / name).unlink()
    assert server().standing.round == 0


def known(home, dim):
    """All that is read of a federation, and rewritten where it resumes."""
    return repr(ledger.read(home)), ledger.central(home, dim)


@pytest.mark.slow
@pytest.mark.parametrize("name", [ledger.ROUNDS, ledger.CENTRAL])
def test_damage_is_an_error_or_changes_nothing(settings, finished, name):
    path = finished / name
    lines, rows = known(finished, settings.dim)
    content, refused = path.read_bytes(), 0
    for harmed in damaged(np.random.default_rng(0), content, 2000):
        path.write_bytes(harmed)
        try:
            again, found = known(finished, settings.dim)
        except ValueError as error:
            refused += str(error).startswith(f"{path}: ")
            continue
        assert again == lines
        np.testing.assert_array_equal(found, rows[: len(found)])  # rows may be missing, and are seen to be
        if len(found) < len(rows):
            assert len(harmed) < len(content)
    assert refused > 1000


def test_the_last_row_of_an_older_version_is_that_of_the_checkpoint(server, finished):
    path = finished / ledger.ROUNDS
    older = [{key: line[key] for key in line if key != "central"} for line in ledger.read(finished)]
    path.write_text("".join(json.dumps(line) + "\n" for line in older))
    rows = (finished / ledger.CENTRAL).read_bytes()
    (finished / ledger.CENTRAL).write_bytes(rows[:-1] + bytes([rows[-1] ^ 1]))
    older = pytest.warns(RuntimeWarning, match=r"rounds\.jsonl: a file of an older version")
    others = r"central\.f64: expected the parameters after round 10, got others"
    with older, pytest.raises(ValueError, match=others):
        server()
    (finished / ledger.CENTRAL).write_bytes(rows)
    with older:
        assert server().standing.round == 10


def test_lines_that_were_cut_off_are_missed(server, finished):
    path = finished / ledger.ROUNDS
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in (lines[:5], lines[5:], lines[:4] + lines[5:], []):
        path.write_bytes(b"".join(kept))
        with pytest.raises(ValueError, match=r"rounds\.jsonl: .*put a copy back, or move the file away"):
            server()
    path.unlink()
    assert server().standing.round == 10
