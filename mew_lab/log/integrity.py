"""Verifies the chain of a journal's lines, and compares it with heads that were kept elsewhere.

An intact chain shows that each line is unchanged and follows the line that it followed when it was written. It does not
show that the end is complete, or that the whole journal was not rewritten; heads that were kept elsewhere while the
journal grew show these too (kept_heads.py).

A copy that `Log.save` or `Log.to_parquet` wrote has the lines without their chain. Where heads of the journal were kept,
the chain is computed from the lines, and the heads vouch for the copy up to the last that is found.

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

from mew_lab.errors import HeadsDiffer, JournalError
from mew_lab.log.kept_heads import KeptHead, KeptHeads, epoch_of, kept_heads
from mew_lab.log.line import NO_CHAIN, read_line, read_members, split_chain
from mew_lab.log.reading import (
    LINE_LIMIT,
    UnreadLine,
    first_record,
    is_torn,
    list_files,
    missing,
    open_regular,
    opening_of,
    read_pruned_start,
    split_lines,
)
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible

__all__ = ["PRUNED", "Flaw", "Integrity", "check_evidence", "verify_chain", "verify_with"]

_TOO_LONG = f"is longer than {LINE_LIMIT} bytes"
_SEQ = re.compile(rb'\{"seq":([0-9]{1,18}),')
_CHAIN, _CLOSE = b',"chain":"', b'"}\n'  # of a line as a gateway writes it
PRUNED = "pruned"  # the note of a snapshot
IGNORE_HEADS = 'Where you know why, as after a loss of power, heads="ignore" goes on all the same.'
FIRST_HEAD = 1000  # records before the first kept head of a journal that are no surprise


class Flaw(NamedTuple):
    """The first line that is not vouched for: its file, its number there (from 1), and the reason.

    `after` is the last record before it that is vouched for, 0 where there is none: by the last kept head that is in
    the chain where one is missing, otherwise by the chain alone. `of_heads`: the chain itself is in order, and a head
    that was kept elsewhere is not in it.
    """

    path: Path
    line: int
    why: str
    after: int
    of_heads: bool = False

    def __str__(self) -> str:
        return f"line {self.line} of {visible(self.path.name)} is not vouched for: {self.why}"


class Integrity(NamedTuple):
    """The result of a verification: `chained` lines in order after `unchained` ones of an earlier version.

    `head` is the end of the chain. `flaw` is the first line that is not vouched for, None where there is none. `torn`:
    the file ends within a line, as after a kill. `kept` counts the heads kept elsewhere that are in the chain, and
    `latest` is the time of the last of them; `behind` counts the lines that were written after it. `went_on` is the
    first record behind which a head was kept and that a copy without a chain does not reach. `doubts` are sentences on
    why it is not verifiable though it has no flaw, and `remark` is one on what its kept heads do not show.
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
    went_on: int = 0
    doubts: tuple[str, ...] = ()
    remark: str = ""

    @property
    def intact(self) -> bool:
        """Whether each line is vouched for: by its chain, or, in a copy without a chain, by a head kept behind it."""
        if self.flaw is not None or self.doubts:
            return False
        return (
            not self.unchained if self.chained else bool(self.kept and not self.behind and not self.went_on)
        )

    def __str__(self) -> str:
        if self.flaw is not None:
            return str(self.flaw)
        torn = "; the last line is torn, as when its gateway was killed" if self.torn else ""
        if not self.chained:
            text = f"{visible(self.path.name)} is unchained: its records carry no chain, {self._copy()}{torn}"
            return "\n".join((text, *self.doubts))
        text = f"{count_of(self.chained, 'line')} in one chain, head {self.head[:8]}"
        text += torn
        if self.latest is None:
            text += "; no head was kept elsewhere, so a journal that was cut or rewritten would look the same"
        else:
            text += (
                f"; {count_of(self.kept, 'kept head')} found, the last of "
                f"{self.latest:%Y-%m-%d %H:%M:%S}Z, {count_of(self.behind, 'line')} before the end"
            )
        return "\n".join((text, *([self.remark] if self.remark else []), *self.doubts))

    def _copy(self) -> str:
        """What kept heads tell of records without a chain."""
        if self.latest is None:
            text = "so nothing vouches for them"
        else:
            text = (
                f"and {count_of(self.kept, 'kept head')} of their journal, the last of "
                f"{self.latest:%Y-%m-%d %H:%M:%S}Z, "
            )
            vouch = "vouches" if self.kept == 1 else "vouch"
            text += f"{vouch} for them" + (f", but for the last {self.behind}" if self.behind else "")
        if self.went_on:
            text += f"; the journal went on: a head was kept behind #{self.went_on}"
        return text


