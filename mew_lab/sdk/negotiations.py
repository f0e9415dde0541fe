"""What did the gateway say to it?  Messages about streams that it answers with a message of its own.

A stream/request is answered by stream/open, a stream/grant-write by stream/write-granted, and so on; a refusal
is a system/error. What an answer changes is not known here.

Spec: §3.10, ruling R16.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConnectionLost, NoReply
from mew_lab.protocol.bounded import BoundedDict
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.sender import MessageSender, Names

__all__ = ["Negotiation", "Negotiations"]

MAX_GIVEN_UP = 1000  # requests that nobody waits for any more, and that may still be answered


class Negotiation(NamedTuple):
    """A message that the gateway has not answered yet, and the kind of the answer."""

    envelope: Envelope
    answer: str
    answered: asyncio.Future[Any]


class Negotiations:
    """Those of one participant. `given_up`: of which stream/request nobody awaits the stream, and why."""

    def __init__(self, saying: MessageSender) -> None:
        self.open: dict[str, Negotiation] = {}
        self.given_up: BoundedDict[str, str] = BoundedDict(MAX_GIVEN_UP)
        self._saying = saying

    async def settle(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        answer: str,
        about: Names = (),
        context: str | None = None,
        timeout: float,
    ) -> Any:
        """Sends it to the gateway, and waits for the answer; returns what `answer` was given with it.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway said nothing within `timeout` seconds.
            CapabilityViolation: this participant may not send it.
            LocalProtocolError: it cannot be sent.
            ConnectionLost: there is no connection, or it ended meanwhile.
        """
        envelope = self._saying.complete(kind, payload, to="gateway", about=about, context=context)
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.open[envelope.id] = Negotiation(envelope, answer, answered)
        try:
            async with asyncio.timeout(timeout):
                await self._saying.send_accepted(envelope, timeout=timeout)
                return await answered
        except NoReply:
            self._give_up(envelope.id, answer, "timeout")
            raise
        except TimeoutError:
            self._give_up(envelope.id, answer, "timeout")
            said = (
                f"The gateway took {kind} of {envelope.sender!r}, but no {answer} came within {timeout:g} s"
            )
            raise NoReply(said, after_s=timeout, waiting_for="the gateway") from None
        except asyncio.CancelledError:
            self._give_up(envelope.id, answer, "cancelled")
            raise
        finally:
            del self.open[envelope.id]
            answered.cancel()

    def answer(self, said: Envelope, result: Any) -> None:
        """The gateway said something about streams; who waits for that gets `result`."""
        for id in said.correlation_id:
            found = self.open.get(id)
            if found and found.answer == said.kind and not found.answered.done():
                found.answered.set_result(result)

    def lost(self) -> None:
        """No answer can come any more."""
        for kind, answered in [(one.envelope.kind, one.answered) for one in self.open.values()]:
            if not answered.done():
                answered.set_exception(
                    ConnectionLost(f"The connection ended before the gateway answered {kind}")
                )
                answered.exception()  # told to whoever waits, and to nobody else
        self.given_up.clear()

    def _give_up(self, id: str, answer: str, reason: str) -> None:
        if answer == "stream/open":
            self.given_up[id] = reason
