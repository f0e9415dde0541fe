"""The index of a journal: its rows are those of the reference reader, and it is thrown away when in doubt."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mew_lab.log.entries import is_message
from mew_lab.log.files import Files
from mew_lab.log.index import LogIndex
from mew_lab.log.line_frame import line_frame
from mew_lab.log.table import to_frame
from mew_lab.space.events import Record
from tests.log.hostile import honest_lines, hostile_journal, hostile_lines

COLUMNS = (
    "seq", "time", "event", "from", "to", "kind", "context", "correlation_id", "verdict", "code", "pattern", "grant",
    "id", "ts", "method", "tool", "participant", "connection", "via", "detail", "size", "receivers", "deliveries",
    "space", "runtime_id", "message",
)  # fmt: skip


def expected(records: list[Record]) -> list[dict[str, Any]]:
    """The rows of records according to the reference reader."""
    rows = to_frame(records, events=True).to_dict("records")
    for row, record in zip(rows, records, strict=True):
        for name in ("to", "correlation_id", "receivers"):
            row[name] = [*row[name]]
        row["time"] = row["time"].to_pydatetime()
        row |= {"space": record.space, "runtime_id": record.runtime_id, "message": is_message(record)}
    return [{name: row[name] for name in COLUMNS} for row in rows]


def rows_of(index: LogIndex) -> list[dict[str, Any]]:
    names = ", ".join('epoch_us("time")' if name == "time" else f'"{name}"' for name in COLUMNS)
    rows = [
        dict(zip(COLUMNS, row, strict=True))
        for row in index.query(f"SELECT {names} FROM entries ORDER BY place")
    ]
    for row in rows:
        row["time"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["time"])
    return rows


def check(path: Path, index: LogIndex) -> None:
    faults: list[str] = []
    records = list(Files((path,)).read(faults))
    rows = rows_of(index)
    assert len(rows) == len(records) == len(index)
    for row, reference in zip(rows, expected(records), strict=True):
        assert row == reference
    assert index.faults == tuple(faults)
    places = index.rows(events=True)
    assert list(places) == list(range(len(records)))
    assert index.texts(places) == [record.raw for record in records]
    for place in list(places)[::7]:
        assert index.record(place) == records[place]
    frame, of_records = line_frame(index), to_frame(records)
    assert frame.equals(of_records)
    assert list(frame["raw"]) == list(of_records["raw"])
    assert list(frame["what"]) == list(of_records["what"])
    assert list(frame["payload"]) == list(of_records["payload"])
    assert {*frame["place"]} == {n for n, record in enumerate(records) if is_message(record)}


@pytest.mark.drawn
@pytest.mark.threat(32)
@pytest.mark.parametrize("seed", range(12))
def test_the_rows_are_those_of_the_reference_reader_however_hostile_the_file(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(seed))
    check(path, LogIndex(Files((path,))).build())


@pytest.mark.threat(32)
def test_each_hostile_line_after_a_usual_one_is_read_as_the_reference_reads_it(tmp_path: Path) -> None:
    """After a usual line, whose header is then known: a line that only looks like it is not taken for it."""
    first = honest_lines(random.Random(1), 3)
    lines = hostile_lines()
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join([*first, *lines, *lines]) + b"\n")
    check(path, LogIndex(Files((path,))).build())


def test_what_is_appended_is_added_at_any_point(tmp_path: Path) -> None:
    data = hostile_journal(5)
    dice = random.Random(5)
    path = tmp_path / "j.jsonl"
    path.write_bytes(data[:2000])
    index = LogIndex(Files((path,)))
    for end in [*sorted(dice.sample(range(2000, len(data)), 12)), len(data)]:
        path.write_bytes(data[:end])
        # A line that was whole without its line feed is a row already; what follows it would be another line.
        if data[end - 1 : end] == b"\n" or end == len(data):
            check(path, index.build())


def test_no_line_is_read_twice(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    lines = honest_lines(random.Random(2), 400)
    path.write_bytes(b"\n".join(lines[:300]) + b"\n")
    index = LogIndex(Files((path,))).build()
    seen: list[tuple[int, int]] = []
    index.progress = lambda done, total: seen.append((done, total))
    index.build()
    assert seen == [], "nothing was appended"
    with path.open("ab") as file:
        file.write(b"\n".join(lines[300:]) + b"\n")
    index.build()
    size = path.stat().st_size
    assert seen == [(size, size)]
    check(path, index)
