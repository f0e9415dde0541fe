"""Verifies the chain of a journal's lines, and compares it with heads that were kept elsewhere.

An intact chain shows that each line is unchanged and follows the line that it followed when it was written. It does not
show that the end is complete, or that the whole journal was not rewritten; heads that were kept elsewhere while the
journal grew show these too (kept_heads.py).

This module reads lines as bytes. It does not check the content of records; replay.py does.

Spec: §3.6.8.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from mew_lab.log.kept_heads import KeptHead
from mew_lab.log.line import CHAIN_BYTES, NO_CHAIN, read_line, read_members, split_chain
from mew_lab.log.reading import LINE_LIMIT, first_record, list_files, missing, read_pruned_start
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line

__all__ = ["PRUNED", "Flaw", "Integrity", "verify_chain"]

_SEQ = re.compile(rb'\{"seq":([0-9]{1,18}),')
_CHAIN, _CLOSE = b',"chain":"', b'"}\n'  # of a line as a gateway writes it
PRUNED = "pruned"  # the note of a snapshot


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
        text = f"{count_of(self.chained, 'line')} in one chain, head {self.head[:8]}"
        if self.unchained:
            unchained = "is unchained" if self.unchained == 1 else "are unchained"
            text += f", behind {count_of(self.unchained, 'line')} that {unchained}"
        text += torn
        if self.latest is None:
            return (
                text
                + "; no head was kept elsewhere, so a journal that was cut or rewritten would look the same"
            )
        return (
            f"{text}; {count_of(self.kept, 'kept head')} found, the last of "
            f"{self.latest:%Y-%m-%d %H:%M:%S}Z, {count_of(self.behind, 'line')} before the end"
        )


class _ChainedLine(NamedTuple):
    path: Path
    number: int
    data: bytes
    whole: bool


def verify_chain(path: str | os.PathLike[str], heads: Iterable[KeptHead] = ()) -> Integrity:
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
        # The chains of snapshots that notes state, by the last record that each snapshot replaces.
        self._noted: dict[object, str] = {}
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
        awaited = (
            f"the head {one_line(head.chain)[:8]}, kept at {head.at:%Y-%m-%d %H:%M:%S}Z behind #{head.seq},"
        )
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
