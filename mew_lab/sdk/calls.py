"""A call in progress, as `MEWParticipant.call`, `propose` and `ask` return it.

A `Call` sends nothing and has no connection. `correlations` decides when it ends.

Spec: §3.1, §3.2.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.visible import one_line
from mew_lab.sdk.progress import Progress
from mew_lab.sdk.signal import check_loop, fit_handler

__all__ = ["Call"]


class Call:
    """A message that awaits its answer; `await` returns the result, or raises the error that ended it.

    Several tasks may await it. A task that stops waiting (because it is cancelled or times out) changes nothing: the
    call goes on until it is answered, ends, or `withdraw` is called.

    Attributes:
        kind: `mcp/request`, `mcp/proposal`, or `chat` for a question in plain text.
        what: Its name in messages, such as `git/git_log`.
        state: `open`, `rejected` (which need not be the end) or `fulfilled`; at its end `answered`, `withdrawn`,
            `failed`, `unknown`, `running` (only the wait ended), or the state in which it was refused.
        by: The participant that fulfilled, answered, rejected or withdrew it.
        asked: The participants that may answer; after the echo, by their runtime ids.
        progress: What its target reported last of it; None where it reported nothing.

    Spec: §3.1, §3.2.
    """

    def __init__(
        self, envelope: Envelope, *, what: str, withdraw: Callable[[Call, str], Any], resilient: bool = False
    ) -> None:
        self.id = envelope.id
        self.kind = envelope.kind
        self.envelope = envelope
        self.what = what
        self.state = "open"
        self.by = ""
        self.resilient = resilient
        self.asked = envelope.to
        self.progress: Progress | None = None
        self._progressed: Callable[[Progress], object] | None = None
        self.sent_at = asyncio.get_running_loop().time()
        self._withdraw = withdraw
        self._timer: asyncio.TimerHandle | None = None
        self._then: Callable[[Call], None] | None = None
        self._result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[Any, None, Any]:
        check_loop(self._result.get_loop(), self.what)
        return asyncio.shield(self._result).__await__()

    def __repr__(self) -> str:
        by = f" by {one_line(self.by)}" if self.by else ""
        return f"<Call {one_line(self.what)} ({self.kind}) {self.state}{by}>"

    @property
    def to(self) -> Sequence[str]:
        """The participants that it was addressed to."""
        return self.envelope.to

    @property
    def payload(self) -> dict[str, Any]:
        """The payload that was sent."""
        return self.envelope.payload

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._result.done()

    async def outcome(self) -> Any:
        """Waits for the result and returns it, as `await` does.

        Raises:
            ProposalEnded: it was rejected or withdrawn.
            ToolFailed: the tool answered with an error.
            Refused: the gateway did not accept it.
            NoReply: no answer came in time, or all addressees left.
            StillRunning: its own `timeout` is over, or the wait was ended, and the call goes on.
            OutcomeUnknown: it was sent, and whether it took effect is not known.
            ConnectionLost: the connection ended while it waited.
        """
        return await self

    async def withdraw(self, reason: str = "no_longer_needed") -> None:
        """Withdraws a proposal with a message to everybody; cancels a call that runs.

        It returns once the gateway has accepted the withdrawal. Where an approval came first, the call goes on: its
        `state` tells. A call that was cancelled ends with its answer where one still comes, else it is unknown.

        Raises:
            CapabilityViolation, Refused: this participant may not withdraw it.
            NoReply, ConnectionLost: whether it is withdrawn is not known.

        Spec: §3.3.1.
        """
        await self._withdraw(self, reason)

    def on_progress(self, handler: Callable[[Progress], object]) -> None:
        """Calls `handler`, in place of an earlier one, with each progress that its target reports.

        The coroutine of a coroutine function runs as a task.
        """
        self._progressed = fit_handler(handler)

    def end_call(self, reason: str) -> None:
        """Ends a call at once and says so in a message; a question in plain text goes on."""

    # --- for the table of waits ---

    @property
    def age(self) -> float:
        """Seconds since it was sent."""
        return asyncio.get_running_loop().time() - self.sent_at

    @property
    def left(self) -> float:
        """Seconds until its limit; infinite where it has none."""
        if self._timer is None:
            return math.inf
        return self._timer.when() - asyncio.get_running_loop().time()

    def note_progress(self, progress: Progress) -> object:
        """Takes a report of its progress, unless it has ended; returns what the handler returns."""
        if self.done:
            return None
        self.progress = progress
        return self._progressed(progress) if self._progressed is not None else None

    def when_done(self, then: Callable[[Call], None]) -> None:
        """Calls `then` with this call as soon as it ends."""
        self._then = then

    def when_ended(self, then: Callable[[asyncio.Future[Any]], None]) -> None:
        """Calls `then` with the result, as a future, in the turn of the loop after this call has ended."""
        self._result.add_done_callback(then)

    def expire_after(self, seconds: float, then: Callable[[], None]) -> None:
        """Calls `then` after `seconds` if the call has not ended. It replaces an earlier limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    async def own_outcome(self) -> Any:
        """Like `outcome`, for the task that owns the wait: cancelling the task also ends the call."""
        try:
            return await self._result
        finally:
            if self._result.cancelled():
                self._end("withdrawn", "")

    def move(self, state: str, *, by: str = "") -> None:
        """Sets a state that is not final."""
        if not self.done:
            self.state = state
            self.by = by or self.by

    def finish(self, result: Any, *, by: str) -> None:
        """Ends it with a result, unless it has ended before."""
        if not self.done:
            self._end("answered", by)
            self._result.set_result(result)

    def fail(self, error: Exception, *, state: str = "failed", by: str = "") -> None:
        """Ends it with an error, unless it has ended before."""
        if not self.done:
            self._end(state, by)
            self._result.set_exception(error)
            self._result.exception()  # marks it as retrieved: a call need not be awaited

    def _end(self, state: str, by: str) -> None:
        self.state = state
        self.by = by or self.by
        if self._timer is not None:
            self._timer.cancel()
        if self._then is not None:
            self._then(self)
