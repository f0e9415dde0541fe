"""The index of a journal: its rows are those of the reference reader, and it is thrown away when in doubt."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mew_lab.errors import JournalError
from mew_lab.log import build
from mew_lab.log.build import Reached
from mew_lab.log.entries import is_message
from mew_lab.log.files import Files
from mew_lab.log.index import LogIndex
from mew_lab.log.line_frame import line_frame
from mew_lab.log.log import Log, open_log
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.log.sidecar import index_path
from mew_lab.log.table import to_frame
from mew_lab.space.events import Record
from tests.log.fuzz import mutated
from tests.log.hostile import honest_lines, hostile_journal, hostile_lines

from ..conftest import seeds

COLUMNS = (
    "seq", "time", "event", "from", "to", "kind", "context", "correlation_id", "verdict", "code", "pattern", "grant",
    "id", "ts", "method", "tool", "participant", "connection", "via", "detail", "size", "receivers", "deliveries",
    "space", "runtime_id", "message",
)  # fmt: skip


@pytest.fixture(autouse=True)
def by_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file counts as large enough for the statement."""
    monkeypatch.setattr("mew_lab.log.build.FEW", 0)


BY = pytest.mark.parametrize("few", [0, 1 << 40], ids=["by the statement", "by read_line"])


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
    assert list(places) == list(range(1, len(records) + 1))
    assert index.texts(places) == [record.raw for record in records]
    assert list(index.records(places)) == records
    for place in list(places)[:: 1 + len(places) // 10]:
        assert index.record(place) == records[place - 1]
    frame, of_records = line_frame(index), to_frame(records)
    assert frame.equals(of_records)
    assert list(frame["raw"]) == list(of_records["raw"])
    assert list(frame["what"]) == list(of_records["what"])
    assert list(frame["payload"]) == list(of_records["payload"])
    assert {*frame["place"]} == {n for n, record in enumerate(records, 1) if is_message(record)}


@pytest.mark.drawn
@pytest.mark.threat(32)
@BY
@pytest.mark.parametrize("seed", seeds(12))
def test_the_rows_are_those_of_the_reference_reader_however_hostile_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, few: int
) -> None:
    monkeypatch.setattr("mew_lab.log.build.FEW", few)
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(seed))
    check(path, LogIndex(Files((path,))).build())


@pytest.mark.threat(32)
@BY
def test_each_hostile_line_after_a_usual_one_is_read_as_the_reference_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("mew_lab.log.build.FEW", few)
    first = honest_lines(random.Random(1), 3)
    lines = hostile_lines()
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join([*first, *lines, *lines]) + b"\n")
    check(path, LogIndex(Files((path,))).build())


