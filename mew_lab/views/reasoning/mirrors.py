"""What does a stream beside a reasoning say?  The text of its frames, the newest of it.

Our agents write JSON lines there: `{"type": "token", "text": …}` is a piece of what the model says, another line
with a `message` a line of its own. What is no JSON is taken as it is. It knows no stream by its id, and believes
nothing: the gateway sees to it that only the writers of a stream write.

Spec: §3.10.3, SDK "Streaming Reasoning Transparency".
"""

from __future__ import annotations

import codecs
import json

__all__ = ["Mirror"]

KEPT = 20_000  # characters
LONGEST = 64 * 1024  # characters of a line whose end has not come


class Mirror:
    """The text of one stream: the newest 20 000 characters, and how many came in all (`total`)."""

    def __init__(self) -> None:
        self.text = ""
        self.total = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def take(self, data: bytes) -> None:
        """Takes one frame."""
        *lines, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        said = "".join(map(_said, lines))
        if not self._rest.lstrip().startswith("{") or len(self._rest) > LONGEST:
            said, self._rest = said + self._rest, ""
        self.total += len(said)
        self.text = (self.text + said)[-KEPT:]


def _said(line: str) -> str:
    """What a line adds to the text."""
    if not line.strip():
        return ""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line + "\n"
    if not isinstance(found, dict):
        return line + "\n"
    if found.get("type") == "token":
        piece = found.get("text")
        return piece if isinstance(piece, str) else ""
    for name in ("message", "text"):
        if isinstance(found.get(name), str):
            return f"\n{found[name]}\n"
    return ""
