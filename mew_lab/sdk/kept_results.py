"""Keeps the results that no message can hold, sends them to those who may read them, and reads those of others.

How it works
------------
An executor answers a call whose result is too large with a head (`protocol.kept`), and keeps the result in its
`ResultStore`. Who may read it: the participants that proposed, sent or approved the call. A participant is known by the
id under which it spoke.

- At a gateway of ours the whole goes over a stream to the reader alone, in frames of 256 KiB, paced. The executor opens
  it for the request of the reader, names it in the answer, and closes it at the end.
- Elsewhere, and where the executor may not open streams, it goes in parts, each the answer to a request of its own, up
  to 4 MiB in all.

`load` does either, and checks the whole against the size and the digest in the head.

Spec: ruling R43.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from mew_lab.errors import MewError, ProtocolError, ToolFailed
from mew_lab.ledger.calls import CallIndex, CallLedger, Proposal, tool_of
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member, text_of
from mew_lab.protocol.envelope import Envelope, compact
from mew_lab.protocol.json_steps import parse_steps
from mew_lab.protocol.kept import (
    EDITION_OF_KEPT,
    KEPT,
    KEPT_METHODS,
    READ_RESULT,
    ResultHead,
    ResultUri,
    is_result_uri,
)
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.steps import Steps
from mew_lab.protocol.text import timestamp, utf8_size
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.client import MEWClient
from mew_lab.sdk.correlations import Correlations
from mew_lab.sdk.group import RunningTasks
from mew_lab.sdk.reader import FrameReader
from mew_lab.sdk.request_server import ASKED, SERVER_ERROR
from mew_lab.sdk.result_store import KeptResult, ResultStore, UnreadResult
from mew_lab.sdk.results import ToolResult
from mew_lab.sdk.slices import in_slices
from mew_lab.sdk.stream import Stream
from mew_lab.sdk.streams import Streams
from mew_lab.sdk.tools import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
    unknown_outcome_error,
)
from mew_lab.transport.line_judge import kinds_of

__all__ = ["COUNTED", "KeptAnswer", "KeptResults", "holds_more_values", "may_exceed", "parse_result"]

logger = logging.getLogger(__name__)
ENVELOPE = 8 * 1024  # bytes of a message beside its result
FRAME = 256 * 1024  # bytes
PART = 384 * 1024  # bytes, which base64 makes a third longer
MOST_IN_PARTS = 4 * 1024 * 1024  # bytes
MOST_READ = 64 * 1024 * 1024  # bytes of a result that is loaded
PACE = 4 * 1024 * 1024  # bytes a second: half of what a gateway of ours takes of a participant
MAX_SERVED = 8  # streams at once
MAX_OPENED = 4  # streams that an executor opens for one result
MAX_TOOLS = 1000  # of which the size of the largest result is remembered
MAX_SHOWN = 5  # parts that a head describes
COUNTED = 256 * 1024  # characters of a text whose values are counted at a time
ASKED_WITHIN = 60.0  # seconds for the answer to a request for a result
NOT_YOURS, EXPIRED, TOO_LARGE = "not_yours", "expired", "too_large"
WHAT_HELPS = {
    EXPIRED: ". The call stays answered; only another call gives a result again",
    NOT_YOURS: ". One of these can load it",
    TOO_LARGE: ". A participant at a gateway of mew-lab that it may open streams at can read it",
}


class KeptAnswer(NamedTuple):
    """An answer whose result its participant keeps.

    Attributes:
        head: What came in place of the result.
        by: The participant that answered.
        method: The method of the request.
        call: The id of the request, or of the proposal that it fulfilled; empty where it is not known.
    """

    head: ResultHead
    by: str
    method: str
    call: str

    @classmethod
    def of(cls, response: Envelope | None, *, method: str, call: str = "") -> KeptAnswer | None:
        """What a response says of a result that is kept; None where it holds its result, or is none."""
        head = None if response is None else ResultHead.of(response.payload.get("result"))
        return None if head is None or response is None else cls(head, response.sender, method, call)

    @classmethod
    def find(cls, calls: CallLedger, id: str) -> KeptAnswer | None:
        """The answer to that request or proposal; None where there is none, or it holds its result."""
        call = calls.proposals.get(id) or calls.requests.get(id)
        if call is None or call.response is None:
            return None
        return cls.of(call.response.envelope, method=call.method, call=id)


class KeptResults:
    """The results that one participant keeps for others, and its way to those that others keep for it.

    Args:
        proposals: The proposals of its ledger.
        store: Where results are kept.
    """

    def __init__(
        self,
        client: MEWClient,
        correlations: Correlations,
        streams: Streams,
        *,
        proposals: CallIndex[Proposal],
        store: ResultStore,
    ) -> None:
        self.store = store
        self._client = client
        self._correlations = correlations
        self._streams = streams
        self._proposals = proposals
        self._largest: BoundedDict[str, int] = BoundedDict(MAX_TOOLS)
        self._serving = RunningTasks()

    async def stop(self) -> None:
        """Ends what is being sent, and deletes what is kept."""
        self._client.check_loop()
        await self._serving.end()
        self.store.close()

    # --- keeping ---

    def check_room(self, payload: McpRequest) -> None:
        """Refuses a call whose result could hardly be kept: there is no room for another one, or none of the size that
        its tool has given before."""
        if payload.method != "tools/call" or not len(self.store):
            return
        known = self._largest.get(str((payload.params or {}).get("name")), 0)
        size = min(max(known, self._client.message_bytes), self.store.limits.result)
        if obstacle := self.store.find_obstacle(size):
            raise RpcError(
                SERVER_ERROR,
                f"Not executed: a large result could not be kept ({obstacle}), and would be lost. Call it again when "
                "older results have expired",
                data={"code": "store_full"},
            )

    async def fit(self, request: Envelope, payload: McpRequest, result: dict[str, Any]) -> dict[str, Any]:
        """The result, or the head of it where no message can hold it."""
        self._client.check_loop()
        if payload.method not in KEPT_METHODS or is_result_uri((payload.params or {}).get("uri")):
            return result
        if not isinstance(result, dict):  # an answerer may be wrong, and others judge that
            return result
        most = self._client.message_bytes - ENVELOPE
        text: str | UnreadResult
        if isinstance(result, UnreadResult):
            if result.size <= most and not result.is_costly:
                return await in_slices(parse_result(await asyncio.to_thread(result.read)))
            text, size, kinds, is_error = result, result.size, result.kinds, result.is_error
        else:
            result = _without_head(result)
            if not may_exceed(result, most):
                return result
            try:
                text = compact(result)
            except ProtocolError:
                return result  # it cannot be sent either, which tells why
            if (size := utf8_size(text)) <= most:
                return result
            kinds, is_error = kinds_of(result), result.get("isError") is True
        if tool := tool_of(request.payload):
            self._largest[tool] = max(size, self._largest.get(tool, 0))
        try:
            if ResultUri.read(str(ResultUri(self._client.id, "0" * 32))) is None:
                raise OSError(0, "the id of this participant has characters that no URI can have")
            kept = await self.store.keep(text, readers=self._readers_of(request))
        except OSError as fault:
            if isinstance(result, UnreadResult):
                result.drop()
            raise unknown_outcome_error(
                f"Its tool answered, but the answer is lost: its {size} bytes cannot be sent, for a message "
                f"takes at most {self._client.message_bytes}, nor be kept: {fault.strerror or fault}"
            ) from None
        return self._head(payload.method, kept, kinds, is_error=is_error)

    def _readers_of(self, request: Envelope) -> frozenset[str]:
        """The participants that proposed, sent or approved a call."""
        readers = {request.sender}
        for id in request.correlation_id:
            proposal = self._proposals.get(id)
            if proposal is not None and proposal.request is not None and proposal.request.id == request.id:
                readers |= {proposal.proposer, proposal.by}
        return frozenset(filter(None, readers))

    @property
    def _part(self) -> int:
        """The bytes of a part."""
        return max(256, min(PART, (self._client.message_bytes - ENVELOPE) * 3 // 4))

    def _head_of(self, kept: KeptResult) -> ResultHead:
        uri = ResultUri(self._client.id, kept.id)
        expires = timestamp(datetime.fromtimestamp(kept.expires, UTC))
        parts = -(-kept.size // self._part) if kept.size <= MOST_IN_PARTS else 0
        return ResultHead(uri, kept.size, kept.sha256, expires, parts)

    def _head(
        self, method: str, kept: KeptResult, kinds: Iterable[Iterable[Any]], *, is_error: bool
    ) -> dict[str, Any]:
        """The result that is sent in place of a kept one."""
        parts = [
            one_line(f"{kind or 'a part'}{f' ({mime})' if mime else ''} of {size} characters", 160)
            for kind, mime, size in kinds
        ]
        more = [f"{len(parts) - MAX_SHOWN} more"] if len(parts) > MAX_SHOWN else []
        head = self._head_of(kept)._replace(holds=(*parts[:MAX_SHOWN], *more))
        holds = f" It holds {'; '.join(head.holds)}." if parts else ""
        sentence = one_line(
            f"It was executed. The result has {kept.size} bytes, which is more than a message takes, and is kept until "
            f"{head.expires} as {head.uri}.{holds}",
            1500,
        )
        text = {"type": "text", "text": sentence}
        result: dict[str, Any]
        if method == "tools/call":
            about = {"mimeType": "application/json", "size": kept.size, "description": "the whole result"}
            link = {"type": "resource_link", "uri": str(head.uri), "name": "result", **about}
            result = {"content": [text, link], "isError": is_error}
        elif method == READ_RESULT:
            result = {"contents": [{"uri": str(head.uri), "mimeType": "text/plain", "text": sentence}]}
        else:
            result = {"messages": [{"role": "user", "content": text}]}
        return {**result, "_meta": {KEPT: head.meta}}

    # --- sending ---

    async def answer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request for a kept result: the stream that brings it, or a part of it.

        Raises:
            RpcError: it has expired, is not the reader's, or cannot be sent.
        """
        self._client.check_loop()
        request = ASKED.get()
        uri = ResultUri.read(params.get("uri"))
        if uri is None or request is None:
            raise RpcError(INVALID_PARAMS, "This is no address of a kept result")
        kept = self.store.find(uri.id)
        if kept is None:
            why = f"{one_line(str(uri), 160)} has expired: results are kept for a time, until their participant leaves"
            raise RpcError(RESOURCE_NOT_FOUND, why, data={"code": EXPIRED})
        if request.sender not in kept.readers:
            why = "Only the participants that proposed, sent or approved the call may read its result"
            raise RpcError(INVALID_PARAMS, why, data={"code": NOT_YOURS})
        if uri.part:
            return await self._answer_part(kept, uri.part)
        if not self._may_stream(request.sender, uri):
            return await self._answer_part(kept, 1)
        if len(self._serving) >= MAX_SERVED:
            raise RpcError(SERVER_ERROR, f"Busy: {MAX_SERVED} results are being sent; ask again later")
        try:
            stream = await self._streams.request_stream(
                target=request.sender,
                description="a result that was too large for a message",
                content_type="application/json",
                expected_size_bytes=kept.size,
                correlation_id=request.id,
                kept=str(uri),
                request=request.id,
            )
        except MewError as fault:
            why = f"The result cannot be sent over a stream: {one_line(str(fault), 300)}"
            raise RpcError(SERVER_ERROR, why) from None
        self._serving.start(self._send(stream, kept))
        return {"contents": [], "_meta": {KEPT: {**self._head_of(kept).meta, "stream": stream.id}}}

    def _may_stream(self, reader: str, uri: ResultUri) -> bool:
        payload = {"direction": "upload", "target": [reader], "kept": str(uri)}
        permit = self._client.capabilities.permit
        return (
            self._client.extension.get("edition", 0) >= EDITION_OF_KEPT
            and permit("stream/request", ("gateway",), payload).allowed
            and permit("stream/close", (), {}).allowed
        )

    async def _answer_part(self, kept: KeptResult, part: int) -> dict[str, Any]:
        head, size = self._head_of(kept), self._part
        if not head.parts:
            why = f"A result of {kept.size} bytes goes over a stream alone; in parts it takes at most {MOST_IN_PARTS}"
            raise RpcError(SERVER_ERROR, why, data={"code": TOO_LARGE})
        if part > head.parts:
            raise RpcError(INVALID_PARAMS, f"The result has {head.parts} parts, and no part {part}")
        try:
            data = await asyncio.to_thread(kept.read, (part - 1) * size, size)
        except OSError as fault:
            raise RpcError(INTERNAL_ERROR, f"The result cannot be read: {fault.strerror}") from None
        uri = str(head.uri._replace(part=part))
        blob = base64.b64encode(data).decode()
        contents = [{"uri": uri, "mimeType": "application/octet-stream", "blob": blob}]
        return {"contents": contents, "_meta": {KEPT: head.meta}}

    async def _send(self, stream: Stream, kept: KeptResult) -> None:
        frame, reason = min(FRAME, self._client.message_bytes - 1024), "error"
        try:
            for begin in range(0, kept.size, frame):
                if not any(name in self._client.participants for name in stream.target):
                    break  # its reader has left
                await stream.write(await asyncio.to_thread(kept.read, begin, frame))
                await asyncio.sleep(frame / PACE)
            else:
                reason = "complete"
        except (MewError, OSError) as fault:
            logger.warning("a result was not sent to the end: %s", one_line(str(fault), 200))
        finally:
            if not stream.closed and self._client.state == "ready":
                try:
                    await stream.close(reason)
                except MewError as fault:
                    logger.warning("a stream was not closed: %s", one_line(str(fault), 200))

    # --- reading ---

    async def load(self, head: ResultHead, *, by: str = "") -> dict[str, Any]:
        """The whole result that another participant keeps.

        Args:
            by: The participant that answered the call; it must be the one that the head names.

        Raises:
            MewError: it has expired, may not be read here, is too large, or is not what the head says.
        """
        self._client.check_loop()
        return await in_slices(parse_result(await self.load_data(head, by=by)))

    async def complete(self, result: Any, *, by: str = "") -> Any:
        """The result of a call, as a whole where it is the head of a kept one; raises as `load`."""
        self._client.check_loop()
        raw = result.raw if isinstance(result, ToolResult) else result
        head = ResultHead.of(raw)
        if head is None:
            return result
        whole = await self.load(head, by=by)
        return ToolResult(whole) if isinstance(result, ToolResult) else whole

    async def load_data(
        self, head: ResultHead, *, by: str = "", on_bytes: Callable[[int], object] = lambda _count: None
    ) -> bytearray:
        """Like `load`; the bytes that its participant keeps, which `parse_result` reads.

        Args:
            on_bytes: called with the number of bytes that have come, on the loop, again and again.
        """
        self._client.check_loop()
        what = f"the result {head.uri}"
        if by and by != head.uri.participant:
            raise MewError(
                f"Cannot read {what}: {one_line(by, 80)} answered, and names a result of another participant"
            )
        if head.size > MOST_READ:
            raise MewError(f"Cannot read {what}: it has {head.size} bytes, and at most {MOST_READ} are read")
        data = await self._fetch(head, what, on_bytes)
        digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
        if len(data) != head.size:
            raise MewError(f"Cannot read {what}: {len(data)} bytes came, and {head.size} were told")
        if digest != head.sha256:
            raise MewError(f"Cannot read {what}: what came has another SHA-256 than its head says")
        return data

    async def _fetch(self, head: ResultHead, what: str, on_bytes: Callable[[int], object]) -> bytearray:
        readers: dict[str, FrameReader] = {}

        call = self._request(head.uri)

        def note(stream: Stream) -> None:
            is_it = stream.owner == head.uri.participant and stream.fields.get("request") == call.id
            if is_it and len(readers) < MAX_OPENED:
                readers[stream.id] = stream.read(limit=head.size + 64 * (head.size // 1024 + 1024))

        remove = self._streams.on_open(note)
        try:
            answer = await self._answer_to(call, what)
            told = answer["_meta"][KEPT] if ResultHead.of(answer) else {}
            if isinstance(stream := told.get("stream"), str):
                if stream not in readers:
                    raise MewError(
                        f"Cannot read {what}: its stream {one_line(stream, 40)} was not opened here"
                    )
                return await self._read_frames(readers[stream], head.size, on_bytes)
            pieces, part = [_piece(answer, what)], 1
            size = len(pieces[0])
            while size < head.size and pieces[-1]:
                part += 1
                answer = await self._answer_to(self._request(head.uri._replace(part=part)), what)
                pieces.append(_piece(answer, what))
                size += len(pieces[-1])
                on_bytes(size)
            return bytearray().join(pieces)
        finally:
            remove()
            for reader in readers.values():
                reader.close()

    def _request(self, uri: ResultUri) -> Call:
        payload = {"method": READ_RESULT, "params": {"uri": str(uri)}}
        return self._correlations.call((uri.participant,), payload, timeout=ASKED_WITHIN, kind="mcp/request")

    @staticmethod
    async def _answer_to(call: Call, what: str) -> dict[str, Any]:
        try:
            answer = await call
        except ToolFailed as fault:
            helps = WHAT_HELPS.get(text_of(member(fault.data, "code")), "")
            raise MewError(f"Cannot read {what}: {one_line(str(fault), 300)}{helps}") from None
        return answer if isinstance(answer, dict) else {}

    @staticmethod
    async def _read_frames(reader: FrameReader, size: int, on_bytes: Callable[[int], object]) -> bytearray:
        data = bytearray()
        while len(data) <= size:  # more than was told is wrong anyway
            try:
                async with asyncio.timeout(ASKED_WITHIN):
                    data += await anext(reader)
                on_bytes(len(data))
            except StopAsyncIteration:
                break
            except TimeoutError:
                raise MewError(f"Nothing came on {reader.name} for {ASKED_WITHIN:g} s") from None
        return data


def _piece(answer: Mapping[str, Any], what: str) -> bytes:
    """The bytes of a part."""
    contents = answer.get("contents")
    content = contents[0] if isinstance(contents, list) and contents else None
    try:
        return base64.b64decode(text_of(member(content, "blob")), validate=True)
    except (binascii.Error, ValueError):
        raise MewError(f"Cannot read {what}: a part of it is malformed") from None


def parse_result(data: bytes | bytearray) -> Steps[dict[str, Any]]:
    """The result in JSON text, without what would make it the head of another one.

    Raises:
        MewError: it is no JSON object.
    """
    try:
        value = yield from parse_steps(data)
    except (ValueError, RecursionError) as fault:
        raise MewError(f"A kept result is no JSON: {one_line(str(fault), 200)}") from None
    if not isinstance(value, dict):
        raise MewError("A kept result is no JSON object")
    return _without_head(value)


def _without_head(result: dict[str, Any]) -> dict[str, Any]:
    """The result without the member by which a head is known: what is behind a participant may not set it."""
    meta = result.get("_meta")
    if not isinstance(meta, Mapping) or KEPT not in meta:
        return result
    return {**result, "_meta": {name: value for name, value in meta.items() if name != KEPT}}


def may_exceed(value: Any, most: int) -> bool:
    """Whether the JSON text of a value may have more bytes than that; False only where it has not.

    A text is counted by its longest form, and the look ends when there is too much.
    """
    size, waiting = 0, [value]
    while waiting and size <= most:
        inner = waiting.pop()
        if isinstance(inner, str):
            size += 6 * len(inner) + 3
        elif isinstance(inner, Mapping):
            waiting.extend(inner.keys())
            waiting.extend(inner.values())
            size += 2 + len(inner)
        elif isinstance(inner, list | tuple):
            waiting.extend(inner)
            size += 2 + len(inner)
        else:
            size += 26 + (inner.bit_length() // 3 if isinstance(inner, int) else 0)
    return size > most


def holds_more_values(data: bytes | bytearray, most: int) -> bool:
    """Whether JSON text holds more values than that, as its commas and brackets outside of strings tell.

    It is not parsed, and no text takes long: a text of many short strings would, if each was looked for.
    """
    signs = (b",", b"[", b"{")
    if sum(data.count(sign) for sign in signs) <= most:
        return False
    count, is_string, rest = 0, False, b""
    for begin in range(0, len(data), COUNTED):
        piece = rest + data[begin : begin + COUNTED]
        rest = b"\\" * ((len(piece) - len(piece.rstrip(b"\\"))) % 2)  # it may escape the quote that follows
        piece = piece.removesuffix(rest).replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        outside = b"".join(parts[is_string::2])
        count += sum(outside.count(sign) for sign in signs)
        if count > most:
            return True
        is_string ^= len(parts) % 2 == 0
    return False
