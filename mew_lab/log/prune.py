"""Deletes the older files of a journal and keeps a snapshot of the space, so that the journal can be continued.

The first file is replaced by one that holds the snapshot. Its first line states the end of the chain of the deleted
lines, and the chain continues from there. A note at the end of the journal states the chain of the snapshot itself. The
note is written before the file is replaced, so that a kill leaves no snapshot without its note. The head of the chain
after the note is returned, to be kept elsewhere: only it distinguishes this snapshot from a forged one.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.integrity import PRUNED, check_evidence, verify_chain
from mew_lab.log.journal import Head, Journal
from mew_lab.log.kept_heads import KeptHead
from mew_lab.log.line import NO_CHAIN, chain_line, read_line, read_members, split_chain, write_line
from mew_lab.log.reading import (
    UnreadLine,
    open_regular,
    opening_of,
    read_journal,
    read_pruned_start,
    split_lines,
    successor,
)
from mew_lab.log.replay import SERVED, Player, snapshot_records
from mew_lab.protocol.envelope import compact
from mew_lab.protocol.visible import visible
from mew_lab.space.events import Noted, Record
from mew_lab.transport.scratch import written_beside

__all__ = ["Pruned", "prune"]


class Pruned(NamedTuple):
    """The files to be deleted, or deleted: their bytes, records and last time; and the files that are kept.

    `head` is the head of the chain after the deletion, None before; kept_heads.keep_head keeps it elsewhere. `left` are
    those that could not be deleted.
    """

    files: tuple[Path, ...]
    bytes: int
    records: int
    until: datetime
    snapshot_bytes: int
    kept: tuple[Path, ...]
    head: KeptHead | None = None
    left: tuple[Path, ...] = ()

    def __str__(self) -> str:
        names = ", ".join(visible(path.name) for path in self.files[:6])
        more = f" and {len(self.files) - 6} more" if len(self.files) > 6 else ""
        kept = ", ".join(visible(path.name) for path in self.kept[:6]) or "no records"
        return (
            f"{names}{more}: {_size(self.bytes)}, {self.records} records up to {self.until:%Y-%m-%d %H:%M:%S}Z, behind "
            f"a snapshot of {_size(self.snapshot_bytes)}; kept: {kept}"
        )


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count = count / 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"


def prune(
    path: str | os.PathLike[str],
    *,
    keep: int = 1,
    agree: Callable[[Pruned], bool],
    heads: tuple[KeptHead, ...] = (),
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Pruned | None:
    """Deletes all files of a journal but the newest `keep`.

    Args:
        path: The first file.
        keep: The number of files to keep; 0 keeps the snapshot alone.
        agree: Called with the files to be deleted before anything is changed; returns whether to go on.
        heads: Heads of this journal that were kept elsewhere.

    Returns:
        The deleted files; None where `agree` returned False.

    Raises:
        HeadsDiffer: when kept heads do not vouch for it, or it is not verifiable for another reason.
        JournalError: when a gateway writes the journal, there is nothing to delete, it cannot be replayed, a line is
            not vouched for, or the snapshot cannot be written. Then nothing has changed.
        ReplayMismatch: when a fresh space would have recorded something else.
    """
    first = Path(path)
    journal = Journal.resume(first)
    try:
        work = _Work(journal, keep, heads)
        if not agree(work.goes):
            return None
        return work.carry_out(clock())
    finally:
        journal.close()


class _Work:
    """A snapshot, and the files that it replaces."""

    def __init__(self, journal: Journal, keep: int, heads: tuple[KeptHead, ...]) -> None:
        files = journal.paths
        self._journal, self._first = journal, files[0]
        deleted, self._kept = files[: max(0, len(files) - keep)], files[max(0, len(files) - keep) :]
        anew = read_pruned_start(opening_of(files[0]))
        if not deleted or (len(deleted) == 1 and anew is not None and anew.kept and self._kept):
            raise self._cannot(
                f"it has {len(files)} file{'' if len(files) == 1 else 's'}, and nothing is left to delete when the "
                f"newest {keep} stay. Use --keep 0 to keep only the snapshot"
            )
        integrity = verify_chain(files[0], heads)
        check_evidence(
            integrity,
            f"prune the journal {files[0]}",
            advice="A snapshot would hide for ever what its lines show.",
        )
        self._player = Player(str(files[0]))
        self._enrolled: dict[str, str] = {}
        self._port = 0
        self._settings: dict[str, Any] | None = None
        records, until = 0, datetime.min.replace(tzinfo=UTC)
        for record in self._records(deleted):
            records += 1
            until = record.now
        if not self._player.between:
            raise self._cannot(
                f"the last event in {deleted[-1].name} continues in the next file. Keep one file more, or one less"
            )
        replayed = self._player.end()
        self._seq = replayed.space.state.records  # before the kept files go on from it
        head = self._head(deleted[-1])
        pruned = {
            "seq": self._seq,
            "chain": head.chain.decode(),
            "number": int(self._kept[0].stem.rpartition("-")[2]) if self._kept else _number(journal),
            "previous": deleted[-1].name if self._kept else files[0].name,
            "kept": bool(self._kept),
        }
        if integrity.unchained or (anew is not None and anew.unchained):
            pruned["unchained"] = True
        about = {key: value for key, value in opening_of(files[0]).items() if key != "previous"}
        lines = snapshot_records(
            replayed, replayed.space.name, {**about, "pruned": pruned}, "pruned",
            now=until, enrolled=self._enrolled, port=self._port, settings=self._settings,
        )  # fmt: skip
        self._lines, self._end = _chain_lines(lines, head.chain)
        self.last = until
        for record in self._records(self._kept):
            self.last = record.now
        self._unwritten = self._player.end().unwritten
        size = sum(path.stat().st_size for path in deleted)
        self.goes = Pruned(deleted, size, records, until, sum(map(len, self._lines)), self._kept)

    def _records(self, paths: tuple[Path, ...]) -> Iterator[Record]:
        for path in paths:
            for record in read_journal(path):
                self._player.take(record)
                if record.event == "enrolled":
                    self._enrolled[record.participant] = record.detail
                elif record.event == SERVED:
                    noted = read_members(record.detail) or {}
                    self._port, self._settings = int(noted.get("port", 0)), noted.get("settings", {})
                yield record

    def _head(self, last: Path) -> Head:
        """The end of the chain in the last file to be deleted."""
        line = b""
        with open_regular(last) as file:
            for data in split_lines(file):
                if not isinstance(data, UnreadLine) and read_line(data) is not None:
                    line = data
        return Head(0, split_chain(line)[1] or NO_CHAIN)

    def _cannot(self, why: str) -> JournalError:
        return JournalError(f"Cannot prune the journal {self._first}: {why}.", path=str(self._first))

    def carry_out(self, now: datetime) -> Pruned:
        """Writes the note, replaces the first file by the snapshot, then deletes the others; returns the result."""
        note = self._note(max(self.last, now))
        noted, end = ([], self._end) if self._kept else _chain_lines(note, self._end)
        try:
            with written_beside(self._first) as file:
                file.writelines([*self._lines, *noted])
                file.flush()
                os.fsync(file.fileno())  # before the note says that it is there
                if self._kept:
                    self._journal.append(note)
                    end = self._journal.head.chain
        except OSError as fault:
            raise self._cannot(f"its snapshot cannot be written ({fault.strerror})") from None
        left = []
        for path in self.goes.files[1:]:
            try:
                path.unlink()
            except OSError:  # nothing reads it now
                left.append(path)
        return self.goes._replace(head=KeptHead(now, note[-1].seq, end.decode()), left=tuple(left))

    def _note(self, now: datetime) -> list[Record]:
        """The records that a killed gateway left unwritten, and the note of the snapshot."""
        detail = {
            "seq": self._seq,
            "files": len(self.goes.files),
            "records": self.goes.records,
            "snapshot": self._end.decode(),
        }
        space = self._player.space
        turn = space.plan(Noted(PRUNED, space.state.owner, compact(detail)), now)
        return [*self._unwritten, *(effect for effect in turn.effects if type(effect) is Record)]


def _number(journal: Journal) -> int:
    """The number of the next file, so that no name repeats."""
    return int(successor(journal.paths).stem.rpartition("-")[2])


def _chain_lines(records: list[Record], chain: bytes) -> tuple[list[bytes], bytes]:
    lines = []
    for record in records:
        line, chain = chain_line(write_line(record), chain)
        lines.append(line)
    return lines, chain
