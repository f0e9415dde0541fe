"""What do others tell this participant to do?  Pause, resume, forget, compact, clear, restart, shut down.

Spec: §3.9, SDK "Participant Control Lifecycle", ruling R14.
"""

from __future__ import annotations

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.saying import Saying
from mew_lab.sdk.telemetry import Telemetry

__all__ = ["Controls"]


class Controls:
    """The controls of one participant."""

    def __init__(self, saying: Saying, telemetry: Telemetry) -> None:
        self._saying = saying
        self._telemetry = telemetry

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""

    def lost(self) -> None:
        """The connection ended; another may follow."""
