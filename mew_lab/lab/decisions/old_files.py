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
from dataclasses import replace
from typing import Any, NamedTuple

from mew_lab.bridge.written_files import FileDiff, FileWrite, compare_file, compare_texts, stamp_file
from mew_lab.errors import MewError
from mew_lab.lab.decisions.cards import MAX_PATH, Card, FileNote
from mew_lab.ledger.calls import Proposal, shown
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import list_of, mapping_of, member
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line, visible
from mew_lab.sdk.request_rows import ARGUMENTS, escape_key

__all__ = ["FindWrite", "OldFiles", "change_lines", "covered_rows", "note_of"]

FindWrite = Callable[[Sequence[str], str, Mapping[str, Any]], FileWrite | None]
"""Finds the file that a call of a tool with these arguments would write, by its addressees; None where there is none."""

CONTENT = "content"  # the argument of a permission with what its agent shows of the tool call
MOST_STATED, MOST_PATHS = 20, 3
NO_FILE = FileWrite(path="")
_OF_A_DIFF = {"type", "path", "oldText", "newText"}
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
        if stated := read_stated(proposal):
            paths = ", ".join(one_line(change.path, MAX_PATH) for change in stated[:MOST_PATHS])
            more = len(stated) - MOST_PATHS
            return FileNote(path=f"{paths} and {more} more" if more > 0 else paths, is_stated=True)
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

    async def compare(self, card: Card, proposal: Proposal, *, view: str) -> list[tuple[FileDiff, FileWrite]]:
        """What the call would change, for a view that shows it at once; what an agent states, of each file.

        Raises:
            MewError: it writes no file that is known here.
        """
        stated = read_stated(proposal)
        write = None if stated else self.find(proposal)
        if write is None and not stated:
            raise MewError(f"{card.request}: it writes no file that is known here")
        if write is None:
            changes = [(await self._read(change.compare, NO_FILE), change.write) for change in stated]
        else:
            changes = [(await self._read(compare_file, write), write)]
        self._stamps.setdefault(card.id, BoundedDict(MAX_VIEWS))[card.seq, view] = changes[0][0].stamp
        return changes

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


class StatedChange(NamedTuple):
    """A change of a file that an agent states with its question: an ACP diff. `old` is None for a new file.

    `is_whole` is whether the changes hold all of what the agent states with them.
    """

    path: str
    old: str | None
    new: str
    is_whole: bool

    @property
    def write(self) -> FileWrite:
        """The change in the form in which cards tell one."""
        return FileWrite(path=self.path, content=self.new, arguments=(CONTENT,) if self.is_whole else ())

    def compare(self, _write: FileWrite) -> FileDiff:
        """The difference. Nothing is read from a disk."""
        return compare_texts(self.old, self.new, path=self.path)


def read_stated(proposal: Proposal) -> list[StatedChange]:
    """The changes of files that an agent states with the question of a permission; at most `MOST_STATED`.

    Spec: R41; ACP, `ToolCallContent` of the type `diff`.
    """
    if proposal.permission is None:
        return []
    told = list_of(member(proposal.payload, "params", "arguments", CONTENT))
    found = [one for one in told if _is_diff(one)]
    is_whole = found == told and len(found) <= MOST_STATED and all(map(_is_told_whole, found))
    return [
        StatedChange(one["path"], one.get("oldText"), one["newText"], is_whole) for one in found[:MOST_STATED]
    ]


def _is_diff(one: object) -> bool:
    return (
        member(one, "type") == "diff"
        and isinstance(member(one, "path"), str)
        and isinstance(member(one, "newText"), str)
        and isinstance(member(one, "oldText"), str | None)
    )


def _is_told_whole(one: Mapping[str, Any]) -> bool:
    return set(one) <= _OF_A_DIFF and one_line(one["path"], MAX_PATH) == one["path"]


def covered_rows(changes: Sequence[tuple[FileDiff, FileWrite]]) -> tuple[str, ...]:
    """The rows of the request that shown differences hold whole."""
    if not all(diff.rows for diff, _ in changes):
        return ()
    names = dict.fromkeys(name for _, write in changes for name in write.arguments)
    return tuple(f"{ARGUMENTS}/{escape_key(name)}" for name in names)


def change_lines(diff: FileDiff) -> list[str]:
    """The difference of a file as lines of a text, folded to its hunks; or the reason why it is not known."""
    rows = [f"  {sign} {visible(text)}" for sign, text in diff.rows]
    return rows or ([f"  {visible(diff.why)}"] if diff.why else ["  it would stay as it is"])


def note_of(changes: Sequence[tuple[FileDiff, FileWrite]], *, at: float, note: FileNote) -> FileNote:
    """What a card says of files that were compared at that time, in seconds of the epoch; `note` is what it said."""
    told, [(first, _), *more] = "", changes
    if all(diff.added is not None for diff, _ in changes):
        added, removed = (
            sum(getattr(diff, name) or 0 for diff, _ in changes) for name in ("added", "removed")
        )
        made = f"makes a file of {count_of(added, 'line')}" if first.is_new and not more else ""
        told = made or f"+{added:,} −{removed:,} lines"
    return replace(
        note,
        place="" if more else first.place,
        told=told,
        why="" if told else first.why,
        changed="",
        at=at,
        covers=covered_rows(changes),
        reads=sum(len(text) for diff, _ in changes for sign, text in diff.rows if sign in "+-"),
    )