@pytest.mark.threat(32)
@pytest.mark.drawn
@pytest.mark.parametrize("seed", seeds(20))
def test_the_rows_of_a_mutated_file_are_those_of_the_reference_reader(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(mutated(b"\n".join(honest_lines(random.Random(3), 60)) + b"\n", random.Random(seed)))
    try:
        Files((path,)).read([])
        index = LogIndex(Files((path,))).build()
    except JournalError:
        return  # it is no journal any more
    check(path, index)


def vouched(index: LogIndex) -> int:
    [(count,)] = index.query("SELECT count(*) FILTER (vouched) FROM lines")
    return int(count)


def test_nearly_all_lines_of_a_gateway_are_vouched_for_by_the_statement(large: Path) -> None:
    """Else each would take the time of `read_line`."""
    index = LogIndex(Files((large,)), keep=False).build()
    [(whole,)] = index.query("SELECT count(*) FROM lines WHERE body > 0")
    assert vouched(index) > 0.8 * whole


@pytest.mark.parametrize("odd", [b"", b"  ", b"no record", b"\xff", b"x" * (LINE_LIMIT + 5)])
def test_one_odd_line_does_not_send_the_others_to_the_slow_reader(large: Path, odd: bytes) -> None:
    lines = large.read_bytes().splitlines()
    before = vouched(LogIndex(Files((large,)), keep=False).build())
    large.write_bytes(b"\n".join([*lines[:100], odd, *lines[100:]]) + b"\n")
    index = LogIndex(Files((large,)), keep=False).build()
    check(large, index)
    assert vouched(index) == before or len(odd) > LINE_LIMIT


@pytest.mark.threat(32)
@pytest.mark.parametrize("value", ["nan", "[1 , ]", "1e999", "[inf]"])
def test_a_payload_that_duckdb_alone_reads_is_no_message_for_a_filter(tmp_path: Path, value: str) -> None:
    lines = honest_lines(random.Random(1), 30)
    at, line = next((at, line) for at, line in enumerate(lines) if b'"payload":{' in line)
    changed = line.replace(b'"payload":{', b'"payload":{"odd":%b,' % value.encode(), 1)
    path = tmp_path / "j.jsonl"
    path.write_bytes(b"\n".join([*lines[:at], changed, *lines[at + 1 :]]) + b"\n")
    log = open_log(path)
    assert len(log.filter("payload.odd exists")) == 0
    assert list(log.index.records())[at].event == "unreadable"


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
    before = path.stat().st_size
    seen: list[tuple[int, int]] = []
    index.progress = lambda done, total: seen.append((done, total))
    index.build()
    assert seen == [], "nothing was appended"
    with path.open("ab") as file:
        file.write(b"\n".join(lines[300:]) + b"\n")
    index.build()
    size = path.stat().st_size
    assert seen[-1] == (size, size) and all(done >= before for done, _ in seen)
    check(path, index)


# --- the file in the cache folder ---


def kept(path: Path) -> Path:
    """The index file of a journal."""
    index = index_path(path)
    assert index is not None
    return index


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal that is large enough for an index file."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 10_000)
    monkeypatch.setattr("mew_lab.log.sidecar.BLOCK", 5000)
    path = tmp_path / "runs" / "j.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"\n".join(honest_lines(random.Random(3), 300)) + b"\n")
    return path


def kept_now(path: Path) -> Path:
    """The index file of a journal, which is built if it is not there."""
    index = LogIndex(Files((path,))).build()
    index.close()
    assert index.path == kept(path)
    return kept(path)


def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of lines that are added to an index from now on."""
    counts: list[int] = []
    add = build.add_lines

    def count(*given: Any) -> tuple[Reached, int]:
        reached, rows = add(*given)
        counts.extend([rows] if rows else [])
        return reached, rows

    monkeypatch.setattr("mew_lab.log.index.add_lines", count)
    return counts


def names_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_the_index_stands_in_one_private_file_and_is_taken_at_the_next_opening(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = LogIndex(Files((large,))).build()
    assert first.path == kept(large)
    assert names_in(large.parent) == ["j.jsonl"]
    assert stat.S_IMODE(first.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(first.path.parent.stat().st_mode) == 0o700
    counts = parsed(monkeypatch)
    second = LogIndex(Files((large,))).build()
    assert counts == [] and second.path == first.path and second.notes == ()
    check(large, second)


@pytest.mark.parametrize(
    "name", ["\N{PILE OF POO}" * 62 + "j.jsonl", "x" * 249 + ".jsonl", "\udcff" * 249 + ".jsonl"]
)
def test_a_journal_with_the_longest_name_has_an_index_and_can_be_written(
    large: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = large.with_name(name)
    try:
        large.replace(path)
    except OSError:
        pytest.skip("this system has no such names")
    first = LogIndex(Files((path,))).build()
    assert (first.path is None) == ("\udcff" in name), first.notes  # DuckDB opens no such path
    first.close()
    counts = parsed(monkeypatch)
    log = open_log(path)
    check(path, log.index.build())
    assert (counts == []) == (first.path is not None) and log.index.path == first.path
    for write, ending in ((log.to_parquet, "table"), (log.save, "saved")):
        target = path.with_name(name[:-5] + ending)
        write(target)
        assert target.stat().st_size


@pytest.mark.threat(46)
@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize(
    "name", ["[x].jsonl", "*.jsonl", "?.jsonl", "[!y].jsonl", "x[1]'.jsonl", "\udcff.jsonl"]
)
def test_the_index_reads_its_own_journal_alone_whatever_it_is_called(
    large: Path, name: str, is_kept: bool
) -> None:
    path = large.with_name(name)
    try:
        large.replace(path)
    except OSError:
        pytest.skip("this system has no such names")
    data = path.read_bytes()
    for other in ("x.jsonl", "x1'.jsonl"):
        path.with_name(other).write_bytes(data.replace(b"chat", b"evil"))
    index = LogIndex(Files((path,)), keep=is_kept).build()
    for kind, is_there in (("chat", True), ("evil", False)):
        assert bool(len(index.rows("kind = ?", (kind,)))) == is_there
    index.stop_passes()
    index.close()


def test_only_what_was_appended_is_read_at_the_next_opening(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogIndex(Files((large,))).build().close()
    more = honest_lines(random.Random(4), 5)
    with large.open("ab") as file:
        file.write(b"\n".join(more) + b"\n")
    counts = parsed(monkeypatch)
    index = LogIndex(Files((large,))).build()
    assert counts == [len(more)]
    check(large, index)
    assert names_in(large.parent) == ["j.jsonl"]


@pytest.mark.parametrize("asks", [LogIndex.build, LogIndex.write_facts], ids=["for rows", "for facts"])
def test_an_index_file_that_another_reader_has_extended_is_not_written_over(
    large: Path, asks: Callable[[LogIndex], object]
) -> None:
    first = LogIndex(Files((large,))).build()
    append(large)
    second = LogIndex(Files((large,))).build()
    asks(first)
    check(large, first)
    assert first.path is None and "another reader" in first.notes[0]
    check(large, second.build())
    again = LogIndex(Files((large,))).build()
    assert again.path is not None and again.notes == ()
    check(large, again)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.index(b'"participant":"', len(data) // 2) + 15
    data[at] ^= 1
    path.write_bytes(data)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n".join(honest_lines(random.Random(5), 3)) + b"\n")


def flip_and_append(path: Path) -> None:
    """As if lines had been added alone."""
    flip(path)
    append(path)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def damage(path: Path) -> None:
    data = bytearray(kept(path).read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    kept(path).write_bytes(data)


def set_version(path: Path) -> None:
    with duckdb.connect(str(kept(path))) as connection:
        connection.execute("UPDATE about SET value = '0' WHERE name = 'version'")


def empty_about(path: Path) -> None:
    with duckdb.connect(str(kept(path))) as connection:
        connection.execute("DELETE FROM about")


def lose_rows(path: Path) -> None:
    with duckdb.connect(str(kept(path))) as connection:
        connection.execute("DELETE FROM lines WHERE place % 2 = 0")


# --- an index is no evidence ---

ASKED = "kind ~ *"


def answer_of(log: Log) -> tuple[list[int], list[str]]:
    return list(log.filter(ASKED).df["place"]), list(log.df["from"].astype(str))


def scanned(path: Path) -> tuple[list[int], list[str]]:
    return answer_of(open_log(path, index=False))


@pytest.mark.threat(46)
@pytest.mark.parametrize("opened", [False, True], ids=["before it is opened", "while it is open"])
@pytest.mark.parametrize(
    "parts", [(0.02, 0.5, 0.95), pytest.param(tuple(n / 40 for n in range(40)), marks=pytest.mark.slow)]
)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_filter_gives_the_answer_of_a_scan_for_every_length_to_which_the_index_is_cut(
    large: Path, opened: bool, parts: tuple[float, ...]
) -> None:
    answered = "state == answered"
    scan = open_log(large, index=False)
    expected = (answer_of(scan), list(scan.filter(answered).df["place"]))
    size = kept_now(large).stat().st_size
    for part in parts:
        log = open_log(large)
        assert log.index.path == kept(large), log.index.notes
        log.filter(answered).df  # noqa: B018 - the facts are in the file, too
        log.index.stop_passes()
        if not opened:
            log.index.close()
            log = open_log(large)
        os.truncate(kept(large), int(size * part))
        assert (answer_of(log), list(log.filter(answered).df["place"])) == expected, part
        log.index.close()


@pytest.mark.threat(46)
@pytest.mark.parametrize("seed", range(3))
def test_a_filter_gives_the_answer_of_a_scan_whichever_bytes_of_its_index_are_other(
    large: Path, seed: int
) -> None:
    dice = random.Random(seed)
    expected = answer_of(open_log(large, index=False))
    log = open_log(large)
    log.index.build()
    log.index.stop_passes()
    with kept(large).open("r+b") as file:
        for start in range(dice.randrange(12_288), kept(large).stat().st_size, 4096):
            file.seek(start)
            file.write(dice.randbytes(64))
    assert answer_of(log) == expected
    log.index.close()


def with_view(index: Path) -> None:
    with duckdb.connect(str(index)) as database:
        [(view,)] = database.execute("SELECT sql FROM duckdb_views() WHERE view_name = 'entries'").fetchall()
        forged = view.rstrip("; \n") + " WHERE kind <> 'mcp/request'"
        database.execute(forged.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))


def with_macro(index: Path) -> None:
    with duckdb.connect(str(index)) as database:
        database.execute("CREATE MACRO regexp_matches(a, b) AS true")


def with_columns(index: Path) -> None:
    with duckdb.connect(str(index)) as database:
        database.execute("UPDATE lines SET id = 'forged'")


def with_endless_about(index: Path) -> None:
    with duckdb.connect(str(index)) as database:
        database.execute("ALTER TABLE about RENAME TO other")
        database.execute(
            "CREATE VIEW about AS SELECT repeat('x', 3000000000) AS name, range AS value FROM range(1000000000)"
        )


def of_another_journal(index: Path) -> None:
    """The index and the seal of another journal, which this user wrote."""
    other = index.with_name("other.jsonl")
    other.write_bytes(b"\n".join(honest_lines(random.Random(8), 300)) + b"\n")
    built = LogIndex(Files((other,))).build()
    assert built.path is not None
    built.close()
    for path in (built.path, built.path.with_name(f"{built.path.name}.seal")):
        shutil.copy2(path, index.with_name(path.name.replace(built.path.name, index.name)))


def with_endless_seal(index: Path) -> None:
    seal = index.with_name(f"{index.name}.seal")
    seal.unlink(missing_ok=True)
    seal.symlink_to("/dev/zero")


def with_deep_seal(index: Path) -> None:
    index.with_name(f"{index.name}.seal").write_text("[" * 15_000)


FORGERIES = [
    with_endless_seal,
    with_deep_seal,
    with_view,
    with_macro,
    with_columns,
    with_endless_about,
    of_another_journal,
]


@pytest.mark.sampled
@pytest.mark.threat(46)
@pytest.mark.parametrize(
    "way", ["in place", "copied over it", "with its times set back", "in a folder that was sent"]
)
@pytest.mark.parametrize("forge", FORGERIES)
def test_an_index_that_somebody_changed_is_not_opened(
    large: Path, tmp_path: Path, forge: Callable[[Path], None], way: str
) -> None:
    """Nor is one that was written by this user, and then copied elsewhere."""
    expected = scanned(large)
    folder = tmp_path / "indexes" if way == "in a folder that was sent" else None
    if folder is not None:
        folder.mkdir()
    with_folder: dict[str, Any] = {"index": folder} if folder is not None else {}
    log = open_log(large, **with_folder)
    log.index.stop_passes()
    log.index.close()
    index = index_path(large, folder)
    assert index is not None and index.is_file()
    before = index.stat()
    if way == "copied over it":
        copy = index.with_name("copy")
        shutil.copy2(index, copy)
        forge(copy)
        copy.replace(index)
    else:
        forge(index)
    if way == "with its times set back":
        os.utime(index, ns=(before.st_atime_ns, before.st_mtime_ns))
    if folder is not None:  # packed and unpacked: names, modes, times and contents are the same
        sent = tmp_path / "sent"
        shutil.copytree(folder, sent, symlinks=True)
        shutil.rmtree(folder)
        sent.rename(folder)
    log = open_log(large, **with_folder)
    assert answer_of(log) == expected
    assert any("it is built anew" in note for note in log.index.notes)
    again = open_log(large, **with_folder)
    assert answer_of(again) == expected and again.index.notes == ()


@pytest.mark.threat(46)
def test_the_index_beside_a_journal_is_not_opened_and_told_once(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = large.with_name(f"{large.name}.idx")
    shutil.copy2(kept_now(large), beside)
    with_view(beside)
    before = beside.read_bytes()
    notes = [note for _ in range(3) for note in open_log(large).index.notes]
    assert notes == [f"{beside} is the index of an earlier version. It is not read, and may be deleted."]
    assert answer_of(open_log(large)) == scanned(large) and beside.read_bytes() == before


@pytest.mark.threat(46)
def test_a_question_to_an_index_reads_no_other_file_and_changes_no_setting(large: Path) -> None:
    for _ in range(2):  # when it was just built, and when it is taken from its file
        index = LogIndex(Files((large,))).build()
        assert index.query("SELECT count(*) FROM entries")
        for sql in (
            "SELECT * FROM read_text('/etc/passwd')",
            "COPY (SELECT 1) TO '/tmp/out.csv'",
            "ATTACH '/tmp/other' AS other",
            "SET enable_external_access = true",
            "RESET lock_configuration",
        ):
            with pytest.raises((duckdb.PermissionException, duckdb.InvalidInputException)):
                index.query(sql)
        index.close()


@pytest.mark.threat(46)
@pytest.mark.parametrize("spoil", ["readable", "short", "link", "folder"])
def test_without_a_key_of_its_own_the_index_is_kept_in_memory(
    large: Path, tmp_path: Path, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    LogIndex(Files((large,))).build()
    key = tmp_path / "state" / "mew-lab" / "index.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    if spoil == "readable":
        key.chmod(0o644)
    elif spoil == "short":
        key.write_bytes(b"x")
    else:
        key.rename(key.with_name("other"))
        key.mkdir() if spoil == "folder" else key.symlink_to("other")
    index = LogIndex(Files((large,))).build()
    assert index.path is None and "kept in memory" in index.notes[0]
    check(large, index)


def test_the_indexes_of_journals_that_are_gone_are_deleted(large: Path) -> None:
    index = LogIndex(Files((large,))).build()
    gone = index.path
    assert gone is not None and gone.is_file()
    large.rename(large.with_name("k.jsonl"))
    LogIndex(Files((large.with_name("k.jsonl"),))).build()
    assert not gone.exists() and not gone.with_name(f"{gone.name}.seal").exists()


CHANGES: list[Callable[[Path], object]] = [
    flip,
    flip_and_append,
    replace,
    damage,
    set_version,
    empty_about,
    lose_rows,
    lambda path: path.write_bytes(path.read_bytes()[:-3000]),
    lambda path: path.write_bytes(b"x" + path.read_bytes()[1:] + b"{}\n"),
    lambda path: kept(path).write_bytes(b"no database"),
    lambda path: kept(path).write_bytes(b""),
    lambda path: kept(path).chmod(0o644),
    lambda path: (
        kept(path).rename(path.with_name("x")),
        kept(path).symlink_to(path.with_name("x")),
    ),
]


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def cut_and_append(path: Path) -> None:
    """As a gateway that resumes a journal removes a torn line and writes another one."""
    data = path.read_bytes()
    cut(path)
    with path.open("ab") as file:
        file.write(b"\n" + data)


@pytest.mark.sampled
@pytest.mark.threat(32)
@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (flip_and_append, True),
        *((one, kept) for one in (flip, replace, cut, cut_and_append) for kept in (True, False)),
    ],
)
def test_a_journal_that_is_changed_while_its_index_is_in_use_is_indexed_anew(
    large: Path, change: Callable[[Path], object], kept: bool
) -> None:
    index = LogIndex(Files((large,)), keep=kept).build()
    with large.open("ab") as file:
        file.write(b'{"seq":1,"now":"2026')  # a torn line
    check(large, index.build())
    assert index.notes == ()
    change(large)
    check(large, index.build())
    assert "was changed since it was indexed" in index.notes[0]


@pytest.mark.threat(32)
def test_a_journal_whose_times_alone_are_other_keeps_its_index(
    large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogIndex(Files((large,))).build().close()
    os.utime(large)
    counts = parsed(monkeypatch)
    index = LogIndex(Files((large,))).build()
    check(large, index)
    assert counts == [] and index.notes == ()


@pytest.mark.threat(46)
@pytest.mark.parametrize("grows", [False, True])
def test_a_line_that_is_changed_while_it_is_indexed_is_found_out_at_the_next_opening(
    large: Path, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    changed = False

    def change(*_: object) -> None:
        nonlocal changed
        if not changed:
            changed = True
            (flip_and_append if grows else flip)(large)

    index = LogIndex(Files((large,)), progress=change).build()
    index.stop_passes()
    index.close()
    assert changed
    check(large, LogIndex(Files((large,))).build())


@pytest.mark.threat(46)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe with a name")
@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_journal_is_a_sentence_and_never_waited_for(large: Path) -> None:
    log = open_log(large)
    log.index.build()
    log.index.stop_passes()
    large.unlink()
    os.mkfifo(large)
    for name in (large, large.parent / "*.jsonl", large.with_name("[j].jsonl")):
        with pytest.raises(JournalError, match="no regular file"):
            len(open_log(name))
    with pytest.raises(JournalError, match=r"Cannot read .*no regular file"):
        log.index.build()


def test_a_journal_that_is_gone_is_an_error_that_names_it(large: Path) -> None:
    index = LogIndex(Files((large,))).build()
    large.unlink()
    with pytest.raises(JournalError, match=r"Cannot read .*j\.jsonl: No such file"):
        index.build()


@pytest.mark.slow
def test_a_torn_line_that_is_completed_becomes_a_row(large: Path) -> None:
    data = large.read_bytes()
    last = data.rstrip(b"\n").rfind(b"\n") + 1
    for end in (last + 5, last + 50, len(data) - 2, len(data)):
        large.write_bytes(data[:last])
        index = LogIndex(Files((large,))).build()
        rows = len(index)
        with large.open("ab") as file:
            file.write(data[last:end])
        check(large, index.build())
        with large.open("ab") as file:
            file.write(data[end:])
        check(large, index.build())
        assert len(index) == rows + 1


@pytest.mark.sampled
@pytest.mark.threat(27, 32)
@pytest.mark.parametrize("change", CHANGES)
def test_an_index_in_doubt_is_built_anew(
    large: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    LogIndex(Files((large,))).build().close()
    change(large)
    counts = parsed(monkeypatch)
    index = LogIndex(Files((large,))).build()
    assert sum(counts) > 100, "the whole journal was read"
    assert len(index.notes) == 1 and index.notes[0].endswith("it is built anew.")
    check(large, index)


def test_no_index_file_is_written_where_that_is_forbidden(large: Path, tmp_path: Path) -> None:
    index = LogIndex(Files((large,)), keep=False).build()
    assert (index.path, names_in(large.parent)) == (None, ["j.jsonl"])
    check(large, index)
    (tmp_path / "cache").mkdir()
    elsewhere = open_log(large, index=tmp_path / "cache").index
    assert elsewhere.path is not None and elsewhere.path.parent == tmp_path / "cache"
    assert names_in(large.parent) == ["j.jsonl"]
    check(large, elsewhere)


def test_a_folder_that_cannot_be_written_to_is_told_and_the_index_is_in_memory(
    large: Path, tmp_path: Path
) -> None:
    index = LogIndex(Files((large,)), keep=tmp_path / "absent").build()
    assert index.path is None
    assert (
        index.notes[0].startswith(f"The index {tmp_path / 'absent'}") and "kept in memory" in index.notes[0]
    )
    check(large, index)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import mew_lab.log.files
from mew_lab.log.files import Files
from mew_lab.log.index import LogIndex
mew_lab.log.files.LARGE = 10_000
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
path = Path(sys.argv[1])
index = LogIndex(Files((path,))).build()
print(len(index), index.path, [one.name for one in path.parent.iterdir()])
print(*index.notes)
"""


NO_ROOM_FOR_FACTS = """
import resource, signal, sys
from pathlib import Path
import mew_lab.log.files
from mew_lab.log.log import Log, open_log
mew_lab.log.files.LARGE = 10_000
log = open_log(sys.argv[1])
log.index
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
print(len(log.filter("state exists")), len(log.filter("diag.severity exists")), len(log.index))
print(*log.index.notes)
"""


def test_facts_that_find_no_room_on_the_disk_are_kept_in_memory(large: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM_FOR_FACTS, str(large)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    counted, told = done.stdout.splitlines()
    log = open_log(large, index=False)
    expected = [len(log.filter(text)) for text in ("state exists", "diag.severity exists")]
    assert counted.split() == [*map(str, expected), str(len(log.index))] and expected[0] > 0
    assert "cannot be written" in told and "kept in memory" in told


HELD = """
import sys, threading
from mew_lab.log.log import Log, open_log
held = threading.Event()
def hold():
    log = open_log(sys.argv[1])
    log.index
    held.set()
    threading.Event().wait()
threading.Thread(target=hold, daemon=True).start()
held.wait()
"""


def test_an_index_that_a_thread_holds_at_the_end_is_closed(large: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELD, str(large)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""


def test_a_disk_without_room_is_told_and_the_index_is_in_memory(large: Path) -> None:
    """A limit on the size of files stands for the full disk."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(large)], capture_output=True, text=True, timeout=60, check=True
    )
    counted, told = done.stdout.splitlines()
    assert counted == f"{len(large.read_bytes().splitlines())} None ['j.jsonl']"
    assert "cannot be written" in told and "kept in memory" in told


def test_a_journal_of_rotated_files_is_one_index(tmp_path: Path) -> None:
    lines = honest_lines(random.Random(6), 300)
    paths = tuple(tmp_path / f"j-{n}.jsonl" for n in range(3))
    for n, path in enumerate(paths):
        path.write_bytes(b"\n".join(lines[n::3]) + b"\n")
    index = LogIndex(Files(paths)).build()
    records = list(Files(paths).read([]))
    assert list(index.records()) == records
    assert index.texts(index.rows()) == [record.raw for record in records if is_message(record)]


def test_the_rows_of_several_files_stand_in_their_order(large: Path) -> None:
    """After each record stands a line that is none: its time is that of the record."""
    lines = [part for line in honest_lines(random.Random(6), 300) for part in (line, b"no record")]
    paths = (large, large.with_name("j-2.jsonl"))
    for path, count in zip(paths, (12, 1), strict=True):
        path.write_bytes(b"\n".join(lines * count) + b"\n")
    index = LogIndex(Files(paths)).build()
    records = list(Files(paths).read([]))
    assert rows_of(index) == expected(records) and list(index.records()) == records


def test_the_rows_of_a_file_are_found_while_the_next_one_is_indexed(tmp_path: Path) -> None:
    lines = honest_lines(random.Random(7), 400)
    paths = tuple(tmp_path / f"j-{n}.jsonl" for n in range(3))
    for n, path in enumerate(paths):
        path.write_bytes(b"\n".join(lines[n::3]) + b"\n")
    found: list[int] = []

    def look(done: int, total: int) -> None:
        assert 0 <= done <= total == sum(path.stat().st_size for path in paths)
        found.append(len(index.rows(events=True)))

    index = LogIndex(Files(paths), progress=look)
    index.build()
    assert found == sorted(found) and {len(lines[0::3]), len(lines)} <= {*found}


def test_a_file_that_takes_the_place_of_a_journal_while_it_is_read_gives_no_rows(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB opens a file by its path, and the digests are those of the file that was opened."""
    add, forged = build.add_lines, tmp_path / "forged.jsonl"
    forged.write_bytes(large.read_bytes().replace(b'"chat"', b'"CHAT"'))
    shutil.copyfile(large, own := tmp_path / "own.jsonl")

    def swap(connection: Any, path: Path, *more: Any) -> Any:
        if forged.exists():
            forged.replace(large)
        return add(connection, path, *more)

    monkeypatch.setattr("mew_lab.log.index.add_lines", swap)
    index = LogIndex(Files((large,)), keep=False).build()
    assert not forged.exists()
    assert rows_of(index) == expected(list(Files((own,)).read([])))


def test_an_interrupt_of_the_building_ends_it_and_leaves_no_rows(large: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    index = LogIndex(Files((large,)), keep=False, progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        index.build()
    index.progress = None
    check(large, index.build())


def test_records_in_memory_have_an_index_too(shared: Path) -> None:
    log = open_log(shared / "captures" / "3-proposals")
    records = list(log.records)
    index = log.index
    assert list(index.records()) == records
    assert rows_of(index) == expected(records)
    assert len(index.rows("kind = ?", ["mcp/proposal"])) == 3
    assert index.texts(index.rows()) == [record.raw for record in records if is_message(record)]


def test_questions_of_other_threads_are_answered_while_the_index_grows(large: Path) -> None:
    index = LogIndex(Files((large,))).build()
    over, faults, counts = threading.Event(), list[BaseException](), list[int]()

    def ask() -> None:
        try:
            while not over.is_set():
                [(count,)] = index.query("SELECT count(*) FROM entries")
                counts.append(count)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            append(large)
            index.build()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert faults == [] and index.notes == () and index.path == kept(large)
    assert counts[0] <= counts[-1] <= len(index)
    check(large, index)
    index.close()