class _ChainedLine(NamedTuple):
    path: Path
    number: int
    data: bytes  # empty where no reader takes it
    torn: bool
    why: str


def verify_chain(path: str | os.PathLike[str], heads: Iterable[KeptHead] = ()) -> Integrity:
    """Verifies the chain through all files of a journal, and looks up the kept heads in it.

    Args:
        path: The first file.
        heads: The heads that were kept elsewhere, the oldest first. All of this journal are to be in its chain. Of
            other runs they count where one of them is in its chain; else this run has no head, though others have.

    Raises:
        JournalError: when there is no mew_lab journal.
    """
    heads = heads if isinstance(heads, KeptHeads) else KeptHeads(heads)
    verifier = _ChainVerifier(Path(path), heads)
    for line in verifier.lines():
        if not verifier.take(line):
            break
    return verifier.end()


MASKED = (
    "likely secrets were masked when this copy was written, so no chain, head or receipt of its journal can be checked "
    "by it; verify the journal itself"
)


def verify_with(path: Path, file: Path | None = None, *, place: Path | None = None) -> Integrity:
    """Verifies the chain of a journal with the heads that were kept in `file`, or by its lab; `place` is as there.

    A copy with masked secrets has no chain and no heads of its own, so of such a one it says that.

    Raises:
        JournalError: when the journal or `file` cannot be read, or `file` has no head of it.
    """
    if opening_of(path).get("masked") is True:
        # Our copies carry no chain: one that is there, and does not hold, was not made by masking.
        return verify_chain(path)._replace(doubts=(MASKED,))
    integrity = verify_chain(path, kept_heads(path, file, place=place))
    if file is not None and not (integrity.kept or integrity.went_on or integrity.flaw):
        raise JournalError(
            f"Cannot verify {place or path} with the heads in {file}: none of them is of this journal. Name the file in "
            "which the heads of its space were kept.",
            path=str(file),
        )
    return integrity


def check_evidence(
    integrity: Integrity, tried: str, *, with_heads: bool = True, advice: str = IGNORE_HEADS
) -> None:
    """Checks that nothing speaks against a journal from which something else is to be made.

    Args:
        tried: What is tried with which journal, for the error.
        with_heads: Whether kept heads are to vouch for it, too.
        advice: What to do about heads that do not, for the error.

    Raises:
        HeadsDiffer: when kept heads do not vouch for it.
        JournalError: when it was changed after it was written.
    """
    flaw, path = integrity.flaw, str(integrity.path)
    if flaw is not None and not flaw.of_heads:
        raise JournalError(
            f"Cannot {tried}: {flaw}. Examine it with mew-lab verify, and go on from a copy that is whole.",
            path=path,
        )
    missing = (*([str(flaw)] if flaw is not None else []), *integrity.doubts)
    if integrity.went_on:
        missing = (*missing, f"the journal went on: a head was kept behind #{integrity.went_on}")
    if missing and with_heads:
        raise HeadsDiffer(
            f"Cannot {tried}: {'; '.join(missing)}. Examine it with mew-lab verify. {advice}",
            path=path,
            missing=missing,
        )


