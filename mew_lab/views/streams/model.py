"""The streams of one space as its human sees them: rows, and the frames that came.

How it works
------------
A row is kept for each request and each stream. Its state is read from `ledger.streams`, twice: from the entries of the
log, which also tell of requests, of refusals and of streams that are over; and, as soon as the human's own participant
knows the stream, from that participant, which also gets its frames (`_adopt`). Frames for others never come here.

Bounded: the open streams that a participant knows (1000 of others), 100 unanswered requests, 500 streams that are over;
frames as `frame_buffer` says. All of it changes on the loop's thread alone; a row is replaced, never changed, and so is
the table of rows, so any thread may read them. Nothing is sent from here; `actions` does that.

Spec: §3.10, rulings R10, R16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.ledger.streams import STREAM_KINDS, StreamChange, StreamFacts, StreamLedger
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.stream import Stream
from mew_lab.views.streams.frame_buffer import FrameBuffer, FramePosition, FrameStore
from mew_lab.views.streams.row import WORDS, StreamRow, people, row_of, words_in

__all__ = ["StreamsModel"]

MOST_ASKED = 200  # requests whose row may still change; the ledger keeps 100
MOST_OVER = 500
SLOT = 0.25  # seconds; a rate is that of the last eight of them


class _Track:
    """What is known of one row; changed on the loop's thread alone."""

    def __init__(self, row: StreamRow) -> None:
        self.row = row
        self.facts: StreamFacts | None = None
        self.stream: Stream | None = None  # once the participant knows it
        self.buffer = FrameBuffer()
        self.slots: tuple[tuple[int, int], ...] = ()


