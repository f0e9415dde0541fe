"""Answers the requests of others: a task for each, bounded in number, so that a slow tool delays no other.

The answerer executes a request; this module writes the answer. A proposal never comes here: it takes effect only
through a request. While the participant is paused, requests and answers are kept, and none is lost.

Spec: §3.1.1, §3.1.2, §3.2, §3.9.1.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from mew_lab.errors import ConnectionLost, LocalProtocolError
from mew_lab.ledger.unknown_calls import has_effect
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.intake import unknown_outcome
from mew_lab.protocol.kept import READ_RESULT, is_result_uri
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import INTERNAL_ERROR, Answerer, RpcError, unknown_outcome_error

__all__ = [
    "ASKED",
    "MAX_RUNNING",
    "SERVER_ERROR",
    "AnswerMethod",
    "Guard",
    "MethodAnswerer",
    "RequestServer",
    "ResultKeeper",
    "rpc_id",
]

logger = logging.getLogger(__name__)
MAX_RUNNING = 64
MAX_KEPT = 64  # requests that wait for the end of a pause
MAX_UNECHOED = 64  # answers that the gateway has neither accepted nor refused
SERVER_ERROR = -32000

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
    """

    def __init__(
        self,
        answerer: Answerer,
        *,
        post: Callable[[Mapping[str, Any]], Envelope | None],
        keeper: ResultKeeper | None = None,
    ) -> None:
        self._answerer = answerer
        self._keeper = keeper
        self._post = post
        self._running: dict[asyncio.Task[bool], tuple[Envelope, Any]] = {}  # a task -> request, JSON-RPC id
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
            if payload.method == "notifications/cancelled":
                self._cancel(request.sender, (payload.params or {}).get("requestId"))
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
        self._running[task] = (request, rpc_id(request, payload))
        task.add_done_callback(lambda done: self._note_end(done, guard))

    def find(self, sender: str, id: str) -> Envelope | None:
        """The request of that sender and that id which is not answered yet; None where there is none."""
        open_ = (*(request for request, _ in self._running.values()), *(kept[0] for kept in self._kept))
        return next((one for one in open_ if one.id == id and one.sender == sender), None)

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
        self._running.pop(task, None)
        self._cancelled.discard(task)
        _end(guard, answered=not task.cancelled() and task.exception() is None and task.result())

    def _cancel(self, sender: str, cancelled: Any) -> None:
        for task, (running, running_id) in self._running.items():
            if (running.sender, running_id) == (sender, cancelled):
                self._cancelled.add(task)
                task.cancel()
        kept, self._kept = self._kept, deque()
        for request, payload, guard in kept:
            if (request.sender, rpc_id(request, payload)) != (sender, cancelled):
                self._kept.append((request, payload, guard))
                continue
            if has_effect(payload.method):
                why = "Not executed: it was cancelled before it began"
                self.refuse(request, payload, RpcError(SERVER_ERROR, why))
            _end(guard, answered=has_effect(payload.method))

    async def _answer(self, request: Envelope, payload: McpRequest, guard: Guard | None) -> bool:
        """Executes a request and answers it; returns whether an answer was sent that tells the outcome."""
        ASKED.set(request)
        try:
            if self._keeper is not None:
                self._keeper.check_room(payload)
            if guard is not None:
                await guard.begin()
            result = await self._answerer.answer(payload.method, payload.params or {})
            if self._keeper is not None:
                result = await self._keeper.fit(request, payload, result)
        except RpcError as fault:
            error = {"error": fault.payload()}
            return self._respond(request, payload, error) and not unknown_outcome(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task in self._cancelled and has_effect(payload.method):
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
        payload = draft["payload"]
        try:
            sent = self._post(draft)
        except LocalProtocolError as fault:
            if "error" not in payload:  # a result that cannot be sent is answered with an error
                error = unknown_outcome_error(f"It was executed, and the result cannot be sent: {fault}")
                own = {"jsonrpc": "2.0", "id": payload["id"], "error": error.payload()}
                self._send({**draft, "payload": own})
        except ConnectionLost as lost:
            logger.warning("an answer to %s was lost: %s", draft["to"][0], lost)
        else:
            if sent is not None:
                self._unechoed[sent.id] = draft
            return True
        return False


def _end(guard: Guard | None, *, answered: bool) -> None:
    if guard is not None:
        guard.end(answered)


def rpc_id(request: Envelope, payload: McpRequest) -> str | int:
    """The JSON-RPC id of the answer; that of the envelope where the request has none."""
    return request.id if payload.id is None else payload.id
