"""Speaks the Agent Client Protocol by the official library; `AgentConnection` does so with an agent that is a process.

The library has the requests, their answers and their models. `AcpPeer` gives it the lines of the other side, and keeps
from it what would end its reading: lines that are no message of JSON-RPC, or too long. A request that comes under the
id of one that still waits ends both, because nobody could tell their answers apart.

Requests and updates of the agent are passed on as they came: the models know fewer kinds of options than agents send.

Spec: Agent Client Protocol, version 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS, PROTOCOL_VERSION
from acp.schema import (
    CancelNotification,
    CancelRequestNotification,
    ClientCapabilities,
    CloseSessionRequest,
    CloseSessionResponse,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    ListSessionsRequest,
    ListSessionsResponse,
    LoadSessionRequest,
    LoadSessionResponse,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    ResumeSessionRequest,
    ResumeSessionResponse,
    SetSessionConfigOptionBooleanRequest,
    SetSessionConfigOptionResponse,
    SetSessionConfigOptionSelectRequest,
    SetSessionModeRequest,
    SetSessionModeResponse,
    TextContentBlock,
)
from acp.utils import notify_model, request_model_from_dict
from pydantic import BaseModel, ValidationError

from mew_lab.bridge.process import LongLine, ServerProcess
from mew_lab.errors import MewError
from mew_lab.protocol.coerce import mapping_of
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError
from mew_lab.version import VERSION

__all__ = ["AcpPeer", "AgentConnection", "MessageLines", "OnRequest", "OnUpdate"]

logger = logging.getLogger(__name__)
UPDATE = "session/update"
CANCEL_REQUEST = "$/cancel_request"  # which the library does not name
TOO_LONG = "mew_lab/too_long"  # the method of a request that was not read
INVALID_REQUEST = -32600
DOUBLED = "Ended: another request came under the same id"
MAX_RUNNING = 256  # requests of the other side at once
MAX_PAGES = 100  # of a list of sessions

OnUpdate = Callable[[str, Mapping[str, Any]], object]
"""Takes an update of a session; it may not wait."""
OnRequest = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Answers a request of the other side; raises RpcError."""

_request: ContextVar[object] = ContextVar("_request", default=None)
_sent: ContextVar[list[Any] | None] = ContextVar("_sent", default=None)  # takes the id of a request of ours


