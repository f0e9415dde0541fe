"""What may this participant do now, and who told it so?  Grants to it are acknowledged; it grants and revokes.

Spec: §3.6.1 to §3.6.3, ruling R13.
"""

from __future__ import annotations

from mew_lab.protocol.envelope import Envelope
from mew_lab.sdk.saying import Saying

__all__ = ["Rights"]


class Rights:
    """The rights of one participant as they change."""

    def __init__(self, saying: Saying) -> None:
        self._saying = saying

    def observe(self, envelope: Envelope) -> None:
        """Takes note of one message of the space."""

    def lost(self) -> None:
        """The connection ended; another may follow."""
