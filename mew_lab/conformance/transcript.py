"""Records the traffic of one check as a list of lines without tokens.

Every token that the suite has or receives is masked before it becomes a part of a line.
"""

from __future__ import annotations

import json
from typing import Any

from mew_lab.protocol.token import Token, mask

__all__ = ["WireTranscript"]

LONGEST = 600  # characters of one message that are shown
MOST = 80  # lines that are shown: the last ones, which led to the failure


class WireTranscript:
    """The frames and requests of one check, in the order of their sending and arrival."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def record_sent(self, who: str, message: str | bytes) -> None:
        """Records that `who` sent this."""
        self._lines.append(f"{who} → {_show(message)}")

    def record_received(self, who: str, message: str | bytes) -> None:
        """Records that `who` received this; a token in it is masked from now on."""
        if isinstance(message, str):
            remember_tokens(message)
        self._lines.append(f"{who} ← {_show(message)}")

    def record_event(self, who: str, what: str) -> None:
        """Records an event of `who` that is no message."""
        self._lines.append(f"{who} · {what}")

    def __str__(self) -> str:
        lines = self._lines[-MOST:]
        left = len(self._lines) - len(lines)
        # Masked once more: a token may have been learned after a line with it was kept.
        return mask("\n".join([f"… {left} earlier lines", *lines] if left else lines))


def _show(message: str | bytes) -> str:
    if isinstance(message, bytes):
        message = f"binary {message!r}"
    text = mask(message).replace("\n", "\\n")
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def remember_tokens(text: str) -> None:
    """Adds every string under a key `token` of a JSON text to the mask."""
    if '"token"' not in text:
        return
    try:
        left: list[Any] = [json.loads(text)]
    except ValueError:
        return
    while left:
        value = left.pop()
        if isinstance(value, dict):
            token = value.get("token")
            if isinstance(token, str) and len(token) >= 12:
                Token(token)
            left += value.values()
        elif isinstance(value, list):
            left += value
