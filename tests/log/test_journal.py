"""What is kept is kept whole, for its owner alone, and a full disk leaves no half line."""

from __future__ import annotations

import gc
import json
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mew_lab.errors import JournalError
from mew_lab.log import journal as module
from mew_lab.log.integrity import verify_chain
from mew_lab.log.journal import Journal, journal_path, read_journal
from mew_lab.log.reading import LINE_LIMIT
from mew_lab.space.events import Record

NOW = datetime(2026, 11, 21, 22, 40, 1, 123456, UTC)


def record(seq: int, text: str = "hi") -> Record:
    raw = json.dumps({"kind": "chat", "payload": {"text": text}})
    return Record(seq, NOW, "received", "demo", "bot", verdict="accepted", raw=raw)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "j.jsonl", epoch=7)
    yield made
    made.close()


class Disk:
    """Stands for `os` in the journal: its next writes take as many bytes as it is told."""

    def __init__(self, *takes: int, truncates: bool = True) -> None:
        self.takes = list(takes)
        self.truncates = truncates
        self.writes: list[bytes] = []

    def write(self, fd: int, data: bytes) -> int:
        self.writes.append(data)
        if not self.takes:
            return os.write(fd, data)
        taken = self.takes.pop(0)
        if taken < 0:
            raise OSError(28, "No space left on device")
        return os.write(fd, data[:taken])

    def ftruncate(self, fd: int, size: int) -> None:
        if not self.truncates:
            raise OSError(5, "Input/output error")
        os.ftruncate(fd, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    stand_in = Disk()
    monkeypatch.setattr(module, "os", stand_in)
    return stand_in


def seqs(path: Path) -> list[int]:
    return [one.seq for one in read_journal(path) if one.event == "received"]


@pytest.mark.threat(27)
def test_the_file_is_its_owners_alone_and_git_does_not_see_it(tmp_path: Path) -> None:
    path = journal_path(tmp_path, space="demo", now=NOW)
    assert path == tmp_path / ".mew" / "demo" / "20261121T224001_123456Z.jsonl"
    Journal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (tmp_path / ".mew" / ".gitignore").read_text() == "*\n"


def descriptors() -> set[str]:
    gc.collect()  # what earlier tests have dropped is not ours to count
    return {path.name for path in Path("/dev/fd").iterdir()}


def test_a_folder_that_is_not_ours_gets_no_gitignore(tmp_path: Path) -> None:
    Journal(tmp_path / "results" / "run.jsonl").close()
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["run.jsonl"]


@pytest.mark.threat(27)
@pytest.mark.parametrize(
    "space",
    ["../../etc", "..", ".", "a/b", "a\0b", "CON", "nul.txt", "x" * 300, "", "-rf", "dot.", "ü", "\ud800"],
)
def test_no_name_of_a_space_leads_out_of_the_folder(tmp_path: Path, space: str) -> None:
    path = journal_path(tmp_path, space=space, now=NOW)
    assert path.parent.parent == tmp_path / ".mew"
    assert path.parent.name.startswith("_space-")
    Journal(path).close()
    assert path.resolve().is_relative_to(tmp_path.resolve() / ".mew")


@pytest.mark.threat(27)
@pytest.mark.ruling("R27")
@pytest.mark.parametrize("space", ["tokens", "Tokens", "tools-agents", "logs", "space.yaml", "SPACE.yaml"])
def test_no_space_shares_a_folder_with_what_else_stands_in_mew(tmp_path: Path, space: str) -> None:
    (tmp_path / ".mew").mkdir()
    (tmp_path / ".mew" / "space.yaml").write_text("space: {id: demo}")
    path = journal_path(tmp_path, space=space, now=NOW)
    assert path.parent.parent == tmp_path / ".mew"
    assert path.parent.name.startswith("_space-")
    Journal(path, space=space).close()
    assert journal_path(tmp_path, space=space, now=NOW).parent == path.parent


@pytest.mark.threat(27)
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".mew").mkdir()
    (tmp_path / ".mew" / "demo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="link out of"):
        journal_path(tmp_path, space="demo", now=NOW)


@pytest.mark.threat(27)
@pytest.mark.skipif(os.name != "posix", reason="links")
def test_nothing_is_made_where_a_link_in_the_place_of_mew_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".mew").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match="is a link or no folder"):
        Journal(journal_path(tmp_path, space="demo", now=NOW))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.threat(27)
