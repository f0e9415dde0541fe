"""One open stream for one participant: writing, reading, and what its owner may do.

It decides nothing about itself. Who owns it, who may write and whether it is open stands in its `facts`, a snapshot of
`ledger.streams` that `sdk.streams` replaces.

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
from mew_lab.protocol.payloads.payload import Payload
from mew_lab.protocol.payloads.streams import (
    StreamOwnershipTransferred,
    StreamWriteGranted,
    StreamWriteRevoked,
)
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.reader import LIMIT, FrameReader, Overflow
from mew_lab.sdk.sender import MessageSender

__all__ = ["ANSWERED_WITHIN", "Stream"]

ANSWERED_WITHIN = 10.0  # seconds for the gateway to answer what is asked of a stream


class Stream:
    """One stream of the space, as this participant sees it; `streams.active` holds those that are open.

    `async for data in stream` reads its frames from now on, `await stream.write(data)` writes one. `async with`
    closes a stream of one's own at the end: with the reason `complete`, or `error` or `cancelled`.

    Attributes:
        facts: What the ledger knows of it; most attributes below are read from there.
        last_activity: When it last changed or brought a frame, by the clock of this participant.
        frames: How many frames came here, and `bytes` their data. Of a stream with targets only those get any.

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
        return f"<Stream {self.id} of {self.owner}, {state}, {self.frames} frames>"

    # --- what it is ---

    @property
    def id(self) -> str:
        """As frames name it."""
        return self.facts.id

    @property
    def owner(self) -> str:
        """The participant that asked for it, or that it was given to."""
        return self.facts.owner

    @property
    def writers(self) -> tuple[str, ...]:
        """The participants that may write, the owner first."""
        return self.facts.writers

    @property
    def target(self) -> tuple[str, ...]:
        """The participants that get the frames; empty for everybody."""
        return self.facts.target

    @property
    def fields(self) -> Mapping[str, Any]:
        """All that its request said: `direction`, `description`, custom fields."""
        return self.facts.fields

    @property
    def created(self) -> datetime | None:
        """When it was opened, by the clock of the gateway; None where that was not told."""
        return self.facts.created

    @property
    def request_id(self) -> str:
        """The id of its `stream/request`; empty where a welcome told of it."""
        return self.facts.request_id

    @property
    def open_envelope_id(self) -> str:
        """The id of its `stream/open`; empty where a welcome told of it."""
        return self.facts.open_envelope_id

    @property
    def late(self) -> bool:
        """Whether it was open already when this participant was told, so that frames went before."""
        return self.facts.late

    @property
    def closed(self) -> str:
        """Why it is closed, such as `complete` or `owner_left`; empty while it is open."""
        return self.facts.reason if self.facts.state == "closed" else ""

    @property
    def refused(self) -> int:
        """How many frames of this participant the gateway refused."""
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
        """`upload` or `download`: what its requester means to do with it. Spec: §3.10.1."""
        return self._text("direction") or "upload"

    @property
    def description(self) -> str | None:
        """What it is for, in its requester's words."""
        return self._text("description")

    @property
    def content_type(self) -> str | None:
        """The MIME type, or a name of one's own."""
        return self._text("content_type")

    @property
    def format(self) -> str | None:
        """How the data is written, such as `jsonl`."""
        return self._text("format")

    @property
    def encoding(self) -> str | None:
        """What the gateway said of its encoding. Spec: §3.10.2."""
        return self._text("encoding")

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What its application said of it."""
        metadata = self.fields.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def expected_size_bytes(self) -> int | None:
        """How much its requester expects; advisory."""
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
        """Writes one frame, a text as UTF-8; nothing is split or joined. Returns once the link has taken it.

        A slow link is felt here. That the gateway passed the frame on is told only by one's own echo, of a
        stream without targets; what it refuses (also for more messages a second than it takes) is counted in
        `refused` or told to `on_error` of the client.

        Raises:
            LocalProtocolError: the stream is closed, this participant may not write to it, or the frame is too
                large.
            ConnectionLost: there is no connection, or it ended before the frame was handed over.

        Spec: §3.10.3, §3.10.4.
        """
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
        """A reader of all frames from now on; it holds at most `limit` bytes unread, see `FrameReader` for more.

        Every reader has every frame. A frame does not say who wrote it, so a writer reads its own frames too,
        where the stream has no targets.

        Raises:
            LocalProtocolError: the limit or the way to overflow is none.

        Spec: §3.10.3, ruling R16.
        """
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

    # --- owning ---

    async def grant_write(self, participant_id: str, *, reason: str | None = None) -> None:
        """Lets somebody write; returns when the gateway told everybody. To who may already, nothing changes.

        Raises:
            Refused: `stream_not_found`, `unauthorized` (only the owner may) or `participant_not_found`.
            CapabilityViolation: this participant may not ask for it.
            NoReply, ConnectionLost: the gateway did not answer.

        Spec: §3.10.5.
        """
        await self._settle(
            "stream/grant-write", StreamWriteGranted, participant_id=participant_id, reason=reason
        )

    async def revoke_write(self, participant_id: str, *, reason: str | None = None) -> None:
        """Lets somebody write no longer; raises as `grant_write`, and `invalid_operation` for its owner.

        Spec: §3.10.6.
        """
        await self._settle(
            "stream/revoke-write", StreamWriteRevoked, participant_id=participant_id, reason=reason
        )

    async def transfer_ownership(self, new_owner: str, *, reason: str | None = None) -> None:
        """Gives the stream away; one may write on only where a grant said so. Raises as `grant_write`.

        Spec: §3.10.7.
        """
        await self._settle(
            "stream/transfer-ownership", StreamOwnershipTransferred, new_owner=new_owner, reason=reason
        )

    async def close(self, reason: str = "complete") -> None:
        """Ends a stream of one's own; returns when the gateway took it, at once where it is closed already.

        `reason` tells a good end from a bad one: `complete`, `cancelled`, `timeout`, `error`.

        Raises:
            Refused: `unauthorized`, where somebody else owns it.
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
        except MewError as failed:  # what ended the block is what its caller must see
            self._client.report(failed)

    # --- for Streams ---

    def keep(self) -> FrameReader:
        """A reader from now on, for the next `read`."""
        reader = self._reader()
        self._kept.append(reader)
        return reader

    def drop(self, reader: FrameReader) -> None:
        """Ends a kept reader that no `read` took."""
        if reader in self._kept:
            self._kept.remove(reader)
            reader.close()

    def take(self, data: bytes, *, at: datetime) -> list[FrameReader]:
        """Hands a frame to all readers; returns those that are full now and want the sender to wait."""
        self.frames += 1
        self.bytes += len(data)
        self.last_activity = at
        return [reader for reader in tuple(self._readers) if reader.put(data)]

    def interrupt(self, error: MewError | None) -> None:
        """Ends all present readers; `error` tells them of frames that may be missing."""
        for reader in tuple(self._readers):
            reader.end(error)
        self._readers.clear()
