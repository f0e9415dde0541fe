"""The streams of one space for one participant: requests streams, and brings frames to their readers.

Which streams are open, and who may write, is read from `ledger.streams`; one open stream is a `Stream` of `sdk.stream`;
what a reader has not read yet stands in `sdk.reader`.

Spec: §3.8.1, §3.10, SDK "Stream Support", "Stream Lifecycle Helpers", rulings R10, R16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mew_lab.errors import ConnectionLost, LocalProtocolError, MewError, NoReply
from mew_lab.ledger.streams import StreamChange, StreamLedger
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.streams import StreamOpen
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.reader import wait_for_room
from mew_lab.sdk.sender import MessageSender, Names, names
from mew_lab.sdk.signal import Signal
from mew_lab.sdk.stream import ANSWERED_WITHIN, Stream

__all__ = ["Streams"]

MAX_GIVEN_UP = 1000  # stream/requests that nobody waits for any more, and that may still be answered


class Streams:
    """The streams of one space, as one participant sees them.

    Args:
        ledger: What became of each stream; its changes are to be told to `follow`.

    Attributes:
        active: Every open stream by its id, own ones and those of others, targeted ones too; at most 1000 of others.
        unknown_frames: How many frames came for no stream that is open, such as after a close; they are dropped.

    A stream that was open before this participant came is described by the welcome, which does not say how its
    `stream/open` was called: a close that names only that leaves it open here until the next welcome.

    Spec: §3.10.
    """

    def __init__(
        self,
        sender: MessageSender,
        ledger: StreamLedger,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.active: dict[str, Stream] = {}
        self.unknown_frames = 0
        self._sender = sender
        self._client = client = sender.client
        self._clock = clock
        self._given_up: BoundedDict[str, str] = BoundedDict(MAX_GIVEN_UP)  # a stream/request -> why
        self._ledger = ledger
        self._offered: set[Stream] = set()
        self._opens: Signal[Stream] = Signal(on_fault=client.report)
        self._closes: Signal[Stream] = Signal(on_fault=client.report)
        self._changes: Signal[Stream] = Signal(on_fault=client.report)
        self._offers: Signal[Stream] = Signal(on_fault=client.report)
        client.on_stream_data(self._frame)

    @property
    def untold(self) -> int:
        """How many streams of others came while 1000 were open already; they are unknown here."""
        return self._ledger.untold

    # --- asking for one ---

    async def request_stream(
        self,
        direction: str = "upload",
        *,
        description: str | None = None,
        content_type: str | None = None,
        format: str | None = None,
        target: Names = (),
        expected_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        correlation_id: Names = (),
        context: str | None = None,
        timeout: float = ANSWERED_WITHIN,
        **custom: Any,
    ) -> Stream:
        """A stream of one's own, once the gateway has opened it; only its owner may write at first.

        A stream that opens after one has given up waiting is closed at once.

        Args:
            direction: `upload`: the owner writes. `download`: the owner means to read, and grants write access
                to who shall write.
            content_type: with `format`, what others need to read a format of one's own.
            target: who gets the frames; nobody named is everybody.
            correlation_id: the message that motivates the stream.
            custom: further fields of the request; they stand in `Stream.fields`, for late joiners too.

        Raises:
            Refused: the gateway opened none: `target_not_found`, `limit_exceeded`.
            CapabilityViolation: this participant may not request streams.
            LocalProtocolError: the direction is none, or the request cannot be sent.
            NoReply: the gateway said nothing within `timeout` seconds.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.10.1, §3.10.2.
        """
        if direction not in ("upload", "download"):
            raise LocalProtocolError(
                f"Cannot request a stream with the direction {direction!r}: it is 'upload' or 'download'",
                section="§3.10.1",
            )
        asked = {
            "expected_size_bytes": expected_size_bytes,
            "description": description,
            "content_type": content_type,
            "format": format,
            "target": list(names(target)) or None,
            "metadata": None if metadata is None else dict(metadata),
        }
        given = {key: value for key, value in asked.items() if value is not None}
        request = self._sender.complete(
            "stream/request",
            {**custom, "direction": direction, **given},
            to="gateway",
            about=correlation_id,
            context=context,
        )
        settle = self._sender.correlations.send_settled
        try:
            stream = await settle(request, answer=StreamOpen, timeout=timeout, read=self._find_opened)
        except NoReply:
            self._given_up[request.id] = "timeout"
            raise
        except asyncio.CancelledError:
            self._given_up[request.id] = "cancelled"
            raise
        return stream

    @property
    def pending(self) -> dict[str, Envelope]:
        """One's own stream/requests that the gateway has not answered, by their ids."""
        return self._sender.correlations.waiting("stream/request")

    @property
    def mine(self) -> list[Stream]:
        """The open streams that this participant owns, the oldest first."""
        return [one for one in self.active.values() if one.mine]

    async def close_all(self, reason: str = "complete") -> list[Stream]:
        """Closes one's own streams; returns those that are closed now. What fails is told to `on_error`."""
        mine = self.mine
        for stream in mine:
            try:
                await stream.close(reason)
            except MewError as fault:
                self._client.report(fault)
        return [one for one in mine if one.closed]

    # --- who wants to be told; each returns a function that ends it ---

    def accept(self, handler: Callable[[Stream], Awaitable[object]]) -> Callable[[], None]:
        """Each stream of somebody else that reaches this participant from now on, once; runs as a task.

        A stream reaches one that has no targets, that has this participant among them, that brings it a frame,
        or to which it was given write access (as a `download` needs). Nothing is sent for it: in this protocol
        the gateway opens a stream, and to accept is to read, or to write. The first `read` within the handler
        begins with the first frame after the stream opened, or after the welcome that told of it (`late`).
        After a reconnection a stream that goes on is not handed over again: its readers got a ConnectionLost.

        Spec: SDK "Stream Lifecycle Helpers".
        """

        def offer(stream: Stream) -> Coroutine[Any, Any, None]:
            kept = stream.keep()

            async def run_handler() -> None:
                try:
                    await handler(stream)
                finally:
                    stream.drop(kept)

            return run_handler()

        return self._offers.add(offer)

    def on_open(self, handler: Callable[[Stream], object]) -> Callable[[], None]:
        """Each stream that is opened now, or found in a welcome (`late`)."""
        return self._opens.add(handler)

    def on_close(self, handler: Callable[[Stream], object]) -> Callable[[], None]:
        """Each stream that is open no longer; `closed` says why."""
        return self._closes.add(handler)

    def on_change(self, handler: Callable[[Stream], object]) -> Callable[[], None]:
        """Each stream whose owner, writers or targets are others now."""
        return self._changes.add(handler)

    # --- what happens ---

    def lost(self, changes: Sequence[StreamChange]) -> None:
        """The connection ended; another may follow. `changes` are the streams that ended with it.

        Readers end here, with an error unless the participant left on purpose.
        """
        clean = self._client.state == "disconnected" and self._client.failure is None
        self._given_up.clear()
        for stream in tuple(self.active.values()):
            lost = f"The connection ended while {stream.id} was read; frames may be missing"
            stream.interrupt(None if clean else ConnectionLost(lost))
        self.follow(changes)

    def follow(self, changes: Sequence[StreamChange]) -> None:
        """Takes over all changes of one entry, then tells of each: every handler sees the last state of all."""
        for change, stream in [(change, self._apply(change)) for change in changes]:
            if stream is None or change.what == "described":
                continue
            if change.what == "closed":
                self._offered.discard(stream)
                self._closes(stream)
                continue
            if change.what == "opened":
                self._opens(stream)
                self._close_unwanted(stream)
            else:
                self._changes(stream)
            reaches = not stream.target or self._client.id in stream.target or stream.may_write
            if reaches and not stream.closed:
                self._offer(stream)

    def _find_opened(self, payload: StreamOpen) -> Stream | None:
        return self.active.get(payload.stream_id)

    def _apply(self, change: StreamChange) -> Stream | None:
        facts, now = change.stream, self._clock()
        if change.what in ("requested", "refused"):
            return None
        if change.what == "opened":
            stream = Stream(facts, sender=self._sender, at=now)
            self.active[facts.id] = stream
            return stream
        stream = self.active[facts.id]
        stream.facts = facts
        if change.what != "described":
            stream.last_activity = now
        if change.what == "closed":
            del self.active[facts.id]
            stream.interrupt(None)
        return stream

    def _close_unwanted(self, stream: Stream) -> None:
        reason = self._given_up.pop(stream.request_id, "")
        if reason and stream.mine:
            payload = {"stream_id": stream.id, "reason": reason}
            self._sender.quietly("stream/close", payload, about=stream.open_envelope_id)

    def _offer(self, stream: Stream) -> None:
        if not stream.mine and stream not in self._offered:
            self._offered.add(stream)
            self._offers(stream)

    def _frame(self, frame: StreamData) -> None:
        stream = self.active.get(frame.stream_id)
        if stream is None:
            self.unknown_frames += 1
            return
        self._offer(stream)
        slow = stream.take(frame.data, at=self._clock())
        if slow:
            self._client.hold(lambda: wait_for_room(slow))
