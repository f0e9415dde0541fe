"""Which streams are there, and how does one hold an end of one?

Spec: §3.10, SDK "Stream Lifecycle Helpers", ruling R16.
"""

from __future__ import annotations

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.saying import Saying

__all__ = ["Streams"]


class Streams:
    """The streams of one space, as one participant sees them."""

    def __init__(self, saying: Saying) -> None:
        self._saying = saying

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""

    def lost(self) -> None:
        """The connection ended; another may follow."""
