"""Notes whether the answer to one HTTP request was sent, and whether its client is gone; no rule of its own.

`mcp_http` puts an `AnswerDelivery` into the scope of each request, under `ANSWER_DELIVERY`. A library between it and the
handler may hold the answer back, so only the last bytes tell that it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

__all__ = ["ANSWER_DELIVERY", "AnswerDelivery"]

ANSWER_DELIVERY: Final = "mew_lab.answer_delivery"  # a key of an ASGI scope


class AnswerDelivery:
    """One request; `gone` is set as soon as its connection has ended."""

    def __init__(self, receive: Any, send: Any) -> None:
        self.gone = asyncio.Event()
        self._receive = receive
        self._send = send
        self._then: list[Callable[[], None]] = []

    def when_sent(self, then: Callable[[], None]) -> None:
        """Calls `then` once the whole answer was sent; never if the client was gone before."""
        self._then.append(then)

    async def receive(self) -> Any:
        """The next message of the client (ASGI)."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone.set()
        return message

    async def send(self, message: Any) -> None:
        """Sends a part of the answer (ASGI)."""
        await self._send(message)
        ends = message["type"] == "http.response.body" and not message.get("more_body", False)
        if ends and not self.gone.is_set():
            for then in self._then:
                then()
