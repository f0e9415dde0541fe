"""A seat: one participant of this process, used from ordinary code.

Verbs that finish by themselves block and return what they made. `call`, `propose` and `ask` wait for nobody and return
a `Pending`. The participant itself, with its awaitable methods, is `seat.participant`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import Any, Self, TypeVar

from mew_lab.lab.listing import Note, SentEnvelope
from mew_lab.lab.loop import LoopThread
from mew_lab.lab.pending import Pending
from mew_lab.lab.session import Session
from mew_lab.sdk.participant import MEWParticipant

__all__ = ["Seat"]

T = TypeVar("T")


class Seat:
    """One participant of a space, thread-safe. `name` is its id, `participant` the MEWParticipant inside."""

    def __init__(
        self, session: Session, participant: MEWParticipant, *, name: str, what: str = "seat"
    ) -> None:
        self.lab = session
        self.participant = participant
        self.name = name
        self.what = what

    def __await__(self) -> Generator[Any, None, Self]:
        return self
        yield  # makes this a generator, as __await__ must be

    @property
    def _loop(self) -> LoopThread:
        return self.lab.loop

    @property
    def capabilities(self) -> tuple[dict[str, Any], ...]:
        """The patterns that say what it may send, as its welcome told. Spec: §3.8.1."""
        return tuple(dict(pattern) for pattern in self.participant.client.capabilities.patterns)

    def call(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Calls `participant/tool`: as a request if this seat may, else as a proposal. Returns at once.

        Raises:
            CapabilityViolation: when it may do neither.

        Spec: §3.1.1, §3.2.
        """
        return self._start(target, arguments, kw, propose=False)

    def propose(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Proposes a call of `participant/tool`, whatever else this seat may. Returns at once. Spec: §3.2."""
        return self._start(target, arguments, kw, propose=True)

    def _start(
        self, target: str, arguments: Mapping[str, Any] | None, more: dict[str, Any], *, propose: bool
    ) -> Pending:
        verb = self.participant.propose if propose else self.participant.call

        async def start() -> Pending:
            call = verb(target, {**(arguments or {}), **more})
            await self.lab.seen.wait(call.id, unless=lambda: call.done)
            return Pending(call, self._loop, seat=self.name)

        doing = f"{'proposing' if propose else 'calling'} {target} as {self.name!r}"
        return self._loop.run(start(), timeout=self.lab.timeout, doing=doing)

    def ask(self, text: str, to: str | Sequence[str], *, timeout: float | None = None) -> Pending:
        """Asks somebody in words, such as an agent; the result is the text of what they answer. Returns at once.

        Args:
            timeout: Seconds until it is taken back, for everybody to see; None waits on.

        Spec: §3.4.
        """

        async def start() -> Pending:
            call = self.participant.ask(text, to, timeout=timeout)
            await self.lab.seen.wait(call.id, unless=lambda: call.done)
            return Pending(call, self._loop, seat=self.name)

        return self._loop.run(start(), timeout=self.lab.timeout, doing=f"asking {to} as {self.name!r}")

    def chat(self, text: str, to: str | Sequence[str] = ()) -> SentEnvelope:
        """Says something to everybody, or addressed to some, and waits until the gateway has accepted it.

        Raises:
            Refused: with the gateway's own sentence.

        Spec: §3.4.
        """
        return self.send("chat", {"text": text}, to=to)

    def send(
        self,
        kind: str,
        payload: Mapping[str, Any] | None = None,
        *,
        to: str | Sequence[str] = (),
        correlation_id: str | Sequence[str] = (),
        context: str | None = None,
    ) -> SentEnvelope:
        """Sends an envelope of any kind and waits until the gateway has accepted it.

        Raises:
            Refused: with the gateway's own sentence.
        """
        draft: dict[str, Any] = {"kind": kind, "payload": dict(payload or {})}
        for key, value in (("to", to), ("correlation_id", correlation_id)):
            if value:
                draft[key] = [value] if isinstance(value, str) else list(value)
        if context is not None:
            draft["context"] = context

        async def speak() -> SentEnvelope:
            return SentEnvelope(await self.participant.send_accepted(draft))

        return self._loop.run(speak(), timeout=self.lab.timeout, doing=f"sending {kind} as {self.name!r}")

    def run(self, work: Coroutine[Any, Any, T], *, timeout: float | None = None) -> T:
        """Runs what `participant` can do and this seat has no verb for, such as writing a stream, and gives its value.

        Args:
            work: A coroutine, as `async def` makes it; it runs where the participant lives, beside the cells.
            timeout: Seconds that it may take; `lab.timeout` unless given.

        Raises:
            NoReply: when it takes longer; it is then ended.
        """
        doing = f"running {getattr(work, '__qualname__', 'work')} as {self.name!r}"
        return self._loop.run(work, timeout=timeout or self.lab.timeout, doing=doing)

    def leave(self) -> Note:
        """Leaves the space; the others see the leave presence."""
        return self.lab.leave(self.name)

    def __repr__(self) -> str:
        return f"<Seat {self.name} in {self.lab.name}: {self.participant.client.state}>"