class StreamsModel:
    """The streams of one space as one human sees them. `frames` holds their frames.

    Made and told of on the loop's thread; `rows`, `traffic`, `buffer` and `subscribe` may be called from any.
    """

    kinds = tuple(sorted(STREAM_KINDS))

    def __init__(
        self, me: MEWParticipant, *, clock: Callable[[], float] = time.time, frames: FrameStore | None = None
    ) -> None:
        self.me = me
        self.frames = frames or FrameStore()
        self.over_untold = 0
        self._clock = clock
        self._entry_time = clock()
        self._keys = 0
        self._tracks: dict[int, _Track] = {}
        self._requested: BoundedDict[str, _Track] = BoundedDict(MOST_ASKED)
        self._open: dict[str, _Track] = {}
        self._opened: dict[str, _Track] = {}  # by the id of the stream/open
        self._over: list[_Track] = []
        self._subscribers: Subscribers[()] = Subscribers()
        self._leave: list[Callable[[], None]] = []
        self._ledger = StreamLedger(me=me.client.id)

    def follow(self, following: EntryFeed) -> None:
        """Begins to listen; earlier entries are taken, too."""
        streams, client = self.me.streams, self.me.client
        for stream in tuple(streams.active.values()):
            self._adopt(stream)
        self._leave = [
            streams.on_open(self._adopt),
            streams.on_change(self._on_adopted_change),
            streams.on_close(self._on_adopted_close),
            client.on_stream_data(self._frame),
            self.me.rights.on_capabilities_changed(lambda _: self._judge()),
            lambda: following.remove(self),
        ]
        following.add(self)

    def stop(self) -> None:
        """Listens no more."""
        leave, self._leave = self._leave, []
        for end in leave:
            end()

    # --- what any thread may read ---

    def rows(self) -> list[StreamRow]:
        """All rows, in the order in which they came up."""
        return [track.row for track in self._tracks.values()]

    def row(self, key: int) -> StreamRow | None:
        """The row with that key, while it is kept."""
        track = self._tracks.get(key)
        return track.row if track else None

    def open_row(self, id: str) -> StreamRow | None:
        """The row of the open stream of that id."""
        track = self._open.get(id)
        return track.row if track else None

    def traffic(self, key: int) -> tuple[int, int, float]:
        """Of one row: frames and bytes that came here, and bytes a second, taken over the last two seconds."""
        track = self._tracks.get(key)
        if track is None:
            return 0, 0, 0.0
        end, now = track.buffer.end, self._slot()
        return end.frames, end.bytes, sum(size for slot, size in track.slots if now - 8 < slot <= now) / 2

    def buffer(self, key: int) -> FrameBuffer | None:
        """The frames of one row that are held; read them through `frames`."""
        track = self._tracks.get(key)
        return track.buffer if track else None

    @property
    def untold(self) -> int:
        """How many open streams the participant does not know, because 1000 are open; they are no rows."""
        return self.me.streams.untold

    def others(self) -> list[str]:
        """Who else is here."""
        return sorted(self.me.client.participants)

    def may_request(self) -> bool:
        """Whether she holds the capability to ask for a stream."""
        return self.me.can_send("stream/request", {"direction": "upload"}, "gateway")

    def subscribe(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Calls back after anything has changed, from the loop's thread; returns what ends it."""
        return self._subscribers.add(on_change)

    # --- what the log tells ---

    def take(self, entry: Entry) -> None:
        """Takes note of one envelope of the log."""
        self._entry_time = entry.t
        self._ledger.me = self.me.client.id
        for change in self._ledger.observe(entry):
            self._note(change)

    def _note(self, change: StreamChange) -> None:
        facts = change.stream
        if change.what == "requested":
            open = (track.facts.request_id for track in self._open.values() if track.facts)
            if facts.request_id not in open:  # the participant knew the stream before the log was read
                self._add_request(change)
        elif change.what == "refused":
            self._refuse(self._requested.get(facts.request_id) or self._add_request(change), facts.reason)
        elif change.what == "opened":
            known = self._open.get(facts.id)
            is_known = facts.open_envelope_id and facts.open_envelope_id in self._opened
            # A welcome that lists it says nothing new, nor does the log of what the participant knows already.
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
        # The ledger keeps no description of a long request; a row has room for the beginning of it.
        entry = change.entry
        fields = entry.payload if entry is not None and entry.id == facts.request_id else facts.fields
        row = StreamRow(
            key=self._next(),
            id="",
            state="requested",
            owner=facts.owner[:WORDS],
            target=people(facts.target),
            since=facts.t,
            **words_in(fields),
        )
        track = self._requested[facts.request_id] = self._add(_Track(row))
        return track

    def _refuse(self, track: _Track, reason: str) -> None:
        again = track.row.state == "refused"
        self._put(track, state="refused", reason=reason[:WORDS], until=self._entry_time)
        if not again:
            self._end(track)

    # --- what the participant tells ---

    def _adopt(self, stream: Stream) -> None:
        """The participant knows it: from now on its state is read there."""
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
        if track.buffer.end == FramePosition() and stream.frames:  # they came before anybody listened
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
            if track.buffer.end.frames == stream.frames:  # this one was counted as one that nobody heard
                last = track.buffer.end
                track.buffer = FrameBuffer(FramePosition(last.frames - 1, last.bytes - len(frame.data)))
        self.frames.add(track.buffer, frame.data)
        slot, slots = self._slot(), track.slots
        if slots and slots[-1][0] == slot:
            track.slots = (*slots[:-1], (slot, slots[-1][1] + len(frame.data)))
        else:
            track.slots = (*(item for item in slots if item[0] > slot - 8), (slot, len(frame.data)))
        self._subscribers.tell()

    def _slot(self) -> int:
        return int(self._clock() / SLOT)

    # --- the table ---

    def _begin(self, facts: StreamFacts, stream: Stream | None = None) -> _Track:
        """The row of a stream that is open from now on: that of its request, where there is one."""
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
            gone = self._over.pop(0)
            self.over_untold += 1
            self._tracks = {key: kept for key, kept in self._tracks.items() if kept is not gone}
            self.frames.forget(gone.buffer)
            for request in [id for id, kept in self._requested.items() if kept is gone]:
                del self._requested[request]
        if len(self._opened) > 2 * len(self._tracks) + 100:
            kept = set(map(id, self._tracks.values()))
            self._opened = {name: track for name, track in self._opened.items() if id(track) in kept}

    def _judge(self) -> None:
        for track in self._open.values():
            self._refresh(track)

    def _refresh(self, track: _Track) -> None:
        facts = track.facts = track.stream.facts if track.stream is not None else track.facts
        if facts is not None:
            since = track.row.since or self._now(track)
            track.row = row_of(facts, key=track.row.key, me=self.me, since=since)
            self._subscribers.tell()

    def _put(self, track: _Track, **changes: Any) -> None:
        track.row = replace(track.row, **changes)
        self._subscribers.tell()


def _same(known: StreamFacts | None, facts: StreamFacts) -> bool:
    """Whether both are of one stream: ids are given anew by a gateway that began anew."""
    return known is not None and known.open_envelope_id == facts.open_envelope_id