@pytest.mark.skipif(os.name != "posix", reason="links")
def test_a_link_in_the_place_of_gitignore_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / ".mew").mkdir()
    (tmp_path / ".mew" / ".gitignore").symlink_to(tmp_path / "victim")
    Journal(journal_path(tmp_path, space="demo", now=NOW)).close()
    assert not (tmp_path / "victim").exists()


@pytest.mark.threat(27)
def test_a_link_in_the_files_place_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(JournalError, match="there is a file already"):
        Journal(tmp_path / "j.jsonl")
    assert not (tmp_path / "victim").exists()


def test_a_file_that_exists_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text("precious")
    with pytest.raises(JournalError, match="Name another file"):
        Journal(tmp_path / "j.jsonl")
    assert (tmp_path / "j.jsonl").read_text() == "precious"


def test_a_place_that_cannot_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "j.jsonl", tmp_path / "a\0b.jsonl"):
        with pytest.raises(JournalError, match="Cannot begin the journal"):
            Journal(path)


def test_a_batch_is_one_write(journal: Journal, disk: Disk) -> None:
    journal.append([record(1), record(2), record(3)])
    journal.append([record(4)])
    journal.append([])
    assert len(disk.writes) == 2
    assert seqs(journal.path) == [1, 2, 3, 4]


def test_it_opens_with_format_epoch_and_vantage(journal: Journal) -> None:
    journal.append([record(1)])
    opened = next(read_journal(journal.path))
    assert (opened.event, opened.space, opened.now, opened.raw) == ("opened", "demo", NOW, None)
    assert json.loads(opened.detail) == {"format": 1, "epoch": 7, "vantage": "gateway"}


def test_an_opened_of_its_own_is_taken_as_it_is(journal: Journal) -> None:
    mine = Record(1, NOW, "opened", "demo", detail='{"format":1,"epoch":9,"vantage":"participant"}')
    journal.append([mine, record(2)])
    assert list(read_journal(journal.path)) == [mine, record(2)]


def test_what_was_appended_can_be_read_while_it_is_open(journal: Journal) -> None:
    journal.append([record(1)])
    assert seqs(journal.path) == [1]
    journal.flush()


def test_a_full_file_is_followed_by_one_that_names_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", space="demo", epoch=7, rotate_at=2000)
    for seq in range(1, 31):
        journal.append([record(seq, "x" * 100)])
    journal.close()
    assert len(journal.paths) > 2
    assert [path.name for path in journal.paths[:3]] == ["j.jsonl", "j-2.jsonl", "j-3.jsonl"]
    found = []
    for before, path in zip((None, *journal.paths), journal.paths, strict=False):
        assert path.stat().st_size <= 2000
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        opened = next(read_journal(path))
        assert opened.event == "opened"
        assert json.loads(opened.detail).get("previous") == (before.name if before else None)
        assert json.loads(opened.detail)["epoch"] == 7
        found += seqs(path)
    assert found == list(range(1, 31))


def test_a_batch_larger_than_a_file_stands_alone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=500)
    for seq in (1, 2):
        journal.append([record(seq, "x" * 1000)])
    assert [seqs(path) for path in journal.paths] == [[1], [2]]


def test_a_next_file_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=400)
    journal.append([record(1)])
    (tmp_path / "j-2.jsonl").write_text("in the way")
    with pytest.raises(JournalError, match="there is a file already"):
        journal.append([record(2)])
    (tmp_path / "j-2.jsonl").unlink()
    journal.append([record(3)])
    assert [seqs(path) for path in journal.paths] == [[1], [3]]


