"""Takes a key out of what a server says that echoes it: `Redaction`, for one key; pure.

A server is told the key, so it can write it into whatever it answers: an error, a text, the arguments of a
call, in one piece or over two. Here it is taken out again. Other secrets are `mask`'s business.
"""

from __future__ import annotations

from typing import Any

from mew_lab.protocol.token import Token, mask

__all__ = ["KEY", "SECRET", "Redaction"]

KEY = "[api key]"
SECRET = 8  # a shorter key ("none", "ollama") protects nothing, and blotting it out would spoil plain words
_PART = 4  # characters of a key that a server may show of it to say which one it was
_SHOWN = 4000


class Redaction:
    """Takes one key out of what a server says. Without a key, or with one that is no secret, it changes nothing."""

    def __init__(self, key: Token | None) -> None:
        self._key = key if key is not None and len(key.reveal()) >= SECRET else None
        self._held = ""

    def text(self, text: str) -> str:
        """The text without the key."""
        return text.replace(self._key.reveal(), KEY) if self._key is not None else text

    def value(self, value: Any) -> Any:
        """The same for every text in a value that was JSON, names of members included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(one) for one in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(one) for name, one in value.items()}
        return value

    def complaint(self, text: str) -> str:
        """A server's error, cut to a bound, without the key, parts of it, and any other secret of this process."""
        text = mask(self.text(text[:_SHOWN]))
        if self._key is None:
            return text
        key = self._key.reveal()
        parts = {key[at : at + _PART] for at in range(len(key) - _PART + 1)}
        shown = list(text)
        for at in range(len(text) - _PART + 1):
            if text[at : at + _PART] in parts:
                shown[at : at + _PART] = ["*"] * _PART
        return "".join(shown)

    def piece(self, piece: str, *, last: bool = False) -> str:
        """The next piece of a text that comes bit by bit; what may be the key's beginning waits for more."""
        text = self.text(self._held + piece)
        held = 0
        if self._key is not None and not last:
            key = self._key.reveal()
            held = next(
                (n for n in range(min(len(key) - 1, len(text)), 0, -1) if key.startswith(text[-n:])), 0
            )
        self._held = text[len(text) - held :]
        return text[: len(text) - held]
