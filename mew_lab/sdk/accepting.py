"""Did the gateway take it?  Waits for the echo of a message, or for the error that refuses it.

The sender of a message is among those to whom it is delivered: its echo says that it was accepted.

Spec: §3.8.2, §5.4, ruling R1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from mew_lab.errors import ConnectionLost, MewError, NoReply
from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.client import MEWClient

__all__ = ["Accepting"]


class Sent(NamedTuple):
    """A message whose echo is awaited."""

    envelope: Envelope
    accepted: asyncio.Future[Envelope]


class Accepting:
    """The messages of one participant whose echo somebody awaits."""

    def __init__(self, client: MEWClient) -> None:
        self._client = client
        self._sent: dict[str, Sent] = {}

    async def send(self, draft: Envelope | Mapping[str, Any], *, timeout: float) -> Envelope:
        """Sends, and returns the message as everybody sees it.

        Raises:
            Refused: the gateway refused it.
            NoReply: the gateway said neither yes nor no within `timeout` seconds.
            ConnectionLost: there is no connection, or it ended meanwhile.
        """
        envelope = self._client.complete(draft)
        accepted: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
        self._sent[envelope.id] = Sent(envelope, accepted)
        try:
            self._client.post(envelope)
            async with asyncio.timeout(timeout):
                return await accepted
        except TimeoutError:
            said = f"The gateway neither took nor refused {self._named(envelope)} within {timeout:g} s"
            raise NoReply(said, after_s=timeout, waiting_for="the gateway") from None
        finally:
            del self._sent[envelope.id]

    def sent(self, id: str) -> Envelope | None:
        """The message of that id whose echo is awaited."""
        found = self._sent.get(id)
        return found.envelope if found else None

    def echoed(self, envelope: Envelope) -> None:
        """A message of ours came back."""
        found = self._sent.get(envelope.id)
        if found and not found.accepted.done():
            found.accepted.set_result(envelope)

    def refused(self, id: str, error: MewError) -> bool:
        """A message of ours was refused; whether somebody awaited its echo."""
        found = self._sent.get(id)
        if found and not found.accepted.done():
            found.accepted.set_exception(error)
        return found is not None

    def lost(self, error: MewError | None) -> None:
        """No echo can come any more."""
        for id, (envelope, _) in tuple(self._sent.items()):
            said = f"The connection ended before {self._named(envelope)} was accepted"
            self.refused(id, ConnectionLost(said, close_code=getattr(error, "close_code", None)))

    def _named(self, envelope: Envelope) -> str:
        return f"{envelope.kind} of {self._client.id!r}"