def test_a_next_file_that_takes_nothing_leaves_all_as_before(tmp_path: Path, disk: Disk) -> None:
    journal = Journal(tmp_path / "j.jsonl", rotate_at=400)
    journal.append([record(1)])
    disk.takes = [10]
    with pytest.raises(JournalError, match="the disk took 10 of"):
        journal.append([record(2)])
    assert journal.paths == (tmp_path / "j.jsonl",)
    assert not (tmp_path / "j-2.jsonl").exists()
    journal.append([record(3)])
    assert [seqs(path) for path in journal.paths] == [[1], [3]]


@pytest.mark.threat(9)
@pytest.mark.parametrize("taken", [-1, 0, 1, 200])
def test_a_failed_write_leaves_nothing_and_may_be_tried_again(
    journal: Journal, disk: Disk, taken: int
) -> None:
    journal.append([record(1)])
    before = journal.path.read_bytes()
    disk.takes = [taken, taken]
    for _ in range(2):
        with pytest.raises(JournalError, match="Cannot write to the journal"):
            journal.append([record(2), record(3)])
        assert journal.path.read_bytes() == before
    journal.append([record(2), record(3)])
    assert seqs(journal.path) == [1, 2, 3]


def test_half_a_line_that_cannot_be_taken_back_swallows_nothing(journal: Journal, disk: Disk) -> None:
    journal.append([record(1)])
    disk.takes, disk.truncates = [40, 5], False
    for _ in range(2):
        with pytest.raises(JournalError):
            journal.append([record(2)])
    journal.append([record(3)])
    journal.append([record(4)])
    assert seqs(journal.path) == [1, 3, 4]
    assert [one.detail for one in read_journal(journal.path) if one.event == "unreadable"] == [
        "line 3 is not a whole record",
        "line 4 is not a whole record",
    ]


def test_half_a_line_of_a_killed_gateway_does_not_stay_before_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    first = Journal(path, rotate_at=2000)
    first.append([record(1)])
    first.append([record(2)])
    first.close()
    os.truncate(path, path.stat().st_size - 20)
    again = Journal.resume(path, rotate_at=900)
    again.append([record(2)])
    again.close()
    assert len(again.paths) == 2 and [seq for file in again.paths for seq in seqs(file)] == [1, 2]
    assert path.read_bytes().endswith(b"\n") and verify_chain(path).flaw is None


def test_a_first_write_that_fails_still_opens_later(journal: Journal, disk: Disk) -> None:
    disk.takes = [-1]
    with pytest.raises(JournalError, match="No space left on device"):
        journal.append([record(1)])
    journal.append([record(1)])
    assert [one.event for one in read_journal(journal.path)] == ["opened", "received"]


CHILD = """
import resource, sys
from datetime import UTC, datetime
from mew_lab.errors import JournalError
from mew_lab.log.journal import Journal
from mew_lab.space.events import Record

def say(seq):
    journal.append([Record(seq, datetime(2026, 11, 21, tzinfo=UTC), "left", "demo", detail="x" * 300)])

journal = Journal(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
taken, seq = 0, 0
try:
    while True:
        seq += 1
        say(seq)
        taken = seq
except JournalError as fault:
    print(taken, str(fault).startswith("Cannot write to the journal"))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
say(99)
"""


