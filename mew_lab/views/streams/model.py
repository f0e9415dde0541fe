"""The streams of one space as its human sees them: a row for each, and the received frames.

How it works
------------
The model keeps a row for each request and each stream. The state of a row has two sources, both of them
`ledger.streams`. The entries of the log also show requests, refusals and streams that are over. Once the human's own
participant knows a stream, its state is read from that participant, which also receives the frames (`_adopt`). Frames
for other participants never arrive here.

The model holds the open streams that a participant knows (1000 of others), 100 unanswered requests and 500 streams that
are over; `frame_buffer` bounds the frames. Only the loop's thread changes it. Rows and the table of rows are replaced,
never changed, so any thread may read them. The model sends nothing; `actions` does.

Spec: §3.10, rulings R10, R16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.lab_stream import purpose_of
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.ledger import Ledger, LedgerChange
from mew_lab.ledger.streams import STREAM_KINDS, StreamChange, StreamFacts
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams.frame_buffer import FrameBuffer, FramePosition, FrameStore
from mew_lab.views.streams.row import MAX_TEXT, StreamRow, fields_of, people, row_of

__all__ = ["StreamsModel"]

MOST_ASKED = 200  # requests whose row may still change; the ledger keeps 100
MOST_OVER = 500
SLOT = 0.25  # seconds; a rate is that of the last eight of them


class _Track:
    """The state behind one row; changed on the loop's thread alone."""

    def __init__(self, row: StreamRow) -> None:
        self.row = row
        self.facts: StreamFacts | None = None
        self.stream: Stream | None = None  # once the participant knows it
        self.buffer = FrameBuffer()
        self.slots: tuple[tuple[int, int], ...] = ()


