"""Which streams does this human's space have, what came on them, and what may she do about each?

Two things are listened to: the envelopes of the log, which tell of requests, of what was refused, and of streams that
are over; and the human's own participant, whose book of streams is right for all that is open, and which gets the
frames. Frames that are for others never come here. Nothing is sent.

Bounded: the open streams that a participant knows (1000 of others), 100 unanswered requests, 500 streams that are over;
frames as `held_frames` says. All of it changes on the loop's thread alone; a row is replaced, never changed, and so is
the table of rows, so any thread may read them.

It knows no page, not what the bytes mean, and not what can be done about a stream: that is in `stream_deeds`.

Spec: §3.10, rulings R10, R16.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from mew_lab.errors import ProtocolError
from mew_lab.lab.entry_feed import EntryFeed
from mew_lab.lab.subscribers import Subscribers
from mew_lab.ledger.entry import Entry
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.negotiations import Negotiations
from mew_lab.sdk.participant import MEWParticipant
from mew_lab.sdk.stream import Stream
from mew_lab.sdk.stream_book import GATEWAYS, StreamBook
from mew_lab.sdk.stream_facts import names_in
from mew_lab.views.streams.held_frames import HeldFrames, Mark, Shelf
from mew_lab.views.streams.row import WORDS, StreamRow, people, row_of, text_in, words_in

__all__ = ["Streaming"]

MOST_ASKED = 100
MOST_OVER = 500
SLOT = 0.25  # seconds; a rate is that of the last eight of them


class _Entry:
    """What is known of one row; changed on the loop's thread alone."""

    def __init__(self, row: StreamRow) -> None:
        self.row = row
        self.request = ""
        self.stream: Stream | None = None
        self.live = False
        self.held = HeldFrames()
        self.slots: tuple[tuple[int, int], ...] = ()


