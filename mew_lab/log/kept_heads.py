"""Keeps heads of a journal's chain outside the journal, and reads them again.

An intact chain shows neither that the end of a journal is complete nor that the whole was not rewritten; the owner of
the file can do both. Heads that were kept elsewhere while the journal grew show these too (`integrity.verify_chain`):
in the lab's own file beside the tokens, in a welcome that its owner received, or on paper.

A file of heads has one line for each: time, epoch of the run, record, chain. A line is appended, never changed.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.line import read_members
from mew_lab.log.reading import first_record
from mew_lab.protocol.filename import folder_name
from mew_lab.transport.folder import open_below

__all__ = ["KeptHead", "heads_path", "keep_head", "keep_pruned", "kept_heads", "read_heads"]

MAX_HEADS = 64 * 1024 * 1024  # bytes of a file of heads
LONGEST = 256  # bytes of a line there


class KeptHead(NamedTuple):
    """A head of a journal's chain that was kept elsewhere: its time, and the record that it followed."""

    at: datetime
    seq: int
    chain: str


def heads_path(folder: Path, space: str) -> Path:
    """The file of the heads that a lab keeps of the journals of a space; `folder` is the folder that holds `.mew`."""
    place = folder / ".mew" / "tokens"
    there = [entry.name for entry in place.iterdir()] if place.is_dir() else []
    return place / folder_name(space, among=there) / "journal.heads"


def heads_file(path: Path, file: Path | None = None) -> Path | None:
    """The file of the heads that were kept of a journal: `file`, or that of a lab; None where no lab keeps any.

    The lab's file is looked for above the journal, else below the current folder.

    Raises:
        JournalError: when the journal cannot be read, or `file` is not there.
    """
    if file is not None:
        if not file.exists():
            raise JournalError(
                f"There is no file of heads {file}. Name the file in which a lab kept them.", path=str(file)
            )
        return file
    record = first_record(path)
    if record is None or record.event != "opened":
        return None
    above = next((folder.parent for folder in path.resolve().parents if folder.name == ".mew"), None)
    kept = heads_path(above or Path.cwd(), record.space)
    return kept if above is not None or kept.exists() else None


def kept_heads(path: str | os.PathLike[str], file: Path | None = None) -> tuple[KeptHead, ...]:
    """The heads that were kept of a journal, in `file` or in the file of a lab.

    Raises:
        JournalError: when the journal or the file cannot be read.
    """
    first = Path(path)
    kept, epoch = heads_file(first, file), _epoch(first)
    return tuple(read_heads(kept, epoch)) if kept is not None and epoch is not None else ()


def keep_head(path: Path, epoch: int, head: KeptHead) -> None:
    """Appends a head to a file of heads; a missing file is made, readable by its owner alone.

    Raises:
        OSError: when it cannot be written.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = open_below(path, flags, make=True)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is no regular file")
        if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
            os.fchmod(fd, 0o600)
        at = max(0, status.st_size - LONGEST)
        os.lseek(fd, at, os.SEEK_SET)
        whole = os.read(fd, LONGEST).rfind(b"\n") + 1
        if at + whole < status.st_size:  # a killed process left a line half written
            os.ftruncate(fd, at + whole)
        os.write(fd, f"{head.at.isoformat()} {epoch:016x} {head.seq} {head.chain}\n".encode("ascii"))
    finally:
        os.close(fd)


def keep_pruned(path: Path, file: Path | None, head: KeptHead) -> Path | None:
    """Appends the head of a pruned journal to the file of its heads; returns that file, None where there is none.

    Raises:
        JournalError: when it cannot be written.
    """
    kept, epoch = heads_file(path, file), _epoch(path)
    if kept is None or epoch is None:
        return None
    try:
        keep_head(kept, epoch, head)
    except OSError as fault:
        raise JournalError(
            f"The journal was pruned, but its head could not be kept in {kept} ({fault.strerror or fault}), so nothing "
            f"vouches for the snapshot. It is {head.chain}, behind #{head.seq}.",
            path=str(kept),
        ) from None
    return kept


def _epoch(path: Path) -> int | None:
    record = first_record(path)
    if record is None or record.event != "opened":
        return None
    epoch = (read_members(record.detail) or {}).get("epoch")
    return epoch if type(epoch) is int else None


def read_heads(path: Path, epoch: int | None) -> list[KeptHead]:
    """The heads that were kept of the journal of the run `epoch`, or of all runs; none where there is no such file.

    Raises:
        JournalError: when the file cannot be read, or holds anything else.
    """
    try:
        if not path.exists():
            return []
        if not path.is_file():
            raise ValueError("it is no regular file")
        if path.stat().st_size > MAX_HEADS:
            raise JournalError(
                f"Cannot read the heads in {path}: it is longer than any such file", path=str(path)
            )
        text = path.read_text("ascii")
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise JournalError(f"Cannot read the heads in {path}: {why}", path=str(path)) from None
    heads = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if number == len(lines):
            break  # a line that a killed process left half written, or nothing
        try:
            at, run, seq, chain = line.split(" ")
            if not re.fullmatch("[0-9a-f]{64}", chain):
                raise ValueError
            if int(run, 16) == epoch or epoch is None:
                heads.append(KeptHead(datetime.fromisoformat(at).astimezone(UTC), int(seq), chain))
        except ValueError:
            raise JournalError(
                f"Cannot read the heads in {path}: line {number} is no time, run, record and head. Take that line out "
                "if you know why it is there.",
                path=str(path),
            ) from None
    return heads
