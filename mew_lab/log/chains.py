"""Finds related envelopes, whatever the peers claim.

Envelopes are related by `correlation_id` and by `context`, and those about a stream to its `stream/open`. The ledger
(`ledger.reasoning`) maps a context to a sequence of reasoning; where there is none, the last part of the context names
an envelope.

An `Exchange` is the set of envelopes related to one envelope. Ids are claims: they may name nothing, form a cycle, or
repeat the id of another participant's envelope. So an id names the first accepted envelope that has it, a cycle is
followed once, and everything is bounded. This module has no clock and draws nothing.

Spec: §3 (correlation_id, context), §3.5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from mew_lab.errors import JournalError
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.reasoning import ReasoningLedger
from mew_lab.log.entries import entries_of
from mew_lab.log.numbering import complete_id
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.text import count_of
from mew_lab.protocol.visible import one_line
from mew_lab.space.events import Record

__all__ = ["MOST_HELD", "MOST_SHOWN", "Chains", "Exchange", "chains_of", "no_such", "number_in"]

MOST_HELD = 20_000
MAX_CHARACTERS = (
    64 * 1024 * 1024
)  # of the texts of held envelopes; they are held parsed, which takes several times as much memory
MOST_SHOWN = 200
MOST_RELATED = 32  # ids to which one envelope claims to be related


@dataclass(frozen=True)
class Exchange:
    """The envelopes related to `selected`, in the order received; `left_out` more distant ones are not in it."""

    selected: Entry
    steps: tuple[Entry, ...]
    left_out: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the steps, in order."""
        return tuple(step.id for step in self.steps)

    @cached_property
    def participants(self) -> tuple[str, ...]:
        """All senders and addressees, in the order of their first appearance."""
        return tuple(dict.fromkeys(name for step in self.steps for name in (step.sender, *step.to)))

    @property
    def seconds(self) -> float:
        """The seconds from the first to the last step."""
        return max(0.0, self.steps[-1].t - self.steps[0].t)

    def __repr__(self) -> str:
        count = count_of(len(self.steps), "message")
        return f"<Exchange of {count} in {self.seconds:.2f} s around {self.selected.name}>"