class Streaming:
    """The streams of one space as one human sees them. `shelf` holds their frames.

    Made and told of on the loop's thread; `rows`, `traffic`, `held` and `subscribe` may be called from any.
    """

    kinds = (
        *("stream/request", "stream/open", "stream/close", "stream/write-granted", "stream/write-revoked"),
        *("stream/ownership-transferred", "system/welcome", "system/presence", "system/error"),
    )

    def __init__(
        self, me: MEWParticipant, *, clock: Callable[[], float] = time.time, shelf: Shelf | None = None
    ) -> None:
        self.me = me
        self.shelf = shelf or Shelf()
        self.over_untold = 0
        self._clock = clock
        self._heard_at = clock()
        self._keys = 0
        self._entries: dict[int, _Entry] = {}
        self._asked: BoundedDict[str, _Entry] = BoundedDict(MOST_ASKED, on_forget=self._unanswered)
        self._open: dict[str, _Entry] = {}
        self._opened: dict[str, _Entry] = {}  # by the id of the stream/open
        self._over: list[_Entry] = []
        self._subscribers: Subscribers[()] = Subscribers()
        self._leave: list[Callable[[], None]] = []
        self._book = StreamBook(
            me=lambda: me.client.id,
            make=partial(Stream, saying=me.saying, negotiations=Negotiations(me.saying)),
            clock=lambda: datetime.fromtimestamp(self._heard_at, UTC),
        )

    def follow(self, following: EntryFeed) -> None:
        """Begins to listen; to what was said before, too."""
        streams, client = self.me.streams, self.me.client
        for stream in tuple(streams.active.values()):
            self._adopt(stream)
        self._leave = [
            streams.on_open(self._adopt),
            streams.on_change(self._changed),
            streams.on_close(self._closed),
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
        return [entry.row for entry in self._entries.values()]

    def row(self, key: int) -> StreamRow | None:
        """The row with that key, while it is kept."""
        entry = self._entries.get(key)
        return entry.row if entry else None

    def open_row(self, id: str) -> StreamRow | None:
        """The row of the open stream of that id."""
        entry = self._open.get(id)
        return entry.row if entry else None

    def traffic(self, key: int) -> tuple[int, int, float]:
        """Of one row: frames and bytes that came here, and bytes a second, taken over the last two seconds."""
        entry = self._entries.get(key)
        if entry is None:
            return 0, 0, 0.0
        end, now = entry.held.end, self._slot()
        return end.frames, end.bytes, sum(size for slot, size in entry.slots if now - 8 < slot <= now) / 2

    def held(self, key: int) -> HeldFrames | None:
        """The frames of one row that are held; read them through `shelf`."""
        entry = self._entries.get(key)
        return entry.held if entry else None

    @property
    def untold(self) -> int:
        """How many open streams did not fit into the participant's book, and so are no rows."""
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

    # --- what is heard ---

    def take(self, heard: Entry) -> None:
        """Takes note of one envelope of the log."""
        self._heard_at = heard.t
        if heard.kind == "stream/request":
            self._request(heard)
        elif heard.kind == "system/error" and heard.sender in GATEWAYS:
            self._error(heard)
        if heard.refused:
            return
        try:
            envelope = Envelope.from_members(heard.members, raw=heard.raw)
        except ProtocolError:
            return
        for what, stream in self._book.observe(envelope):
            if what == "opened":
                self._told(stream)
            elif what == "changed":
                self._changed(stream)
            else:
                self._closed(stream)

    def _request(self, heard: Entry) -> None:
        if heard.id in self._asked:
            return
        if not heard.refused and any(heard.id == one.request for one in self._open.values()):
            return
        row = StreamRow(
            key=self._next(),
            id="",
            state="requested",
            owner=heard.sender[:WORDS],
            target=people(names_in(heard.payload.get("target")) or ()),
            since=heard.t,
            **words_in(heard.payload),
        )
        entry = self._add(_Entry(row))
        entry.request = heard.id
        self._asked[heard.id] = entry
        if heard.refused:
            self._refuse(entry, heard.code or "refused")

    def _unanswered(self, request: str, entry: _Entry) -> None:
        if entry.row.state == "requested":
            self._refuse(entry, "no answer was heard")

    def _error(self, heard: Entry) -> None:
        for id in heard.correlation_id:
            entry = self._asked.pop(id, None)
            if entry is not None:
                self._refuse(entry, text_in(heard.payload, "message") or "refused")

    def _refuse(self, entry: _Entry, reason: str) -> None:
        again = entry.row.state == "refused"
        self._put(entry, state="refused", reason=reason[:WORDS], until=self._heard_at)
        if not again:
            self._end(entry)

    def _told(self, stream: Stream) -> None:
        """The log says that a stream was opened."""
        if stream.open_envelope_id and stream.open_envelope_id in self._opened:
            return
        found = self._open.get(stream.id)
        if found is not None and (found.live or not stream.open_envelope_id):
            return  # a welcome told of it, or the participant did
        self._begin(stream, live=False)

    def _adopt(self, stream: Stream) -> None:
        """The participant knows it: from now on its word counts."""
        if stream.closed:
            return
        entry = self._opened.get(stream.open_envelope_id) if stream.open_envelope_id else None
        entry = entry or self._open.get(stream.id)
        if entry is None or (entry.live and entry.stream is not stream):
            entry = self._begin(stream, live=True)
        elif entry.stream is not stream:
            entry.stream, entry.live = stream, True
            self._open[stream.id] = entry
            if entry in self._over:
                self._over.remove(entry)
        if entry.held.end == Mark() and stream.frames:  # they came before anybody listened
            entry.held = HeldFrames(Mark(stream.frames, stream.bytes))
        self._refresh(entry)

    def _begin(self, stream: Stream, *, live: bool) -> _Entry:
        if (before := self._open.pop(stream.id, None)) is not None:
            self._put(before, state="closed", reason="replaced", until=self._now(live))
            self._end(before)
        entry = self._asked.pop(stream.request_id, None) if stream.request_id else None
        entry = entry or self._add(_Entry(StreamRow(key=self._next(), id="", state="requested", owner="")))
        entry.stream, entry.live, entry.request = stream, live, stream.request_id
        self._open[stream.id] = entry
        if stream.open_envelope_id:
            self._opened[stream.open_envelope_id] = entry
        self._refresh(entry)
        return entry

    def _changed(self, stream: Stream) -> None:
        entry = self._open.get(stream.id)
        if entry is not None and entry.stream is stream:
            self._refresh(entry)

    def _closed(self, stream: Stream) -> None:
        entry = self._open.get(stream.id)
        if entry is not None and entry.stream is stream:
            del self._open[stream.id]
            self._put(
                entry, state="closed", reason=stream.closed, until=self._now(entry.live), may=frozenset()
            )
            self._end(entry)

    def _now(self, live: bool) -> float:
        return self._clock() if live else self._heard_at

    def _frame(self, frame: StreamData) -> None:
        entry = self._open.get(frame.stream_id)
        if entry is None or not entry.live:
            stream = self.me.streams.active.get(frame.stream_id)
            if stream is None:
                return
            self._adopt(stream)
            entry = self._open[frame.stream_id]
            if entry.held.end.frames == stream.frames:  # this one was counted as one that nobody heard
                last = entry.held.end
                entry.held = HeldFrames(Mark(last.frames - 1, last.bytes - len(frame.data)))
        self.shelf.add(entry.held, frame.data)
        slot, slots = self._slot(), entry.slots
        if slots and slots[-1][0] == slot:
            entry.slots = (*slots[:-1], (slot, slots[-1][1] + len(frame.data)))
        else:
            entry.slots = (*(one for one in slots if one[0] > slot - 8), (slot, len(frame.data)))
        self._subscribers.tell()

    def _slot(self) -> int:
        return int(self._clock() / SLOT)

    # --- the table ---

    def _next(self) -> int:
        self._keys += 1
        return self._keys

    def _add(self, entry: _Entry) -> _Entry:
        self._entries = {**self._entries, entry.row.key: entry}
        return entry

    def _end(self, entry: _Entry) -> None:
        self._over.append(entry)
        if len(self._over) > MOST_OVER:
            gone = self._over.pop(0)
            self.over_untold += 1
            self._entries = {key: one for key, one in self._entries.items() if one is not gone}
            self.shelf.forget(gone.held)
            for request in [id for id, one in self._asked.items() if one is gone]:
                del self._asked[request]
        if len(self._opened) > 2 * len(self._entries) + 100:
            kept = set(map(id, self._entries.values()))
            self._opened = {name: one for name, one in self._opened.items() if id(one) in kept}

    def _judge(self) -> None:
        for entry in self._open.values():
            self._refresh(entry)

    def _refresh(self, entry: _Entry) -> None:
        if entry.stream is not None:
            since = entry.row.since or self._now(entry.live)
            entry.row = row_of(entry.stream, key=entry.row.key, me=self.me, since=since)
            self._subscribers.tell()

    def _put(self, entry: _Entry, **changes: Any) -> None:
        entry.row = replace(entry.row, **changes)
        self._subscribers.tell()
