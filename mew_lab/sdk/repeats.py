"""Refuses the requests that repeat a call of unknown outcome, unless somebody reported what became of that call.

A request by its sender's own right that repeats such a call is not executed: its sender may propose it instead, so that
somebody decides (R35). What a person found out ends this (R42). No message tells of it, so an executor asks its gateway
before it refuses. Such requests wait in one queue, in the order in which they came, and each is asked for after it came:
what was reported before a request counts for it, in whichever process its executor runs.

Spec: rulings R35, R42.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from mew_lab.errors import MewError
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.payloads.mcp import McpRequest
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.request_server import RequestServer, not_begun
from mew_lab.sdk.tools import CANCELLED, unknown_outcome_error

__all__ = ["FirstCall", "Repeats"]

MAX_WAITING = 1000  # requests; one more is refused at once


class FirstCall(NamedTuple):
    """A call of unknown outcome: its request, by whom it was sent, and all its targets."""

    request: str
    sender: str
    to: tuple[str, ...]


class Repeats:
    """The requests by their senders' own right of one participant.

    Args:
        server: Executes requests, and sends refusals.
        find: The call that a request repeats; None where it repeats none.
        ask: What was reported of a call: `happened`, `by` and perhaps `note`; None where nothing was.
        resolve: Takes such a report, after which that call is repeated by none.
        executed: Called with a request that waited and is executed now.
    """

    def __init__(
        self,
        *,
        server: RequestServer,
        find: Callable[[Envelope, McpRequest], FirstCall | None],
        ask: Callable[[FirstCall], Awaitable[Mapping[str, Any] | None]],
        resolve: Callable[[FirstCall, Mapping[str, Any]], object],
        executed: Callable[[Envelope], object],
    ) -> None:
        self._server = server
        self._find = find
        self._ask = ask
        self._resolve = resolve
        self._executed = executed
        self._waiting: deque[tuple[Envelope, McpRequest]] = deque()
        self._asking: asyncio.Task[None] | None = None

    def take(self, request: Envelope, payload: McpRequest) -> bool:
        """Executes a request, refuses it, or asks first; returns whether it is executed now."""
        if payload.method == CANCELLED:
            self._cancel(request, payload)
        if any((one.sender, one.id) == (request.sender, request.id) for one, _ in self._waiting):
            return False  # the same request once more, by a sender that joined anew
        first = self._find(request, payload)
        if first is None:
            self._server.take(request, payload)
            return True
        if len(self._waiting) >= MAX_WAITING:
            self._refuse(request, payload, first)
            return False
        self._waiting.append((request, payload))
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._work())
        return False

    def stop(self) -> None:
        """Answers none of the requests that still wait."""
        self._waiting.clear()
        if self._asking is not None:
            self._asking.cancel()

    async def _work(self) -> None:
        while self._waiting:
            waiting = self._waiting[0]
            first = await self._find_unresolved(*waiting)
            if not self._waiting or self._waiting[0] is not waiting:  # it was cancelled meanwhile
                continue
            self._waiting.popleft()
            if first is not None:
                self._refuse(*waiting, first)
            else:
                self._server.take(*waiting)
                self._executed(waiting[0])

    async def _find_unresolved(self, request: Envelope, payload: McpRequest) -> FirstCall | None:
        """The call that a request repeats and of which nobody reported anything; None where there is none."""
        while (first := self._find(request, payload)) is not None:
            try:
                found = await self._ask(first)
            except MewError:  # then nobody knows
                found = None
            if found is None:
                return first
            self._resolve(first, found)
        return None

    def _cancel(self, note: Envelope, payload: McpRequest) -> None:
        """Drops the requests that wait and are cancelled."""
        ended = [one for one in self._waiting if self._server.is_cancelled(*one, note, payload.params)]
        for waiting in ended:
            self._waiting.remove(waiting)
            self._server.refuse(*waiting, not_begun())

    def _refuse(self, request: Envelope, payload: McpRequest, first: FirstCall) -> None:
        error = unknown_outcome_error(
            f"Not executed again: {one_line(first.sender, 80)} sent the same call before, as "
            f"{one_line(first.request, 80)}, and whether that took effect is not known. Propose it, so that somebody "
            "decides",
            request=first.request,
        )
        self._server.refuse(request, payload, error)