class _ChainVerifier:
    def __init__(self, first: Path, heads: KeptHeads) -> None:
        self._unread = heads.doubts
        self._here = heads.here
        self._last_here: KeptHead | None = None  # the last that was found and kept of a journal at its place
        self._paths = list_files(first)
        self._epoch = epoch_of(first)
        self._runs = {None, self._epoch}  # those whose heads are to be in the chain
        self._awaited = {head.chain: head for head in heads}
        self._first_kept = min((head.at for head in heads), default=None)
        self._first_found = 0  # the record of the first head that was found
        self._found = 0
        self._begins_anew = False
        self._lost_chain = False  # lines with a chain follow a snapshot without one
        self._replaced_unchained = False  # lines that were pruned had no chain
        self._pruned = ""  # the chain of the last line that was pruned
        self._copied = NO_CHAIN  # the chain that the unchained lines had, if they are a copy
        self._goes_on_at = b""  # the chain with which the lines behind a snapshot go on, as `_copied`
        self._chain = NO_CHAIN
        self._chained = self._unchained = self._behind = self._seq = self._from_seq = 0
        self._must = False  # from here on each line has a chain
        self._snapshot = ""  # the chain of a snapshot
        self._noted = ""  # the chain that the last note of this snapshot states
        self._is_vouched = False  # a kept head follows that note
        self._any = any(head.epoch in self._runs for head in heads)
        self._others = [head for head in heads if head.epoch not in self._runs]
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
                self._begins_anew, self._replaced_unchained = True, anew.unchained
                self._copied, self._goes_on_at = self._chain, self._chain if anew.kept else b""
            yield from _lines_of(path)
            if anew is not None and nth == 0 and anew.kept and self._chained:
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
        if line.torn and line.path == self._paths[-1]:
            self._torn = True
            return True
        self._at = (line.path, line.number)
        if not data:
            return self._fail(line, f"it {line.why}, and no reader takes it")
        body, chain = split_chain(line.data)
        if not chain and not self._must and _is_record(line.data):
            self._unchained += 1
            self._take_copied(body[:-1])
            return True
        exact = line.data == body + b',"chain":"' + chain + b'"}\n' if data.endswith(b"\n") else True
        if not chain:
            why = "it carries no chain, though lines before it do" if self._must else "it is no record"
            return self._fail(line, why)
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
        if not self._must:
            self._seq = self._behind = 0  # nothing vouches for unchained lines before it
            self._lost_chain = self._begins_anew and self._unchained > 0 and not self._chained
        self._chain, self._must = chain, True
        self._chained += 1
        self._look_up(data, start, chain)
        return True

    def _take_copied(self, body: bytes) -> None:
        """Takes an unchained line; `body` are the bytes that its chain covers in the journal of which it is a copy."""
        start = body[:160]
        if self._goes_on_at and b'"event":"opened"' in start and self._unchained > 1:
            self._snapshot, self._copied, self._goes_on_at = self._copied.decode(), self._goes_on_at, b""
        self._copied = sha256(self._copied + body).hexdigest().encode()
        self._look_up(body + b"}", start, self._copied)

    def _look_up(self, data: bytes, start: bytes, chain: bytes) -> None:
        """Looks for a kept head, and for the note of a snapshot, at a line with this chain."""
        if self._begins_anew and b'"event":"pruned"' in start:
            self._take_note(data)
        self._behind += 1
        head = self._awaited.pop(chain.decode(), None) if self._awaited else None
        if seq := _SEQ.match(data):
            self._seq = max(self._seq, int(seq[1]))
        if head is not None:
            self._last, self._behind = head, 0
            if self._here and head.place == self._here:
                self._last_here = head
            self._runs.add(head.epoch)
            self._first_found = self._first_found or head.seq
            self._found += 1
            self._is_vouched = bool(self._noted)

    def _take_note(self, data: bytes) -> None:
        """Takes the note of a snapshot; others than that of this one are of earlier snapshots."""
        record = read_line(data)
        detail = (read_members(record.detail) or {}) if record is not None else {}
        seq, chain = detail.get("seq"), detail.get("snapshot")
        if type(seq) is int and seq == self._from_seq and type(chain) is str:
            self._noted = chain

    def _fail(self, line: _ChainedLine, why: str) -> bool:
        self._flaw = Flaw(line.path, line.number, why, self._seq)
        return False

    def end(self) -> Integrity:
        lost = [
            head
            for head in self._awaited.values()
            if head.epoch in self._runs
            and (
                head.seq > self._from_seq
                or (head.seq == self._from_seq and self._pruned not in ("", head.chain))
            )
        ]
        # Two places that have one run: a copy of it went on. The later head here vouches for all lines before it.
        of_copy = [head for head in lost if self._is_of_copy(head)]
        lost = [head for head in lost if not self._is_of_copy(head)]
        path, number = self._at
        went_on = 0
        if not self._chained:
            # A copy may have been made while the journal grew.
            went_on = min((head.seq for head in lost if head.seq > self._seq), default=0)
            lost = [head for head in lost if head.seq <= self._seq]
            self._seq = self._last.seq if self._last else 0
        if self._flaw is None:
            later = missing(self._paths)
            if later is not None:
                self._flaw = Flaw(
                    path,
                    number + 1,
                    f"the journal continues in {visible(later.name)}, but the file before is missing",
                    self._seq,
                )
            elif self._snapshot and self._noted not in ("", self._snapshot):
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
            went_on,
            *self._find_doubts(of_copy),
        )

    def _is_of_copy(self, head: KeptHead) -> bool:
        """Whether a head that is not in the chain was kept elsewhere, before one here that is."""
        last = self._last_here
        return last is not None and head.place not in ("", self._here) and head.at < last.at

    def _find_doubts(self, of_copy: list[KeptHead]) -> tuple[tuple[str, ...], str]:
        """The sentences on what makes it not verifiable, and a remark on its kept heads.

        Args:
            of_copy: the heads that were kept of a copy at another place.
        """
        name, doubts = visible(self._paths[0].name), [*self._unread]
        opened = first_record(self._paths[0])
        # A copy of a log of another gateway, whose lines have no chain, never had such a line.
        if self._chained and (opened is None or opened.event != "opened"):
            doubts.append(
                f"the first line of {name} does not open a journal: what was before it is missing, and with it the "
                "run of which heads may have been kept"
            )
        if self._replaced_unchained:
            doubts.append("its snapshot was made of lines without a chain, for which nothing vouched")
        if self._chained and self._unchained:
            unchained = "is unchained" if self._unchained == 1 else "are unchained"
            doubts.append(
                f"{count_of(self._unchained, 'line')} before the chain {unchained}: nothing vouches for them"
            )
        others = [head for head in self._others if head.epoch not in self._runs]
        if self._any and others:
            doubts.append(
                f"a head of another run was kept of this place later, at {others[0].at:%Y-%m-%d %H:%M:%S}Z: "
                f"{name} may be an earlier journal that was put there"
            )
        if of_copy:
            return tuple(doubts), (
                f"a copy of it went on at another place, where {count_of(len(of_copy), 'head')} of the same run "
                f"{'was' if len(of_copy) == 1 else 'were'} kept, the last at {of_copy[-1].at:%Y-%m-%d %H:%M:%S}Z"
            )
        if self._first_kept is None or self._found:
            first = f"the first of its kept heads is that behind #{self._first_found}; what is before it was kept then"
            return tuple(doubts), first if self._first_found > FIRST_HEAD else ""
        if not self._reaches(self._first_kept):
            return tuple(doubts), (
                f"{name} ends before the first head was kept here, at {self._first_kept:%Y-%m-%d %H:%M:%S}Z, by its own "
                "account"
            )
        doubts.append(
            f"no head was kept of {name}, though heads of other runs were kept there: it may have been rewritten"
        )
        return tuple(doubts), ""

    def _reaches(self, time: datetime) -> bool:
        """Whether a line is of that time or a later one. Times may be forged, so one of them is enough."""
        for line in (line for path in self._paths for line in _lines_of(path)):
            record = read_line(line.data)
            if record is not None and record.now >= time:
                return True
        return False

    def _find_forgery(self) -> Flaw | None:
        """The flaw of a snapshot that may be forged, because neither a note nor a kept head confirms it."""
        if not self._begins_anew:
            return None
        if self._lost_chain:  # it is written with one in any case
            return Flaw(
                self._paths[0], 1, "it is a snapshot without a chain, though lines behind it have one", 0
            )
        if self._snapshot and not self._noted:
            return Flaw(self._paths[0], 1, "it is a snapshot that no later note names", 0)
        if self._any and not (self._is_vouched if self._snapshot else self._found):
            return Flaw(
                self._paths[0],
                1,
                "it is a snapshot, and heads of this journal were kept, but none after it; mew-lab journal prune keeps "
                "one beside the tokens",
                0,
                of_heads=True,
            )
        return None

    def _find_rewritten(self, head: KeptHead, path: Path, number: int) -> Flaw:
        """The flaw of an unbroken chain that lacks a kept head."""
        elsewhere = bool(self._here) and head.place not in ("", self._here)
        awaited = (
            f"the head {one_line(head.chain)[:8]}, kept at {head.at:%Y-%m-%d %H:%M:%S}Z behind #{head.seq}"
            f"{' of a journal at another place' if elsewhere else ''},"
        )
        behind = self._last.seq if self._last else 0
        if not self._chained:
            why = f"{awaited} does not follow from the lines; they were changed, or are no copy of a whole journal"
        elif head.seq > self._seq:
            why = f"{awaited} is not reached; the end of the journal is missing"
            return Flaw(path, number + 1, why, behind, of_heads=True)
        else:
            why = (
                f"{awaited} is not in the chain; the journal was rewritten from here or from a later line on"
                f"{', or is a copy, and the other one went on' if elsewhere else ''}"
            )
        line = 1
        for chained in (chained for where in self._paths for chained in _lines_of(where)):
            seq = _SEQ.match(chained.data)
            path, line = chained.path, chained.number
            if seq and int(seq[1]) > behind:
                break
        return Flaw(path, line, why, behind, of_heads=True)


def _is_record(data: bytes) -> bool:
    return read_line(data) is not None


def _lines_of(path: Path) -> Iterator[_ChainedLine]:
    with open_regular(path) as file:
        for number, line in enumerate(split_lines(file), 1):
            data, why = (b"", line.why or _TOO_LONG) if isinstance(line, UnreadLine) else (line, "")
            yield _ChainedLine(path, number, data, is_torn(line), why)
