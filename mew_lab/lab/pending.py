"""`Pending`: a call or proposal that was sent; it can be inspected, awaited, waited for and withdrawn.

Waiting is optional and never decides anything: an interrupted or cancelled wait does not change the call. In a notebook
`before_wait` of a higher room is called on the waiting thread first. It may raise CannotWait with advice. It may return
a `Watch`, which is called each second of the wait, and at its end.

Spec: §3.2.1, §3.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Protocol

from mew_lab import find_above
from mew_lab.errors import CannotWait, MewError, NoReply, StillRunning
from mew_lab.lab.loop import LoopThread
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.calls import Call
from mew_lab.sdk.results import ToolResult

__all__ = ["Pending", "Watch", "proposal_of"]

BEAT = 1.0  # seconds between two ticks of a watch


class Watch(Protocol):
    """An observer of a wait; both methods are called on the waiting thread."""

    def tick(self) -> None:
        """Called each second while the wait lasts."""

    def end(self) -> None:
        """Called when the wait is over, for any reason."""


class Pending:
    """A call or proposal that was sent: `id`, `kind`, `state`, `by` (who decided it); `await` it or call `result()`.

    `await p` works on any running loop; `p.result()` blocks a thread. Both return the tool's result or raise one of
    ProposalRejected, ProposalWithdrawn, ToolFailed, CapabilityViolation, NoReply, ConnectionLost. A result that was too
    large for a message is loaded from the participant that keeps it; where it cannot be, the result says where it is.

    Args:
        complete: gives the whole of a result, of what came as the answer.
    """

    def __init__(
        self,
        call: Call,
        loop: LoopThread,
        *,
        seat: str,
        complete: Callable[[Any], Awaitable[Any]] | None = None,
    ) -> None:
        self._call = call
        self._loop = loop
        self.seat = seat
        self._complete = complete
        self._whole: asyncio.Task[Any] | None = None

    @property
    def id(self) -> str:
        """The id of the request or proposal."""
        return self._call.id

    @property
    def envelope(self) -> Envelope:
        """The message that was sent."""
        return self._call.envelope

    @property
    def kind(self) -> str:
        """`mcp/request` or `mcp/proposal`."""
        return self._call.kind

    @property
    def state(self) -> str:
        """`open`, `fulfilled`, `answered`, `rejected`, `withdrawn`, `failed`, `unknown` or `running` (see `Call`)."""
        return self._call.state

    @property
    def by(self) -> str:
        """The participant that fulfilled or rejected it; empty before that."""
        return self._call.by

    @property
    def done(self) -> bool:
        """Whether waiting would return at once."""
        return self._call.done

    @property
    def what(self) -> str:
        """The target as the caller wrote it: `participant/tool`."""
        return self._call.what

    def _begin_watch(self, *, blocking: bool) -> Watch | None:
        before_wait = None if self._call.done else find_above("before_wait")
        watch: Watch | None = None if before_wait is None else before_wait(self, blocking)
        return watch

    async def _outcome(self) -> Any:
        """The result of the call; one that was too large for a message is loaded, once."""
        result = await self._call.outcome()
        if self._complete is None:
            return result
        if self._whole is None:
            self._whole = asyncio.ensure_future(self._complete(result))
        return await asyncio.shield(self._whole)

    def __await__(self) -> Generator[Any, None, ToolResult]:
        return self._wait().__await__()

    async def _wait(self) -> ToolResult:
        if self._loop.is_current() or self._loop.threadless:
            here: ToolResult = await self._outcome()
            return here
        watch = self._begin_watch(blocking=False)
        waiter = asyncio.wrap_future(self._loop.submit(self._outcome()))
        try:
            while True:
                done, _ = await asyncio.wait({waiter}, timeout=BEAT if watch else None)
                if done:
                    result: ToolResult = waiter.result()
                    return result
                if watch is not None:
                    watch.tick()
        finally:
            waiter.cancel()  # ends the wait, never the call
            if watch is not None:
                watch.end()

    def result(self, timeout: float = 60.0) -> ToolResult:
        """Blocks this thread for up to `timeout` seconds and returns the result.

        Raises:
            NoReply: No answer arrived in time; the call stays open. StillRunning where it was sent to its target.
            CannotWait: This wait could never end.
        """
        if self._loop.is_current() or self._loop.threadless:
            raise CannotWait(
                f"p.result() would block the loop that has to bring the answer to {self.what}; write `await p` here"
            )
        watch = self._begin_watch(blocking=True)
        waiter = self._loop.submit(self._outcome())
        left = timeout
        try:
            while True:
                step = min(BEAT, left) if watch else left
                try:
                    result: ToolResult = waiter.result(step)
                    return result
                except FutureTimeout:
                    if waiter.done():
                        raise
                left -= step
                if left <= 0:
                    goes_on = self.kind == "mcp/request" or self.state == "fulfilled"
                    raise (StillRunning if goes_on else NoReply)(
                        f"Nobody answered {self.kind} {self.what} of {self.seat!r} in {timeout:g} s; it stays open: "
                        "wait again, approve it, or p.withdraw()",
                        after_s=timeout,
                        waiting_for=self.what,
                    ) from None
                if watch is not None:
                    watch.tick()
        finally:
            waiter.cancel()
            if watch is not None:
                watch.end()

    def withdraw(self, reason: str = "no_longer_needed") -> None:
        """Withdraws the proposal, or cancels the request."""
        self._loop.run(
            self._call.withdraw(reason), timeout=10.0, doing=f"withdrawing the call of {self.what}"
        )

    def __repr__(self) -> str:
        by = f" by {one_line(self.by)}" if self.by else ""
        return f"<Pending {self.kind} {one_line(self.what)} as {self.seat}: {self.state}{by} ({one_line(self.id)})>"


def proposal_of(pending: Pending, doing: str) -> str:
    """The id of the proposal of a Pending.

    Raises:
        MewError: It is no proposal, so there is nothing to decide.
    """
    if pending.kind != "mcp/proposal":
        raise MewError(
            f"Cannot {doing} {pending.what}: {pending.seat!r} was allowed to send it as {pending.kind}, so nothing "
            "waits for a decision; await it, or call .result()"
        )
    return pending.id
