"""Remembers the conversation: a list, its size in tokens, and its trimming; pure.

Only chat outside of any context is kept: other agents' reasoning, and welcomes to others, never reach a prompt.
Tokens are estimated from the text, because no two models count alike; what a model itself counted is the
telemetry's.

Spec: §3.5.6, §3.9.5 to §3.9.8, SDK "Conversation History", "Automatic Context Compaction".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mew_lab.agent.model import Message
from mew_lab.protocol.envelope import Envelope
from mew_lab.protocol.text import utf8_size

__all__ = ["Freed", "Memory", "Remembered", "estimate", "shortened"]

MAX_ENTRIES = 1000
MAX_TEXT = 100_000  # characters of one message that are kept
HEADROOM = 0.3  # of the context that stays free
A_MESSAGE = 4  # tokens that a message costs beside its text
CHARACTERS_A_TOKEN = 4


class Remembered(NamedTuple):
    """One message of the conversation."""

    id: str
    sender: str
    text: str
    tokens: int


class Freed(NamedTuple):
    """What a trimming gave back."""

    tokens: int
    messages: int


def estimate(text: str) -> int:
    """About how many tokens a message with this text takes; never less than they are bytes over four."""
    return A_MESSAGE + -(-utf8_size(text) // CHARACTERS_A_TOKEN)


def shortened(text: str, limit: int) -> str:
    """The text with at most about `limit` characters: beginning and end stay, and how much is left out is said."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[len(text) - limit // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


class Memory:
    """The conversation as one agent has heard it, the oldest first; `mark` words whose each message is."""

    def __init__(self, *, mark: Callable[[str], str] = str) -> None:
        self._mark = mark
        self._entries: list[Remembered] = []
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[Remembered]:
        """What is remembered."""
        return tuple(self._entries)

    @property
    def tokens(self) -> int:
        """About how many tokens all of it takes."""
        return self._tokens

    def hear(self, envelope: Envelope) -> None:
        """Keeps a chat message, one's own or another's, unless it belongs to a context."""
        text = envelope.payload.get("text")
        if envelope.kind != "chat" or envelope.context is not None or not isinstance(text, str):
            return
        text = shortened(text, MAX_TEXT)
        self._entries.append(Remembered(envelope.id, envelope.sender, text, estimate(text)))
        self._tokens += self._entries[-1].tokens
        if len(self._entries) > MAX_ENTRIES:
            self._drop(slice(0, 1))

    def before(self, id: str, *, length: int, me: str) -> list[Message]:
        """The last `length` messages said before the message `id`, as a model reads them: one's own as its own."""
        entries = self._entries
        end = next((n for n, one in enumerate(entries) if one.id == id), len(entries))
        chosen = entries[max(0, end - length) : end] if length > 0 else []
        return [
            Message("assistant", one.text)
            if one.sender == me
            else Message("user", f"{self._mark(one.sender)}: {one.text}")
            for one in chosen
        ]

    def forget(self, direction: str, entries: int | None = None) -> Freed:
        """Drops messages from one end, `oldest` or `newest`; half of them where no number is given."""
        count = -(-len(self._entries) // 2) if entries is None else max(0, min(entries, len(self._entries)))
        cut = slice(0, count) if direction == "oldest" else slice(len(self._entries) - count, None)
        return self._drop(cut)

    def compact(self, target: int) -> Freed:
        """Drops the oldest messages until the rest takes at most `target` tokens."""
        left, count = self.tokens, 0
        for one in self._entries:
            if left <= target:
                break
            left -= one.tokens
            count += 1
        return self._drop(slice(0, count))

    def clear(self) -> Freed:
        """Forgets everything."""
        return self._drop(slice(None))

    def _drop(self, cut: slice) -> Freed:
        gone = self._entries[cut]
        del self._entries[cut]
        freed = sum(one.tokens for one in gone)
        self._tokens -= freed
        return Freed(freed, len(gone))
