"""Answers the requests of others: a task for each, bounded in number, so that a slow tool delays no other.

The answerer executes a request; this module writes the answer. A proposal never comes here: it takes effect only
through a request. While the participant is paused, requests and answers are kept, and none is lost.

A `notifications/cancelled` correlates to the envelope of the request that it ends and names its JSON-RPC id. A
requester may name that id alone, as in MCP. The cancel of a participant that may not is logged, and changes nothing. A
call that is answered all the same has that answer; else its outcome is unknown (R35). The task of a call is cancelled
with the word `CANCELLED`, so that an answerer that cannot stop knows that its answer is still wanted.

Spec: §3.1.1, §3.1.2, §3.2, §3.9.1, MCP "Cancellation".
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from mew_lab.errors import ConnectionLost, LocalProtocolError
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.coerce import member
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.kept import READ_RESULT, is_result_uri
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import CANCELLED, INTERNAL_ERROR, Answerer, RpcError, unknown_outcome_error

__all__ = [
    "ASKED",
    "MAX_RUNNING",
    "SERVER_ERROR",
    "AnswerMethod",
    "Guard",
    "MethodAnswerer",
    "RequestServer",
    "ResultKeeper",
    "not_begun",
]

logger = logging.getLogger(__name__)
MAX_RUNNING = 64  # requests at once, of all peers; one more is told that this is busy
MAX_KEPT = 64  # requests that wait for the end of a pause
MAX_UNECHOED = 64  # answers that the gateway has neither accepted nor refused
MAX_ENDED = 1000  # requests that are remembered after their end, so that a late cancel ends no other
SERVER_ERROR = -32000
MAX_SHOWN = 500  # characters of the message of an error that takes the place of an answer

ASKED: ContextVar[Envelope | None] = ContextVar("ASKED", default=None)
"""The request that is being answered, for the code that answers it."""


AnswerMethod = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class Guard(Protocol):
    """What happens before and after a request is executed."""

    async def begin(self) -> None:
        """Awaited before it is executed.

        Raises:
            RpcError: it is not executed; the error is its answer.
        """

    def end(self, answered: bool) -> None:
        """Called when it is over, and whether an answer was sent that tells its outcome (R35)."""


class ResultKeeper(Protocol):
    """What keeps results that no message can hold, and reads them out again."""

    def check_room(self, payload: McpRequest) -> None:
        """Called before a request is executed.

        Raises:
            RpcError: its result could hardly be kept, so it is not executed.
        """

    async def fit(self, request: Envelope, payload: McpRequest, result: dict[str, Any]) -> dict[str, Any]:
        """The result as it can be sent.

        Raises:
            RpcError: it can neither be sent nor kept.
        """


class MethodAnswerer:
    """Answers methods that have a function of their own in `methods`, and has `tools` answer the others.

    `read_result` answers requests for kept results.
    """

    def __init__(self, tools: Answerer) -> None:
        self.methods: dict[str, AnswerMethod] = {}
        self.read_result: AnswerMethod | None = None
        self._tools = tools

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an MCP request; raises RpcError as its answerer does."""
        own = self.methods.get(method)
        if method == READ_RESULT and is_result_uri(params.get("uri")):
            own = self.read_result or own
        return await (self._tools.answer(method, params) if own is None else own(params))


