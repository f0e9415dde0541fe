"""A file from anybody: what is sound is read, what is not is reported, and only a stranger raises."""

from __future__ import annotations

import gc
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mew_lab.errors import JournalError
from mew_lab.log.line import write_line
from mew_lab.log.reading import LINE_LIMIT, MOST_HOLES, read_journal
from mew_lab.space.events import Record

NOW = datetime(2026, 11, 21, 22, 40, 1, tzinfo=UTC)
LINES = [write_line(Record(n, NOW, "received", "demo", raw='{"kind":"chat"}')) for n in range(1, 4)]


def written(folder: Path, data: bytes) -> Path:
    path = folder / "log.jsonl"
    path.write_bytes(data)
    return path


@pytest.mark.trap("T-27")
@pytest.mark.parametrize("kept", [1, 20, len(LINES[2]) - 2])
def test_a_torn_last_line_is_left_out_and_told(tmp_path: Path, kept: int) -> None:
    reading = read_journal(written(tmp_path, LINES[0] + LINES[1] + LINES[2][:kept]))
    assert [one.seq for one in reading] == [1, 2]
    assert reading.torn
    assert reading.unreadable == 0


def descriptors() -> set[str]:
    gc.collect()  # what earlier tests have dropped is not ours to count
    return {path.name for path in Path("/dev/fd").iterdir()}


def test_a_last_line_that_only_lost_its_end_is_whole(tmp_path: Path) -> None:
    reading = read_journal(written(tmp_path, LINES[0] + LINES[1][:-1]))
    assert [one.seq for one in reading] == [1, 2]
    assert not reading.torn


def test_a_file_torn_within_its_only_line_is_a_journal_with_nothing_in_it(tmp_path: Path) -> None:
    reading = read_journal(written(tmp_path, LINES[0][:-9]))
    assert list(reading) == []
    assert reading.torn


@pytest.mark.trap("T-27")
@pytest.mark.parametrize("broken", [b"garbage\n", b"{}\n", LINES[1][:30] + b"\n", b"\xff\xfe\n", b"\0\n"])
def test_a_broken_line_in_the_middle_is_reported_in_its_place(tmp_path: Path, broken: bytes) -> None:
    reading = read_journal(written(tmp_path, LINES[0] + broken + LINES[2]))
    records = list(reading)
    assert [one.event for one in records] == ["received", "unreadable", "received"]
    assert records[1].detail == "line 2 is not a whole record"
    assert records[1].now == NOW
    assert records[1].raw is None
    assert reading.unreadable == 1


@pytest.mark.threat(32)
@pytest.mark.parametrize("ended", [True, False])
def test_a_line_without_end_is_reported_and_not_held(tmp_path: Path, ended: bool) -> None:
    endless = b'{"seq":2,' + b" " * (2 * LINE_LIMIT) + (b"}\n" if ended else b"")
    reading = read_journal(written(tmp_path, LINES[0] + endless + (LINES[2] if ended else b"")))
    records = list(reading)
    assert records[1].detail == "line 2 is too long"
    assert [one.seq for one in records if one.event == "received"] == ([1, 3] if ended else [1])


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    records = list(read_journal(written(tmp_path, LINES[0] + b"\n \n" + b"x\n")))
    assert records[-1].detail == "line 4 is not a whole record"


def test_windows_line_ends_are_no_fault(tmp_path: Path) -> None:
    reading = read_journal(written(tmp_path, b"".join(line[:-1] + b"\r\n" for line in LINES)))
    assert [one.raw for one in reading] == ['{"kind":"chat"}'] * 3


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b"hello\n", "its first line is 'hello'"),
        (b'{"kind":"chat"}\n', "its first line is"),
        (b"[1]\n", "its first line is"),
        (b"\x89PNG\r\n\x1a\n", "its first line is"),
        (b"x" * (LINE_LIMIT + 5), "its first line is"),
    ],
)
def test_a_file_that_is_no_journal_is_a_sentence(tmp_path: Path, data: bytes, why: str) -> None:
    with pytest.raises(JournalError, match=r"is not a journal: " + why) as fault:
        read_journal(written(tmp_path, data))
    assert len(str(fault.value).splitlines()) == 1
    assert fault.value.path.endswith("log.jsonl")


@pytest.mark.threat(32)
def test_a_place_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "pipe", tmp_path / "a\0b"):
        with pytest.raises(JournalError, match="Cannot read the journal"):
            read_journal(path)


@pytest.mark.parametrize("gaps", [[], [1000], [1 << 34], [2, 4_000_000] * 10, [20_000] * 1000])
def test_a_file_that_is_mostly_gaps_is_not_read_and_one_with_small_gaps_is(
    tmp_path: Path, gaps: list[int]
) -> None:
    path = written(tmp_path, LINES[0])
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        for number, gap in enumerate(gaps):
            if number % 2 or len(gaps) == 1:
                file.truncate(file.tell() + gap)
                file.seek(0, os.SEEK_END)
            file.write(b"\n" + LINES[1])
    if path.stat().st_size - getattr(path.stat(), "st_blocks", 1 << 40) * 512 < MOST_HOLES:
        assert next(read_journal(path)).seq == 1
    else:
        with pytest.raises(
            JournalError, match=r"were never written.*`head -c \d+` copies what stands before"
        ):
            read_journal(path)


def test_a_reading_can_be_given_up(tmp_path: Path) -> None:
    open_before = descriptors()
    reading = read_journal(written(tmp_path, b"".join(LINES)))
    assert next(reading).seq == 1
    assert "log.jsonl" in repr(reading)
    reading.close()
    assert descriptors() <= open_before


@pytest.mark.threat(32)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=40) | st.sampled_from(LINES), max_size=8))
def test_no_file_that_begins_like_a_journal_raises(tmp_path: Path, parts: list[bytes]) -> None:
    data = b"".join([LINES[0], *parts])
    records = list(read_journal(written(tmp_path, data)))
    assert records[0].seq == 1
    assert all(one.event in ("received", "unreadable") for one in records)