class StreamsModel:
    """The streams of one space as one human sees them. `frames` holds their frames.

    It is created and changed on the loop's thread; any thread may call `rows`, `traffic`, `buffer` and `subscribe`.
    """

    kinds = tuple(sorted(STREAM_KINDS))

    def __init__(
        self, me: MEWParticipant, *, clock: Callable[[], float] = time.time, frames: FrameStore | None = None
    ) -> None:
        self.me = me
        self.frames = frames or FrameStore()
        self.over_left_out = 0
        self._reasoning = me.ledger.reasoning
        self._clock = clock
        self._entry_time = clock()
        self._keys = 0
        self._tracks: dict[int, _Track] = {}
        self._requested: BoundedDict[str, _Track] = BoundedDict(MOST_ASKED)
        self._open: dict[str, _Track] = {}
        self._opened: dict[str, _Track] = {}  # by the id of the stream/open
        self._over: list[_Track] = []
        self.changed: Subscribers[()] = Subscribers()
        self._leave: list[Callable[[], None]] = []

    def follow(self, following: EntryFeed) -> None:
        """Starts to follow the space; the entries that are held already are read first."""
        streams, client = self.me.streams, self.me.client
        for stream in tuple(streams.active.values()):
            self._adopt(stream)
        self._leave = [
            streams.on_open(self._adopt),
            streams.on_change(self._on_adopted_change),
            streams.on_close(self._on_adopted_close),
            client.on_stream_data(self._frame),
            self.me.rights.on_capabilities_changed(lambda _: self._refresh_open()),
            lambda: following.remove(self),
        ]
        following.add(self)

    def stop(self) -> None:
        """Stops following the space."""
        leave, self._leave = self._leave, []
        for end in leave:
            end()

    # --- for any thread ---

    def rows(self) -> list[StreamRow]:
        """All rows, in the order in which they were made."""
        return [track.row for track in self._tracks.values()]

    def row(self, key: int) -> StreamRow | None:
        """The row with that key; None when it is no longer kept."""
        track = self._tracks.get(key)
        return track.row if track else None

    def open_row(self, id: str) -> StreamRow | None:
        """The row of the open stream with that id; None when there is none."""
        track = self._open.get(id)
        return track.row if track else None

    def traffic(self, key: int) -> tuple[int, int, float]:
        """The received frames and bytes of one row, and its bytes a second over the last two seconds."""
        track = self._tracks.get(key)
        if track is None:
            return 0, 0, 0.0
        end, now = track.buffer.end, self._slot()
        return end.frames, end.bytes, sum(size for slot, size in track.slots if now - 8 < slot <= now) / 2

    def buffer(self, key: int) -> FrameBuffer | None:
        """The held frames of one row, to be read through `frames`; None when the row is no longer kept."""
        track = self._tracks.get(key)
        return track.buffer if track else None

    @property
    def untold(self) -> int:
        """The number of open streams that the participant does not know because 1000 are open; they have no rows."""
        return self.me.streams.untold

    def others(self) -> list[str]:
        """The names of the other participants that are present, sorted."""
        return sorted(self.me.client.participants)

    def may_request(self) -> bool:
        """Whether the human holds the capability to request a stream."""
        return self.me.can_send("stream/request", {"direction": "upload"}, "gateway")

    # --- from the log ---

    def take_changes(self, changes: tuple[LedgerChange, ...], ledger: Ledger) -> None:
        """Updates the rows by the changes by one envelope of the log."""
        self._reasoning = ledger.reasoning
        for change in changes:
            if isinstance(change, StreamChange):
                self._note(change)

    def _note(self, change: StreamChange) -> None:
        facts = change.stream
        if change.entry is not None:
            self._entry_time = change.entry.t
        if change.what == "requested":
            open = (track.facts.request_id for track in self._open.values() if track.facts)
            if facts.request_id not in open:  # the participant knew the stream before the log was read
                self._add_request(change)
        elif change.what == "refused":
            self._refuse(self._requested.get(facts.request_id) or self._add_request(change), facts.reason)
        elif change.what == "opened":
            known = self._open.get(facts.id)
            is_known = facts.open_envelope_id and facts.open_envelope_id in self._opened
            # A welcome that lists a known stream brings nothing new, nor does the log of a stream that was adopted.
            if not is_known and (known is None or (known.stream is None and facts.open_envelope_id)):
                self._begin(facts)
        else:
            track = self._open.get(facts.id)
            if track is None or track.stream is not None or not _same(track.facts, facts):
                return
            track.facts = facts
            if change.what == "closed":
                self._close(track, facts.reason)
            else:
                self._refresh(track)

    def _add_request(self, change: StreamChange) -> _Track:
        facts = change.stream
        # The ledger keeps no description of a long request; a row keeps its beginning.
        entry = change.entry
        fields = entry.payload if entry is not None and entry.id == facts.request_id else facts.fields
        said = fields_of(fields)
        row = StreamRow(
            key=self._next(),
            id="",
            state="requested",
            owner=facts.owner[:MAX_TEXT],
            target=people(facts.target),
            since=facts.t,
            **{**said, "description": purpose_of(self._reasoning, facts.owner, said["description"])},
        )
        track = self._requested[facts.request_id] = self._add(_Track(row))
        return track

    def _refuse(self, track: _Track, reason: str) -> None:
        again = track.row.state == "refused"
        self._put(track, state="refused", reason=reason[:MAX_TEXT], until=self._entry_time)
        if not again:
            self._end(track)

    # --- from the participant ---

    def _adopt(self, stream: Stream) -> None:
        """Reads the state of a stream from the participant from now on, because the participant knows it."""
        if stream.closed:
            return
        track = self._opened.get(stream.open_envelope_id) if stream.open_envelope_id else None
        track = track or self._open.get(stream.id)
        if track is None or track.stream not in (None, stream):
            track = self._begin(stream.facts, stream)
        elif track.stream is None:
            track.stream = stream
            self._open[stream.id] = track
            if track in self._over:
                self._over.remove(track)
        if (
            track.buffer.end == FramePosition() and stream.frames
        ):  # frames that came before this model followed
            track.buffer = FrameBuffer(FramePosition(stream.frames, stream.bytes))
        self._refresh(track)

    def _on_adopted_change(self, stream: Stream) -> None:
        track = self._open.get(stream.id)
        if track is not None and track.stream is stream:
            self._refresh(track)

    def _on_adopted_close(self, stream: Stream) -> None:
        track = self._open.get(stream.id)
        if track is not None and track.stream is stream:
            self._close(track, stream.closed)

    def _frame(self, frame: StreamData) -> None:
        track = self._open.get(frame.stream_id)
        if track is None or track.stream is None:
            stream = self.me.streams.active.get(frame.stream_id)
            if stream is None:
                return
            self._adopt(stream)
            track = self._open[frame.stream_id]
            if (
                track.buffer.end.frames == stream.frames
            ):  # this frame was counted among those before the model followed
                last = track.buffer.end
                track.buffer = FrameBuffer(FramePosition(last.frames - 1, last.bytes - len(frame.data)))
        self.frames.add(track.buffer, frame.data)
        slot, slots = self._slot(), track.slots
        if slots and slots[-1][0] == slot:
            track.slots = (*slots[:-1], (slot, slots[-1][1] + len(frame.data)))
        else:
            track.slots = (*(item for item in slots if item[0] > slot - 8), (slot, len(frame.data)))
        self.changed.tell()

    def _slot(self) -> int:
        return int(self._clock() / SLOT)

    # --- the table ---

    def _begin(self, facts: StreamFacts, stream: Stream | None = None) -> _Track:
        """Returns the row of a stream that was just opened: the row of its request, or a new one."""
        if (before := self._open.get(facts.id)) is not None:
            self._close(before, "replaced")
        track = self._requested.pop(facts.request_id, None) if facts.request_id else None
        track = track or self._add(_Track(StreamRow(key=self._next(), id="", state="requested", owner="")))
        track.facts, track.stream = facts, stream
        self._open[facts.id] = track
        if facts.open_envelope_id:
            self._opened[facts.open_envelope_id] = track
        self._refresh(track)
        return track

    def _close(self, track: _Track, reason: str) -> None:
        del self._open[track.row.id]
        self._put(track, state="closed", reason=reason, until=self._now(track), may=frozenset())
        self._end(track)

    def _now(self, track: _Track) -> float:
        return self._entry_time if track.stream is None else self._clock()

    def _next(self) -> int:
        self._keys += 1
        return self._keys

    def _add(self, track: _Track) -> _Track:
        self._tracks = {**self._tracks, track.row.key: track}
        return track

    def _end(self, track: _Track) -> None:
        self._over.append(track)
        if len(self._over) > MOST_OVER:
            oldest = self._over.pop(0)
            self.over_left_out += 1
            self._tracks = {key: kept for key, kept in self._tracks.items() if kept is not oldest}
            self.frames.forget(oldest.buffer)
            for request in [id for id, kept in self._requested.items() if kept is oldest]:
                del self._requested[request]
        if len(self._opened) > 2 * len(self._tracks) + 100:
            kept = set(map(id, self._tracks.values()))
            self._opened = {name: track for name, track in self._opened.items() if id(track) in kept}

    def _refresh_open(self) -> None:
        for track in self._open.values():
            self._refresh(track)

    def _refresh(self, track: _Track) -> None:
        facts = track.facts = track.stream.facts if track.stream is not None else track.facts
        if facts is not None:
            since = track.row.since or self._now(track)
            row = row_of(facts, key=track.row.key, me=self.me, since=since)
            purpose = purpose_of(self._reasoning, facts.owner, row.description)
            track.row = replace(row, description=purpose)
            self.changed.tell()

    def _put(self, track: _Track, **changes: Any) -> None:
        track.row = replace(track.row, **changes)
        self.changed.tell()


def _same(known: StreamFacts | None, facts: StreamFacts) -> bool:
    """Whether both describe the same stream; a gateway that was restarted uses the same ids again."""
    return known is not None and known.open_envelope_id == facts.open_envelope_id
