"""A journal that another process verifies has the same result, and a replay made meanwhile counts only with that."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from mew_lab.errors import JournalError
from mew_lab.log import integrity_process
from mew_lab.log.integrity import verify_chain
from mew_lab.log.integrity_process import IntegrityProcess
from mew_lab.log.reading import list_files
from mew_lab.log.resumption import resume_verified

from .stage import hostile, keep

EVENTS = 60


@pytest.fixture(autouse=True)
def no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder without a lab, whose kept heads would count for the journal."""
    monkeypatch.chdir(tmp_path)


def changed_somewhere(data: bytes, dice: Random) -> bytes:
    """The journal after a byte, a line or the order of two lines was changed."""
    lines = data.splitlines(keepends=True)
    at = dice.randrange(1, len(lines) - 1)
    line = lines[at]
    match dice.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, line)
        case 2:
            lines[at : at + 2] = [lines[at + 1], line]
        case 3:
            byte = dice.randrange(len(line) - 1)
            lines[at] = line[:byte] + bytes([line[byte] ^ 1 << dice.randrange(7)]) + line[byte + 1 :]
        case _:
            cut = dice.randrange(1, len(line) - 1)
            lines[at] = line[:cut] + line[-dice.randrange(1, len(line) - cut + 1) :]
    return b"".join(lines)


@pytest.mark.parametrize("change", ["none", "torn", "somewhere"])
def test_another_process_has_the_same_result(tmp_path: Path, change: str) -> None:
    path = keep(hostile(3, EVENTS).records, tmp_path / "j.jsonl", rotate_at=20_000)
    _, *_, last = list_files(path)
    if change == "torn":
        last.write_bytes(last.read_bytes()[:-30])
    elif change == "somewhere":
        path.write_bytes(changed_somewhere(path.read_bytes(), Random(1)))
    with IntegrityProcess(path, large=0) as verification:
        assert verification.runs_beside
        found = verification.wait()
    assert found == verify_chain(path)
    assert (found.flaw is not None) == (change == "somewhere")
    assert found.torn == (change == "torn")


def test_what_no_process_could_verify_is_verified_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = keep(hostile(4, EVENTS).records, tmp_path / "j.jsonl")
    with IntegrityProcess(path, large=0) as verification:
        verification.stop()
        assert verification.wait() == verify_chain(path)

    def refused(*_: object) -> None:
        raise OSError("no process")

    monkeypatch.setattr(integrity_process, "begin_module", refused)
    with IntegrityProcess(path, large=0) as verification:
        assert not verification.runs_beside
        assert verification.wait() == verify_chain(path)


@pytest.mark.parametrize("seed", range(3))
def test_a_journal_that_was_changed_anywhere_has_a_flaw_and_no_replay(tmp_path: Path, seed: int) -> None:
    path = keep(hostile(seed, EVENTS).records, tmp_path / "j.jsonl")
    data, dice = path.read_bytes(), Random(seed)
    assert resume_verified([path], name="j")[1] is not None
    unlike = 0
    for _ in range(60):
        changed = changed_somewhere(data, dice)
        if changed == data:
            continue
        unlike += 1
        path.write_bytes(changed)
        integrity, resumed = resume_verified([path], name="j")
        assert integrity.flaw is not None
        assert resumed is None
    assert unlike > 50


def test_a_file_that_is_no_journal_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "j.jsonl").write_text("no journal\n" * 10)
    with pytest.raises(JournalError, match=r"j\.jsonl"):
        resume_verified([tmp_path / "j.jsonl"], name="j")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes in /proc")
def test_it_ends_with_the_block_that_needs_it(tmp_path: Path) -> None:
    path = keep(hostile(5, EVENTS).records, tmp_path / "j.jsonl")
    before = {*Path("/proc/self/fd").iterdir()}
    with pytest.raises(KeyboardInterrupt), IntegrityProcess(path, large=0):
        raise KeyboardInterrupt
    assert {*Path("/proc/self/fd").iterdir()} == before
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    assert not any(os.fsencode(path) in command for command in commands)
