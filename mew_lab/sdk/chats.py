"""Which chat messages await an acknowledgement?  The queue, and the words that end it.

Spec: §3.4, §3.4.1, §3.4.2, SDK "Chat Acknowledgement Helpers".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.handlers import Handlers
from mew_lab.sdk.saying import Saying

__all__ = ["Chats"]


class Chats:
    """What one participant hears and answers in chat."""

    def __init__(self, saying: Saying) -> None:
        self._saying = saying
        self._heard: Handlers[Envelope] = Handlers(on_fault=saying.client.report)

    def on_chat(self, handler: Callable[[Envelope], Any]) -> Callable[[], None]:
        """Chat messages of others."""
        return self._heard.add(handler)

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""
        if envelope.kind == "chat" and envelope.sender != self._saying.client.id:
            self._heard(envelope)

    def lost(self) -> None:
        """The connection ended; another may follow."""
