"""A journal is read while it is written: whole records, in order, over all its files, and anew when it was taken back."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mew_lab.errors import JournalError
from mew_lab.log.journal import Journal
from mew_lab.log.log import open_log
from mew_lab.log.tail import JournalChanged, Tail
from mew_lab.space.events import Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def note(seq: int, text: str = "") -> Record:
    return Record(seq, NOW + timedelta(seconds=seq), "decided", "demo", "anna", detail=text)


def test_records_come_as_they_are_written_over_all_files(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=2_000)
    journal.append([note(0)])
    tail = Tail(tmp_path / "j.jsonl")
    seen = tail.read(1 << 20)
    for seq in range(1, 60):
        journal.append([note(seq, "x" * (seq % 9))])
        if seq % 7 == 0:
            while some := tail.read(300):
                seen += some
    journal.close()
    while some := tail.read(300):
        seen += some
    assert len(journal.paths) > 4
    assert seen == list(open_log(tmp_path / "j.jsonl").records)
    assert tail.bytes == sum(path.stat().st_size for path in journal.paths)
    assert tail.path == journal.path
    tail.close()


def test_half_a_line_waits_for_its_end_and_a_long_one_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append([note(0), note(1, "x" * 500_000)])
    journal.close()
    data = (tmp_path / "j.jsonl").read_bytes()
    path = tmp_path / "half.jsonl"
    path.write_bytes(data[:-1])
    tail = Tail(path)
    assert [one.seq for one in tail.read(10_000)] == [0, 0]
    assert tail.read(10_000) == []
    path.write_bytes(data)
    assert [one.seq for one in tail.read(10_000)] == [1]
    tail.close()


@pytest.mark.parametrize("way", ["shorter", "replaced"])
def test_what_was_taken_back_is_told(tmp_path: Path, way: str) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append([note(0), note(1)])
    tail = Tail(tmp_path / "j.jsonl")
    tail.read(1 << 20)
    journal.close()
    if way == "shorter":
        os.truncate(tmp_path / "j.jsonl", (tmp_path / "j.jsonl").stat().st_size - 10)
    else:
        (tmp_path / "j.jsonl").unlink()
    with pytest.raises(JournalChanged):
        tail.read(1 << 20)
    tail.close()


def test_what_is_no_record_or_no_file_is_a_sentence(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append([note(0)])
    journal.close()
    with (tmp_path / "j.jsonl").open("ab") as file:
        file.write(b"\n{}\n")
    tail = Tail(tmp_path / "j.jsonl")
    with pytest.raises(JournalError, match="line 4 is not a whole record"):
        tail.read(1 << 20)
    tail.close()
    with pytest.raises(JournalError, match="No such file"):
        Tail(tmp_path / "none.jsonl")
    with pytest.raises(JournalError, match="no regular file"):
        Tail(tmp_path)
