"""Tracks each sequence of reasoning: the messages that belong to it, and its end.

How it works
------------
`ReasoningLedger.observe` takes every entry of a space, in order, and returns what it changed. A `ReasoningSequence` is
a snapshot: it never changes, and the ledger holds the newest one of each key.

    active ─┬─ concluded     by its owner
            ├─ cancelled     by anybody that may send the cancel
            └─ left          its owner has left the space, or has begun another sequence under the same id

A message counts only where its sender may decide what it claims:

- a `reasoning/start` opens a sequence, and its sender owns it; its id is the context of what belongs to it;
- an id names the first sequence that took it, and only its owner may take it anew (R6);
- a message belongs to the sequence that the deepest known part of its context names; the parts behind it are its
  `path` there. A request or a proposal belongs, too, to a sequence whose start it correlates to;
- a request about a proposal that belongs to a sequence is no step of its own: it stands beside the proposal, as do
  answers, rejections and withdraws;
- a conclusion ends the sequence that its context leads to, where it comes from the owner. A cancel ends the sequence
  whose id is its whole context: agents stop for nothing else, and one that is malformed stops nobody;
- a message after the end still belongs to the sequence, and changes nothing;
- where a thought or a conclusion names a context that nobody was seen to start, the log begins behind the start: such a
  sequence counts as its sender's, takes nothing from one whose start was seen, and gives way to a start of its id.

A participant acts on the starts and the ends of sequences alone. So its ledger takes no steps (`takes_steps`): of what
stands within and beside a sequence it knows nothing, and a sequence whose start it has not seen is none.

Beside a sequence stands the stream that its owner requested for it and the gateway opened. There is no clock, no loop
and no sending here.

Spec: §2 (context), §3.5, §3.10.1, SDK "Streaming Reasoning Transparency", rulings R6, R16.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from mew_lab.ledger.entry import Entry
from mew_lab.ledger.members import GATEWAYS
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import line_of, member, text_of
from mew_lab.protocol.envelope import MAX_ID
from mew_lab.protocol.text import MAX_NAME, cut

__all__ = [
    "ENDS",
    "WITHOUT_CONTEXT",
    "ReasoningChange",
    "ReasoningLedger",
    "ReasoningSequence",
    "parts_of",
    "streamed_id",
]

MAX_SEQUENCES = 1000  # of a space; an agent begins one with a message
MAX_ABOUT = 20  # ids that a start correlates to
MAX_STREAMS = 1000  # requests of streams, and streams, beside sequences
MAX_PROPOSALS = 10_000  # that belong to sequences
MAX_DEPTH = 16  # parts of a context that are looked at
MAX_PATH = 200  # characters
MAX_REASON = 200  # characters of the reason of a cancel
_CALLS = ("mcp/request", "mcp/proposal")
_STREAMED = "reasoning:"  # before the id of a sequence, in the description of the stream beside it
# What may concern a sequence without a context.
WITHOUT_CONTEXT = frozenset(
    {*_CALLS, "reasoning/start", "stream/request", "stream/open", "stream/close", "system/presence"}
)
# Those by which a sequence begins or ends.
ENDS = frozenset({"reasoning/start", "reasoning/conclusion", "reasoning/cancel", "system/presence"})
_BESIDE = frozenset({"mcp/response", "mcp/reject", "mcp/withdraw", "system/error"})  # no steps of their own

State = Literal["active", "concluded", "cancelled", "left"]


class ReasoningSequence(NamedTuple):
    """One sequence and its state.

    Attributes:
        key: Counts from 1 in the order of arrival; it stays where an id is taken anew.
        id: The id of its start, which is the context of its messages.
        owner: The participant that started it.
        started: When it was started (`Entry.t`); `ended` is when it ended, None while it is active.
        seq: The place of its start among all entries that the ledger saw; 0 where the start was not seen.
        about: The ids that its start correlates to, at most 20.
        parent: The key of the sequence within which it began, 0 for none; `place` is the number of its step there, and
            `path` the part of the parent.
        state: `active`, `concluded`, `cancelled`, `left`.
        by: The participant that ended it; `reason` is the reason of a cancel.
        steps: How many messages belong to it; 0 where the ledger takes no steps.
        stream: The id of the stream beside it, empty for none; `streaming` is whether that is open.
    """

    key: int
    id: str
    owner: str
    started: float
    seq: int = 0
    about: tuple[str, ...] = ()
    parent: int = 0
    place: int = 0
    path: str = ""
    state: State = "active"
    ended: float | None = None
    by: str = ""
    reason: str = ""
    steps: int = 0
    stream: str = ""
    streaming: bool = False


class ReasoningChange(NamedTuple):
    """The change of one sequence by one entry.

    `stepped`: the entry is step `sequence.steps`, in the part `path`; `child` is the key of the sequence that it began.
    `streamed`: the stream beside the sequence was opened or closed. `claimed`: the entry has no effect, for the reason
    `why`. `forgotten`: the ledger dropped the sequence for lack of room.
    """

    what: Literal["began", "stepped", "concluded", "cancelled", "left", "streamed", "claimed", "forgotten"]
    sequence: ReasoningSequence
    entry: Entry
    path: str = ""
    child: int = 0
    why: str = ""


class SequenceIndex(dict[int, ReasoningSequence]):
    """Sequences by key, and the keys of each owner. Only the ledger changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.by_owner: dict[str, dict[int, None]] = {}  # owner -> keys, the first that came here first

    def put(self, sequence: ReasoningSequence) -> None:
        if sequence.key not in self:
            self.by_owner.setdefault(sequence.owner, {})[sequence.key] = None
        self[sequence.key] = sequence

    def drop(self, key: int) -> None:
        sequence = self.pop(key, None)
        if sequence is not None:
            keys = self.by_owner[sequence.owner]
            del keys[key]
            if not keys:
                del self.by_owner[sequence.owner]


