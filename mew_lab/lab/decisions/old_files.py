"""Shows what a call would change in a file, and checks that the file is still the same when the call is approved.

A view asks for the difference when it shows a card; the old content goes to that view alone and is kept nowhere. What
is kept is the stamp of the file that each view has shown. An approval by a click needs one. When it is sent, the file is
hashed again: another stamp refuses the click, and the card is to be seen anew. Its receipt has path, size and SHA-256.
This is no lock: the file may change while the call is under way.

Reading blocks, so it runs in threads, few at a time. Everything else runs on the loop's thread.

Spec: §3.2.1, ruling R29; threats 14, 28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mew_lab.bridge.written_files import FileDiff, FileWrite, compare_file, stamp_file
from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import MAX_PATH, Card, FileNote
from mew_lab.ledger.calls import Proposal, shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import mapping_of, member
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.request_rows import ARGUMENTS, escape_key

__all__ = ["FindWrite", "OldFiles", "change_lines", "covered_rows", "note_of"]

FindWrite = Callable[[Sequence[str], str, Mapping[str, Any]], FileWrite | None]
"""Finds the file that a call of a tool with these arguments would write, by its addressees; None where there is none."""

AT_ONCE = 2  # files that are read at a time
WITHIN = 5.0  # seconds; a disk of the network may never answer
MAX_CARDS, MAX_VIEWS = 1_000, 200
SLOW = f"the file was not read within {WITHIN:g} s"


class OldFiles:
    """The files that the open cards would change. `find` says which file a call means."""

    def __init__(self, find: FindWrite) -> None:
        self._find = find
        self._few = asyncio.Semaphore(AT_ONCE)
        # proposal -> its sequence number and a view -> the stamp of the file that was shown there
        self._stamps: BoundedDict[str, BoundedDict[tuple[int, str], str]] = BoundedDict(MAX_CARDS)

    def note(self, proposal: Proposal) -> FileNote | None:
        """What a card says of the file before it was read; None for a call that writes none.

        Raises:
            LocalProtocolError: its text is not strict JSON.
        """
        write = self.find(proposal)
        return None if write is None else FileNote(path=write.path, why=write.why, is_known=not write.why)

    def find(self, proposal: Proposal, params: Mapping[str, Any] | None = None) -> FileWrite | None:
        """The file that a proposal would write, or with `params` an edit of it.

        Raises:
            LocalProtocolError: its text is not strict JSON.
        """
        if not proposal.tool or proposal.method != "tools/call":
            return None
        if params is None:
            params = mapping_of(member(shown(proposal.envelope), "payload", "params"))
        return self._find(proposal.to, proposal.tool, mapping_of(params.get("arguments")))

    async def compare(self, card: Card, proposal: Proposal, *, view: str) -> tuple[FileDiff, FileWrite]:
        """What the call would change, for a view that shows it at once.

        Raises:
            MewError: it writes no file that is known here.
        """
        write = self.find(proposal)
        if write is None:
            raise MewError(f"{card.request}: it writes no file that is known here")
        diff = await self._read(compare_file, write)
        self._stamps.setdefault(card.id, BoundedDict(MAX_VIEWS))[card.seq, view] = diff.stamp
        return diff, write

    def was_shown(self, card: Card, view: str) -> bool:
        """Whether that view has shown what the call would change."""
        return (card.seq, view) in self._stamps.get(card.id, {})

    async def check(self, card: Card, write: FileWrite, view: str | None) -> tuple[dict[str, Any], str]:
        """The old file for a receipt, and a sentence where it is not the one that the view has shown.

        `view` is None where no view has shown it: then nothing is compared.
        """
        now = await self._read(stamp_file, write)
        stamps: Mapping[tuple[int, str], str] = self._stamps.get(card.id, {})
        known = None if view is None else stamps.get((card.seq, view))
        place = one_line(now.place or write.path, MAX_PATH)
        return now.receipt, f"{place} has changed since it was shown" if known not in (
            None,
            now.stamp,
        ) else ""

    def forget(self, proposal: str) -> None:
        """Discards what was shown of a proposal."""
        self._stamps.pop(proposal, None)

    async def _read(self, read: Callable[[FileWrite], FileDiff], write: FileWrite) -> FileDiff:
        try:
            async with self._few, asyncio.timeout(WITHIN):
                return await asyncio.to_thread(read, write)
        except TimeoutError:
            return FileDiff(stamp=SLOW, why=SLOW)


def covered_rows(diff: FileDiff, write: FileWrite) -> tuple[str, ...]:
    """The rows of the request that a shown difference holds whole."""
    return tuple(f"{ARGUMENTS}/{escape_key(name)}" for name in write.arguments) if diff.rows else ()


def change_lines(diff: FileDiff) -> list[str]:
    """The difference of a file as lines of a text, folded to its hunks; or the reason why it is not known."""
    rows = [f"  {sign} {visible(text)}" for sign, text in diff.rows]
    return rows or ([f"  {visible(diff.why)}"] if diff.why else ["  it would stay as it is"])


def note_of(write: FileWrite, diff: FileDiff, *, at: float) -> FileNote:
    """What a card says of a file that was compared at that time, in seconds of the epoch."""
    told = ""
    if diff.added is not None and diff.removed is not None:
        made = f"makes a file of {count_of(diff.added, 'line')}" if diff.is_new else ""
        told = made or f"+{diff.added:,} −{diff.removed:,} lines"
    return FileNote(
        path=write.path,
        place=diff.place,
        told=told,
        why="" if told else diff.why,
        at=at,
        covers=covered_rows(diff, write),
        reads=sum(len(text) for sign, text in diff.rows if sign in "+-"),
    )
