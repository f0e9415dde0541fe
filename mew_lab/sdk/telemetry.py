"""How full is this participant's context?  Running totals, the status made of them, and when to say it unasked.

Spec: §3.9.3, §3.9.4, SDK "Context Usage & Status Telemetry".
"""

from __future__ import annotations

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.saying import Saying

__all__ = ["Telemetry"]


class Telemetry:
    """The counters of one participant."""

    def __init__(self, saying: Saying) -> None:
        self._saying = saying

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""

    def lost(self) -> None:
        """The connection ended; another may follow."""
