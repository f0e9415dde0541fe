"""Verifies the chain of a journal's lines, and compares it with heads that were kept elsewhere.

An intact chain shows that each line is unchanged and follows the line that it followed when it was written. It does not
show that the end is complete, or that the whole journal was not rewritten; the owner of the file can do both. Heads
that were kept elsewhere while the journal grew show these too: in the lab's own file, in a welcome that its owner
received, or on paper.

This module reads lines as bytes. It does not check the content of records; replay.py does.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mew_lab.errors import JournalError
from mew_lab.log.line import CHAIN_BYTES, NO_CHAIN, read_line, read_members, split_chain
from mew_lab.log.reading import LINE_LIMIT, first_record, list_files, missing, read_pruned_start
from mew_lab.protocol.filename import folder_name
from mew_lab.protocol.visible import one_line
from mew_lab.transport.folder import open_below

__all__ = [
    "PRUNED",
    "Flaw",
    "Integrity",
    "KeptHead",
    "heads_path",
    "keep_head",
    "keep_pruned",
    "kept_heads",
    "read_heads",
    "verify",
]

_SEQ = re.compile(rb'\{"seq":([0-9]{1,18}),')
_CHAIN, _CLOSE = b',"chain":"', b'"}\n'  # of a line as a gateway writes it
PRUNED = "pruned"  # the note of a snapshot
MAX_HEADS = 64 * 1024 * 1024  # bytes of a file of heads
LONGEST = 256  # bytes of a line there


class KeptHead(NamedTuple):
    """A head of a journal's chain that was kept elsewhere: its time, and the record that it followed."""

    at: datetime
    seq: int
    chain: str


class Flaw(NamedTuple):
    """The first line that is not vouched for: its file, its number there (from 1), and the reason.

    `after` is the last record before it that is vouched for, 0 where there is none: by the last kept head that is in
    the chain where one is missing, otherwise by the chain alone.
    """

    path: Path
    line: int
    why: str
    after: int

    def __str__(self) -> str:
        return f"line {self.line} of {self.path.name} is not vouched for: {self.why}"


class Integrity(NamedTuple):
    """The result of a verification: `chained` lines in order after `unchained` ones of an earlier version.

    `head` is the end of the chain. `flaw` is the first line that is not vouched for, None where there is none. `torn`:
    the file ends within a line, as after a kill. `kept` counts the heads kept elsewhere that are in the chain, and
    `latest` is the time of the last of them; `behind` counts the lines that were written after it.
    """

    path: Path
    chained: int
    unchained: int
    head: str
    flaw: Flaw | None
    torn: bool
    kept: int
    latest: datetime | None
    behind: int

    def __str__(self) -> str:
        if self.flaw is not None:
            return str(self.flaw)
        torn = "; the last line is torn, as when its gateway was killed" if self.torn else ""
        if not self.chained:
            return (
                f"{self.path.name} is unchained: its lines carry no chain, so nothing vouches for them{torn}"
            )
        text = f"{_lines(self.chained)} in one chain, head {self.head[:8]}"
        if self.unchained:
            text += f", behind {_lines(self.unchained)} that {_are(self.unchained)} unchained"
        text += torn
        if self.latest is None:
            return (
                text
                + "; no head was kept elsewhere, so a journal that was cut or rewritten would look the same"
            )
        return (
            f"{text}; {self.kept} kept head{'' if self.kept == 1 else 's'} found, the last of "
            f"{self.latest:%Y-%m-%d %H:%M:%S}Z, {_lines(self.behind)} before the end"
        )


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


class _ChainedLine(NamedTuple):
    path: Path
    number: int
    data: bytes
    whole: bool


def verify(path: str | os.PathLike[str], heads: Iterable[KeptHead] = ()) -> Integrity:
    """Verifies the chain through all files of a journal, and looks up the kept heads in it.

    Args:
        path: The first file.
        heads: The heads of this journal that were kept elsewhere, the oldest first.

    Raises:
        JournalError: when there is no mew_lab journal.
    """
    verifier = _ChainVerifier(Path(path), list(heads))
    for line in verifier.lines():
        if not verifier.take(line):
            break
    return verifier.end()


