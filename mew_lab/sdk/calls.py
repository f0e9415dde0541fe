"""Who waits for which answer?  `Calls` is the book of open requests (pure); `Call` is one wait.

An answer counts only from a participant that the request was addressed to. Where a gateway replaces a
logical name in `to` by the runtime id behind it, the request's own echo tells, so the book reads that echo
too. Neither of them sends anything or knows a connection.

Spec: §3.1.2, rulings R4, R17.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

from mew_lab.protocol.envelope import Envelope

__all__ = ["Call", "Calls", "Waiting"]


class Waiting(NamedTuple):
    """One open request: whom it asked, and what to do with the answer."""

    request: Envelope
    to: frozenset[str]
    then: Callable[[Envelope], None]


class Calls:
    """The requests that one participant has sent and that nobody has answered."""

    def __init__(self) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, id: object) -> bool:
        return id in self._waiting

    def next_id(self) -> int:
        """A fresh JSON-RPC id."""
        self._last += 1
        return self._last

    def expect(self, request: Envelope, then: Callable[[Envelope], None]) -> None:
        """From now on an answer to `request` goes to `then`, once."""
        self._waiting[request.id] = Waiting(request, frozenset(request.to), then)

    def forget(self, id: str) -> None:
        """Nobody waits for this one any more; forgetting an unknown one is harmless."""
        self._waiting.pop(id, None)

    def observe(self, envelope: Envelope) -> tuple[str, ...]:
        """Takes note of one envelope of the space; hands an answer over.

        Returns:
            The ids of open requests that this envelope claims to answer without having been asked.
        """
        if envelope.kind == "mcp/request":
            waiting = self._waiting.get(envelope.id)
            if waiting is not None and envelope.sender == waiting.request.sender:
                self._waiting[envelope.id] = waiting._replace(to=waiting.to | frozenset(envelope.to))
            return ()
        if envelope.kind != "mcp/response":
            return ()
        claimed = []
        for id in dict.fromkeys(envelope.correlation_id):
            waiting = self._waiting.get(id)
            if waiting is None:
                continue
            if envelope.sender in waiting.to:
                del self._waiting[id]
                waiting.then(envelope)
            else:
                claimed.append(id)
        return tuple(claimed)


class Call:
    """A request or a proposal on its way; `await` gives the result or raises what became of it.

    Several may await it, and giving up a wait (cancelling, a timeout of one's own around it) changes
    nothing: the call goes on until it is answered, ends, or `withdraw` is called.

    `kind` is `mcp/request` or `mcp/proposal`; `what` names it in sentences, such as `git/git_log`; `state` is
    `open`, `rejected` (by somebody; perhaps not the end), `fulfilled`, then `answered`, `withdrawn` or
    `failed`; `by` is who fulfilled, answered, rejected or withdrew it.

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
        self.sent_at = asyncio.get_running_loop().time()
        self._withdraw = withdraw
        self._timer: asyncio.TimerHandle | None = None
        self._then: Callable[[], None] = lambda: None
        self._result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # Nobody has to await a call; an error that nobody fetched must not be reported from a destructor.
        self._result.add_done_callback(lambda future: future.cancelled() or future.exception())

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.shield(self._result).__await__()

    def __repr__(self) -> str:
        return f"<Call {self.what} ({self.kind}) {self.state}{f' by {self.by}' if self.by else ''}>"

    @property
    def to(self) -> Sequence[str]:
        """Whom it asks."""
        return self.envelope.to

    @property
    def payload(self) -> dict[str, Any]:
        """What it asks."""
        return self.envelope.payload

    @property
    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._result.done()

    async def outcome(self) -> Any:
        """The result, once it is there: what `await` gives, as a coroutine.

        Raises:
            ProposalEnded: it was rejected or withdrawn.
            ToolFailed: the tool answered with an error.
            Refused: the gateway did not accept it.
            NoReply: nobody answered in time, or whoever was asked left.
            ConnectionLost: the connection ended while it waited.
        """
        return await self

    async def withdraw(self, reason: str = "no_longer_needed") -> None:
        """Takes a proposal back, for everybody to see; of a request, only says that its answer is not needed.

        Spec: §3.3.1.
        """
        await self._withdraw(self, reason)

    # --- for the participant that made it ---

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return asyncio.get_running_loop().time() - self.sent_at

    def when_done(self, then: Callable[[], None]) -> None:
        """Calls `then` at its end, at once."""
        self._then = then

    def expire_after(self, seconds: float, then: Callable[[Call], None]) -> None:
        """Calls `then` if there is neither result nor error by then; it takes the place of an earlier limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, then, self)

    def move(self, state: str, *, by: str = "") -> None:
        """It is in another state now, but not at its end."""
        if not self.done:
            self.state = state
            self.by = by or self.by

    def finish(self, result: Any, *, by: str) -> None:
        """It has a result; the first end is the end."""
        if not self.done:
            self._end("answered", by)
            self._result.set_result(result)

    def fail(self, error: Exception, *, state: str = "failed", by: str = "") -> None:
        """It has an error; the first end is the end."""
        if not self.done:
            self._end(state, by)
            self._result.set_exception(error)

    def _end(self, state: str, by: str) -> None:
        self.move(state, by=by)
        if self._timer is not None:
            self._timer.cancel()
        self._then()
