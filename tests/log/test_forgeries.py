"""A journal with kept heads that somebody forged is neither vouched for nor gone on from without a word."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.cli import main
from mew_lab.errors import HeadsDiffer, JournalError, MewError
from mew_lab.log.integrity import check_evidence, verify_chain, verify_with
from mew_lab.log.kept_heads import epoch_of, heads_path, keep_head, kept_heads
from mew_lab.log.line import read_line, split_chain
from mew_lab.log.log import open_log
from mew_lab.log.prune import prune
from mew_lab.log.reading import LINE_LIMIT, list_files, read_journal
from mew_lab.log.resumption import resume_verified
from mew_lab.space.events import Record

from ..conftest import examples
from .test_integrity import Kept, lines_of, rechained, unchained, write

pytestmark = pytest.mark.threat(44)
Lines = list[bytes]


def kept_journal(root: Path, seed: int = 1, *, events: int = 20, rotate_at: int = 4_000) -> Kept:
    """A journal of several files in the folder of a lab, which kept heads of it."""
    folder = root / ".mew" / "demo"
    folder.mkdir(parents=True)
    kept = write(folder, seed, events=events, rotate_at=rotate_at)
    epoch = epoch_of(kept.path)
    assert epoch is not None
    for head in kept.heads:
        keep_head(heads_path(root, "demo"), epoch, head, kept.path)
    return kept


def records_of(path: Path) -> tuple[list[Record], int]:
    """What a reader gets of all files of a journal: its records, and the number of lines that are none."""
    records: list[Record] = []
    broken = 0
    for file in list_files(path):
        reader = read_journal(file)
        records += [record for record in reader if record.event != "unreadable"]
        broken += reader.unreadable
    return records, broken


@pytest.mark.parametrize("file", [0, -1])
@pytest.mark.parametrize("excess", [1, 75])
def test_no_line_hides_behind_one_that_is_too_long(tmp_path: Path, file: int, excess: int) -> None:
    kept = kept_journal(tmp_path)
    path = kept.files[file]
    *before, last = lines_of(path)
    path.write_bytes(b"".join((*before, b"x" * (LINE_LIMIT + excess), last)))
    found = verify_with(kept.path)
    assert found.flaw is not None and (found.flaw.path, found.flaw.line) == (path, len(before) + 1)
    assert "longer than" in found.flaw.why and not found.torn
    assert open_log(kept.path).verify().status() == 1
    integrity, resumed = resume_verified(kept.files, name="it")
    assert resumed is None
    with pytest.raises(JournalError, match="longer than"):
        check_evidence(integrity, "go on")
    with pytest.raises(JournalError, match="longer than"):
        prune(kept.path, agree=lambda goes: True)


def test_a_long_line_at_the_very_end_is_torn_as_a_short_one(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    with kept.files[-1].open("ab") as file:
        file.write(b"\0" * (LINE_LIMIT + 9))
    found = verify_with(kept.path)
    assert found.torn and found.intact


def place_another_run(kept: Kept, root: Path, *, strip: bool = False) -> None:
    """Puts the files of another run in the place of a journal."""
    (root / "elsewhere").mkdir()
    other = write(root / "elsewhere", 99, events=20, rotate_at=4_000)
    for path in kept.files:
        path.unlink()
    for path in other.files:
        lines = lines_of(path)
        kept.path.with_name(path.name).write_bytes(b"".join(unchained(lines) if strip else lines))


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_forged_run_is_not_pruned(
    tmp_path: Path, keep: int, strip: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = kept_journal(tmp_path)
    place_another_run(kept, tmp_path, strip=strip)
    before = {path: path.read_bytes() for path in kept.path.parent.iterdir()}
    status = open_log(kept.path).verify().status()
    with pytest.raises(HeadsDiffer, match="no head was kept of j.jsonl.*A snapshot would hide") as refused:
        prune(kept.path, keep=keep, agree=lambda goes: True, heads=kept_heads(kept.path))
    assert "no head was kept" in refused.value.missing[0] and "ignore" not in str(refused.value)
    assert main(["journal", "prune", str(kept.path), "--yes", "--keep", str(keep)]) == 1
    assert "no head was kept of j.jsonl" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in kept.path.parent.iterdir()} == before
    assert open_log(kept.path).verify().status() == status != 0


@pytest.mark.parametrize("keep", [0, 1])
def test_a_snapshot_of_lines_without_a_chain_says_so_for_ever(tmp_path: Path, keep: int) -> None:
    kept = write(tmp_path, 3)
    for path in kept.files:
        path.write_bytes(b"".join(unchained(lines_of(path))))
    done = prune(kept.path, keep=keep, agree=lambda goes: True)
    assert done is not None and done.head is not None
    found = verify_chain(kept.path, [done.head])
    assert found.flaw is None and not found.intact
    assert "its snapshot was made of lines without a chain" in str(found)
    with pytest.raises(HeadsDiffer, match="without a chain"):
        check_evidence(found, "go on")


def snapshot_line(first: bytes, end: bytes, *, kept: bool) -> bytes:
    """A first line without a chain that states that the lines up to `end` were pruned."""
    line, about = json.loads(first), json.loads(json.loads(first)["detail"])
    record = read_line(end)
    assert record is not None
    about["pruned"] = {
        "seq": record.seq,
        "chain": split_chain(end)[1].decode(),
        "number": 2,
        "previous": "j.jsonl",
        "kept": kept,
    }
    line["detail"] = json.dumps(about, separators=(",", ":"))
    line.pop("chain", None)
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize("lines", [0, 1, 2])
@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("kept_files", [False, True])
def test_a_forged_snapshot_without_a_chain_is_a_flaw(
    tmp_path: Path, kept_files: bool, files: int, lines: int
) -> None:
    """Genuine lines with their chain follow it, in another file or in the same one."""
    kept = kept_journal(tmp_path)
    whole = lines_of(kept.path)
    split = len(whole) if files == 2 else 4
    forged = snapshot_line(whole[0], whole[split - 1], kept=kept_files)
    note = {"seq": 1, "now": "2026-11-21T22:40:02Z", "event": "noted", "space": "demo", "detail": "forged"}
    kept.path.write_bytes(b"".join([forged, *[json.dumps(note).encode() + b"\n"] * lines, *whole[split:]]))
    result = open_log(kept.path).verify()
    flaw = result.integrity[0].flaw
    assert flaw is not None and not flaw.of_heads and result.status(unchained_ok=True) == 1, result
    integrity, resumed = resume_verified(list_files(kept.path), name="it", with_heads=False)
    assert resumed is None
    with pytest.raises(JournalError, match="is not vouched for"):
        check_evidence(integrity, "go on", with_heads=False)


def test_a_snapshot_that_lost_its_chain_is_a_flaw_and_a_saved_copy_of_it_is_none(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    done = prune(kept.path, agree=lambda goes: True, heads=kept_heads(kept.path))
    assert done is not None and done.head is not None
    open_log(kept.path).save(tmp_path / "copy.jsonl")
    copy = verify_chain(tmp_path / "copy.jsonl", [*kept.heads, done.head])
    assert copy.flaw is None and copy.intact
    kept.path.write_bytes(b"".join(unchained(lines_of(kept.path))))
    flaw = verify_chain(kept.path, [*kept.heads, done.head]).flaw
    assert flaw is not None and (flaw.path, flaw.line) == (kept.path, 1)