class Chains:
    """An index of related envelopes: the newest ones, at most `most`, with at most `characters` of text in all."""

    def __init__(self, *, most: int = MOST_HELD, characters: int = MAX_CHARACTERS) -> None:
        self._most = most
        self._characters, self._most_characters = 0, characters
        self._reasoning = ReasoningLedger(limit=most)
        self._held: dict[int, Entry] = {}  # by seq
        self._order: deque[int] = deque()
        self._named: dict[str, Entry] = {}
        self._related: dict[
            int, tuple[str | int, ...]
        ] = {}  # seq -> ids, and the seq of the start of a sequence, to which it claims to be related
        self._streams: BoundedDict[str, int] = BoundedDict(most)  # id of a stream -> seq of its `stream/open`
        self._about: dict[
            str | int, deque[int]
        ] = {}  # the reverse: id or seq -> seqs of the envelopes that claim it

    def add(self, entry: Entry) -> None:
        """Adds the next envelope, in the order received."""
        if entry.seq in self._held:
            return
        self._held[entry.seq] = entry
        self._order.append(entry.seq)
        named = self._named.get(entry.id)
        if entry.id and (named is None or (named.refused and not entry.refused)):
            self._named[entry.id] = entry
        related = self._related[entry.seq] = self._relations(entry)
        self._reasoning.observe(entry)
        if entry.kind == "stream/open" and not entry.refused and (stream := _stream_of(entry)):
            self._streams[stream] = entry.seq
        for id in related:
            self._about.setdefault(id, deque()).append(entry.seq)
        self._characters += len(entry.raw)
        while len(self._held) > self._most or (
            self._characters > self._most_characters and len(self._held) > 1
        ):
            self._drop(self._held.pop(self._order.popleft()))

    def _relations(self, entry: Entry) -> tuple[str | int, ...]:
        """The ids that an envelope claims to be related to, and the number of the start of its sequence."""
        ids: tuple[str | int, ...] = entry.correlation_id[:MOST_RELATED]
        sequence, _ = self._reasoning.place(entry)
        if sequence is not None and sequence.seq:
            ids = (*ids, sequence.seq)
        elif entry.context:
            ids = (*ids, entry.context.rpartition("/")[2])
        opened = self._streams.get(stream) if (stream := _stream_of(entry)) else None
        if opened is not None:
            ids = (*ids, opened)
        return tuple(dict.fromkeys(ids))

    def _drop(self, entry: Entry) -> None:
        self._characters -= len(entry.raw)
        if self._named.get(entry.id) is entry:
            del self._named[entry.id]
        for id in self._related.pop(entry.seq):
            related = self._about[id]
            related.popleft()
            if not related:
                del self._about[id]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._held.values()))

    def find(self, which: str | int) -> Entry | None:
        """The envelope with an id or with a number in the feed, or the proposal whose id begins so; None when it is not
        held.

        Raises:
            JournalError: the ids of several proposals begin so.
        """
        if isinstance(which, int):
            return self._held.get(which)
        entry = self._named.get(which)
        if entry is None and (number := number_in(which)) is not None:
            entry = self._held.get(number)
        if entry is None:
            proposals = (named.id for named in self._named.values() if named.kind == "mcp/proposal")
            begun = complete_id(which, proposals)
            entry = None if begun is None else self._named.get(begun)
        return entry

    def belongs(self, entry: Entry, seqs: frozenset[int]) -> bool:
        """Whether the envelope is directly related to one with a number in `seqs`; either may have claimed it."""
        return any(near.seq in seqs for near in self._near(entry))

    def exchange(self, which: str | int, *, most: int = MOST_SHOWN) -> Exchange:
        """The envelopes related to the one with an id or number, directly or indirectly; at most `most` steps.

        Raises:
            JournalError: when there is no such envelope, or it is no longer held.
        """
        start = self.find(which)
        if start is None:
            first = next(iter(self._held.values()), None)
            if first is None:
                raise no_such(which, "none held")
            raise no_such(which, f"{len(self._held)} held, from {first.name} on", first.sign)
        seen, queue = {start.seq: start}, deque([start])
        while queue:
            for near in self._near(queue.popleft()):
                if near.seq not in seen:
                    seen[near.seq] = near
                    queue.append(near)
        nearest = list(seen.values())[:most]
        steps = tuple(sorted(nearest, key=lambda step: step.seq))
        return Exchange(start, steps, len(seen) - len(steps))

    def parent(self, entry: Entry) -> Entry | None:
        """The first earlier envelope that a held one claims to be related to; None where there is none."""
        for id in self._related.get(entry.seq, ()):
            named = self._held.get(id) if isinstance(id, int) else self._named.get(id)
            if named is not None and named.seq < entry.seq:
                return named
        return None

    def _near(self, entry: Entry) -> Iterator[Entry]:
        for id in self._related.get(entry.seq, ()):
            parent = self._held.get(id) if isinstance(id, int) else self._named.get(id)
            if parent is not None:
                yield parent
        for seq in self._about.get(entry.seq, ()):
            yield self._held[seq]
        # An id refers to the envelope in `_named`, not to a later one with the same id.
        if entry.id and self._named.get(entry.id) is entry:
            for seq in self._about.get(entry.id, ()):
                yield self._held[seq]


def number_in(which: str) -> int | None:
    """The number that a text of digits alone names; None for any other. `name_of` reads `#12`."""
    return int(which[:18]) if which.isascii() and which.isdigit() else None


def no_such(which: str | int, held: str, sign: str = "#") -> JournalError:
    """The error for a message that is not found; `held` says which ones are, and `sign` is as in `Log.sign`."""
    named = f"{sign}{which}" if isinstance(which, int) else f"“{one_line(which, 60)}”"
    return JournalError(
        f"Cannot show the exchange of {named}: no such message; {held}. "
        f"Give the id of one, or its number, such as {sign}13."
    )


def _stream_of(entry: Entry) -> str:
    """The id of the stream that an envelope about a stream names; empty for others."""
    stream = entry.payload.get("stream_id") if entry.kind.startswith("stream/") else None
    return stream if isinstance(stream, str) else ""


def chains_of(records: Iterable[Record], *, most: int = 200_000) -> Chains:
    """The index of the related envelopes of a log (`log.records`).

    It has the newest ones where there are more than `most`, or more than 512 Mi characters in all.
    """
    chains = Chains(most=most, characters=8 * MAX_CHARACTERS)
    for entry in entries_of(records):
        chains.add(entry)
    return chains
