"""One request of an MCP client to a gate, while it waits: its progress, the end of its client, its earlier rounds.

A client of the 2026-07-28 revision need not hold one request open. It is told `input_required` with a state, and sends
the request again with that state. The library signs the state and checks that it comes back with the same request, so
here it is plain text: the id of the call, and the number of the round.

Spec: MCP "Progress", "Cancellation", 2026-07-28 "Multi Round-Trip Requests".
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from mcp import types
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mew_lab.bridge.delivery import ANSWER_DELIVERY, AnswerDelivery
from mew_lab.bridge.waiting_calls import WaitingCall, WaitingCalls
from mew_lab.sdk.progress import Progress, token_of

__all__ = ["MAX_ROUNDS", "ClientRequest"]

PROGRESS_EVERY = 5.0  # seconds; a client that resets its limit at each progress waits on
MAX_ROUNDS = 8  # clients give up after ten; the last answer must be one that a model can read


class _ClientGone(Exception):
    """Raised where the connection of a request has ended."""


class ClientRequest:
    """One request; `id` is the id of the call that its state names, empty where it has none."""

    def __init__(self, context: Any) -> None:
        self._context = context
        state = (context.params or {}).get("requestState")
        self.id, _, round = state.partition(" ") if isinstance(state, str) else ("", "", "0")
        self._round = int(round) if round.isdecimal() else 0
        web = context.request  # None where the transport is not HTTP
        self._before_tool = 0.0  # what was reported last before the tool reported anything
        self._reported = -1.0
        self._delivery: AnswerDelivery | None = web.scope.get(ANSWER_DELIVERY) if web is not None else None

    @property
    def wants_progress(self) -> bool:
        """Whether its client wants to be told of progress."""
        return token_of(self._context.params) is not None

    async def wait(self, calls: WaitingCalls, waiting: WaitingCall, *, seconds: float) -> bool:
        """Waits for the end of a call, at most `seconds`, and reports progress; returns whether it ended."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        told: Progress | None = None
        events = [waiting.ended, *([self._delivery.gone] if self._delivery else [])]
        tasks = {loop.create_task(event.wait()) for event in events}
        try:
            with calls.attach(waiting):
                while True:
                    if self._delivery is not None and self._delivery.gone.is_set():
                        raise _ClientGone
                    left = begun + seconds - loop.time()
                    is_over = waiting.ended.is_set() or left <= 0
                    is_new = waiting.progress is not told
                    told = waiting.progress
                    if is_new:
                        await self._report(waiting, loop.time() - begun)
                    if is_over:
                        break
                    if not is_new and not await _happened(
                        tasks, waiting.reported, within=min(PROGRESS_EVERY, left)
                    ):
                        await self._report(waiting, loop.time() - begun)
        except _ClientGone:  # its answer reaches nobody
            return False
        finally:
            for task in tasks:
                task.cancel()
        return waiting.ended.is_set()

    def when_delivered(self, then: Callable[[], None]) -> None:
        """Calls `then` when the answer was sent; at once where the transport does not say so."""
        if self._delivery is None:
            then()
        else:
            self._delivery.when_sent(then)

    @property
    def may_return(self) -> bool:
        """Whether its client sends it again by itself when it is told to."""
        return self._context.protocol_version in MODERN_PROTOCOL_VERSIONS and self._round < MAX_ROUNDS

    def next_round(self, waiting: WaitingCall) -> types.InputRequiredResult:
        """The answer that makes its client send it again."""
        return types.InputRequiredResult(request_state=f"{waiting.id} {self._round + 1}")

    async def _report(self, waiting: WaitingCall, seconds: float) -> None:
        """Reports the seconds of waiting, and from the first report of the tool on, what that reports.

        The reported number increases each time, as MCP demands. So the tool counts on from the last second, and where
        it reports nothing new the number is the next one that is larger.
        """
        at_least = math.nextafter(self._reported, math.inf)
        progress = waiting.progress
        if progress is None:
            self._before_tool = self._reported = max(seconds, at_least)
            await self._context.session.report_progress(self._reported, None, waiting.describe())
            return
        done, total, message = progress
        self._reported = max(self._before_tool + done, at_least)
        known = None if total is None else max(self._before_tool + total, self._reported)
        await self._context.session.report_progress(self._reported, known, message or waiting.describe())


async def _happened(tasks: set[asyncio.Task[Any]], event: asyncio.Event, *, within: float) -> bool:
    """Whether one of the tasks ended or the event was set, for which this waits at most `within` seconds."""
    setting = asyncio.get_running_loop().create_task(event.wait())
    try:
        done, _ = await asyncio.wait({*tasks, setting}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        setting.cancel()
    return bool(done)