class _ChainVerifier:
    def __init__(self, first: Path, heads: list[KeptHead]) -> None:
        self._paths = list_files(first)
        self._awaited = {head.chain: head for head in heads}
        self._found = 0
        self._begins_anew = False
        self._pruned = ""  # the chain of the last line that was pruned
        self._chain = NO_CHAIN
        self._chained = self._unchained = self._behind = self._seq = self._from_seq = 0
        self._must = False  # from here on each line has a chain
        self._snapshot = ""  # the chain of a snapshot
        self._noted: dict[
            object, str
        ] = {}  # the chains of snapshots that notes state, by the last record that each snapshot replaces
        self._vouched: dict[object, str] = {}  # the same, of the notes that a kept head follows
        self._any = bool(heads)
        self._flaw: Flaw | None = None
        self._torn = False
        self._last: KeptHead | None = None
        self._at = (first, 0)

    def lines(self) -> Iterator[_ChainedLine]:
        for nth, path in enumerate(self._paths):
            record = first_record(path)
            about = (read_members(record.detail) or {}) if record is not None else {}
            anew = read_pruned_start(about)
            if anew is not None and nth == 0:  # a snapshot: the chain continues from the pruned lines
                self._chain, self._from_seq, self._pruned = anew.chain.encode(), anew.seq, anew.chain
                self._begins_anew = True
            yield from _lines_of(path)
            if anew is not None and nth == 0 and anew.kept:
                # The kept lines continue the chain of the pruned ones; a note in them states that of the snapshot.
                self._snapshot, self._chain = self._chain.decode(), anew.chain.encode()
                self._must = self._chain != NO_CHAIN

    def take(self, line: _ChainedLine) -> bool:
        """Checks the next line; returns whether it is vouched for, or may be from before chains existed."""
        data = line.data
        if data[-77:-67] == _CHAIN and data[-3:] == _CLOSE:
            # The usual line, as a gateway writes it; all others are looked at in detail below.
            chain = data[-67:-3]
            if sha256(self._chain + data[:-77]).hexdigest().encode() == chain:
                self._at = (line.path, line.number)
                return self._vouch(data, data[:160], chain)
        if not line.whole and line.path == self._paths[-1] and not _is_record(line.data):
            self._torn = True
            return True
        self._at = (line.path, line.number)
        body, chain = split_chain(line.data)
        if not chain and not self._must and _is_record(line.data):
            self._unchained += 1
            return True
        exact = line.data == body + b',"chain":"' + chain + b'"}\n' if line.whole else True
        if not chain:
            return self._fail(line, "it carries no chain, though lines before it do")
        if sha256(self._chain + body).hexdigest().encode() != chain:
            before = "the line before it" if self._must else "the beginning of the journal"
            return self._fail(
                line,
                f"its chain does not follow from {before} and from its content; this line or an earlier one was "
                "changed, inserted or removed",
            )
        if not exact:
            return self._fail(line, "its end was rewritten")
        return self._vouch(data, body[:160], chain)

    def _vouch(self, data: bytes, start: bytes, chain: bytes) -> bool:
        """Takes a line whose chain follows from the line before; `start` is its beginning without the chain."""
        self._chain, self._must = chain, True
        self._chained += 1
        if b'"event":"pruned"' in start:
            record = read_line(data)
            detail = (read_members(record.detail) or {}) if record is not None else {}
            self._noted[detail.get("seq")] = str(detail.get("snapshot", ""))
        self._behind += 1
        head = self._awaited.pop(chain.decode(), None) if self._awaited else None
        if seq := _SEQ.match(data):
            self._seq = max(self._seq, int(seq[1]))
        if head is not None:
            self._last, self._behind = head, 0
            self._found += 1
            self._vouched = dict(self._noted)
        return True

    def _fail(self, line: _ChainedLine, why: str) -> bool:
        self._flaw = Flaw(line.path, line.number, why, self._seq)
        return False

    def end(self) -> Integrity:
        lost = [
            head
            for head in self._awaited.values()
            if head.seq > self._from_seq
            or (head.seq == self._from_seq and self._pruned not in ("", head.chain))
        ]
        path, number = self._at
        if self._flaw is None:
            later = missing(self._paths)
            if later is not None:
                self._flaw = Flaw(
                    path,
                    number + 1,
                    f"the journal continues in {later.name}, but the file before is missing",
                    self._seq,
                )
            elif self._snapshot and self._noted.get(self._from_seq, self._snapshot) != self._snapshot:
                self._flaw = Flaw(self._paths[0], 1, "it is not the snapshot that a later note names", 0)
            elif lost:
                self._flaw = self._find_rewritten(lost[0], path, number)
            else:
                self._flaw = self._find_forgery()
        return Integrity(
            self._paths[0],
            self._chained,
            self._unchained,
            self._chain.decode() if self._chained else "",
            self._flaw,
            self._torn,
            self._found,
            self._last.at if self._last else None,
            self._behind,
        )

    def _find_forgery(self) -> Flaw | None:
        """The flaw of a snapshot that may be forged, because neither a note nor a kept head confirms it."""
        if not self._begins_anew:
            return None
        if self._snapshot and self._from_seq not in self._noted:
            return Flaw(self._paths[0], 1, "it is a snapshot that no later note names", 0)
        if self._any and not (self._from_seq in self._vouched if self._snapshot else self._found):
            return Flaw(
                self._paths[0],
                1,
                "it is a snapshot, and heads of this journal were kept, but none after it; mew-lab journal prune keeps "
                "one beside the tokens",
                0,
            )
        return None

    def _find_rewritten(self, head: KeptHead, path: Path, number: int) -> Flaw:
        """The flaw of an unbroken chain that lacks a kept head."""
        awaited = f"the head {one_line(head.chain)[:8]}, kept at {head.at:%Y-%m-%d %H:%M:%S}Z behind record {head.seq},"
        behind = self._last.seq if self._last else 0
        if head.seq > self._seq:
            why = f"{awaited} is not reached; the end of the journal is missing"
            return Flaw(path, number + 1, why, behind)
        line = 1
        for chained in (chained for where in self._paths for chained in _lines_of(where)):
            seq = _SEQ.match(chained.data)
            path, line = chained.path, chained.number
            if seq and int(seq[1]) > behind:
                break
        return Flaw(
            path,
            line,
            f"{awaited} is not in the chain; the journal was rewritten from here or from a later line on",
            behind,
        )


def _is_record(data: bytes) -> bool:
    return read_line(data) is not None


def _lines_of(path: Path) -> Iterator[_ChainedLine]:
    with path.open("rb") as file:
        number = 0
        while data := file.readline(LINE_LIMIT + CHAIN_BYTES):
            number += 1
            yield _ChainedLine(path, number, data, data.endswith(b"\n"))


# --- heads kept elsewhere ---


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
            f"vouches for the snapshot. It is {head.chain}, behind record {head.seq}.",
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
    """The heads that were kept of the journal of the run `epoch`; none where there is no such file.

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
            if epoch is not None and int(run, 16) == epoch:
                heads.append(KeptHead(datetime.fromisoformat(at).astimezone(UTC), int(seq), chain))
        except ValueError:
            raise JournalError(
                f"Cannot read the heads in {path}: line {number} is no time, run, record and head. Take that line out "
                "if you know why it is there.",
                path=str(path),
            ) from None
    return heads