class AgentConnection:
    """One life of an agent, from `open` to `close`. `ended` is set when its output ends.

    Args:
        on_update: called with each update, in their order and before the answer that follows them.
        on_request: answers what the agent asks; it is cancelled when the connection closes.
        on_unread: called with a sentence about a line that is not read.
        reads_files, writes_files: whether it is told that it may read and write files by this side.
    """

    def __init__(
        self,
        server: ServerProcess,
        *,
        on_update: OnUpdate,
        on_request: OnRequest,
        on_unread: Callable[[str], object],
        reads_files: bool = False,
        writes_files: bool = False,
    ) -> None:
        self.server = server
        self._on_update = on_update
        self._files = FileSystemCapabilities(read_text_file=reads_files, write_text_file=writes_files)
        self._peer = AcpPeer(
            server, on_request=on_request, on_notification=self._take_update, on_unread=on_unread
        )
        self.ended = self._peer.ended

    async def open(self) -> dict[str, Any]:
        """Starts the agent; returns its answer to `initialize`.

        Raises:
            MewError: it cannot be started, or speaks another version.
            RpcError, EOFError: as the other requests.
        """
        await self.server.start()
        self._peer.open()
        asked = InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=self._files, terminal=False),
            client_info=Implementation(name="mew_lab", version=VERSION),
        )
        answer = await self._ask("initialize", asked, InitializeResponse)
        if answer["protocolVersion"] != PROTOCOL_VERSION:
            theirs = answer["protocolVersion"]
            raise MewError(
                f"it speaks version {theirs} of the Agent Client Protocol, and mew_lab {PROTOCOL_VERSION}"
            )
        return answer

    async def close(self) -> None:
        """Ends the connection, and the agent with its child processes. A second call does nothing."""
        await self._peer.close()
        await self.server.stop()

    # --- requests to the agent: each raises RpcError with its refusal, EOFError where it has ended ---

    async def new_session(self, cwd: str, servers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Begins a session in a folder, with MCP servers as the protocol has them."""
        asked = NewSessionRequest.model_validate({"cwd": cwd, "mcpServers": list(servers)})
        return await self._ask("session_new", asked, NewSessionResponse)

    async def load_session(self, id: str, cwd: str, servers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Opens an earlier session, whose history it replays as updates before it answers."""
        asked = LoadSessionRequest.model_validate({"sessionId": id, "cwd": cwd, "mcpServers": list(servers)})
        return await self._ask("session_load", asked, LoadSessionResponse)

    async def resume_session(self, id: str, cwd: str, servers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Opens an earlier session without its history."""
        asked = ResumeSessionRequest.model_validate(
            {"sessionId": id, "cwd": cwd, "mcpServers": list(servers)}
        )
        return await self._ask("session_resume", asked, ResumeSessionResponse)

    async def list_sessions(self, cwd: str) -> list[dict[str, Any]]:
        """The sessions that the agent keeps of a folder."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            asked = ListSessionsRequest(cwd=cwd, cursor=cursor)
            page = await self._ask("session_list", asked, ListSessionsResponse)
            found += page["sessions"]
            if not (cursor := page.get("nextCursor")):
                break
        return found

    async def close_session(self, id: str) -> None:
        """Has the agent forget what it holds of a session."""
        await self._ask("session_close", CloseSessionRequest(session_id=id), CloseSessionResponse)

    async def set_mode(self, session: str, mode: str) -> None:
        """Sets the mode of a session."""
        asked = SetSessionModeRequest(session_id=session, mode_id=mode)
        await self._ask("session_set_mode", asked, SetSessionModeResponse)

    async def set_config_option(self, session: str, id: str, value: str | bool) -> dict[str, Any]:
        """Sets an option of a session; returns all its options."""
        asked: BaseModel = (
            SetSessionConfigOptionBooleanRequest(
                session_id=session, config_id=id, type="boolean", value=value
            )
            if isinstance(value, bool)
            else SetSessionConfigOptionSelectRequest(session_id=session, config_id=id, value=value)
        )
        return await self._ask("session_set_config_option", asked, SetSessionConfigOptionResponse)

    async def prompt(self, session: str, text: str) -> dict[str, Any]:
        """One turn; returns its `stopReason` when it is over."""
        asked = PromptRequest(session_id=session, prompt=[TextContentBlock(type="text", text=text)])
        return await self._ask("session_prompt", asked, PromptResponse)

    async def cancel(self, session: str) -> None:
        """Has the agent end its turn, which it then answers as cancelled."""
        await self._peer.notify(AGENT_METHODS["session_cancel"], CancelNotification(session_id=session))

    async def _ask(self, method: str, params: BaseModel, answer: type[BaseModel]) -> dict[str, Any]:
        return await self._peer.ask(AGENT_METHODS[method], params, answer)

    # --- what the agent sends ---

    def _take_update(self, method: str, params: Mapping[str, Any]) -> None:
        session, update = params.get("sessionId"), params.get("update")
        if method != UPDATE or not isinstance(session, str) or not isinstance(update, Mapping):
            logger.info("an agent sent a %s that is not read", one_line(method, 80))
            return
        self._on_update(session, update)


class MessageLines(Protocol):
    """The lines of the other side, and a way to write to it."""

    def lines(self) -> AsyncIterator[bytes | LongLine]:
        """Its lines, until it ends."""

    async def write(self, line: bytes) -> None:
        """Writes one line. OSError where it no longer reads."""


class AcpPeer:
    """One connection with the other side of the protocol, by the official library. `ended` is set when its lines end.

    Args:
        on_request: answers its requests; it is cancelled when the connection closes.
        on_notification: takes a notification, by its method and params; it may not wait.
        on_unread: called with a sentence about a line that is not read.
    """

    def __init__(
        self,
        lines: MessageLines,
        *,
        on_request: OnRequest,
        on_notification: Callable[[str, Mapping[str, Any]], object],
        on_unread: Callable[[str], object],
    ) -> None:
        self.ended = asyncio.Event()
        self._on_request = on_request
        self._on_notification = on_notification
        self._transport = _LineTransport(lines, self.ended, on_unread, self._end_both)
        self._connection: Connection | None = None
        self._answers: dict[object, asyncio.Future[Any]] = {}
        self._doubled: set[object] = set()

    def open(self) -> None:
        """Begins to read."""
        self._connection = Connection(self._handle, self._transport)

    async def close(self) -> None:
        """Ends the connection, and cancels the requests that are being answered. A second call does nothing."""
        self.ended.set()
        for answer in self._answers.values():
            answer.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def drain(self, *, within: float) -> None:
        """Waits until each request, and one at least, is answered; for so many seconds at most, and for no lost end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not self.ended.is_set():
                    await self._transport.has_answered.wait()
                    if self._transport.unanswered <= 0:
                        return
                    self._transport.has_answered.clear()

    async def ask_until(
        self, withdrawn: asyncio.Event, method: str, params: BaseModel, answer: type[BaseModel]
    ) -> dict[str, Any]:
        """Sends a request, and cancels it at the other side when `withdrawn` is set; returns its answer.

        The other side may not know such a cancel, so its answer is waited for all the same. Raises as `ask`.
        """
        ids: list[Any] = []

        async def send() -> dict[str, Any]:
            _sent.set(ids)
            return await self.ask(method, params, answer)

        asking, waiting = asyncio.ensure_future(send()), asyncio.ensure_future(withdrawn.wait())
        try:
            await asyncio.wait({asking, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() and ids:
                await self.notify(CANCEL_REQUEST, CancelRequestNotification(request_id=ids[0]))
            return await asking
        finally:
            for task in (asking, waiting):
                task.cancel()

    async def ask(self, method: str, params: BaseModel, answer: type[BaseModel]) -> dict[str, Any]:
        """Sends a request; returns its answer.

        Raises:
            RpcError: It was refused, or the answer is none of the protocol.
            EOFError: The other side has ended.
        """
        assert self._connection is not None
        try:
            got = await request_model_from_dict(self._connection, method, params, answer)
        except RequestError as refusal:
            raise RpcError(_code_of(refusal), str(refusal), data=refusal.data) from None
        except ValidationError as fault:
            where = ".".join(map(str, fault.errors()[0]["loc"]))
            raise RpcError(
                INTERNAL_ERROR, f"its answer to {method} is none of the protocol ({where})"
            ) from None
        except (ConnectionError, OSError) as lost:
            raise EOFError(str(lost)) from None
        return got.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def notify(self, method: str, params: BaseModel) -> None:
        """Sends a notification, unless the other side has ended."""
        assert self._connection is not None
        with contextlib.suppress(ConnectionError, OSError):
            await notify_model(self._connection, method, params)

    async def _handle(self, method: str, params: Any, is_notification: bool) -> Any:
        """Takes a message; raises only what answers a request, because the library prints the rest."""
        if is_notification:
            try:
                self._on_notification(method, mapping_of(params))
            except Exception:
                logger.exception("%s was not taken", one_line(method, 80))
            return None
        if method == TOO_LONG:
            raise RequestError(INVALID_REQUEST, "Not read: it is too long")
        if len(self._answers) >= MAX_RUNNING:
            raise RequestError(INTERNAL_ERROR, f"Busy: {MAX_RUNNING} requests are being answered")
        key = _request.get()
        if key in self._doubled:
            self._doubled.discard(key)
            raise RequestError(INVALID_REQUEST, DOUBLED)
        answer = asyncio.ensure_future(self._on_request(method, mapping_of(params)))
        self._answers[key] = answer
        try:
            result = await answer
        except asyncio.CancelledError:
            answer.cancel()
            if self.ended.is_set():
                raise
            raise RequestError(INVALID_REQUEST, DOUBLED) from None
        except RpcError as refusal:
            raise RequestError(refusal.code, refusal.message, refusal.data) from None
        except Exception as fault:
            logger.exception("answering %s failed", one_line(method, 80))
            raise RequestError(INTERNAL_ERROR, f"Internal error: {type(fault).__name__}") from None
        finally:
            self._answers.pop(key, None)
        return {} if result is None else dict(result)

    def _end_both(self, id: object) -> None:
        """Ends a request under whose id another one came."""
        if (answer := self._answers.get(id)) is not None:
            answer.cancel()
        else:  # both came at once, before the work on the first one has begun
            self._doubled.add(id)


class _LineTransport:
    """The lines of the other side as the library wants them: messages, each an object that it can read."""

    def __init__(
        self,
        source: MessageLines,
        ended: asyncio.Event,
        on_unread: Callable[[str], object],
        on_duplicate: Callable[[object], object],
    ) -> None:
        self._source = source
        self._ended = ended
        self._on_unread = on_unread
        self._on_duplicate = on_duplicate
        self._lines: AsyncIterator[bytes | LongLine] | None = None
        self._waiting: set[object] = set()  # ids of requests of the other side
        self.unanswered = 0  # of these, those whose answers are not written yet
        self.has_answered = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        is_answer = "method" not in message
        if is_answer:
            self._waiting.discard(_key(message.get("id")))
        elif "id" in message and (ids := _sent.get()) is not None:
            ids.append(message["id"])
        try:
            await self._source.write(json.dumps(message).encode())
            if is_answer:
                self.unanswered -= 1
                self.has_answered.set()
        except (OSError, RuntimeError) as fault:
            if not is_answer:  # nobody reads that answer any more
                raise ConnectionError(str(fault)) from None

    async def receive(self) -> dict[str, Any] | None:
        lines = self._lines = self._lines or self._source.lines()
        async for line in lines:
            message = self._read(line)
            if message is None:
                continue
            if "method" in message and "id" in message:
                key = _key(message["id"])
                if key in self._waiting:
                    self._on_unread("it asked twice under one id, so both questions are ended")
                    self._on_duplicate(key)
                    continue
                self._waiting.add(key)
                self.unanswered += 1
                _request.set(key)  # the task of this request, which begins now, has it
            return message
        self._ended.set()
        return None

    async def close(self) -> None:
        self._ended.set()

    def _read(self, line: bytes | LongLine) -> dict[str, Any] | None:
        if isinstance(line, LongLine):
            return self._read_long(line)
        if not line.strip():
            return None
        try:
            message = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError):
            self._on_unread(f"a line is no message: {one_line(line.decode(errors='replace'), 120)}")
            return None
        if not isinstance(message, dict) or not isinstance(message.get("id", 0), int | str | None):
            self._on_unread("a line is no message of JSON-RPC")
            return None
        if "method" in message:
            return message if isinstance(message["method"], str) else None
        error = message.get("error")
        if error is not None and not (isinstance(error, dict) and isinstance(error.get("message"), str)):
            message["error"] = {"code": INTERNAL_ERROR, "message": one_line(json.dumps(error), 200)}
        return message

    def _read_long(self, line: LongLine) -> dict[str, Any] | None:
        self._on_unread(f"a message of it {line.why}, so it was not read")
        if (id := line.request_id) is not None:
            return {"id": id, "method": TOO_LONG}
        if (id := line.answers) is not None:
            return {"id": id, "error": {"code": INTERNAL_ERROR, "message": f"the answer {line.why}"}}
        return None


def _key(id: object) -> object:
    """Tells the ids 1, "1" and true apart."""
    return type(id).__name__, id


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _code_of(refusal: RequestError) -> int:
    code = refusal.code
    return code if isinstance(code, int) else METHOD_NOT_FOUND
