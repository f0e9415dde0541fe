"""A file that is appended to stays below its folder, survives what others do to it, and tells what it could not take."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from mew_lab.transport.files import AppendedFile, FileLock


def a_file(root: Path, name: str) -> tuple[AppendedFile, list[str]]:
    faults: list[str] = []
    return AppendedFile(root, name, fault=faults.append), faults


def test_the_file_and_its_folders_are_the_owners_alone(tmp_path: Path) -> None:
    file, faults = a_file(tmp_path, "a/b/log.jsonl")
    file.append("one")
    assert (tmp_path / "a/b/log.jsonl").read_text() == "one\n"
    assert stat.S_IMODE((tmp_path / "a/b/log.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    assert faults == []


def test_a_file_that_is_emptied_while_it_is_written_begins_anew(tmp_path: Path) -> None:
    file, _ = a_file(tmp_path, "log.jsonl")
    file.append("one")
    (tmp_path / "log.jsonl").write_text("")
    file.append("two")
    (tmp_path / "log.jsonl").unlink()
    file.append("three")
    assert (tmp_path / "log.jsonl").read_text() == "three\n"


@pytest.mark.threat(27)
@pytest.mark.parametrize("name", ["link/log", "log", "pipe", "folder"])
def test_nothing_is_written_through_a_link_into_a_pipe_or_elsewhere(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "target").write_text("mine")
    (root / "link").symlink_to(outside)
    (root / "log").symlink_to(outside / "target")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    file, faults = a_file(root, name)
    file.append("line")
    file.append("line")
    assert [one.name for one in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "mine"
    assert file.lost == 2
    assert len(faults) == 1 and str(root / name) in faults[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once_and_counted_and_writing_goes_on_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, faults = a_file(tmp_path, "log")
    file.append("before")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    file.append("cut short")
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(os, "write", lambda fd, data: write(full, data))
    file.append("lost")
    monkeypatch.setattr(os, "write", write)
    os.close(full)
    file.append("after")
    assert file.lost == 2
    assert faults == [
        f"{tmp_path / 'log'} cannot be written: the disk is full; its lines are left out until it can",
        f"{tmp_path / 'log'} is written again; 2 lines were left out",
    ]
    assert (tmp_path / "log").read_text() == "before\nafter\n"


def test_lines_for_which_there_is_room_are_written_whole_and_the_others_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = a_file(tmp_path, "log")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:11]))
    assert file.append("first", "fifth", "sixth") is False  # a line and some of the next
    monkeypatch.setattr(os, "write", write)
    assert file.append("after")
    assert (tmp_path / "log").read_text() == "first\nafter\n"
    assert file.lost == 2


def test_a_line_that_was_cut_and_cannot_be_taken_back_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, _ = a_file(tmp_path, "log")
    file.append("before")
    write, truncate = os.write, os.ftruncate

    def refuse(fd: int, size: int) -> None:
        raise OSError(5, "no")

    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    monkeypatch.setattr(os, "ftruncate", refuse)
    file.append("cut short")
    monkeypatch.setattr(os, "write", write)
    monkeypatch.setattr(os, "ftruncate", truncate)
    file.append("after")
    assert (tmp_path / "log").read_text() == "before\ncut\nafter\n"


@pytest.mark.threat(27)
def test_a_folder_that_is_exchanged_for_a_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file, faults = a_file(tmp_path, "logs/log")
    file.append("one")
    (tmp_path / "logs").rename(tmp_path / "aside")
    (tmp_path / "logs").symlink_to(outside)
    file.append("two")
    assert list(outside.iterdir()) == [] and file.lost == 1 and len(faults) == 1
    (tmp_path / "logs").unlink()
    file.append("three")
    assert (tmp_path / "logs/log").read_text() == "three\n"
    assert (tmp_path / "aside/log").read_text() == "one\n"


def test_a_file_is_put_aside_with_those_before_it_and_the_oldest_goes(tmp_path: Path) -> None:
    file, _ = a_file(tmp_path, "logs/log")
    for n in range(5):
        file.append(f"line {n}")
        file.shift(2)
    file.append("line 5")
    assert {one.name: one.read_text() for one in (tmp_path / "logs").iterdir()} == {
        "log": "line 5\n",
        "log.1": "line 4\n",
        "log.2": "line 3\n",
    }


def test_a_look_for_the_holder_takes_the_lock_from_nobody(tmp_path: Path) -> None:
    assert FileLock.find_holder(tmp_path, "none/here.lock") == "" and not (tmp_path / "none").exists()
    FileLock(tmp_path, "a.lock")
    (tmp_path / "b.lock").write_text("712")  # of a process that has ended
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            FileLock.find_holder(tmp_path, "b.lock")

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(100):
            FileLock(tmp_path, "b.lock").release()
            (tmp_path / "b.lock").touch()
    finally:
        ended.set()
        for looker in lookers:
            looker.join()