class ReasoningLedger:
    """The sequences of a space, as one participant or one journal saw them.

    Args:
        takes_steps: Whether it records the messages that belong to a sequence, and the stream beside it; else only the
            kinds in `ENDS`.
        limit: How many sequences are held. The owner with the most loses sequences first: its oldest ended ones, then
            its oldest. So no owner drives out the sequences of others.
    """

    def __init__(self, *, takes_steps: bool = True, limit: int = MAX_SEQUENCES) -> None:
        self.takes_steps = takes_steps
        self.limit = limit
        self._active = SequenceIndex()
        self._over = SequenceIndex()
        self._names: dict[str, int] = {}  # id -> key
        self._proposals: BoundedDict[str, None] = BoundedDict(MAX_PROPOSALS)  # ids of those that are steps
        self._requests: BoundedDict[str, int] = BoundedDict(MAX_STREAMS)  # a stream/request's id -> key
        self._streams: BoundedDict[str, int] = BoundedDict(MAX_STREAMS)  # a stream's id -> key
        self._handles: BoundedDict[str, str] = BoundedDict(MAX_STREAMS)  # id of its request or open -> stream
        self._count = 0

    def __len__(self) -> int:
        return len(self._active) + len(self._over)

    def __iter__(self) -> Iterator[ReasoningSequence]:
        """All sequences that are held, in the order of their arrival."""
        return iter(sorted([*self._active.values(), *self._over.values()], key=lambda sequence: sequence.key))

    def get(self, id: str) -> ReasoningSequence | None:
        """The sequence that the id names now; None where none is held."""
        return self.sequence(self._names.get(id, 0))

    def sequence(self, key: int) -> ReasoningSequence | None:
        """The sequence of that key; None when it is not held."""
        return self._active.get(key) or self._over.get(key)

    def streamed(self, owner: str, description: object) -> ReasoningSequence | None:
        """The sequence of that owner whose steps a stream of this description carries; None where none is held."""
        sequence = self.get(streamed_id(description))
        return sequence if sequence is not None and sequence.owner == owner else None

    def active(self) -> list[ReasoningSequence]:
        """The sequences that have not ended, the oldest first."""
        return list(self._active.values())

    def place(self, entry: Entry) -> tuple[ReasoningSequence | None, str]:
        """The sequence to which an entry belongs by what is known now, and the part of it. Spec: §2, §3.5.6."""
        whole = self.get(entry.context) if "/" not in entry.context else None
        if whole is not None and whole.seq:  # as for most messages
            return whole, ""
        unstarted: tuple[ReasoningSequence, str] | None = None
        parts = parts_of(entry.context) if entry.context else []
        for n in range(len(parts) - 1, -1, -1):
            sequence = self.get(parts[n])
            if sequence is None:
                continue
            if sequence.seq:
                return sequence, _path(parts[n + 1 :])
            # A thought must not take a part of another's context by naming it.
            unstarted = unstarted or (sequence, _path(parts[n + 1 :]))
        related = [self.get(id) for id in entry.correlation_id] if entry.kind in _CALLS else []
        # Nor must a thought take a call from the sequence that the call is about.
        started = next((sequence for sequence in related if sequence is not None and sequence.seq), None)
        if started is not None:
            return started, ""
        return unstarted or (next((sequence for sequence in related if sequence is not None), None), "")

    def observe(self, entry: Entry) -> tuple[ReasoningChange, ...]:
        """Records one entry and returns the changes. It needs every entry of the space in order, own echoes included."""
        kind = entry.kind
        if (not entry.context and kind not in WITHOUT_CONTEXT) or not (self.takes_steps or kind in ENDS):
            return ()
        if len(entry.id) > MAX_ID or len(entry.sender) > MAX_NAME:
            return ()  # its id or its sender is too long to be an id or a name
        if entry.refused and kind not in _CALLS:
            return ()  # a refused call is a step, because it was tried
        if kind == "system/presence":
            return tuple(self._on_presence(entry))
        if kind.startswith("stream/"):
            return tuple(self._on_stream(entry))
        if kind == "reasoning/start" and entry.id:
            return tuple(self._on_start(entry))
        if kind in _BESIDE or not (entry.context or entry.correlation_id):
            return ()
        return self._on_step(entry)

    # --- the rules ---

    def _on_start(self, entry: Entry) -> Iterator[ReasoningChange]:
        known = self.get(entry.id)
        if known is not None and known.seq:
            if known.owner != entry.sender:
                yield ReasoningChange("claimed", known, entry, why="its id is taken")
                return
            if known.state == "active":
                yield self._end(known, entry, "left")
        elif known is not None:
            yield self._forget(known, entry)
        parent, path = self.place(entry)
        about = tuple(id for id in entry.correlation_id[:MAX_ABOUT] if len(id) <= MAX_ID)
        self._count += 1
        sequence = ReasoningSequence(
            key=self._count,
            id=entry.id,
            owner=entry.sender,
            started=entry.t,
            seq=entry.seq,
            about=about,
            parent=parent.key if parent else 0,
            place=parent.steps + 1 if parent and self.takes_steps else 0,
            path=path,
        )
        yield from self._hold(sequence, entry)
        if parent is not None and self.takes_steps and self.sequence(parent.key) is not None:
            yield self._add(parent, entry, path, child=sequence.key)

    def _on_step(self, entry: Entry) -> tuple[ReasoningChange, ...]:
        kind = entry.kind
        changes: list[ReasoningChange] = []
        sequence, path = self.place(entry)
        if sequence is None and self.takes_steps and kind in ("reasoning/thought", "reasoning/conclusion"):
            parts = parts_of(entry.context)
            if parts:
                self._count += 1
                sequence = ReasoningSequence(
                    key=self._count, id=parts[0], owner=entry.sender, started=entry.t
                )
                path = _path(parts[1:])
                changes.extend(self._hold(sequence, entry))
        if sequence is None:
            return ()
        if kind == "mcp/request" and any(id in self._proposals for id in entry.correlation_id):
            return ()
        if self.takes_steps:
            step = self._add(sequence, entry, path)
            sequence = step.sequence
            changes.append(step)
        if kind == "mcp/proposal" and entry.id and not entry.refused:
            self._proposals[entry.id] = None
        elif kind == "reasoning/conclusion" and not path:
            foreign = "" if entry.sender == sequence.owner else "only its owner concludes it"
            changes.append(self._end(sequence, entry, "concluded", unless=foreign))
        elif kind == "reasoning/cancel" and not entry.malformed:
            part = "" if entry.context == sequence.id else "its context is not the id of the start"
            changes.append(self._end(sequence, entry, "cancelled", unless=part))
        return tuple(changes)

    def _on_presence(self, entry: Entry) -> Iterator[ReasoningChange]:
        if entry.sender not in GATEWAYS or entry.payload.get("event") != "leave":
            return
        name = member(entry.payload, "participant", "id")
        for sequence in self.active():
            if sequence.owner == name:
                yield self._end(sequence, entry, "left")

    def _on_stream(self, entry: Entry) -> Iterator[ReasoningChange]:
        if entry.kind == "stream/request":
            named = text_of(entry.payload.get("description")).removeprefix(_STREAMED)
            for id in (*entry.correlation_id, entry.context, named):
                sequence = self.get(id)
                if sequence is not None and sequence.owner == entry.sender:
                    self._requests[entry.id] = sequence.key
                    return
        elif entry.kind == "stream/open" and entry.sender in GATEWAYS:
            stream = _stream_id(entry)
            for id in entry.correlation_id if stream else ():
                sequence = self.sequence(self._requests.pop(id, 0))
                if sequence is not None:
                    self._streams[stream] = sequence.key
                    self._handles[id] = self._handles[entry.id] = stream
                    streaming = self._put(sequence._replace(stream=stream, streaming=True))
                    yield ReasoningChange("streamed", streaming, entry)
        elif entry.kind == "stream/close":
            if "stream_id" in entry.payload:
                stream = _stream_id(entry)
            else:
                stream = next((self._handles[id] for id in entry.correlation_id if id in self._handles), "")
            sequence = self.sequence(self._streams.get(stream, 0))
            if (
                sequence is not None
                and sequence.streaming
                and sequence.stream == stream
                and entry.sender in (sequence.owner, *GATEWAYS)
            ):
                yield ReasoningChange("streamed", self._put(sequence._replace(streaming=False)), entry)

    # --- storage ---

    def _add(
        self, sequence: ReasoningSequence, entry: Entry, path: str, *, child: int = 0
    ) -> ReasoningChange:
        stepped = self._put(sequence._replace(steps=sequence.steps + 1))
        return ReasoningChange("stepped", stepped, entry, path, child)

    def _end(
        self,
        sequence: ReasoningSequence,
        entry: Entry,
        state: Literal["concluded", "cancelled", "left"],
        *,
        unless: str = "",
    ) -> ReasoningChange:
        why = unless or ("it was over before" if sequence.state != "active" else "")
        if why:
            return ReasoningChange("claimed", sequence, entry, why=why)
        reason = line_of(entry.payload.get("reason"), MAX_REASON) if state == "cancelled" else ""
        ended = self._put(sequence._replace(state=state, ended=entry.t, by=entry.sender, reason=reason))
        return ReasoningChange(state, ended, entry)

    def _hold(self, sequence: ReasoningSequence, entry: Entry) -> Iterator[ReasoningChange]:
        self._names[sequence.id] = sequence.key
        yield ReasoningChange("began", self._put(sequence), entry)
        while len(self) > max(1, self.limit):
            yield self._forget(self._first, entry)

    @property
    def _first(self) -> ReasoningSequence:
        """The sequence to forget first: from the owner with the most, its oldest ended one, else its oldest."""
        active, over = self._active.by_owner, self._over.by_owner
        counts = {
            name: len(keys) for name, keys in over.items()
        }  # one that has an ended sequence comes first
        for name, keys in active.items():
            counts[name] = counts.get(name, 0) + len(keys)
        owner = max(counts, key=counts.__getitem__)
        index = self._over if owner in over else self._active
        return index[next(iter(index.by_owner[owner]))]

    def _put(self, sequence: ReasoningSequence) -> ReasoningSequence:
        if sequence.state == "active":
            self._active.put(sequence)
        else:
            self._active.drop(sequence.key)
            self._over.put(sequence)
        return sequence

    def _forget(self, sequence: ReasoningSequence, entry: Entry) -> ReasoningChange:
        self._active.drop(sequence.key)
        self._over.drop(sequence.key)
        if self._names.get(sequence.id) == sequence.key:
            del self._names[sequence.id]
        self._streams.pop(sequence.stream, None)
        return ReasoningChange("forgotten", sequence, entry)


def parts_of(context: str) -> list[str]:
    """The first 16 parts of a context that may be ids or names of parts: neither empty nor longer than an id."""
    if "/" not in context:  # as most do
        return [context] if 0 < len(context) <= MAX_ID else []
    return [part for part in context.split("/", MAX_DEPTH)[:MAX_DEPTH] if 0 < len(part) <= MAX_ID]


def streamed_id(description: object) -> str:
    """The id of the sequence whose steps a stream of this description carries; empty where it names none."""
    text = text_of(description)
    return text.removeprefix(_STREAMED) if text.startswith(_STREAMED) else ""


def _path(parts: list[str]) -> str:
    return cut("/".join(parts), MAX_PATH) if parts else ""


def _stream_id(entry: Entry) -> str:
    stream = entry.payload.get("stream_id")
    return stream if isinstance(stream, str) and len(stream) <= MAX_ID else ""
