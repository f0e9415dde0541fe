"""A link between two ends, independent of the content of messages.

A link moves whole messages: `str` for text, `bytes` for binary. It keeps their order and boundaries.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["HandshakeRefused", "Link", "LinkClosed"]


class LinkClosed(Exception):
    """The link is closed; `code` and `reason` as on the wire (1006 when it broke without a close).

    Not a MewError: the layer above turns it into one, with a message that names the participant.
    """

    def __init__(self, code: int = 1006, reason: str = "") -> None:
        super().__init__(f"link closed with {code}{f' ({reason})' if reason else ''}")
        self.code = code
        self.reason = reason


class HandshakeRefused(Exception):
    """The other side refused to open a link: `status` and `body` of its HTTP answer.

    A retry with the same headers gets the same answer. Not a MewError, for the reason given above.
    """

    def __init__(self, status: int, body: str = "") -> None:
        super().__init__(f"the link was refused with HTTP {status}{f': {body[:200]}' if body else ''}")
        self.status = status
        self.body = body


class Link(Protocol):
    """One end of a connection."""

    async def send(self, message: str | bytes) -> None:
        """Sends one whole message; waits while the other end is slow.

        Raises:
            LinkClosed: when either end has closed.
        """

    async def receive(self) -> str | bytes:
        """The next whole message, in order.

        Raises:
            LinkClosed: when all messages were received and either end has closed.
        """

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Closes both directions. A second call does nothing."""
