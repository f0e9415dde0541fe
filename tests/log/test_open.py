"""Opening anything: folders, patterns, lists, compressed files, Parquet, files that are no logs; without loss."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import zstandard

from mew_lab.errors import JournalError
from mew_lab.log.journal import Journal
from mew_lab.log.log import Log, open_log
from mew_lab.log.table import COLUMNS
from mew_lab.log.unpacked import FORMATS
from mew_lab.space.events import Record
from mew_lab.transport.scratch import ScratchFolder
from tests.log.hostile import hostile_journal
from tests.log.stage import keep

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".zst": zstandard.compress}


def record(seq: int, space: str = "demo") -> Record:
    raw = json.dumps({"kind": "chat", "id": f"{space}-{seq}", "from": "bot", "payload": {"text": "hi"}})
    return Record(seq, NOW, "received", space, "bot", "c1", "memory", "accepted", raw=raw)


def write(path: Path, count: int, space: str = "demo") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    keep([record(seq, space) for seq in range(1, count + 1)], path)
    return path


@pytest.mark.parametrize("ending", PACK)
def test_a_compressed_journal_is_the_journal(tmp_path: Path, ending: str) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(hostile_journal(3))
    packed = tmp_path / "packed" / f"plain.jsonl{ending}"
    packed.parent.mkdir()
    packed.write_bytes(PACK[ending](plain.read_bytes()))
    log, expected = open_log(packed), open_log(plain)
    assert list(log.records) == list(expected.records)
    assert log.df.equals(expected.df)
    assert log.faults == expected.faults
    assert open_log(packed.parent).df.equals(expected.df)
    assert [path.name for path in packed.parent.iterdir()] == [packed.name], "nothing is written beside it"


@pytest.mark.parametrize("ending", PACK)
def test_compressed_data_that_end_early_are_read_so_far_and_told(tmp_path: Path, ending: str) -> None:
    data = b"".join(path.read_bytes() for path in [write(tmp_path / "j.jsonl", 20_000)])
    packed = tmp_path / f"torn.jsonl{ending}"
    packed.write_bytes(PACK[ending](data)[:-1000])
    log = open_log(packed)
    assert 0 < len(log) < 20_000
    assert list(log.df["seq"]) == list(range(1, len(log) + 1))
    assert any("end early or are damaged" in fault for fault in log.faults) or ending == ".zst"
    assert log.faults, "what is missing is told"


def test_damaged_compressed_data_are_a_sentence(tmp_path: Path) -> None:
    for ending, start in ((".gz", b"\x1f\x8b"), (".zst", b"\x28\xb5\x2f\xfd"), (".parquet", b"PAR1")):
        path = tmp_path / f"x{ending}"
        path.write_bytes(start + b"nothing that was ever compressed")
        with pytest.raises(JournalError, match=r"^Cannot (unpack|read) .*\. Name a"):
            open_log(path)


def test_the_unpacked_file_is_private_and_goes_with_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    packed = tmp_path / "j.jsonl.gz"
    packed.write_bytes(gzip.compress(write(tmp_path / "j.jsonl", 3).read_bytes()))
    log = open_log(packed)
    (folder,) = (tmp_path / "tmp").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o600 for one in folder.rglob("*.jsonl"))
    del log
    assert list((tmp_path / "tmp").iterdir()) == []


def bomb(first: bytes, size: int) -> Iterator[bytes]:
    yield first
    for _ in range(size >> 20):
        yield bytes(1 << 20)


def pack_pieces(ending: str, pieces: Iterator[bytes]) -> bytes:
    if ending == ".gz":
        packer: Any = zlib.compressobj(9, zlib.DEFLATED, 31)
    else:
        packer = zstandard.ZstdCompressor().compressobj()
    return b"".join([*(packer.compress(piece) for piece in pieces), packer.flush()])


@pytest.mark.threat(47)
@pytest.mark.parametrize("ending", PACK)
@pytest.mark.parametrize("starts", ["as a log", "as none"])
@pytest.mark.sampled(3)
def test_a_small_file_that_gives_endless_bytes_is_a_sentence_and_leaves_none_of_them(
    tmp_path: Path, ending: str, starts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    first = write(tmp_path / "j.jsonl", 1).read_bytes() if starts == "as a log" else b"x"
    path = tmp_path / f"bomb.jsonl{ending}"
    path.write_bytes(pack_pieces(ending, bomb(first, 160 << 20)))
    written: list[int] = []
    usage = shutil.disk_usage

    def count(place: Path) -> Any:
        written.append(sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file()))
        return usage(place)

    monkeypatch.setattr("shutil.disk_usage", count)
    why = r"it gives more than \d+ MiB.*most=BYTES" if starts == "as a log" else "is not a journal"
    with pytest.raises(JournalError, match=why) as caught:
        open_log(path)
    size = path.stat().st_size
    assert max(written) <= (64 << 20) + 200 * size if starts == "as a log" else max(written) < 20 << 20
    held = sum(file.stat().st_size for file in scratch.rglob("*") if file.is_file())
    assert held == 0, caught.value
    if starts == "as a log":
        with pytest.raises(JournalError, match="more than 3 MiB"):
            open_log(path, most=3 << 20)
        assert len(open_log(path, most=1 << 30)) == 1


@pytest.mark.threat(47)
@pytest.mark.slow
def test_a_parquet_file_of_endless_equal_rows_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 1 AS seq, now() AS time, 'received' AS event, 'accepted' AS verdict, "
            f"""'{{"kind":"chat"}}' AS raw FROM range(400000)) TO '{path}' (COMPRESSION zstd)"""
        )
        connection.execute(
            "COPY (SELECT 1 AS seq, now() AS time, 'received' AS event, 'accepted' AS verdict, "
            "CASE WHEN i > 0 THEN repeat('x', 30000000) ELSE '{}' END AS raw FROM range(51) AS r(i)) "
            f"TO '{tmp_path / 'long.parquet'}' (COMPRESSION zstd)"
        )
    with pytest.raises(JournalError, match="it gives more than"):
        open_log(path)
    assert "50 lines could not be read" in open_log(tmp_path / "long.parquet").faults[0]


@pytest.mark.sampled
@pytest.mark.threat(47)
@pytest.mark.parametrize(
    "name",
    [
        "[x].parquet",
        "*.parquet",
        "a?.parquet",
        "a\\*.parquet",
        "{x,y}.parquet",
        "seq=5/x.parquet",
        "file:x.parquet",
        "x'.parquet",
    ],
)
def test_the_name_of_a_parquet_file_is_no_pattern_of_others_and_no_column(tmp_path: Path, name: str) -> None:
    log = open_log(write(tmp_path / "j.jsonl", 3))
    for other in ("x", "a", "ab", "y", "a1"):
        open_log(write(tmp_path / other / "k.jsonl", 2, "other")).to_parquet(tmp_path / f"{other}.parquet")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    log.to_parquet(tmp_path / "plain")
    (tmp_path / "plain").rename(path)
    assert list(open_log(path).records) == list(log.records)


@pytest.mark.threat(47)
def test_a_time_that_no_date_has_is_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            "COPY (SELECT 1 AS seq, unnest([TIMESTAMP '29400-01-01', TIMESTAMP '4000-01-01 (BC)', TIMESTAMP '2026-01-01', "
            "'infinity'::TIMESTAMP]) AS time, 'received' AS event, 'accepted' AS verdict, '{}' AS raw) "
            f"TO '{path}' (FORMAT parquet)"
        )
    log = open_log(path)
    assert [one.now.year for one in log.records if one.event != "unreadable"] == [2026, 1970]
    assert "2 lines could not be read" in log.faults[0]


KILLED = """
import os, signal, sys
from mew_lab.transport.scratch import ScratchFolder
kept = ScratchFolder()
(kept.path / "data").write_text("x")
print(kept.path, flush=True)
sys.stdin.read()
"""


def test_the_folder_of_a_killed_process_is_deleted_by_the_next_and_no_other_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mew_lab.transport.scratch.FRESH", 0.0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    processes, folders = [], []
    for _ in range(2):
        environment = os.environ | {"TMPDIR": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        assert process.stdout is not None
        processes.append(process)
        folders.append(Path(process.stdout.readline().strip()))
    (tmp_path / "mew_lab-foreign").mkdir()
    (tmp_path / "mew_lab-linked").symlink_to(folders[1])
    own = ScratchFolder()
    assert all(folder.is_dir() for folder in folders)
    processes[0].kill()
    processes[0].wait(20)
    another = ScratchFolder()
    assert [folder.is_dir() for folder in folders] == [False, True]
    assert own.path.is_dir() and (tmp_path / "mew_lab-foreign").is_dir()
    own.remove()
    another.remove()
    assert not own.path.exists()
    for process in processes:
        process.communicate()


def test_a_disk_without_room_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mew_lab.log.unpacked.ROOM", 1 << 60)
    packed = tmp_path / "j.jsonl.gz"
    packed.write_bytes(gzip.compress(write(tmp_path / "j.jsonl", 3).read_bytes()))
    with pytest.raises(JournalError, match=r"has less than .* MiB free\. Unpack it elsewhere"):
        open_log(packed)


def test_a_pattern_a_list_and_a_folder_of_folders_are_one_log(tmp_path: Path) -> None:
    for name, count in (("a", 2), ("b", 3), ("c/d", 4)):
        write(tmp_path / "runs" / name / "s.jsonl", count, name)
    expected = ["a-1", "a-2", "b-1", "b-2", "b-3"]
    runs = tmp_path / "runs"
    assert list(open_log(str(runs / "?" / "*.jsonl")).df["id"]) == expected
    assert list(open_log([runs / "a", str(runs / "b" / "s.jsonl")]).df["id"]) == expected
    whole = open_log(runs).df
    assert list(whole["id"]) == [*expected, *(f"c/d-{n}" for n in range(1, 5))]
    assert whole["place"].is_unique and not whole["seq"].is_unique
    with pytest.raises(JournalError, match=r"No file matches .*\. Name a file"):
        open_log(str(runs / "*.none"))
    with pytest.raises(JournalError, match="empty list"):
        open_log([])


def test_a_folder_of_the_peers_sessions_is_one_log(shared: Path) -> None:
    captures = shared / "captures"
    whole = open_log(captures)
    assert len(whole) == sum(len(open_log(session)) for session in captures.iterdir()) > 100
    assert whole.df["place"].is_unique


@pytest.mark.req("C-1")
def test_a_refusal_without_text_is_a_row_and_can_be_audited(shared: Path) -> None:
    """By capability-decisions.jsonl of that session: one check was denied, of a `chat/acknowledge`, in its 4th line."""
    session = shared / "captures" / "8-typescript-agent"
    denied = [
        json.loads(line)
        for line in (session / "capability-decisions.jsonl").read_text().splitlines()
        if json.loads(line)["result"] == "denied"
    ]
    log = open_log(session)
    refused = log.df[log.df["verdict"] == "refused"]
    assert [json.loads(detail)["envelope_id"] for detail in refused["detail"]] == [
        one["envelope_id"] for one in denied
    ]
    assert log.df["seq"].is_unique
    for seq, verdict in zip(log.df["seq"], log.df["verdict"], strict=True):
        assert log.audit(int(seq)).record.verdict == verdict


def test_each_delivery_of_the_peers_log_is_counted(shared: Path) -> None:
    for session in (shared / "captures").iterdir():
        lines = [json.loads(line) for line in (session / "envelope-history.jsonl").read_text().splitlines()]
        delivered = [line["participant"] for line in lines if line["event"] == "delivered"]
        frame = open_log(session).df
        assert int(frame["deliveries"].sum()) == len(delivered)
        assert sorted(name for receivers in frame["receivers"] for name in receivers) == sorted(delivered)


def test_an_empty_file_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").touch()
    log = open_log(tmp_path / "none.jsonl")
    assert (len(log), list(log.records), log.faults) == (0, [], ())
    assert list(log.df.columns) == [column.name for column in COLUMNS]
    assert list(log.head().columns) == list(log.df.columns)
    full = open_log(write(tmp_path / "some.jsonl", 1)).df
    assert log.df.dtypes.equals(full.dtypes)


def test_a_log_that_lost_its_beginning_is_read(tmp_path: Path) -> None:
    lines = write(tmp_path / "j.jsonl", 5).read_bytes().splitlines(keepends=True)
    (tmp_path / "half.jsonl").write_bytes(lines[2][30:] + b"\n" + b"".join(lines[3:]))
    log = open_log(tmp_path / "half.jsonl")
    assert list(log.df["seq"]) == [3, 4, 5]
    assert log.faults == ("half.jsonl: 1 line could not be read: line 1 is not a whole record",)


def test_a_file_that_is_no_log_is_a_sentence(tmp_path: Path) -> None:
    for data in (b"\n\n", b"hello\n", b"\x89PNG\r\n\x1a\n" + bytes(1000), b'{"a":1}\n' * 200, b"[" * 100_000):
        path = tmp_path / "x.jsonl"
        path.write_bytes(data)
        with pytest.raises(JournalError, match="is not a journal"):
            open_log(path)


def test_the_first_messages_are_the_head_of_the_table(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(8))
    log = open_log(path)
    assert log.head(20).equals(log.df.head(20))
    assert len(log.head(10_000)) == len(log.df)


# --- Parquet ---


@pytest.mark.parametrize("seed", range(3))
def test_parquet_keeps_every_record(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(seed))
    log = open_log(path)
    saved = log.to_parquet(tmp_path / "j.parquet")
    assert saved.envelopes == len(log)
    assert stat.S_IMODE(saved.path.stat().st_mode) == 0o600
    again = open_log(saved.path)
    assert list(again.records) == list(log.records)
    assert again.df.equals(log.df)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["j.jsonl", "j.parquet"]


def test_a_live_log_and_a_log_of_the_peers_are_written_as_parquet(shared: Path, tmp_path: Path) -> None:
    log = Log.live(space="demo")
    for seq in range(1, 4):
        log.observe(record(seq))
    log.to_parquet(tmp_path / "live.parquet")
    log.observe(record(4))
    log.to_parquet(tmp_path / "live.parquet")
    assert list(open_log(tmp_path / "live.parquet").records) == [record(seq) for seq in range(1, 5)]
    peers = open_log(shared / "captures" / "3-proposals")
    peers.to_parquet(tmp_path / "peers.parquet")
    assert list(open_log(tmp_path / "peers.parquet").records) == list(peers.records)


def test_a_frame_is_written_as_parquet_with_its_payloads(tmp_path: Path) -> None:
    frame = open_log(write(tmp_path / "j.jsonl", 3)).df
    frame.to_parquet(tmp_path / "frame.parquet")
    again = pd.read_parquet(tmp_path / "frame.parquet")
    assert list(again["payload"]) == [{"text": "hi"}] * 3
    assert list(again["raw"]) == list(frame["raw"])
    assert list(open_log(tmp_path / "frame.parquet").df["id"]) == list(frame["id"])


def test_a_parquet_file_of_something_else_is_a_sentence(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(JournalError, match=r"is not a log: it has no column 'seq'\. Name a file"):
        open_log(tmp_path / "x.parquet")
    log = open_log(write(tmp_path / "j.jsonl", 1))
    with pytest.raises(JournalError, match="Cannot write the log to"):
        log.to_parquet(tmp_path / "absent" / "x.parquet")


@pytest.mark.threat(32)
@pytest.mark.parametrize("seed", range(4))
def test_a_saved_log_has_the_json_values_of_the_log(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(hostile_journal(seed))
    log = open_log(path)
    log.save(tmp_path / "copy.jsonl")
    copy = open_log(tmp_path / "copy.jsonl")
    assert [one.raw for one in copy.records if one.raw is not None] == [
        one.raw for one in log.records if one.raw is not None
    ]


def test_the_table_of_a_file_that_grows_has_what_a_filter_of_it_finds(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    journal.append(record(seq) for seq in range(1, 4))
    log = open_log(path)
    assert len(log.df) == len(log) == len(log.filter("kind == chat")) == 3
    journal.append(record(seq) for seq in range(4, 9))
    journal.close()
    assert list(log.df["seq"]) == list(log.filter("kind == chat").df["seq"]) == list(range(1, 9))
    assert len(log) == 8


@pytest.mark.threat(47)
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "behind",
    ["zeros", "a long name of a member", "many empty members", "a little padding", "a wrong checksum"],
)
def test_gzip_of_any_shape_is_read_at_the_speed_of_its_bytes(tmp_path: Path, behind: str) -> None:
    data = write(tmp_path / "plain.jsonl", 20).read_bytes()
    packed = tmp_path / "journal.jsonl.gz"
    packed.write_bytes(
        {
            "zeros": gzip.compress(data),
            "a long name of a member": b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 30_000_000 + b"\0"
            + gzip.compress(data)[10:],
            "many empty members": gzip.compress(data) + gzip.compress(b"") * 100_000,
            "a little padding": gzip.compress(data[:-100]) + bytes(10_240) + gzip.compress(data[-100:]),
            "a wrong checksum": gzip.compress(data)[:-8] + bytes(8),
        }[behind]
    )  # fmt: skip
    if behind == "zeros":
        os.truncate(packed, 1 << 34)  # takes no room on the disk
    log = open_log(packed)
    assert list(log.records) == list(open_log(tmp_path / "plain.jsonl").records)
    assert bool(log.faults) == (behind in ("zeros", "a wrong checksum"))


def old_journal(lines: int) -> bytes:
    """A journal from before records named the grant behind a permission."""
    head = {"seq": 0, "now": "2026-11-21T22:40:01.123456Z", "event": "opened", "space": "demo"}
    first = {**head, "detail": json.dumps({"format": 1, "epoch": 7}, separators=(",", ":"))}
    permitted = {"event": "received", "participant": "a", "verdict": "accepted", "pattern": '{"kind":"chat"}'}
    others = [{**head, "seq": seq, **permitted} for seq in range(1, lines)]
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in (first, *others))


@pytest.mark.parametrize("packed", [False, True])
def test_the_notes_in_an_old_journal_count_as_what_it_gives(tmp_path: Path, packed: bool) -> None:
    data = old_journal(2000)
    path = tmp_path / f"run.jsonl{'.gz' if packed else ''}"
    path.write_bytes(gzip.compress(data) if packed else data)
    log = open_log(path)
    assert log.source is not None
    (whole,) = log.source.paths
    size = whole.stat().st_size
    assert size > 1.2 * len(data) and [entry.name for entry in whole.parent.iterdir()] == ["run.jsonl"]
    with pytest.raises(JournalError, match="it gives more than"):
        open_log(path, most=size - 1)
    assert open_log(path, most=size).source is not None


@pytest.mark.parametrize("seed", range(20))
def test_an_old_journal_is_noted_alike_in_whatever_pieces_it_comes(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("reading", "unpacked"):
        monkeypatch.setattr(f"mew_lab.log.{module}.LINE_LIMIT", 1000)
    dice = random.Random(seed)
    lines = old_journal(30).splitlines(keepends=True)
    odd = [
        b"x" * 1500 + lines[3],
        b"x" * 5000 + b"\n",
        b"\n",
        b"{}\n",
        b"x" * 999 + b"\n",
        lines[4][:-1] + b"\r\n",
    ]
    for _ in range(dice.randrange(6)):
        lines.insert(dice.randrange(0 if dice.random() < 0.2 else 1, len(lines) + 1), dice.choice(odd))
    data = b"".join(lines)[: -dice.choice([1, 20, 10**9]) or None] if dice.random() < 0.3 else b"".join(lines)
    pieces = [b""]
    while data[sum(map(len, pieces)) :]:
        at = sum(map(len, pieces))
        pieces.append(data[at : at + dice.choice([1, 10, 300, 4000])])

    def open_in_pieces(pieces: list[bytes]) -> tuple[list[Record], tuple[str, ...]]:
        monkeypatch.setitem(FORMATS, b"ODD!", lambda packed: iter(pieces))
        (tmp_path / "run.jsonl").write_bytes(b"ODD!")
        log = open_log(tmp_path / "run.jsonl")
        return list(log.records), log.faults

    if not data:
        return
    assert open_in_pieces(pieces) == open_in_pieces([data])
    noted, _ = open_in_pieces([data])
    if lines[0].startswith(b'{"seq":0'):
        assert all("not_recorded" in record.detail for record in noted if record.pattern)


def test_an_old_journal_and_its_packed_copy_are_unpacked_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "run.jsonl").write_bytes(old_journal(5))
    (tmp_path / "run.jsonl.gz").write_bytes(gzip.compress(old_journal(5)))
    (tmp_path / "run.jsonl.zst").write_bytes(zstandard.compress(old_journal(5)))
    log = open_log(tmp_path)
    assert len(list(log.records)) == 15 and log.source is not None
    assert len(set(log.source.paths)) == 3
    assert not log.faults


@pytest.mark.parametrize("large", [False, True])
def test_a_log_of_several_sessions_says_in_columns_which_message_is_of_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """A journal goes on in a second file, and another session follows."""
    monkeypatch.setattr("mew_lab.log.files.LARGE", 1 if large else 1 << 40)
    paths = list[Path]()
    for name, rotate in (("a", 400), ("b", 1 << 20)):
        journal = Journal(tmp_path / f"{name}.jsonl", space=f"space-{name}", rotate_at=rotate)
        for seq in range(1, 3):
            journal.append([record(seq, f"space-{name}")])
        journal.close()
        paths += journal.paths
    assert len(paths) == 3
    alone, both = open_log(paths[0], index=False), open_log(paths[::2], index=False)
    assert not {"session", "file", "space"} & {*alone.df.columns}, "there is nothing to tell"
    assert list(both.df["session"]) == [1, 1, 2, 2]
    assert list(both.df["space"]) == ["space-a", "space-a", "space-b", "space-b"]
    assert list(both.df["file"]) == [str(paths[0]), str(paths[1]), str(paths[2]), str(paths[2])]
    assert list(both.filter("seq == 2").df["session"]) == [1, 2]
