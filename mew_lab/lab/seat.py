"""`Seat`: one participant of this process, for synchronous code.

Methods that need no answer of another participant block and return their result. `call`, `propose` and `ask` return a
`Pending` at once. `seat.participant` is the participant itself, with its awaitable methods.
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
        """The patterns of the messages that it may send, from its welcome and later changes. Spec: §3.8.1."""
        return tuple(dict(pattern) for pattern in self.participant.client.capabilities.patterns)

    def call(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Calls `participant/tool`: by a request if this seat may send it, else by a proposal. Returns at once.

        Raises:
            CapabilityViolation: It may send neither.

        Spec: §3.1.1, §3.2.
        """
        return self._start(target, arguments, kw, propose=False)

    def propose(self, target: str, arguments: Mapping[str, Any] | None = None, /, **kw: Any) -> Pending:
        """Proposes a call of `participant/tool`, even if this seat may send the request. Returns at once. Spec: §3.2."""
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
        """Sends a chat question, for example to an agent, and returns at once; the result is the text of the answer.

        Args:
            timeout: Seconds until the question is cancelled with a `chat/cancel`; None for no limit.

        Spec: §3.4.
        """

        async def start() -> Pending:
            call = self.participant.ask(text, to, timeout=timeout)
            await self.lab.seen.wait(call.id, unless=lambda: call.done)
            return Pending(call, self._loop, seat=self.name)

        return self._loop.run(start(), timeout=self.lab.timeout, doing=f"asking {to} as {self.name!r}")

    def chat(self, text: str, to: str | Sequence[str] = ()) -> SentEnvelope:
        """Sends a chat message to all participants, or to those in `to`, and waits until the gateway has accepted it.

        Raises:
            Refused: The gateway refused it; with the gateway's message.

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
            Refused: The gateway refused it; with the gateway's message.
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
        """Runs a coroutine of `participant`, such as writing a stream, and returns its result.

        Args:
            work: A coroutine object; it runs on the loop of the participant.
            timeout: Time limit in seconds; default: `lab.timeout`.

        Raises:
            NoReply: It took longer; it is then cancelled.
        """
        doing = f"running {getattr(work, '__qualname__', 'work')} as {self.name!r}"
        return self._loop.run(work, timeout=timeout or self.lab.timeout, doing=doing)

    def leave(self) -> Note:
        """Leaves the space; the others receive a leave presence."""
        return self.lab.leave(self.name)

    def __repr__(self) -> str:
        return f"<Seat {self.name} in {self.lab.name}: {self.participant.client.state}>"
