"""A journal with kept heads that somebody forged is neither vouched for nor gone on from without a word."""

from __future__ import annotations

import contextlib
import json
import shutil
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mew_lab.cli import main
from mew_lab.errors import HeadsDiffer, JournalError, MewError
from mew_lab.log.export import export_as_peers
from mew_lab.log.integrity import check_evidence, verify_chain, verify_with
from mew_lab.log.kept_heads import epoch_of, heads_path, keep_head, keep_head_of, kept_heads
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
    with pytest.raises(HeadsDiffer, match=r"no head was kept of j\.jsonl.*A snapshot would hide") as refused:
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


@pytest.mark.threat(32)
def test_notes_of_snapshots_take_no_memory(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    first, second = lines_of(kept.path)[:2]
    note = {"seq": 1, "now": "2026-11-21T22:40:02Z", "event": "pruned", "space": "demo"}
    with (tmp_path / "notes.jsonl").open("wb") as file:
        file.write(snapshot_line(first, second, kept=True))
        for seq in range(10_000):
            detail = json.dumps({"seq": seq, "snapshot": f"{seq:0400}"})
            file.write(json.dumps({**note, "detail": detail}, separators=(",", ":")).encode() + b"\n")
    verify_chain(tmp_path / "notes.jsonl")
    tracemalloc.start()
    verify_chain(tmp_path / "notes.jsonl")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_broken_line_in_a_copy_without_a_chain_is_called_no_record(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    copy = tmp_path / "copy.jsonl"
    open_log(kept.path).save(copy)
    lines = lines_of(copy)
    for at in (1, len(lines)):
        copy.write_bytes(b"".join([*lines[:at], b"junk\n", *lines[at:]]))
        assert (
            str(verify_chain(copy).flaw) == f"line {at + 1} of copy.jsonl is not vouched for: it is no record"
        )


def test_a_copy_of_a_log_of_another_gateway_lacks_no_first_line(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    (tmp_path / "peers").mkdir()
    export_as_peers(kept.path, tmp_path / "peers")
    log = open_log(tmp_path / "peers")
    log.to_parquet(tmp_path / "copy.parquet")
    log.save(tmp_path / "copy.jsonl")
    for name in ("copy.parquet", "copy.jsonl"):
        result = open_log(tmp_path / name).verify()
        assert "is unchained" in str(result) and "does not open" not in str(result)
        assert not result.intact


def test_a_file_without_a_chain_beside_a_verified_journal_is_vouched_for_by_nothing(tmp_path: Path) -> None:
    kept = kept_journal(tmp_path)
    folder = kept.path.parent
    assert open_log(folder).verify().intact
    (folder / "beside").mkdir()
    export_as_peers(kept.path, folder / "beside")
    verified = open_log(folder).verify()
    assert not verified.intact and verified.status() != 0
    assert "envelope-history.jsonl is no journal: nothing vouches for its records" in str(verified)
    assert (
        open_log(folder / "beside").verify().unchained == ()
    )  # it has no chain at all, which is told already


# --- where heads are kept ---


def test_the_head_of_a_snapshot_is_kept_where_a_verification_looks(tmp_path: Path) -> None:
    """Of several folders named `.mew` the outermost is that of the lab."""
    folder = tmp_path / ".mew" / "work" / ".mew" / "demo"
    folder.mkdir(parents=True)
    kept = write(folder, 3)
    epoch = epoch_of(kept.path)
    assert epoch is not None
    for head in kept.heads:
        keep_head(heads_path(tmp_path, "demo"), epoch, head, kept.path)
    assert main(["journal", "prune", str(kept.path), "--yes"]) == 0
    assert open_log(kept.path).verify().integrity[0].intact
    assert not (tmp_path / ".mew" / "work" / ".mew" / "tokens").exists()


def test_a_head_that_cannot_be_kept_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = write(tmp_path, 3)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(JournalError, match="its head could not be kept in the folder of its lab"):
        keep_head_of(kept.path, None, kept.heads[-1])
    assert "No such file or directory" in str(kept_heads(kept.path).doubts)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "no\x1bfile"])
def test_a_name_that_no_file_of_heads_can_have_is_a_sentence(tmp_path: Path, name: str) -> None:
    log = open_log(write(tmp_path, 3).path)
    with pytest.raises(JournalError, match=r"Cannot read the heads in|There is no file of heads") as told:
        log.verify(heads=name)
    assert str(told.value).isprintable()


Files = dict[Path, Lines]
SHORT = 20_000
"""Bytes of the longest line in the test below, so that many that are longer can be tried."""


def _pick(files: Files, dice: Random) -> tuple[Lines, int]:
    lines = dice.choice([*files.values()])
    return lines, dice.randrange(len(lines))


def _long(dice: Random, *, ended: bool) -> bytes:
    """A line that is too long, of which a later piece may look like a whole one."""
    length = SHORT + dice.choice([1, 75, 200, SHORT - 1, SHORT, SHORT + 1, 2 * SHORT + 1])
    line = dice.choice([b"x", b" ", b"\0", b'{"seq":1,"a":"', b"]"]) * length
    return line[:length] + (b"\n" if ended else b"")


def hide(files: Files, dice: Random) -> None:
    lines, at = _pick(files, dice)
    lines.insert(at, _long(dice, ended=dice.random() < 0.3))


def hide_in_front(files: Files, dice: Random) -> None:
    """A line becomes the end of one that is too long, cut where a reader in pieces would cut."""
    lines, at = _pick(files, dice)
    lines[at] = b"x" * (SHORT + dice.choice([0, 1, 74, 75, 76])) + lines[at]


def drop(files: Files, dice: Random) -> None:
    lines, at = _pick(files, dice)
    del lines[at : at + dice.choice([1, 1, 3])]


def put_in(files: Files, dice: Random) -> None:
    lines, at = _pick(files, dice)
    other, place = _pick(files, dice)
    line = dice.choice(
        [other[place], *unchained([other[place]]), b"{}\n", b"\n", b"[1]", b"{}", b"null\n", b"\r\n"]
    )
    lines.insert(at, line)


def replace(files: Files, dice: Random) -> None:
    lines, at = _pick(files, dice)
    before = split_chain(lines[at - 1])[1].decode() if at else "0" * 64
    changed = lines[at].replace(b"demo", b"omed", 1).replace(b'"participant":"', b'"participant":"x', 1)
    lines[at] = dice.choice([changed, *rechained([changed], before or "0" * 64), *unchained([changed])])


def strip_chains(files: Files, dice: Random) -> None:
    lines = dice.choice([*files.values()])
    lines[:] = unchained(lines)


def cut_within(files: Files, dice: Random) -> None:
    lines, at = _pick(files, dice)
    lines[at] = lines[at][: dice.randrange(len(lines[at]))]


def replace_beginning(files: Files, dice: Random) -> None:
    """The lines up to one are replaced by a snapshot, without a chain or with one of its own."""
    first = next(iter(files.values()))
    whole = [line for line in first if read_line(line) is not None]
    if first[0] not in whole or b"opened" not in first[0]:
        return
    end = dice.choice([whole[-1], dice.choice(whole)])
    line = snapshot_line(first[0], end, kept=dice.random() < 0.5)
    chain = split_chain(end)[1].decode()
    rest = first[first.index(end) + 1 :]
    first[:] = [*dice.choice([[line], rechained([line], chain or "0" * 64)]), *rest]


def add(files: Files, dice: Random) -> None:
    """Something behind the end, with a right chain or without."""
    lines = [*files.values()][-1]
    note = b'{"seq":9999,"now":"2026-11-21T22:40:02Z","event":"decided","space":"demo","detail":"{}"}\n'
    before = split_chain(lines[-1])[1].decode() if lines else ""
    lines += dice.choice(
        [[note], rechained([note], before or "0" * 64), [note[:-1]], [_long(dice, ended=False)], [note[:40]]]
    )


FORGE = (hide, hide_in_front, drop, put_in, replace, strip_chains, cut_within, replace_beginning, add)


@settings(max_examples=examples(60), deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3), head=st.booleans())
def test_whatever_was_forged_is_not_vouched_for_and_is_read_as_it_is_verified(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int, head: bool
) -> None:
    """What has status 0, or is gone on with or pruned, has the records that were written, as far as heads were kept.

    Without heads nothing shows how far that is; then a reader and the verification take the same lines at least.
    """
    dice, root = Random(seed), tmp_path_factory.mktemp("forged")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for module in ("reading", "build", "journal"):
            patch.setattr(f"mew_lab.log.{module}.LINE_LIMIT", SHORT)
        kept = kept_journal(root, seed % 50)
        if not head:
            shutil.rmtree(root / ".mew" / "tokens")
        genuine, _ = records_of(kept.path)
        files = {path: lines_of(path) for path in kept.files}
        if dice.random() < 0.1:
            place_another_run(kept, root, strip=dice.random() < 0.5)
        else:
            for _ in range(count):
                dice.choice(FORGE)({path: lines for path, lines in files.items() if lines}, dice)
            for path, lines in files.items():
                path.write_bytes(b"".join(lines))
        try:
            result = open_log(kept.path).verify()
            integrity, read, broken = verify_with(kept.path), *records_of(kept.path)
        except MewError:
            return
        if integrity.flaw is None:
            assert len(read) == integrity.chained + integrity.unchained
            assert broken == 0 or (integrity.torn and broken == 1)
            assert [*open_log(kept.path).records][: len(read)] == read
        passed = [result.integrity[0].intact]
        with contextlib.suppress(MewError):
            checked, _ = resume_verified(list_files(kept.path), name="it")
            check_evidence(checked, "go on")
            passed.append(checked.intact)
        with contextlib.suppress(MewError):
            prune(kept.path, keep=0, agree=lambda goes: True, heads=kept_heads(kept.path))
            passed.append(True)
        if head and any(passed):
            last = max(kept_head.seq for kept_head in kept.heads)
            assert [one for one in read if one.seq <= last] == [one for one in genuine if one.seq <= last]