@pytest.mark.threat(9)
@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="this system limits no file sizes")
def test_a_real_limit_of_the_disk_loses_no_line_and_tears_none(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    taken, sentence = done.stdout.split()
    assert int(taken) >= 2
    assert sentence == "True"
    reading = read_journal(path)
    assert [one.seq for one in reading if one.event == "left"] == [*range(1, int(taken) + 1), 99]
    assert (reading.torn, reading.unreadable) == (False, 0)


def test_a_line_that_could_not_be_read_back_is_not_written(journal: Journal) -> None:
    with pytest.raises(JournalError, match="the most is"):
        journal.append([record(1, "x" * LINE_LIMIT)])
    journal.append([record(2)])
    assert seqs(journal.path) == [2]


def test_a_closed_journal_says_so(journal: Journal) -> None:
    assert repr(journal) == f"<Journal {journal.path}>"
    journal.close()
    journal.close()
    journal.flush()
    assert repr(journal) == f"<Journal {journal.path}, closed>"
    with pytest.raises(JournalError, match="it is closed"):
        journal.append([record(1)])


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    open_before = descriptors()
    journal = Journal(tmp_path / "j.jsonl", rotate_at=300)
    for seq in range(5):
        journal.append([record(seq)])
    journal.close()
    list(read_journal(journal.path))
    assert descriptors() <= open_before


# --- going on ---


def ended(path: Path, *, rotate_at: int = 1 << 20) -> Path:
    made = Journal(path, epoch=7, rotate_at=rotate_at)
    for seq in range(1, 6):
        made.append([record(seq)])
    made.close()
    return path


def test_a_journal_goes_on_in_its_own_file(tmp_path: Path) -> None:
    path = ended(tmp_path / "j.jsonl")
    again = Journal.resume(path)
    again.append([record(6)])
    again.close()
    assert (again.paths, seqs(path)) == ((path,), [1, 2, 3, 4, 5, 6])
    assert sum(one.event == "opened" for one in read_journal(path)) == 1


@pytest.mark.parametrize("kept", [1, 40])
def test_half_a_line_is_taken_away_by_what_follows_and_not_before(tmp_path: Path, kept: int) -> None:
    path = ended(tmp_path / "j.jsonl")
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole + last[:kept])
    again = Journal.resume(path)
    assert path.read_bytes() == whole + last[:kept]
    again.append([record(6)])
    again.close()
    assert path.read_bytes().startswith(whole)
    assert list(read_journal(path))[1:] == [record(seq) for seq in range(1, 7)]


def test_a_last_line_that_lacks_only_its_end_is_kept(tmp_path: Path) -> None:
    path = ended(tmp_path / "j.jsonl")
    path.write_bytes(path.read_bytes()[:-1])
    again = Journal.resume(path)
    again.append([record(6)])
    again.close()
    assert seqs(path) == [1, 2, 3, 4, 5, 6]


def test_half_a_line_that_cannot_be_taken_away_stops_the_journal(tmp_path: Path, disk: Disk) -> None:
    path = ended(tmp_path / "j.jsonl")
    with path.open("ab") as file:
        file.write(b'{"seq":6,')
    again = Journal.resume(path)
    disk.truncates = False
    with pytest.raises(JournalError, match="Input/output error"):
        again.append([record(6)])
    disk.truncates = True
    again.append([record(6)])
    again.close()
    assert seqs(path) == [1, 2, 3, 4, 5, 6]


def test_a_journal_of_several_files_goes_on_in_the_last(tmp_path: Path) -> None:
    path = ended(tmp_path / "j.jsonl", rotate_at=400)
    files = sorted(tmp_path.iterdir())
    (tmp_path / f"j-{len(files) + 1}.jsonl").write_bytes(
        b'{"seq":0,"now"'
    )  # begun when the process was killed
    again = Journal.resume(path, rotate_at=400)
    again.append([record(6)])
    again.append([record(7)])
    again.close()
    assert [one.seq for path in again.paths for one in read_journal(path) if one.event == "received"] == [
        *range(1, 8)
    ]
    assert len(again.paths) > len(files)


def test_a_journal_that_is_being_written_is_not_gone_on_with(tmp_path: Path, journal: Journal) -> None:
    journal.append([record(1)])
    with pytest.raises(JournalError, match="another process is writing it"):
        Journal.resume(journal.path)
    journal.close()
    Journal.resume(journal.path).close()


def test_what_is_no_journal_of_a_gateway_cannot_be_gone_on_with(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="No such file"):
        Journal.resume(tmp_path / "j.jsonl")
    (tmp_path / "other.jsonl").write_bytes(b"hello\n")
    with pytest.raises(JournalError, match="is not a journal"):
        Journal.resume(tmp_path / "other.jsonl")
    capture = b'{"timestamp":"2026-11-21T20:25:43Z","event":"received","envelope":{"kind":"chat"}}\n'
    (tmp_path / "history.jsonl").write_bytes(capture)
    with pytest.raises(JournalError, match="does not begin with the opening of a space"):
        Journal.resume(tmp_path / "history.jsonl")
    path = ended(tmp_path / "locked.jsonl")
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with pytest.raises(JournalError, match="Cannot go on with the journal"):
        Journal.resume(link)
