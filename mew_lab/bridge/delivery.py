"""Notes what became of one answer over HTTP or stdio, and which sessions of clients are live; no rule of its own.

`mcp_http` puts an `AnswerDelivery` into the scope of each request, under `ANSWER_DELIVERY`. A library between it and the
handler may hold the answer back, so only the last bytes tell that it was sent.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = [
    "ANSWER",
    "ANSWER_DELIVERY",
    "SESSION_HEADER",
    "STDIO",
    "STDIO_ANSWERS",
    "AnswerDelivery",
    "ClientSession",
    "LineAnswers",
    "first_of",
]

ANSWER_DELIVERY: Final = "mew_lab.answer_delivery"  # a key of an ASGI scope
SESSION_HEADER: Final = "mcp-session-id"
ERRORS = 400  # the lowest status of an error
# The id of the request in a line with its answer, in the order in which the library writes the members.
ANSWER: Final = re.compile(r'\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?\d+),"(?:result|error)"')
OPENING = 1  # requests behind its first with which a session is opened: a notification
GONE = 404  # the status of a request for a session that has ended


class AnswerDelivery:
    """One request; `gone` is set as soon as its connection has ended.

    Attributes:
        session: the session of the client that it belongs to; None where it belongs to none.
        status: the HTTP status of the answer; None before it begins.
        was_sent: whether the whole answer was sent.
        listens: whether it asks for a stream of messages, which has no end of its own.

    `on_session` is called with the id of a session that the answer names, before the answer is sent.
    """

    def __init__(
        self,
        receive: Any,
        send: Any,
        *,
        session: ClientSession | None = None,
        on_session: Callable[[str], None] = lambda id: None,
        listens: bool = False,
    ) -> None:
        self.listens = listens
        self.gone = asyncio.Event()
        self.session = session
        self.status: int | None = None
        self.was_sent = False
        self._on_session = on_session
        self._receive = receive
        self._send = send
        self._ends = asyncio.Event()
        self._then: list[Callable[[], None]] = []

    def when_sent(self, then: Callable[[], None]) -> None:
        """Calls `then` once the whole answer was sent; never if the client was gone before."""
        self._then.append(then)

    async def receive(self) -> Any:
        """The next message of the client (ASGI)."""
        if not self.listens:
            message = await self._receive()
        else:
            message = await first_of(self._receive(), self._ends) or {"type": "http.disconnect"}
        if message["type"] == "http.disconnect":
            self.gone.set()
        return message

    def end(self) -> None:
        """Ends a stream, as if its client had gone."""
        self._ends.set()

    async def finish(self) -> None:
        """Completes the answer of a stream that was ended here."""
        if self._ends.is_set() and self.status is not None and not self.was_sent:
            await self._send({"type": "http.response.body", "body": b""})

    async def send(self, message: Any) -> None:
        """Sends a part of the answer (ASGI)."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            id = dict(message.get("headers", ())).get(SESSION_HEADER.encode())
            if id is not None and message["status"] < ERRORS:
                self._on_session(id.decode("latin-1"))
        await self._send(message)
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if ends and not self.gone.is_set():
            self.was_sent = True
            for then in self._then:
                then()


class ClientSession:
    """One session of a client. It is live while its client may come back under it.

    It is over after its end, or after `idle` seconds without an exchange. It is not live either after its last open
    exchange broke, until the next one begins: a client that is killed says nothing else, and one that gave up at its
    own time limit comes back.
    """

    def __init__(self, *, idle: float = math.inf) -> None:
        self._idle = idle
        self._open = self._asking = self._asked = 0
        self._used = self._asked_at = 0.0 if idle == math.inf else _now()
        self._is_broken = self._has_ended = False

    @property
    def is_over(self) -> bool:
        """Whether no request belongs to it any more."""
        if self._has_ended or self._open or self._idle == math.inf:
            return self._has_ended
        return _now() >= self._used + self._idle

    def end(self) -> None:
        """Notes that it was ended here."""
        self._has_ended = True

    @property
    def is_asking(self) -> bool:
        """Whether a request of it, other than for a stream, waits for its answer."""
        return self._asking > 0

    @property
    def rank(self) -> tuple[bool, float]:
        """The lower, the sooner it makes room: one that was opened and not used first, then one unused for long."""
        return self._asked > OPENING, self._asked_at

    @property
    def is_live(self) -> bool:
        """Whether its client may come back."""
        return not (self.is_over or self._is_broken)

    @contextmanager
    def exchange(self, delivery: AnswerDelivery, *, ends: bool) -> Iterator[None]:
        """Notes one request for the time of the block; `ends` if it asks for the end of the session."""
        self._open += 1
        if not delivery.listens:
            self._asking += 1
            self._asked += 1
            self._asked_at = _now()
        self._is_broken = False
        try:
            yield
        finally:
            self._open -= 1
            self._asking -= not delivery.listens
            self._used = _now()
            self._is_broken = not self._open and not delivery.was_sent
            if delivery.status == GONE or (ends and delivery.was_sent):
                self._has_ended = True


async def first_of(work: Coroutine[Any, Any, Any], ends: asyncio.Event) -> Any:
    """The result of `work`; None where `ends` is set before."""
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(ends.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return None if ends.is_set() else tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()


STDIO: Final = ClientSession()
"""The session of the one client of a process over stdio."""


class LineAnswers:
    """The answers of a process over stdio, each one line: tells when the operating system has taken one."""

    def __init__(self) -> None:
        self.serves = False
        self._then: dict[str, list[Callable[[], None]]] = {}  # by the JSON of the id of the request

    def when_sent(self, id: str | int, then: Callable[[], None]) -> None:
        """Calls `then` once the answer to that request was written; at once where no lines are written."""
        if self.serves:
            self._then.setdefault(json.dumps(id, ensure_ascii=False), []).append(then)
        else:
            then()

    def note_sent(self, line: str) -> None:
        """Notes that a line was written."""
        answered = ANSWER.match(line)
        for then in self._then.pop(answered[1], ()) if answered else ():
            then()


STDIO_ANSWERS: Final = LineAnswers()
"""The answers to the one client of a process over stdio."""
