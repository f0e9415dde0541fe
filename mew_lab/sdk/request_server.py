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
from typing import Any

from mew_lab.errors import ConnectionLost, LocalProtocolError
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.tools import INTERNAL_ERROR, Answerer, RpcError

__all__ = ["ASKED", "MAX_RUNNING", "AnswerMethod", "MethodAnswerer", "RequestServer"]

logger = logging.getLogger(__name__)
MAX_RUNNING = 64
MAX_KEPT = 64  # requests that wait for the end of a pause
MAX_UNECHOED = 64  # answers that the gateway has neither accepted nor refused
SERVER_ERROR = -32000

ASKED: ContextVar[Envelope | None] = ContextVar("ASKED", default=None)
"""The request that is being answered, for the code that answers it."""


AnswerMethod = Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]


class MethodAnswerer:
    """Answers methods that have a function of their own in `methods`, and has `tools` answer the others."""

    def __init__(self, tools: Answerer) -> None:
        self.methods: dict[str, AnswerMethod] = {}
        self._tools = tools

    async def answer(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of an MCP request; raises RpcError as its answerer does."""
        own = self.methods.get(method)
        return await (self._tools.answer(method, params) if own is None else own(params))


class RequestServer:
    """The requests that one participant is answering.

    Args:
        answerer: Called with the method and `params` of each request.
        post: Sends a draft and returns the envelope.
    """

    def __init__(self, answerer: Answerer, *, post: Callable[[Mapping[str, Any]], Envelope | None]) -> None:
        self._answerer = answerer
        self._post = post
        self._running: dict[asyncio.Task[None], tuple[str, Any]] = {}  # a task -> sender, JSON-RPC id
        self._held = False
        self._kept: deque[tuple[Envelope, McpRequest]] = deque()
        self._ready: deque[Mapping[str, Any]] = deque()
        self._unechoed: BoundedDict[str, Mapping[str, Any]] = BoundedDict(MAX_UNECHOED)

    def __len__(self) -> int:
        return len(self._running)

    def take(self, request: Envelope, payload: McpRequest) -> None:
        """Starts to answer a well-formed request to this participant; returns at once."""
        if payload.method.startswith("notifications/"):
            if payload.method == "notifications/cancelled":
                self._cancel(request.sender, (payload.params or {}).get("requestId"))
            return
        if self._held:
            if len(self._kept) < MAX_KEPT:
                self._kept.append((request, payload))
            else:
                logger.warning(
                    "a request of %s is not answered: %d wait already", one_line(request.sender, 80), MAX_KEPT
                )
            return
        if len(self._running) >= MAX_RUNNING:
            self.refuse(request, payload, f"Busy: {MAX_RUNNING} requests are being answered; ask again later")
            return
        task = asyncio.get_running_loop().create_task(self._answer(request, payload))
        self._running[task] = (request.sender, _rpc_id(request, payload))
        task.add_done_callback(lambda done: self._running.pop(done, None))

    def refuse(self, request: Envelope, payload: McpRequest, why: str) -> None:
        """Answers a request with an error, without executing it."""
        self._respond(request, payload, {"error": RpcError(SERVER_ERROR, why).payload()})

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

    def _cancel(self, sender: str, rpc_id: Any) -> None:
        for task, key in self._running.items():
            if key == (sender, rpc_id):
                task.cancel()
        self._kept = deque(
            (request, payload)
            for request, payload in self._kept
            if (request.sender, _rpc_id(request, payload)) != (sender, rpc_id)
        )

    async def _answer(self, request: Envelope, payload: McpRequest) -> None:
        ASKED.set(request)
        try:
            result = await self._answerer.answer(payload.method, payload.params or {})
        except RpcError as fault:
            self._respond(request, payload, {"error": fault.payload()})
        except Exception as fault:
            logger.exception("answering %s failed", one_line(payload.method, 80))
            error = RpcError(INTERNAL_ERROR, f"Internal error: {type(fault).__name__}")
            self._respond(request, payload, {"error": error.payload()})
        else:
            self._respond(request, payload, {"result": result})

    def _respond(self, request: Envelope, payload: McpRequest, outcome: Mapping[str, Any]) -> None:
        draft: dict[str, Any] = {
            "kind": "mcp/response",
            "to": [request.sender],
            "correlation_id": [request.id],
            "payload": {"jsonrpc": "2.0", "id": _rpc_id(request, payload), **outcome},
        }
        if request.context is not None:
            draft["context"] = request.context
        if self._held:
            self._ready.append(draft)
        else:
            self._send(draft)

    def _send(self, draft: Mapping[str, Any]) -> None:
        payload = draft["payload"]
        try:
            sent = self._post(draft)
        except LocalProtocolError as fault:
            if "error" not in payload:  # a result that cannot be sent is answered with an error
                error = RpcError(SERVER_ERROR, f"The result cannot be sent: {fault}").payload()
                self._send({**draft, "payload": {"jsonrpc": "2.0", "id": payload["id"], "error": error}})
        except ConnectionLost as lost:
            logger.warning("an answer to %s was lost: %s", draft["to"][0], lost)
        else:
            if sent is not None:
                self._unechoed[sent.id] = draft


def _rpc_id(request: Envelope, payload: McpRequest) -> str | int:
    """The JSON-RPC id of the answer; that of the envelope where the request has none."""
    return request.id if payload.id is None else payload.id
