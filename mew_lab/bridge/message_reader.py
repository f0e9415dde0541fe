"""Makes messages of the lines of an MCP server, so that no line holds the loop and each call has an end.

An answer over HTTP, and the data of an event, are lines here.

Spec: threats 28 and 37, ruling R35.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Mapping, MutableMapping
from typing import Any

from mcp import types

from mew_lab.bridge.process import ENDS, GrowingLine, LineJudge, LongLine, Spool
from mew_lab.protocol.intake import OUTCOME_UNKNOWN, answer_fault
from mew_lab.sdk.result_store import UnreadResult
from mew_lab.sdk.tools import INTERNAL_ERROR
from mew_lab.transport.line_judge import MAX_CONTAINERS, MAX_VALUES, answered_id

__all__ = ["MessageReader", "find_unread", "may_be_costly"]

logger = logging.getLogger(__name__)
UNREAD = "mew_lab/unread"  # the member of a result that is a key
MOST_DIGITS = 308  # of an integer: the library makes a float of some, and a longer one ends its session
LARGE = 256 * 1024  # bytes of a line that another process judges before it is parsed


_HUGE = re.compile(rb"[\s:,\[-]\d{%d}" % (MOST_DIGITS + 1))


class MessageReader:
    """Makes messages of the lines of a server, so that no line holds the loop.

    What a line holds is judged before it is parsed here: by its length, by its brackets, and where these are many or
    the line is large by a process of its own. Many values cost the loop more than many characters. A costly or long
    line that answers a request goes into a file, and its result is not parsed at all.

    A line that cannot be read ends the request that it answers, whose outcome is then unknown. Where the id cannot be
    made out, the line may be the answer to each request that waits at that moment. As others of these are answered, the
    last one is that which it answered; of several lines, the last ones. So no call is called unknown whose answer may
    still come, and each call that lost its answer has an end once the others have theirs.

    Args:
        spool: makes the files; None where there are none.
        server: the server, for the log.
        judge: reads what is costly; whoever makes it closes it.
    """

    def __init__(self, spool: Spool | None, server: str, judge: LineJudge) -> None:
        self._spool = spool
        self._server = server
        self._judge = judge
        self._waiting: dict[str | int, None] = {}  # ids of requests that the server has not answered
        # whose answers lines may have been, and what these were
        self._unnamed: list[tuple[set[str | int], str]] = []

    def note_sent(self, message: Any) -> None:
        """Records a message to the server."""
        if isinstance(message, types.JSONRPCRequest):
            self._waiting[message.id] = None
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._waiting.pop((message.params or {}).get("requestId", ""), None)  # it need not be answered

    async def read(self, line: bytes | LongLine) -> list[Any]:
        """The message of a line, or those of a batch, and the ends of requests that are known with them."""
        read = [await self._read_long(line)] if isinstance(line, LongLine) else await self._read_short(line)
        messages = [message for message in read if message is not None]
        for message in messages:
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                self._waiting.pop(message.id, None)
                for candidates, _ in self._unnamed:
                    candidates.discard(message.id)
        return messages + self._end_unnamed()

    async def read_texts(
        self, line: bytes | LongLine, unread: MutableMapping[str, UnreadResult]
    ) -> list[bytes]:
        """The messages as texts, for a library that parses these by itself; a line that it may parse as it came.

        A result that nobody should parse is put into `unread`, and a key of it is in its place, as `find_unread` finds.
        """
        messages = await self.read(line)
        if isinstance(line, bytes) and not messages and not _is_large(line) and not _HUGE.search(line):
            return [line]  # the library says what is wrong with it
        texts = []
        for message in messages:
            if isinstance(message, types.JSONRPCResponse) and isinstance(message.result, UnreadResult):
                key = secrets.token_hex(16)
                unread[key] = message.result
                message = types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result={UNREAD: key})
            elif (
                isinstance(line, bytes)
                and not _is_batch(line)
                and not isinstance(message, types.JSONRPCError)
            ):
                texts.append(line)
                continue
            texts.append(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        return texts

    def _end_unnamed(self) -> list[types.JSONRPCError]:
        """The ends of requests of which it is known now that a line without an id was their answer."""
        ended = []
        while lost := self._find_lost():
            for id in lost:
                ended.append(_unknown_answer(id, f"The MCP server sent an answer that {self._unnamed[0][1]}"))
                self._waiting.pop(id, None)
                for candidates, _ in self._unnamed:
                    candidates.discard(id)
        self._unnamed = [one for one in self._unnamed if one[0]]
        return ended

    def _find_lost(self) -> set[str | int]:
        """Requests among which as many lines must be the answers as there are of them."""
        for lost, _ in self._unnamed:
            if lost and sum(candidates <= lost for candidates, _ in self._unnamed) >= len(lost):
                return set(lost)
        return set()

    async def _read_short(self, line: bytes) -> list[Any]:
        if _is_large(line):
            found = await self._judge.judge(line)
            if found is None and may_be_costly(line):
                return [self._refuse(LongLine(line[:ENDS], line[-ENDS:]), "could not be looked at in time")]
            if found is not None and not found.is_json:
                return [self._answer_no_json(line)]
            if found is not None and (found.values > MAX_VALUES or found.containers > MAX_CONTAINERS):
                return [await self._read_costly(line, found.answers)]
        try:
            plain = json.loads(line, parse_int=_read_int)
            if b"\\ud" in line or b"\\uD" in line:  # a lone surrogate cannot be sent on
                json.dumps(plain, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return [self._answer_no_json(line)]
        # A server of MCP 2025-03-26 may send several messages as one, and each client of it has to take them.
        return [_read_message(one) for one in plain] if isinstance(plain, list) else [_read_message(plain)]

    async def _read_costly(self, line: bytes, answers: int | str | None) -> Any:
        """The response of a line of many values, with its result unread; None for one that answers no request."""
        why = f"has more than {MAX_VALUES} values and names, or {MAX_CONTAINERS} lists and objects"
        if answers is None:
            if _is_batch(line):
                return self._refuse(LongLine(line[:ENDS], line[-ENDS:]), why)
            self._leave_out(why)
            return None
        if self._spool is None:
            return _unknown_answer(answers, f"The MCP server sent an answer that {why}")
        spooled = GrowingLine(self._spool, held=0)
        spooled.add(line)
        long = spooled.take()
        assert isinstance(long, LongLine)
        if long.path is None:
            return _unknown_answer(answers, f"The MCP server sent an answer that {why}, and that {long.why}")
        return await self._read_long(long)

    async def _read_long(self, line: LongLine) -> Any:
        """The response in a file, with its result unread; else the end of the request that it answers."""
        if line.path is None:
            return self._refuse(line, line.why)
        result: UnreadResult | None = None
        try:
            found = await self._judge.take_result(line.path)
            if found is not None and "size" in found:
                about = {name: found[name] for name in ("size", "sha256", "is_error", "is_costly", "kinds")}
                result = UnreadResult(line.path, **about)
                return types.JSONRPCResponse.model_construct(jsonrpc="2.0", id=found["id"], result=result)
        finally:
            if result is None:
                line.path.unlink(missing_ok=True)
        if found is None:
            return self._refuse(line, "takes too long to read")
        if "id" in found:
            return _unknown_answer(
                found["id"], "The MCP server sent a long answer that is an error, or no object"
            )
        return self._refuse(line, "is no response of JSON-RPC 2.0")

    def _answer_no_json(self, line: bytes) -> types.JSONRPCError | None:
        """The end of the request that a whole line answers, although it cannot be read."""
        ends = LongLine(line[:ENDS], line[-ENDS:])
        if ends.answers is None or not ends.may_answer:
            logger.debug("a line of %s is no JSON-RPC message", self._server)
            return None
        why = f"it is no JSON, or has an integer of more than {MOST_DIGITS} digits"
        return _unknown_answer(ends.answers, f"The MCP server sent a malformed answer: {why}")

    def _refuse(self, line: LongLine, why: str) -> types.JSONRPCError | None:
        if (id := line.answers) is not None:
            return _unknown_answer(id, f"The MCP server sent an answer that {why}")
        if not line.is_request and line.may_answer and self._waiting:
            self._unnamed.append((set(self._waiting), why))
        self._leave_out(why)
        return None

    def _leave_out(self, why: str) -> None:
        logger.debug("a message of %s that %s is left out", self._server, why)


def find_unread(result: Mapping[str, Any], unread: MutableMapping[str, UnreadResult]) -> UnreadResult | None:
    """The result whose key stands in the place of it; None for any other result."""
    key = result.get(UNREAD)
    return unread.pop(key, None) if isinstance(key, str) else None


def _read_int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def may_be_costly(line: bytes) -> bool:
    """Whether a line may hold more values than one that is parsed here; what stands in its texts is counted, too."""
    brackets, names = line.count(b"[") + line.count(b"{"), line.count(b",") + line.count(b":")
    return brackets > MAX_CONTAINERS or names > MAX_VALUES


def _is_batch(line: bytes) -> bool:
    return line.lstrip()[:1] == b"["


def _is_large(line: bytes) -> bool:
    """Whether another process looks at a line before it is parsed."""
    return len(line) > LARGE or may_be_costly(line)


def _read_message(value: Any) -> Any:
    try:
        return types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        return _failed_answer(value)


def _failed_answer(answer: Any) -> types.JSONRPCError | None:
    """The error that ends the request which a malformed answer is about; None for a message that answers none.

    The server has no other answer to give, and the caller would wait for ever.
    """
    if (id := answered_id(answer)) is None:
        return None
    fault = answer_fault(answer)
    if not fault and "result" in answer and not isinstance(answer["result"], dict):
        fault = "has a result that is no object"
    fault = fault or "is no response of JSON-RPC 2.0"
    return _unknown_answer(id, f"The MCP server sent a malformed answer: it {fault}")


def _unknown_answer(id: str | int, message: str) -> types.JSONRPCError:
    error = types.ErrorData(code=INTERNAL_ERROR, message=message, data={"code": OUTCOME_UNKNOWN})
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
