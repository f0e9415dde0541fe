"""One stream for one participant: writing, reading, and the actions of its owner.

Its owner, its writers and its state stand in `facts`, a snapshot of `ledger.streams` that `sdk.streams` replaces.

Spec: §3.10, SDK "Stream Lifecycle Helpers", ruling R16.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from weakref import WeakSet

from mew_lab.errors import LocalProtocolError, MewError
from mew_lab.ledger.streams import StreamFacts
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.streams import (
    StreamOwnershipTransferred,
    StreamWriteGranted,
    StreamWriteRevoked,
)
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.reader import LIMIT, FrameReader, Overflow
from mew_lab.sdk.sender import MessageSender

__all__ = ["ANSWERED_WITHIN", "Stream"]

ANSWERED_WITHIN = 10.0  # seconds for the gateway to answer a request about a stream


class Stream:
    """One stream of the space, as this participant sees it; `streams.active` holds those that are open.

    `async for data in stream` reads its frames from now on, `await stream.write(data)` writes one. `async with`
    closes an own stream at the end: with the reason `complete`, `error` or `cancelled`.

    Attributes:
        facts: Its state in the ledger; most attributes below are read from there.
        last_activity: The time of its last change or frame, by the clock of this participant.
        frames: The number of frames that arrived here; `bytes` is the size of their data. Frames of a stream with
            targets reach only these.

    Spec: §3.10.
    """

    def __init__(self, facts: StreamFacts, *, sender: MessageSender, at: datetime) -> None:
        self.facts = facts
        self.last_activity = at
        self.frames = 0
        self.bytes = 0
        self._sender = sender
        self._readers: WeakSet[FrameReader] = WeakSet()  # a reader that is dropped has stopped reading
        self._kept: list[FrameReader] = []

    def __repr__(self) -> str:
        state = f"closed: {self.closed}" if self.closed else "open"
        return (
            f"<Stream {one_line(self.id)} of {one_line(self.owner)}, {one_line(state)}, {self.frames} frames>"
        )

    # --- its facts ---

    @property
    def id(self) -> str:
        """The id that its frames carry."""
        return self.facts.id

    @property
    def owner(self) -> str:
        """The participant that requested it, or to which it was transferred."""
        return self.facts.owner

    @property
    def writers(self) -> tuple[str, ...]:
        """The participants that may write, the owner first."""
        return self.facts.writers

    @property
    def target(self) -> tuple[str, ...]:
        """The recipients of its frames; empty for everybody."""
        return self.facts.target

    @property
    def fields(self) -> Mapping[str, Any]:
        """The other members of its request: `direction`, `description`, custom fields."""
        return self.facts.fields

    @property
    def created(self) -> datetime | None:
        """When it was opened, by the clock of the gateway; None where that is not known."""
        return self.facts.created

    @property
    def request_id(self) -> str:
        """The id of its `stream/request`; empty where a welcome listed it."""
        return self.facts.request_id

    @property
    def open_envelope_id(self) -> str:
        """The id of its `stream/open`; empty where a welcome listed it."""
        return self.facts.open_envelope_id

    @property
    def late(self) -> bool:
        """Whether it was open before a welcome listed it, so that earlier frames were missed."""
        return self.facts.late

    @property
    def closed(self) -> str:
        """The reason of its close, such as `complete` or `owner_left`; empty while it is open."""
        return self.facts.reason if self.facts.state == "closed" else ""

    @property
    def refused(self) -> int:
        """The number of frames of this participant that the gateway refused."""
        return self.facts.refused_frames

    @property
    def mine(self) -> bool:
        """Whether this participant owns it."""
        return self.owner == self._client.id

    @property
    def may_write(self) -> bool:
        """Whether it is open and this participant may write to it. Spec: §3.10.5."""
        return not self.closed and self._client.id in self.writers

    @property
    def direction(self) -> str:
        """`upload` or `download`, as its request states. Spec: §3.10.1."""
        return self._text("direction") or "upload"

    @property
    def description(self) -> str | None:
        """The description in its request."""
        return self._text("description")

    @property
    def content_type(self) -> str | None:
        """The MIME type, or a custom name."""
        return self._text("content_type")

    @property
    def format(self) -> str | None:
        """The format of the data, such as `jsonl`."""
        return self._text("format")

    @property
    def encoding(self) -> str | None:
        """The encoding that the gateway stated. Spec: §3.10.2."""
        return self._text("encoding")

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata in its request."""
        return mapping_of(self.fields.get("metadata"))

    @property
    def expected_size_bytes(self) -> int | None:
        """The size that its request states, advisory."""
        size = self.fields.get("expected_size_bytes")
        return size if isinstance(size, int) and not isinstance(size, bool) else None

    def _text(self, key: str) -> str | None:
        value = self.fields.get(key)
        return value if isinstance(value, str) else None

    @property
    def _client(self) -> MEWClient:
        return self._sender.client

    # --- writing ---

    async def write(self, data: bytes | str) -> None:
        """Writes one frame, a text as UTF-8, without splitting it. Returns once the link has taken it.

        A slow link delays the return. Only the own echo, of a stream without targets, shows that the gateway relayed
        the frame. Frames that the gateway refused, also because of its rate limit, are counted in `refused` or
        reported to `on_error` of the client.

        Raises:
            LocalProtocolError: the stream is closed, this participant may not write to it, or the frame is too
                large.
            ConnectionLost: there is no connection, or it ended before the link took the frame.

        Spec: §3.10.3, §3.10.4.
        """
        self._client.check_loop()
        who = repr(self._client.id)
        if self.closed:
            raise LocalProtocolError(
                f"Cannot write to {self.id} as {who}: it is closed ({self.closed}). Request another stream",
                code="stream_closed",
                section="§3.10.4",
            )
        if not self.may_write:
            raise LocalProtocolError(
                f"Cannot write to {self.id} as {who}: only {', '.join(self.writers[:10])} may. Its owner "
                f"{self.owner} can grant it with stream/grant-write",
                code="unauthorized_stream_write",
                section="§3.10.5",
            )
        if isinstance(data, str):
            try:
                data = data.encode()
            except UnicodeEncodeError as fault:
                raise LocalProtocolError(f"Cannot write to {self.id} as {who}: no UTF-8: {fault}") from None
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            raise LocalProtocolError(f"Cannot write a {type(data).__name__} to {self.id}: give bytes or text")
        await self._client.send_stream_data(self.id, bytes(data))

    async def write_json(self, value: Any) -> None:
        """Writes a value as one line of JSON, its line end included; raises as `write`."""
        try:
            line = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError) as fault:
            raise LocalProtocolError(f"Cannot write this to {self.id} as JSON: {fault}") from None
        await self.write(line + "\n")

    # --- reading ---

    def read(self, *, limit: int = LIMIT, overflow: Overflow = "raise") -> FrameReader:
        """A reader of all frames from now on; it holds at most `limit` bytes unread. See `FrameReader`.

        Every reader gets every frame. A frame does not name its writer, so a writer reads its own frames, too, where
        the stream has no targets.

        Raises:
            LocalProtocolError: the limit is not positive, or `overflow` is unknown.

        Spec: §3.10.3, ruling R16.
        """
        self._client.check_loop()
        reader = self._kept.pop(0) if self._kept else self._reader()
        reader.bound(limit, overflow)
        return reader

    def __aiter__(self) -> FrameReader:
        return self.read()

    def _reader(self) -> FrameReader:
        reader = FrameReader(self.id)
        if self.closed:
            reader.end()
        self._readers.add(reader)
        return reader

    # --- actions of the owner ---

    async def grant_write(self, participant_id: str, *, reason: str | None = None) -> None:
        """Grants write access to a participant; returns when the gateway announced it. A second grant does nothing.

        Raises:
            Refused: `stream_not_found`, `unauthorized` (only the owner may) or `participant_not_found`.
            CapabilityViolation: this participant may not send the request.
            NoReply, ConnectionLost: the gateway did not answer.

        Spec: §3.10.5.
        """
        await self._settle(
            "stream/grant-write", StreamWriteGranted, participant_id=participant_id, reason=reason
        )

    async def revoke_write(self, participant_id: str, *, reason: str | None = None) -> None:
        """Revokes write access; raises as `grant_write`, and `invalid_operation` for the owner.

        Spec: §3.10.6.
        """
        await self._settle(
            "stream/revoke-write", StreamWriteRevoked, participant_id=participant_id, reason=reason
        )

    async def transfer_ownership(self, new_owner: str, *, reason: str | None = None) -> None:
        """Transfers the stream; the old owner may write on only with a grant. Raises as `grant_write`.

        Spec: §3.10.7.
        """
        await self._settle(
            "stream/transfer-ownership", StreamOwnershipTransferred, new_owner=new_owner, reason=reason
        )

    async def close(self, reason: str = "complete") -> None:
        """Closes an own stream; returns when the gateway accepted it, at once if it is closed already.

        `reason` is the kind of its end: `complete`, `cancelled`, `timeout`, `error`.

        Raises:
            Refused: `unauthorized`, where another participant owns it.
            CapabilityViolation, NoReply, ConnectionLost: as `grant_write`.

        Spec: §3.10.4.
        """
        if not self.closed:
            about = self.open_envelope_id or ()
            payload = {"stream_id": self.id, "reason": reason}
            await self._sender.say_accepted("stream/close", payload, about=about)

    async def _settle(self, kind: str, answer: type[Payload], **members: str | None) -> None:
        stated = {key: value for key, value in members.items() if value is not None}
        request = self._sender.complete(kind, {"stream_id": self.id, **stated}, to="gateway")
        settle = self._sender.correlations.send_settled
        await settle(request, answer=answer, timeout=ANSWERED_WITHIN, read=lambda payload: payload)

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *fault: object) -> None:
        if not self.mine:
            return
        if kind is None:
            await self.close()
            return
        try:
            await self.close("cancelled" if issubclass(kind, asyncio.CancelledError) else "error")
        except MewError as failed:  # the caller must see the exception of the block
            self._client.report(failed)

    # --- for Streams ---

    def keep(self) -> FrameReader:
        """Opens a reader now, for the next `read`."""
        reader = self._reader()
        self._kept.append(reader)
        return reader

    def drop(self, reader: FrameReader) -> None:
        """Ends a reader of `keep` that no `read` has taken."""
        if reader in self._kept:
            self._kept.remove(reader)
            reader.close()

    def take(self, data: bytes, *, at: datetime) -> list[FrameReader]:
        """Passes a frame to all readers; returns the full ones for which the connection has to wait."""
        self.frames += 1
        self.bytes += len(data)
        self.last_activity = at
        return [reader for reader in tuple(self._readers) if reader.put(data)]

    def interrupt(self, error: MewError | None) -> None:
        """Ends all present readers; they raise `error`, as frames may be missing."""
        for reader in tuple(self._readers):
            reader.end(error)
        self._readers.clear()
