"""The streams of one space for one participant: requests streams, and passes frames to their readers.

`ledger.streams` holds the streams that are open and their writers. `sdk.stream` is one open stream; `sdk.reader` holds
unread frames.

Spec: §3.8.1, §3.10, SDK "Stream Support", "Stream Lifecycle Helpers", rulings R10, R16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mew_lab.errors import ConnectionLost, MewError, NoReply
from mew_lab.ledger.streams import StreamChange, StreamLedger
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.streams import StreamOpen
from mew_lab.sdk.arguments import explains_arguments, unexplained
from mew_lab.sdk.client import StreamData
from mew_lab.sdk.reader import wait_for_room
from mew_lab.sdk.sender import MessageSender, Names, names
from mew_lab.sdk.signal import Signal, fit_handler
from mew_lab.sdk.stream import ANSWERED_WITHIN, Stream

__all__ = ["Streams"]

MAX_GIVEN_UP = 1000  # abandoned stream/requests that the gateway may still answer


@explains_arguments
class Streams:
    """The streams of one space, as one participant sees them.

    Args:
        ledger: The state of each stream; its owner passes each change to `follow`.

    Attributes:
        active: Every open stream by its id, own ones and those of others, targeted ones too; at most 1000 of others.
        unknown_frames: The number of frames for no open stream, such as after a close; they are dropped.

    The welcome describes streams that were open before this participant joined, without the id of their `stream/open`.
    A close that names only that id leaves such a stream open here until the next welcome.

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
        """The number of streams of others that were ignored because 1000 were open already."""
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
        """Requests a stream; returns it once the gateway has opened it. At first only its owner may write.

        A stream that opens after the caller has stopped waiting is closed at once.

        Args:
            direction: `upload`: the owner writes. `download`: the owner reads, and grants write access to others.
            content_type: together with `format`, describes a custom format.
            target: the recipients of the frames; empty for everybody.
            correlation_id: the message that motivates the stream.
            custom: further fields of the request; they stand in `Stream.fields`, for late joiners too.

        Raises:
            Refused: the gateway opened no stream, such as with `target_not_found` or `limit_exceeded`.
            CapabilityViolation: this participant may not request streams.
            LocalProtocolError: the direction is unknown, or the request cannot be sent.
            NoReply: the gateway did not answer within `timeout` seconds.
            ConnectionLost: there is no connection, or it ended meanwhile.

        Spec: §3.10.1, §3.10.2.
        """
        fields = {
            "expected_size_bytes": expected_size_bytes,
            "description": description,
            "content_type": content_type,
            "format": format,
            "target": list(names(target)) or None,
            "metadata": None if metadata is None else dict(metadata),
        }
        payload = {key: value for key, value in fields.items() if value is not None}
        request = self._sender.complete(
            "stream/request",
            {**custom, "direction": direction, **payload},
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
        """The stream/requests of this participant that the gateway has not answered, by their ids."""
        return self._sender.correlations.waiting("stream/request")

    @property
    def mine(self) -> list[Stream]:
        """The open streams that this participant owns, the oldest first."""
        return [stream for stream in self.active.values() if stream.mine]

    async def close_all(self, reason: str = "complete") -> list[Stream]:
        """Closes the streams of this participant; returns those that are closed now. Errors go to `on_error`."""
        self._client.check_loop()
        mine = self.mine
        for stream in mine:
            try:
                await stream.close(reason)
            except MewError as fault:
                self._client.report(fault)
        return [closing for closing in mine if closing.closed]

    # --- handlers; each method returns a function that removes the handler ---

    def accept(self, handler: Callable[[Stream], Awaitable[object]]) -> Callable[[], None]:
        """Runs the handler as a task, once for each stream of another that reaches this participant from now on.

        A stream reaches this participant if it has no targets or has this participant as one, when it brings it a
        frame, or when it gains write access (as a `download` needs). Accepting sends nothing: the gateway opens
        streams, and a participant just reads or writes. The first `read` within the handler begins with the first
        frame after the stream opened, or after the welcome that listed it (`late`). A stream that outlives a
        reconnection is not passed again: its readers got a ConnectionLost.

        Spec: SDK "Stream Lifecycle Helpers".
        """

        handler = fit_handler(handler)

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
        """Calls `handler` with each stream that is opened, or listed in a welcome (`late`)."""
        return self._opens.add(handler)

    def on_close(self, handler: Callable[[Stream], object]) -> Callable[[], None]:
        """Calls `handler` with each stream that was closed; its `closed` is the reason."""
        return self._closes.add(handler)

    def on_change(self, handler: Callable[[Stream], object]) -> Callable[[], None]:
        """Calls `handler` with each stream whose owner, writers or targets changed."""
        return self._changes.add(handler)

    # --- events ---

    def lost(self, changes: Sequence[StreamChange]) -> None:
        """Ends all readers, because the connection ended; `changes` are the streams that ended with it.

        Readers get an error unless the participant left on purpose.
        """
        clean = self._client.state == "disconnected" and self._client.failure is None
        self._given_up.clear()
        for stream in tuple(self.active.values()):
            lost = f"The connection ended while {stream.id} was read; frames may be missing"
            stream.interrupt(None if clean else ConnectionLost(lost))
        self.follow(changes)

    @unexplained
    def follow(self, changes: Sequence[StreamChange]) -> None:
        """Applies all changes of one entry before it calls any handler, so that handlers see the final state."""
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
