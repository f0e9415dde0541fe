"""What follows from several messages is found in a process beside the kernel, and stored in the index."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd
import pytest

from mew_lab.log.facts import TABLES, Put, run_facts
from mew_lab.log.frame_columns import FRAMES
from mew_lab.log.log import open_log
from mew_lab.space.events import Record
from tests.log.hostile import honest_lines, hostile_journal
from tests.log.planted import CLEAN, FAULTS, converse

NAMES = [name for name in FRAMES if name != "verdicts"]


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every journal counts as large."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The passes that this process had to make itself."""
    names: list[str] = []

    def run(records: Iterable[Record], put: Put) -> None:
        names.append("facts")
        run_facts(records, put)

    monkeypatch.setattr("mew_lab.log.index.run_facts", run)
    return names


def wait_until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def journal(folder: Path, seed: int, events: int = 150) -> Path:
    path = folder / "j.jsonl"
    if seed % 2:
        path.write_bytes(hostile_journal(seed, events=events))
    else:
        path.write_bytes(b"\n".join(honest_lines(random.Random(seed), events)) + b"\n")
    return path


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_pass_over_every_planted_fault_fills_every_table(sessions: int) -> None:
    rows = Counter[str]()
    for seed in range(sessions):
        records = converse(seed, 60, *FAULTS, kinds=[*CLEAN])[0]
        run_facts(records, lambda table, columns: rows.update({table: len(columns[0])}))
    assert {*rows} == {*TABLES} and all(rows.values())


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 14))])
def test_a_process_finds_what_a_plain_pass_finds(
    seed: int, tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = journal(tmp_path, seed)
    log = open_log(path)
    wait_until(lambda: not log.index.passes and log.index.has_facts)
    with monkeypatch.context() as small:
        small.setattr("mew_lab.log.files.LARGE", 1 << 40)
        (tmp_path / "plain").mkdir()
        plain_path = tmp_path / "plain/j.jsonl"
        plain_path.write_bytes(path.read_bytes())
        plain = open_log(plain_path, index=False)
        expected = {name: plain.frame(name) for name in NAMES}
        told, found = plain.diagnose(), plain.filter("state exists or diag.rule exists").df
    for each in (log, open_log(path)):
        for name in NAMES:
            pd.testing.assert_frame_equal(each.frame(name), expected[name])
        assert [*each.diagnose()] == [*told]
        assert list(each.filter("state exists or diag.rule exists").df["place"]) == list(found["place"])
    assert here == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["j.jsonl", "plain"]


def test_a_pass_that_is_stopped_is_begun_again_by_what_needs_it(tmp_path: Path, here: list[str]) -> None:
    log = open_log(journal(tmp_path, 0))
    index = log.index
    assert set(index.passes) <= {"facts"}
    assert all(0 <= part <= 1 for part in index.passes.values())
    index.stop_passes()
    wait_until(lambda: not index.passes)
    log.index.rows()
    assert not log.index.passes, "nothing begins by itself after a stop"
    assert len(log.requests()) > 0 and here == []


def test_facts_of_lines_that_are_no_more_are_not_stored(tmp_path: Path) -> None:
    """The journal is written anew, with as many lines, while the passes read it."""
    path = journal(tmp_path, 0)
    log = open_log(path)
    log.index.rows()
    lines = path.read_bytes().splitlines(keepends=True)
    changed = [line.replace(b"chat", b"chit") for line in lines]
    assert changed != lines
    path.unlink()
    path.write_bytes(b"".join(changed))
    assert len(log.chat()) == 0
    assert len(open_log(path).chat()) == 0


def test_a_pass_is_made_here_where_no_process_can_be_begun(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.log.child_process.COMMAND", (str(tmp_path / "none"),))
    log = open_log(journal(tmp_path, 0))
    assert len(log.requests()) > 0
    log.diagnose()
    assert here == ["facts"] and log.index.has_facts


def test_a_pass_that_fails_is_made_here(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.log.child_process.COMMAND", (sys.executable, "-c", "raise SystemExit(3)"))
    assert len(open_log(journal(tmp_path, 0)).requests()) > 0
    assert here == ["facts"]


def test_passes_end_with_the_log_that_they_are_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
    monkeypatch.setattr("mew_lab.log.child_process.COMMAND", wait)
    log = open_log(journal(tmp_path, 0))
    assert set(log.index.passes) == {"facts"}
    del log
    wait_until(lambda: not [one for one in threading.enumerate() if one.name.startswith("log pass")])


ENDS_AT_ONCE = """
import sys
import mew_lab.log.child_process as process
import mew_lab.log.files
from mew_lab.log.log import open_log
from mew_lab.space.events import Record
mew_lab.log.files.LARGE = 1
process.COMMAND = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
log = open_log(sys.argv[1])
print(sorted(log.index.passes), flush=True)
"""


def test_a_process_ends_while_its_passes_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS_AT_ONCE, str(journal(tmp_path, 0))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout == "['facts']\n" and done.stderr == ""
    assert sorted(one.name for one in tmp_path.iterdir()) == ["j.jsonl"]