class RequestServer:
    """The requests that one participant is answering.

    Args:
        answerer: Called with the method and `params` of each request.
        post: Sends a draft and returns the envelope.
        keeper: Keeps results that no message can hold; None keeps none.
        may_cancel: Whether a participant may cancel a request; its sender always may.
    """

    def __init__(
        self,
        answerer: Answerer,
        *,
        post: Callable[[Mapping[str, Any]], Envelope | None],
        keeper: ResultKeeper | None = None,
        may_cancel: Callable[[str, Envelope], bool] = lambda sender, request: False,
    ) -> None:
        self._answerer = answerer
        self._may_cancel = may_cancel
        self._ended: BoundedDict[str, None] = BoundedDict(MAX_ENDED)
        self._told: BoundedDict[tuple[str, str], None] = BoundedDict(MAX_ENDED)  # cancels that were refused
        self._keeper = keeper
        self._post = post
        self._running: dict[asyncio.Task[bool], tuple[Envelope, McpRequest]] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()  # by their requesters
        self._held = False
        self._kept: deque[tuple[Envelope, McpRequest, Guard | None]] = deque()
        self._ready: deque[Mapping[str, Any]] = deque()
        self._unechoed: BoundedDict[str, Mapping[str, Any]] = BoundedDict(MAX_UNECHOED)

    def __len__(self) -> int:
        return len(self._running)

    def take(self, request: Envelope, payload: McpRequest, guard: Guard | None = None) -> None:
        """Starts to answer a well-formed request to this participant; returns at once."""
        if payload.method.startswith("notifications/"):
            if payload.method == CANCELLED:
                self._cancel(request, payload)
            return
        if self._held:
            if len(self._kept) < MAX_KEPT:
                self._kept.append((request, payload, guard))
            else:
                logger.warning(
                    "a request of %s is not answered: %d wait already", one_line(request.sender, 80), MAX_KEPT
                )
                _end(guard, answered=False)
            return
        if len(self._running) >= MAX_RUNNING:
            why = f"Busy: {MAX_RUNNING} requests are being answered; ask again later"
            self.refuse(request, payload, RpcError(SERVER_ERROR, why))
            _end(guard, answered=True)
            return
        task = asyncio.get_running_loop().create_task(self._answer(request, payload, guard))
        self._running[task] = (request, payload)
        task.add_done_callback(lambda done: self._note_end(done, guard))

    def find(self, sender: str, id: str) -> Envelope | None:
        """The request of that sender and that id which is not answered yet; None where there is none."""
        return next((one for one in self._open() if one.id == id and one.sender == sender), None)

    def refuse(self, request: Envelope, payload: McpRequest, error: RpcError) -> None:
        """Answers a request with an error, without executing it."""
        self._respond(request, payload, {"error": error.payload()})

    def hold(self, held: bool) -> None:
        """Keeps requests and answers while `held`; afterwards handles them in the order of their arrival."""
        self._held = held
        while self._ready and not self._held:
            self._send(self._ready.popleft())
        while self._kept and not self._held:
            self.take(*self._kept.popleft())

    def echo(self, id: str) -> None:
        """Records that the gateway accepted the answer of that id."""
        self._unechoed.pop(id, None)

    def keep(self, id: str) -> None:
        """Keeps an answer that the gateway refused because of a pause; it is sent again after the pause."""
        draft = self._unechoed.pop(id, None)
        if draft is not None:
            self._ready.append(draft)

    async def stop(self, *, settle: float = 0.0) -> None:
        """Cancels all running answers after at most `settle` seconds, in which they may finish."""
        if settle and self._running:
            await asyncio.wait(set(self._running), timeout=settle)
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self._kept.clear()
        self._ready.clear()
        self._unechoed.clear()

    def _note_end(self, task: asyncio.Task[bool], guard: Guard | None) -> None:
        if (ended := self._running.pop(task, None)) is not None:
            self._ended[ended[0].id] = None
        self._cancelled.discard(task)
        _end(guard, answered=not task.cancelled() and task.exception() is None and task.result())

    def is_cancelled(self, request: Envelope, payload: McpRequest, note: Envelope, params: Any) -> bool:
        """Whether a `notifications/cancelled` ends this request; logs it where its sender may not.

        Args:
            note: the notification; `params` are its own.
        """
        called = member(params, "requestId")
        is_same = (
            isinstance(called, str | int)
            and not isinstance(called, bool)
            and called == rpc_id(request, payload)
        )
        if request.id in note.correlation_id:
            is_meant = is_same or called is None
        else:
            is_meant = is_same and note.sender == request.sender and not self._names_another(note)
        if not is_meant or note.sender == request.sender or self._may_cancel(note.sender, request):
            return is_meant
        if (note.sender, request.id) not in self._told:
            self._told[note.sender, request.id] = None
            logger.warning(
                "%s tried to cancel request %s of %s, which goes on: only its requester, the proposer of the call and "
                "a participant that may remove this one from the space can",
                *(one_line(name, 80) for name in (note.sender, request.id, request.sender)),
            )
        return False

    def _names_another(self, note: Envelope) -> bool:
        """Whether a cancel correlates to a request that is not the one of that JSON-RPC id, which may come again."""
        about = note.correlation_id
        return bool(about) and (
            any(id in self._ended for id in about) or any(one.id in about for one in self._open())
        )

    def _open(self) -> Iterator[Envelope]:
        yield from (running for running, _ in self._running.values())
        yield from (kept[0] for kept in self._kept)

    def _cancel(self, note: Envelope, payload: McpRequest) -> None:
        for task, (running, own) in tuple(self._running.items()):
            if self.is_cancelled(running, own, note, payload.params):
                self._cancelled.add(task)
                # One that did not begin would never answer.
                asyncio.get_running_loop().call_soon(task.cancel, CANCELLED)
        ended = [kept for kept in self._kept if self.is_cancelled(kept[0], kept[1], note, payload.params)]
        for kept in ended:
            self._kept.remove(kept)
            request, own, guard = kept
            if has_effect(own.method):
                self.refuse(request, own, not_begun())
            _end(guard, answered=has_effect(own.method))

    async def _answer(self, request: Envelope, payload: McpRequest, guard: Guard | None) -> bool:
        """Executes a request and answers it; returns whether an answer was sent that tells the outcome."""
        ASKED.set(request)
        task, has_begun = asyncio.current_task(), False
        try:
            if task in self._cancelled:
                raise asyncio.CancelledError
            if self._keeper is not None:
                self._keeper.check_room(payload)
            if guard is not None:
                await guard.begin()
            has_begun = True
            result = await self._answerer.answer(payload.method, payload.params or {})
            if self._keeper is not None:
                result = await self._keeper.fit(request, payload, result)
        except RpcError as fault:
            error = {"error": fault.payload()}
            return self._respond(request, payload, error) and not unknown_outcome(error)
        except asyncio.CancelledError:
            if task in self._cancelled and has_effect(payload.method):
                if not has_begun:
                    return self._respond(request, payload, {"error": not_begun().payload()})
                # MCP wants no answer to a cancelled request, but the space must know that it may have run (R35).
                why = "It was cancelled while it ran, and may have taken effect"
                self._respond(request, payload, {"error": unknown_outcome_error(why).payload()})
            raise
        except Exception as fault:
            logger.exception("answering %s failed", one_line(payload.method, 80))
            failed = RpcError(INTERNAL_ERROR, f"Internal error: {type(fault).__name__}")
            return self._respond(request, payload, {"error": failed.payload()})
        return self._respond(request, payload, {"result": result})

    def _respond(self, request: Envelope, payload: McpRequest, outcome: Mapping[str, Any]) -> bool:
        """Sends the answer, or keeps it for the end of the pause; returns False where it was lost.

        Then the caller learns nothing, or only that a result could not be sent.
        """
        draft: dict[str, Any] = {
            "kind": "mcp/response",
            "to": [request.sender],
            "correlation_id": [request.id],
            "payload": {"jsonrpc": "2.0", "id": rpc_id(request, payload), **outcome},
        }
        if request.context is not None:
            draft["context"] = request.context
        if not self._held:
            return self._send(draft)
        self._ready.append(draft)
        return True

    def _send(self, draft: Mapping[str, Any]) -> bool:
        try:
            sent = self._post(draft)
        except LocalProtocolError as fault:
            self._send_instead(draft, str(fault))
        except ConnectionLost as lost:
            logger.warning("an answer to %s was lost: %s", draft["to"][0], lost)
        else:
            if sent is not None:
                self._unechoed[sent.id] = draft
            return True
        return False

    def replace(self, id: str, why: str) -> None:
        """Sends another answer in place of one that the gateway refused: its request would never end."""
        draft = self._unechoed.pop(id, None)
        if draft is not None:
            self._send_instead(draft, why)

    def _send_instead(self, draft: Mapping[str, Any], why: str) -> None:
        """Sends an error in place of an answer that cannot be sent; nothing where that is such an error already."""
        payload = draft["payload"]
        if "error" in payload:
            error = _shorten(payload["error"])
        else:
            unknown = unknown_outcome_error(
                f"Its tool answered, but the answer cannot be sent: {one_line(why, MAX_SHOWN)}"
            )
            error = unknown.payload()
        if error != payload.get("error"):
            self._send({**draft, "payload": {"jsonrpc": "2.0", "id": payload["id"], "error": error}})


def _shorten(error: Mapping[str, Any]) -> dict[str, Any]:
    """An error of a tool that any gateway takes: the beginning of its message, and of its data the code alone."""
    code, kind = error["code"], member(error, "data", "code")
    code = code if isinstance(code, int) and abs(code) < 1 << 31 else INTERNAL_ERROR
    known = {"code": one_line(kind, 80)} if isinstance(kind, str) else None
    return RpcError(code, one_line(str(error["message"]), MAX_SHOWN), data=known).payload()


def _end(guard: Guard | None, *, answered: bool) -> None:
    if guard is not None:
        guard.end(answered)


def not_begun() -> RpcError:
    """The answer to a request that was cancelled before it was executed."""
    return RpcError(SERVER_ERROR, "Not executed: it was cancelled before it began")


def rpc_id(request: Envelope, payload: McpRequest) -> str | int:
    """The JSON-RPC id of the answer; that of the envelope where the request has none."""
    return request.id if payload.id is None else payload.id
